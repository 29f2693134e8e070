//! Edits for what a hook, a map's type or the stack has no room for: another section, another helper, a map.

use std::ops::Range;

use kiln_platform::{Helper, MapType, SECTION_RULES, SectionRule, section_program_type};

use super::parts::{calls, kind_in};
use super::propose::{Case, Proposal};
use super::text::{Edit, is_name};

/// Sections, and helpers, that are tried.
const MOST_OTHERS: usize = 3;

/// The helper that is called in the statement, and its name's place.
fn called(case: &Case<'_>) -> Option<(&'static Helper, Range<usize>)> {
    let mut words = case.source.words(case.statement.clone());
    words.find_map(|(at, word)| Some((Helper::by_name(word.strip_prefix("bpf_")?)?, at..at + word.len())))
}

/// The number of letters with which both names begin.
fn shared(left: &str, right: &str) -> usize {
    left.bytes().zip(right.bytes()).take_while(|(left, right)| left == right).count()
}

/// For a helper or kernel function that a hook lacks: hooks with the same context that have it, and the same hook with leave
/// to sleep.
pub fn sibling(case: &Case<'_>) -> Vec<Proposal> {
    let (Some(own), Some(place)) = (section_program_type(case.section), case.section_name()) else { return Vec::new() };
    let helper = called(case).map(|(helper, _)| helper);
    let context = own.program_type.context().struct_name;
    let has = |rule: &&SectionRule| {
        let other = rule.program_type != own.program_type;
        let able = helper.is_none_or(|helper| {
            helper.allowed_in(rule.program_type) && (rule.sleepable || !helper.prototype.might_sleep)
        });
        let sleeps = !other && rule.sleepable && !own.sleepable && rule.name.trim_end_matches(".s") == own.name;
        able && (sleeps || other && rule.program_type.context().struct_name == context)
    };
    let mut others: Vec<&SectionRule> = SECTION_RULES.iter().filter(has).collect();
    others.sort_by_key(|rule| std::cmp::Reverse(shared(rule.name, case.section)));
    let hook = case.section.split_once('/').map_or("", |(_, hook)| hook);
    let edit = |rule: &&SectionRule| {
        let name = if rule.takes_hook && own.takes_hook && !hook.is_empty() {
            format!("{}/{hook}", rule.name)
        } else {
            rule.name.to_owned()
        };
        case.replace(place.clone(), &format!("\"{name}\""), false)
    };
    others.iter().take(MOST_OTHERS).map(edit).collect()
}

/// For a helper that a hook lacks: another one with the same arguments, the same for the hook's kind of packet, or no call.
pub fn substitute(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let (Some((helper, place)), Some(rule)) = (called(case), section_program_type(case.section)) else {
        return Vec::new();
    };
    let same = |other: &&Helper| {
        let able = other.allowed_in(rule.program_type) && (rule.sleepable || !other.prototype.might_sleep);
        able && other.id != helper.id
            && other.prototype.args == helper.prototype.args
            && !other.prototype.args.is_empty()
    };
    let mut others: Vec<&Helper> = Helper::all().filter(same).collect();
    others.sort_by_key(|other| {
        let user = other.name.contains("user") == helper.name.contains("user");
        std::cmp::Reverse((
            user,
            other.name.contains("str") == helper.name.contains("str"),
            shared(other.name, helper.name),
        ))
    });
    let edit = |other: &&Helper| case.replace(place.clone(), &format!("bpf_{}", other.name), false);
    let mut found: Vec<Proposal> = others.iter().take(MOST_OTHERS).map(edit).collect();
    if helper.prototype.args.is_empty() {
        let call = source.call(&format!("bpf_{}", helper.name), case.statement.clone());
        found.extend(call.map(|(whole, _)| case.replace(whole, "0", false)));
    }
    found
}

/// For a function that is for the other kind of packet: the one of the same name with `skb` for `xdp`, or the reverse.
pub fn other_packet(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let mut found = Vec::new();
    for (at, word) in source.words(case.statement.clone()).filter(|(_, word)| word.starts_with("bpf_")) {
        let other = match word.contains("skb") {
            true => word.replace("skb", "xdp"),
            false => word.replace("xdp", "skb"),
        };
        let known = case.functions.contains(&other) || Helper::by_name(&other).is_some();
        if other != word && known {
            let all = source.words(0..source.text.len()).filter(|(own, name)| *name == word && *own != at);
            let mut edits: Vec<Edit> =
                all.map(|(at, word)| Edit { range: at..at + word.len(), text: other.clone() }).collect();
            edits.push(Edit { range: at..at + word.len(), text: other.clone() });
            found.push(Proposal { title: format!("call {other}"), edits, safe: false });
        }
    }
    found
}

