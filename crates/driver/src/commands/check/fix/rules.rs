//! Edits for rules other than bounds: releases, locks, results, contexts, types, names.

use std::ops::Range;

use kiln_platform::{Helper, MapType};
use kiln_program::CoreRelocation;
use kiln_verifier::Reason;

use super::held::{self, returns};
use super::parts::{argument, calls, include, kind_in, map_definition};
use super::propose::{Case, Form, Proposal};
use super::text::{Declaration, Edit, Source, is_name};
use super::{arguments, checks, elsewhere, ends, hooks, maps, order, registers, rewritten, stores};

/// For a pointer that a call made useless, as the story says.
pub fn lost(case: &Case<'_>) -> Vec<Proposal> {
    if let Some((_, call)) = case.step("gives up") {
        let released = released(case, call);
        return released.into_iter().collect();
    }
    if let Some((at, _)) = case.step("may move the packet") {
        return renewed(case, at).or_else(|| order::in_front(case, at)).into_iter().collect();
    }
    Vec::new()
}

/// Uses it before it is released, or leaves after it was released.
fn released(case: &Case<'_>, call: Range<usize>) -> Option<Proposal> {
    let source = case.source;
    let (_, alone) = source.statement(call.start)?;
    let text = case.text(call.clone());
    if alone || source.statement(case.at)?.1 {
        let lines = case.leave(call.start);
        let edits = source.after(call.start, lines)?;
        return Some(Proposal { title: format!("add `{lines}` after `{text}`"), edits, safe: true });
    }
    let own = case.text(case.statement.clone());
    let gone = Edit { range: source.lines(call), text: String::new() };
    let expression = own.strip_prefix("return").and_then(|rest| rest.strip_suffix(';')).map(str::trim);
    let mut edits = match expression {
        Some(value) => {
            let name = source.fresh("result");
            let indent = "\n\t";
            let lines = format!("__typeof__({value}) {name} = {value};{indent}{text}{indent}return {name};");
            vec![Edit { range: case.statement.clone(), text: lines }]
        }
        None => source.after(case.at, text)?,
    };
    edits.push(gone);
    Some(Proposal { title: format!("move `{text}` after the last use"), edits, safe: true })
}

/// Reads the packet's pointers again after a call.
fn renewed(case: &Case<'_>, call: usize) -> Option<Proposal> {
    let source = case.source;
    let mut body = source.function(call)?.body;
    let mut call = call;
    if !body.contains(&case.at) {
        // The call is in a function that this one calls.
        let own = source.function(case.at)?.body;
        let callee = elsewhere::name_of(source, &source.function(call)?.head)?;
        (call, _) = source.words(own.start..case.at).filter(|(_, word)| *word == callee).last()?;
        body = own;
    }
    let mut lines: Vec<String> = Vec::new();
    let mut names: Vec<&str> = vec!["data", "data_end"];
    let mut at = body.start + 1;
    while at < call {
        let code = source.code(at..call);
        let begin = at + (code.len() - code.trim_start().len());
        let Some((own, _)) = source.statement(begin).filter(|(own, _)| own.end <= call && own.end > at) else { break };
        at = own.end;
        let text = case.text(own.clone());
        let Some((left, right)) = text.split_once('=') else { continue };
        let Some(name) = case.assigned(own.clone()).filter(|_| !left.contains('(')) else { continue };
        // Only pointers move; what was computed of the packet's bytes stays.
        let moves = names.contains(&name) || source.declared_type(name, case.at).is_none_or(|kind| kind.ends_with('*'));
        if !moves || right.contains("bpf_") && right.contains('(') {
            continue;
        }
        if source.words(own).skip(1).any(|(_, word)| names.contains(&word)) {
            lines.push(format!("{name} ={right}"));
            names.push(name);
        }
    }
    let edits = source.after(call, &lines.join("\n"))?;
    let title = format!("read the packet's pointers again after the call: `{}`", lines.join(" "));
    (!lines.is_empty()).then_some(Proposal { title, edits, safe: true })
}

/// For sizes of keys and values, and types of values.
pub fn widths(case: &Case<'_>) -> Vec<Proposal> {
    let mut found = Vec::new();
    let Some((map, body)) = case.wanted().map.as_ref().and_then(|name| Some((name, map_definition(case, name)?)))
    else {
        return found;
    };
    let kind = |what: &str| kind_in(case, body.clone(), what);
    if let Some((helper, index)) = case.wanted().argument {
        let what = if index == 1 { "key" } else { "value" };
        let passed = argument(case, helper, index).map(|range| case.text(range).trim_start_matches('&'));
        let declared = passed.filter(|name| is_name(name)).and_then(|name| case.source.declaration(name, case.at));
        if let (Some(own), Some(kind)) = (declared, kind(what)) {
            let kind = case.text(kind);
            if kind.starts_with("struct") {
                // A number becomes the first member.
                let rest = case.text(own.rest.clone()).trim();
                if let Some(value) = rest.strip_prefix('=') {
                    let edits = vec![
                        Edit { range: own.kind.clone(), text: format!("{kind} ") },
                        Edit { range: own.rest.clone(), text: format!(" = {{{value} }}") },
                    ];
                    let title = format!("give it the type that map `{map}` says, `{kind}`");
                    found.push(Proposal { title, edits, safe: false });
                }
            }
            found.extend(key_of_two(case, passed.unwrap_or_default(), &own, kind));
            found.push(case.replace(own.kind, &format!("{kind} "), false));
        }
    } else if let (Some(kind), true) = (kind("value"), case.source.subscripts(case.statement.clone()).is_empty()) {
        found.extend(case.dereferenced().iter().filter_map(|own| {
            let used = case.source.declared_type(own.name, case.at)?;
            let used = used.strip_prefix("const ").unwrap_or(used).trim_end_matches('*').trim();
            used.starts_with("struct ").then(|| case.replace(kind.clone(), used, false))
        }));
        found.push(case.replace(kind, "__u64", false));
    }
    found
}

/// A number that is assigned later becomes a member of a key's structure. A key with the length of a prefix has all bits.
fn key_of_two(case: &Case<'_>, name: &str, own: &Declaration, kind: &str) -> Option<Proposal> {
    let source = case.source;
    let structure = kind.strip_prefix("struct ")?;
    let begin = source.structure(structure, own.kind.start)?;
    let members = case.text(begin + 1..source.closing(begin)? - 1);
    let mut names = members.split(';').filter_map(|own| own.split_whitespace().last());
    let prefix = members.contains("prefixlen");
    let member = names.find(|name| *name != "prefixlen")?;
    let mut edits = vec![Edit { range: own.kind.clone(), text: format!("{kind} ") }];
    edits.push(Edit { range: own.rest.clone(), text: " = {}".to_owned() });
    for (at, _) in source.words(own.rest.end..case.statement.start).filter(|(_, word)| *word == name) {
        let (statement, _) = source.statement(at)?;
        let value = case.text(at + name.len()..statement.end).trim().strip_prefix('=')?.trim_end_matches(';').trim();
        let bits = if prefix { format!("{name}.prefixlen = 8 * sizeof({name}.{member});\n\t") } else { String::new() };
        edits.push(Edit { range: statement.clone(), text: format!("{bits}{name}.{member} = {value};") });
    }
    let title = format!("make `{name}` a `{kind}`, as the map says");
    (edits.len() > 2).then_some(Proposal { title, edits, safe: false })
}