/// For `bpf_get_current_task`, whose result is a number: the same as a pointer to the task.
pub fn typed_task(case: &Case<'_>) -> Option<Proposal> {
    let source = case.source;
    let body = source.function(case.at)?.body;
    let (at, word) = source.words(body).find(|(_, word)| *word == "bpf_get_current_task")?;
    Some(case.replace(at..at + word.len(), "bpf_get_current_task_btf", false))
}

/// For a parameter that the hook does not have: without the last parameter of the program, and 0 where it is read.
pub fn without_parameter(case: &Case<'_>) -> Option<Proposal> {
    let source = case.source;
    let own = source.function(case.at)?;
    let (_, arguments) = source.call("BPF_PROG", own.head.clone()).filter(|(_, arguments)| arguments.len() > 2)?;
    let [.., before, last] = &arguments[..] else { return None };
    let (_, name) = source.words(last.clone()).last()?;
    let uses = source.words(own.body).filter(|(_, word)| *word == name);
    let mut edits: Vec<Edit> =
        uses.map(|(at, word)| Edit { range: at..at + word.len(), text: "0".to_owned() }).collect();
    edits.push(Edit { range: before.end..last.end, text: String::new() });
    Some(Proposal { title: format!("remove the parameter `{name}`: the hook has fewer"), edits, safe: false })
}

/// For an argument beyond those of the function: what it returned is only there when it ends.
pub fn at_exit(case: &Case<'_>) -> Option<Proposal> {
    let (word, hook) = case.section.split_once('/')?;
    let other = match word {
        "fentry" => "fexit",
        "fentry.s" => "fexit.s",
        "kprobe" => "kretprobe",
        "kretprobe" => "kprobe",
        _ => return None,
    };
    Some(case.replace(case.section_name()?, &format!("\"{other}/{hook}\""), false))
}

/// The type in a map's definition.
fn map_type(case: &Case<'_>, definition: &Range<usize>) -> Option<MapType> {
    let found = case.source.words(definition.clone()).find_map(|(_, word)| word.strip_prefix("BPF_MAP_TYPE_"));
    MapType::ALL.iter().copied().find(|known| found.is_some_and(|name| known.name().eq_ignore_ascii_case(name)))
}

/// For a helper that a map's type has not: one with the same arguments that it has.
pub fn other_helper(case: &Case<'_>, definition: &Range<usize>) -> Vec<Proposal> {
    let (Some((helper, place)), Some(kind)) = (called(case), map_type(case, definition)) else { return Vec::new() };
    let same = |other: &&Helper| other.id != helper.id && other.prototype.args == helper.prototype.args;
    let mut others: Vec<&Helper> = Helper::all().filter(same).filter(|other| kind.allows_helper(other)).collect();
    others.sort_by_key(|other| std::cmp::Reverse(shared(other.name, helper.name)));
    let edit = |other: &&Helper| case.replace(place.clone(), &format!("bpf_{}", other.name), false);
    others.iter().take(MOST_OTHERS).map(edit).collect()
}

/// Helpers that take a number, and the same for maps with keys: which argument it is.
const BY_KEY: [(&str, &str, usize); 3] = [
    ("bpf_sk_redirect_map", "bpf_sk_redirect_hash", 2),
    ("bpf_msg_redirect_map", "bpf_msg_redirect_hash", 2),
    ("bpf_sock_map_update", "bpf_sock_hash_update", 2),
];

/// For the context of `sockops`, which is no socket to store: the helpers that store the socket of the context.
pub fn stored_socket(case: &Case<'_>) -> Vec<Proposal> {
    let Some((whole, arguments)) = case.source.call("bpf_map_update_elem", case.statement.clone()) else {
        return Vec::new();
    };
    let [map, key, value, flags] = &arguments[..] else { return Vec::new() };
    let [map, key, value, flags] = [map, key, value, flags].map(|range| case.text(range.clone()));
    if case.context() != Some(value) {
        return Vec::new();
    }
    let call = |helper: &str| case.replace(whole.clone(), &format!("{helper}({value}, {map}, {key}, {flags})"), false);
    ["bpf_sock_hash_update", "bpf_sock_map_update"].map(call).into()
}