/// Rules with edits of their own, by their reason.
type Propose = fn(&Case<'_>) -> Vec<Proposal>;
const RULES: [(Reason, Propose); 29] = [
    (Reason::UnreleasedReference, held::release),
    (Reason::CriticalSection, held::section),
    (Reason::LockDiscipline, held::lock),
    (Reason::NotHeld, held::unmodified),
    (Reason::UninitializedRegister, registers::empty),
    (Reason::Unreachable, |case| registers::all_return(case.source)),
    (Reason::LostPrecision, |case| inlined(case).into_iter().collect()),
    (Reason::PointerArithmetic, |case| {
        let mask = unmasked(case).into_iter().collect();
        [ends::before_end(case), both_checked(case), mask, ends::widened(case), checks::null(case)].concat()
    }),
    (Reason::ReturnValue, returned),
    (Reason::NotAPointer, |case| {
        let end = checks::from_end(case).into_iter().collect();
        let task = hooks::typed_task(case).into_iter().collect();
        let old = ends::old_end(case);
        [end, checks::null_here(case), loaded(case), read_memory(case), task, old, ends::widened(case)].concat()
    }),
    (Reason::NotTrusted, |case| hooks::typed_task(case).into_iter().chain(order::rcu(case)).collect()),
    (Reason::KfuncNotAllowed, |case| [order::rcu(case), hooks::other_packet(case), hooks::sibling(case)].concat()),
    (Reason::Misaligned, |case| arguments::typed(case).into_iter().collect()),
    (Reason::ArgumentType, |case| {
        let may_be_null = case.diagnosis.message.exact().ends_with(" or null");
        let null = if may_be_null { checks::null(case) } else { Vec::new() };
        [null, arguments::wrong(case)].concat()
    }),
    (Reason::DynptrMisuse, rewritten::dynptr),
    (Reason::ContextAccess, |case| {
        let hook = hooks::at_exit(case).into_iter().chain(hooks::without_parameter(case)).collect();
        [hook, stores::context(case), read_memory(case)].concat()
    }),
    (Reason::StructureAccess, stores::refused),
    (Reason::SpecialField, stores::special),
    (Reason::CallDepth, hooks::off_the_stack),
    (Reason::IteratorMisuse, destroyed),
    (Reason::HelperNotAllowed, |case| {
        let other = [hooks::other_packet(case), hooks::substitute(case)].concat();
        [rewritten::other_hook(case), hooks::sibling(case), other].concat()
    }),
    (Reason::KernelLacks, |case| {
        let found = field_exists(case);
        if found.is_empty() { kernel_function(case) } else { found }
    }),
    (Reason::GplOnly, license),
    (Reason::ReadOnlyMemory, |case| {
        let copied = arguments::field_copied(case).into_iter().collect();
        [copied, maps::unprotected(case), not_constant(case), stores::refused(case)].concat()
    }),
    (Reason::TooComplex, bound_loop),
    (Reason::InfiniteLoop, bound_loop),
    (Reason::UninitializedStack, |case| [registers::padding(case), initialize(case)].concat()),
    (Reason::MapHelperMismatch, map_type),
    (Reason::BadInstruction, no_atomic),
];

/// The edits for a reason in [`RULES`].
pub fn other(case: &Case<'_>) -> Vec<Proposal> {
    let rule = RULES.iter().find(|(reason, _)| reason.code() == case.code);
    rule.map_or_else(Vec::new, |(_, propose)| propose(case))
}

/// For a mask of a pointer, such as one that aligns it.
fn unmasked(case: &Case<'_>) -> Option<Proposal> {
    let source = case.source;
    let at = case.statement.start + source.code(case.statement.clone()).rfind("& ~")?;
    let (begin, word) = source.words(at..case.statement.end).next()?;
    Some(case.replace(at..begin + word.len(), "", false))
}

/// For an iterator that is destroyed a second time.
fn destroyed(case: &Case<'_>) -> Vec<Proposal> {
    let again = case.text(case.statement.clone()).contains("_destroy(");
    again.then(|| case.replace(case.statement.clone(), "", false)).into_iter().collect()
}

fn returned(case: &Case<'_>) -> Vec<Proposal> {
    let mut found: Vec<Proposal> = arguments::local_function(case).into_iter().chain(inlined(case)).collect();
    let Some([lowest, highest]) = case.wanted().returned else { return found };
    let mut edits = Vec::new();
    for own in returns(case, 0) {
        let expression = case.source.trimmed(own.start + "return".len()..own.end - 1);
        let text = case.text(expression.clone());
        let new = match text.parse::<i64>() {
            Ok(number) if (lowest..=highest).contains(&number) => continue,
            Ok(_) => lowest.to_string(),
            Err(_) if lowest <= 0 && highest >= 1 => format!("({text}) != 0"),
            Err(_) => format!("({text}) ? {highest} : {lowest}"),
        };
        edits.push(Edit { range: expression, text: new });
    }
    let alone = edits.iter().map(|edit| case.replace(edit.range.clone(), &edit.text, false));
    found.extend(alone);
    let title = format!("return {lowest} to {highest} everywhere");
    found.push(Proposal { title, edits, safe: false });
    found
}

/// For a function that returns the address of its own variable: it becomes part of its caller.
fn inlined(case: &Case<'_>) -> Option<Proposal> {
    let source = case.source;
    let head = source.function(case.at)?.head;
    let starred = source.code(head.clone()).split('(').next()?.contains('*');
    let at = |wanted: &str| {
        let mut words = source.words(head.clone());
        words.find(|(_, word)| *word == wanted).map(|(at, word)| at..at + word.len())
    };
    let edit = match at("__noinline") {
        Some(range) => case.replace(range, "__always_inline", false),
        None => {
            let end = at("static").filter(|_| at("__always_inline").is_none())?.end;
            case.replace(end..end, " __always_inline", false)
        }
    };
    starred.then_some(edit)
}

/// A socket filter copies from the packet by a call, not by `memcpy`.
fn loaded(case: &Case<'_>) -> Vec<Proposal> {
    let context = case.context().filter(|_| case.section.starts_with("socket"));
    let call = ["__builtin_memcpy", "memcpy"].iter().find_map(|name| case.source.call(name, case.statement.clone()));
    let (Some(context), Some((whole, arguments))) = (context, call.filter(|(_, own)| own.len() == 3)) else {
        return Vec::new();
    };
    let [to, from, size] = [0, 1, 2].map(|at| case.text(arguments[at].clone()));
    let text = format!("if (bpf_skb_load_bytes({context}, (long)({from}), {to}, {size}))\n\t\t{}", case.leave(case.at));
    let end = case.source.code(whole.end..case.statement.end).find(';').map_or(whole.end, |at| whole.end + at + 1);
    vec![case.replace(whole.start..end, &text, true)]
}

/// Beginnings of the sections whose programs read other memory by a call.
const TRACES: [&str; 18] = [
    "kprobe",
    "kretprobe",
    "uprobe",
    "tracepoint",
    "tp/",
    "tp_btf",
    "raw_t",
    "fentry",
    "fexit",
    "fmod_ret",
    "lsm",
    "uretprobe",
    "usdt",
    "perf_event",
    "iter",
    "syscall",
    "ksyscall",
    "kretsyscall",
];

fn read_memory(case: &Case<'_>) -> Vec<Proposal> {
    let context = case.context().filter(|_| case.section.starts_with("socket"));
    if context.is_none() && !TRACES.iter().any(|kind| case.section.starts_with(kind)) {
        return Vec::new();
    }
    let is_user = ["sys_enter", "uprobe", "uretprobe", "usdt"].iter().any(|word| case.section.contains(word));
    let sleeps = case.section == "syscall";
    let user = is_user || sleeps;
    let reader = match (user, sleeps) {
        (_, true) => "bpf_copy_from_user",
        (true, _) => "bpf_probe_read_user",
        (false, _) => "bpf_probe_read_kernel",
    };
    let copied = |place: Range<usize>, kind: &str, address: &str| {
        let name = case.source.fresh("copy");
        let read = match context {
            Some(context) => format!("bpf_skb_load_bytes({context}, (long){address}, &{name}, sizeof({name}))"),
            None => format!("{reader}(&{name}, sizeof({name}), {address})"),
        };
        case.replace(place, &format!("({{ {kind} {name} = {{0}}; {read}; {name}; }})"), true)
    };
    let one = |own: &super::propose::Dereferenced<'_>| {
        let place = match own.form {
            Form::Whole => own.at.checked_sub(1)?..own.at + own.name.len(),
            Form::Element(_) => own.at..case.source.closing(own.at + own.name.len())?,
            Form::Member => {
                let member = case.source.words(own.at + own.name.len()..case.statement.end).next()?;
                let end = member.0 + member.1.len();
                // What is at fault may be the element, and not the member that points to it.
                let element = case.source.code(end..case.statement.end).starts_with('[');
                own.at..if element { case.source.closing(end)? } else { end }
            }
            Form::Cast(_) => return None,
        };
        let text = case.text(place.clone());
        Some(copied(place, &format!("__typeof__({text})"), &format!("&{text}")))
    };
    let chains = case.dereferenced().into_iter().filter(|_| context.is_none() && !user);
    let mut found: Vec<Proposal> = chains.filter_map(|own| core_read(case, &own)).collect();
    found.extend(case.dereferenced().iter().filter_map(one));
    let casted = case.casted().into_iter();
    found.extend(casted.map(|(place, kind, address)| copied(place, kind, &format!("({address})"))));
    found
}

/// A field behind two pointers or more, such as `a->b->c`, read with `BPF_CORE_READ`.
fn core_read(case: &Case<'_>, own: &super::propose::Dereferenced<'_>) -> Option<Proposal> {
    let source = case.source;
    let mut end = own.at + own.name.len();
    let mut fields = Vec::new();
    while source.code(end..case.statement.end).starts_with("->") {
        let (at, field) = source.words(end..case.statement.end).next()?;
        end = at + field.len();
        fields.push(field);
    }
    if fields.len() < 2 {
        return None;
    }
    let mut found = case.replace(own.at..end, &format!("BPF_CORE_READ({}, {})", own.name, fields.join(", ")), true);
    found.edits.extend(include(case, "bpf/bpf_core_read.h"));
    Some(found)
}

/// For a condition that gives up only if two pointers are both null: clang makes one number of them.
fn both_checked(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let Some((at, _)) = source.words(case.statement.clone()).find(|(_, word)| *word == "if") else { return Vec::new() };
    let open = at + source.code(at..case.statement.end).find('(').unwrap_or_default();
    let Some(close) = source.closing(open) else { return Vec::new() };
    let condition = case.text(open..close);
    match condition.contains("&& !") {
        true => vec![case.replace(open..close, &condition.replace("&& !", "|| !"), false)],
        false => Vec::new(),
    }
}