/// For a map with keys that are not its indexes: the helper that takes the key's address.
pub fn by_key(case: &Case<'_>, definition: &Range<usize>) -> Option<Proposal> {
    let source = case.source;
    let (name, other, index) =
        BY_KEY.into_iter().find(|(name, ..)| source.call(name, case.statement.clone()).is_some())?;
    let (whole, arguments) = source.call(name, case.statement.clone())?;
    let range = arguments.get(index)?.clone();
    let called = Edit { range: whole.start..whole.start + name.len(), text: other.to_owned() };
    let kind = case.text(kind_in(case, definition.clone(), "key")?);
    let value = case.text(range.clone());
    let base = value.split(['.', '-']).next().unwrap_or_default();
    let title = format!("call {other}, which takes the key's address");
    if source.declared_type(base, case.at) == Some(kind) {
        let edits = vec![called, Edit { range, text: format!("&{base}") }];
        return Some(Proposal { title, edits, safe: false });
    }
    let key = source.fresh("key");
    let edit = Edit { range, text: format!("&{key}") };
    let mut found = case.lines_before(case.at, &format!("{kind} {key} = {{ {value} }};"), edit, title, false)?;
    found.edits.push(called);
    Some(found)
}

/// For a lookup in a queue or stack: the next item is taken out.
pub fn taken_from_queue(case: &Case<'_>, definition: &Range<usize>) -> Option<Proposal> {
    let kind = map_type(case, definition)?;
    let (whole, arguments) = case.source.call("bpf_map_lookup_elem", case.statement.clone())?;
    let has_pop = Helper::by_name("map_pop_elem").is_some_and(|helper| kind.allows_helper(helper));
    let sized = || {
        let size = calls(case, "__uint", definition.clone());
        let (_, own) = size.into_iter().find(|(_, own)| case.text(own[0].clone()) == "value_size")?;
        let size = case.text(own.get(1)?.clone()).to_owned();
        Some(match size.strip_prefix("sizeof(").and_then(|rest| rest.strip_suffix(')')) {
            Some(kind) => format!("{kind} NAME"),
            None => format!("__u8 NAME[{size}]"),
        })
    };
    let declared = match kind_in(case, definition.clone(), "value") {
        Some(range) => format!("{} NAME", case.text(range)),
        None => sized()?,
    };
    let name = case.source.fresh("item");
    let line = format!("{} = {{}};", declared.replace("NAME", &name));
    let map = case.text(arguments.first()?.clone());
    let text = format!("(bpf_map_pop_elem({map}, &{name}) ? (void *)0 : (void *)&{name})");
    let edit = Edit { range: whole, text };
    let title = "take the next item with bpf_map_pop_elem: a queue has no keys".to_owned();
    has_pop.then(|| case.lines_before(case.at, &line, edit, title, false))?
}

/// For frames that are too large together: each local array in turn becomes an element of a map for each CPU.
pub fn off_the_stack(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let arrays = source.subscripts(0..source.text.len());
    let mut found: Vec<Proposal> = Vec::new();
    for (name, size) in &arrays {
        let Some(begin) = size.start.checked_sub(name.len() + 1).filter(|_| is_name(name)) else { continue };
        let Some(function) = source.function(begin) else { continue };
        let Some(own) = source.declaration(name, begin).filter(|own| own.rest.start == begin + name.len()) else {
            continue;
        };
        let kind = case.text(own.kind.clone()).trim();
        let rest = source.code(own.rest.clone()).trim();
        let cleared = rest.contains('=');
        let plain = rest.split('=').nth(1).is_none_or(|value| matches!(value.trim(), "{}" | "{0}" | "{ 0 }" | "\"\""));
        if !plain || kind.contains("static") {
            continue;
        }
        let [scratch, zero, item] = ["scratch", "zero", "room"].map(|name| source.fresh(name));
        let dimension = rest.split('=').next().unwrap_or_default().trim();
        let map = format!(
            "struct {item} {{ {kind} own{dimension}; }};\nstruct {{\n\t__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);\n\
             \t__uint(max_entries, 1);\n\t__type(key, __u32);\n\t__type(value, struct {item});\n}} {scratch} SEC(\".maps\");\n\n"
        );
        let leave = case.leave(begin);
        let lines = format!(
            "__u32 {zero} = 0;\n\tstruct {item} *{item} = bpf_map_lookup_elem(&{scratch}, &{zero});\n\tif (!{item})\n\t\t{leave}{}",
            if cleared { format!("\n\t__builtin_memset({item}, 0, sizeof(*{item}));") } else { String::new() }
        );
        let head = function.head.start;
        let mut edits = vec![Edit { range: head..head, text: map }];
        edits.push(Edit { range: own.kind.start..own.rest.end + 1, text: lines });
        let uses = source.words(own.rest.end..function.body.end).filter(|(_, word)| word == name);
        edits.extend(uses.map(|(at, word)| Edit { range: at..at + word.len(), text: format!("{item}->own") }));
        let title = format!("move `{name}` from the stack into a map for each CPU");
        // A program that interrupts this one has the same element.
        found.push(Proposal { title, edits, safe: false });
    }
    found
}