/// For a field that the kernel does not have, which is poisoned.
fn field_exists(case: &Case<'_>) -> Vec<Proposal> {
    if !case.diagnosis.place.listing.exact().contains(&format!("{:x}", CoreRelocation::POISON_HELPER)) {
        return Vec::new();
    }
    let source = case.source;
    let mut found = Vec::new();
    for own in case.dereferenced().iter().filter(|own| matches!(own.form, Form::Member)) {
        let Some((at, member)) = source.words(own.at + own.name.len()..case.statement.end).next() else { continue };
        let whole = own.at..at + member.len();
        let text = case.text(whole.clone());
        let new = format!("(bpf_core_field_exists({text}) ? {text} : 0)");
        let mut proposal = case.replace(whole, &new, true);
        proposal.edits.extend(include(case, "bpf/bpf_core_read.h"));
        found.push(proposal);
    }
    found
}

fn kernel_function(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let names: Vec<&str> = source.words(case.statement.clone()).map(|(_, word)| word).collect();
    let missing = names.into_iter().find(|name| case.diagnosis.message.exact().ends_with(&format!(" {name}")));
    let Some(missing) = missing else { return Vec::new() };
    let known = case.functions.iter().map(String::as_str).filter(|name| *name != missing);
    let Some(near) = kiln_inspect::input::closest(missing, known) else { return Vec::new() };
    let all = source.words(0..source.text.len()).filter(|(_, word)| *word == missing);
    let edits: Vec<Edit> = all.map(|(at, _)| Edit { range: at..at + missing.len(), text: near.to_owned() }).collect();
    vec![Proposal { title: format!("call it `{near}`"), edits, safe: false }]
}

fn license(case: &Case<'_>) -> Vec<Proposal> {
    let text = &case.source.text;
    let Some(section) = text.find("SEC(\"license\")") else {
        let end = text.len();
        let line = "\nchar _license[] SEC(\"license\") = \"GPL\";\n".to_owned();
        return vec![Proposal {
            title: "declare the license".to_owned(),
            edits: vec![Edit { range: end..end, text: line }],
            safe: false,
        }];
    };
    let rest = section + "SEC(\"license\")".len();
    let Some(open) = text[rest..].find('"').map(|at| rest + at) else { return Vec::new() };
    let Some(close) = text[open + 1..].find('"').map(|at| open + 1 + at) else { return Vec::new() };
    vec![case.replace(open..close + 1, "\"GPL\"", false)]
}

fn not_constant(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let mut found = Vec::new();
    for (_, name) in source.words(case.statement.clone()) {
        let Some(own) = source.declaration(name, case.at) else { continue };
        if let Some((at, word)) = source.words(own.kind).find(|(_, word)| *word == "const") {
            found.push(case.replace(at..at + word.len() + 1, "", false));
        }
    }
    found
}

/// Turns that a loop gets as its bound.
const TURNS: [u32; 2] = [1024, 64];
/// Constants of the source that are tried as well.
const MOST_NAMED: usize = 6;

/// Those, and the constants of the source, which may say how many there are.
fn limits(source: &Source) -> Vec<String> {
    let lines = source.text.lines().filter_map(|line| line.strip_prefix("#define "));
    let named = lines.filter_map(|line| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        value.trim().parse().is_ok_and(|value: u32| value <= TURNS[0]).then(|| name.to_owned())
    });
    TURNS.iter().map(u32::to_string).chain(named.take(MOST_NAMED)).collect()
}

/// A loop's condition that compares the counter the wrong way round, turned: `i < n` for `for (i = 0; i > n; i++)`.
fn turned_condition(condition: &str, last: &str) -> Option<String> {
    let (last, signs) = match last.trim() {
        up if up.contains("++") => (up, [(">=", "<"), (">", "<")]),
        down => (down, [("<=", ">="), ("<", ">")]),
    };
    let counter = last.trim_matches(['+', '-']);
    let rest = condition.trim().strip_prefix(counter)?.trim_start();
    let (other, limit) = signs.iter().find_map(|(sign, other)| Some((other, rest.strip_prefix(sign)?)))?;
    let is_one = is_name(counter) && last.len() == counter.len() + 2 && !limit.contains(['&', '|', '?', ',', '<', '>']);
    is_one.then(|| format!("{counter} {other} {}", limit.trim()))
}

fn bound_loop(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let mut found = Vec::new();
    for (_, inside) in source.loops(case.at) {
        let parts: Vec<&str> = case.text(inside.clone()).split(';').collect();
        if let [first, condition, last] = parts[..]
            && let Some(turned) = turned_condition(condition, last)
        {
            found.push(case.replace(inside, &format!("{first}; {turned};{last}"), false));
        }
    }
    for turns in limits(source) {
        for (begin, inside) in source.loops(case.at) {
            let text = case.text(inside.clone());
            let parts: Vec<&str> = text.split(';').collect();
            let name = source.fresh("turn");
            match parts[..] {
                [first, condition, last] if [first, condition, last].iter().all(|part| part.trim().is_empty()) => {
                    let new = format!("int {name} = 0; {name} < {turns}; {name}++");
                    found.push(case.replace(inside, &new, false));
                }
                [first, condition, last] => {
                    let (counter, condition) = (last.trim().trim_matches('+'), condition.trim());
                    if !is_name(counter) || condition.is_empty() {
                        continue;
                    }
                    let turned = turned_condition(condition, last);
                    let condition = turned.as_deref().unwrap_or(condition);
                    // The constant is compared first: clang may make one limit of the two otherwise, which is no constant.
                    let condition = match condition.contains(['|', '?', ',']) {
                        true => format!("({condition})"),
                        false => condition.to_owned(),
                    };
                    let new = format!("{first}; {counter} < {turns} && {condition};{last}");
                    found.push(case.replace(inside, &new, false));
                }
                [condition] => {
                    let new = format!("for (int {name} = 0; {name} < {turns} && ({condition}); {name}++)");
                    found.push(case.replace(begin..inside.end + 1, &new, false));
                }
                _ => {}
            }
        }
    }
    found
}

fn initialize(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let mut found = Vec::new();
    for (at, name) in source.words(case.statement.clone()) {
        let Some(own) = source.declaration(name, case.at).filter(|own| source.function(own.kind.start).is_some())
        else {
            continue;
        };
        if at <= own.rest.start || source.code(own.kind.clone()).contains('*') {
            continue;
        }
        if source.code(own.rest.clone()).trim().is_empty() {
            found.push(case.replace(own.rest.start..own.rest.start, " = {}", true));
        }
        let line = format!("__builtin_memset(&{name}, 0, sizeof({name}));");
        if let Some(edits) = source.after(own.kind.start, &line) {
            found.push(Proposal { title: format!("add `{line}`"), edits, safe: true });
        }
    }
    found
}

fn map_type(case: &Case<'_>) -> Vec<Proposal> {
    let Some(body) = case.wanted().map.as_ref().and_then(|name| map_definition(case, name)) else { return Vec::new() };
    let called =
        case.source.words(case.statement.clone()).find_map(|(_, word)| Helper::by_name(word.strip_prefix("bpf_")?));
    let Some(helper) = called else { return Vec::new() };
    let allowed = MapType::ALL.iter().filter(|known| known.allows_helper(helper)).map(|known| known.name());
    let mut found: Vec<Proposal> = arguments::other_output(case, case.text(body.clone())).into_iter().collect();
    found.extend(hooks::taken_from_queue(case, &body));
    found.extend(hooks::by_key(case, &body));
    found.extend(hooks::other_helper(case, &body));
    for name in allowed.take(8) {
        let kind = calls(case, "__uint", body.clone()).into_iter().find(|(_, own)| case.text(own[0].clone()) == "type");
        let Some(range) = kind.and_then(|(_, own)| own.get(1).cloned()) else { continue };
        let mut proposal = case.replace(range, &format!("BPF_MAP_TYPE_{}", name.to_uppercase()), false);
        let value =
            calls(case, "__type", body.clone()).into_iter().find(|(_, own)| case.text(own[0].clone()) == "value");
        if let (Some((_, own)), "prog_array") = (value, name) {
            proposal.edits.extend(own.get(1).map(|range| Edit { range: range.clone(), text: "__u32".to_owned() }));
        }
        found.push(proposal);
    }
    found
}

fn no_atomic(case: &Case<'_>) -> Vec<Proposal> {
    let signs = [("__sync_fetch_and_add", "+="), ("__sync_fetch_and_or", "|="), ("__sync_fetch_and_and", "&=")];
    let found = signs.iter().find_map(|(name, sign)| Some((case.source.call(name, case.statement.clone())?, sign)));
    let Some(((whole, arguments), sign)) = found.filter(|((_, arguments), _)| arguments.len() == 2) else {
        return Vec::new();
    };
    let [place, value] = [0, 1].map(|at| case.text(arguments[at].clone()));
    vec![case.replace(whole, &format!("*({place}) {sign} {value}"), false)]
}
