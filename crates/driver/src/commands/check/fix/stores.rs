//! Edits of stores that the kernel does not let a program make, and of fields of its context.

use std::ops::Range;

use super::held;
use super::propose::{Case, Proposal, opaque};
use super::text::Edit;

/// Fields of a context that a helper changes: the field, the operator, and the call. `{c}` is the context, `{v}` the value.
const SETTERS: [[&str; 3]; 8] = [
    ["len", "=", "bpf_skb_change_tail({c}, {v}, 0);"],
    ["protocol", "=", "bpf_skb_change_proto({c}, {v}, 0);"],
    ["pkt_type", "=", "bpf_skb_change_type({c}, {v});"],
    ["data", "+=", "bpf_xdp_adjust_head({c}, (int)({v}));"],
    ["data", "-=", "bpf_xdp_adjust_head({c}, -(int)({v}));"],
    ["data_end", "+=", "bpf_xdp_adjust_tail({c}, (int)({v}));"],
    ["data_end", "-=", "bpf_xdp_adjust_tail({c}, -(int)({v}));"],
    ["data_meta", "-=", "bpf_xdp_adjust_meta({c}, -(int)({v}));"],
];

/// Elements of the arrays in contexts that are written out: `cb` of a socket buffer has five, addresses have four.
const CONTEXT_ELEMENTS: u32 = 5;

/// For an access of the context that the kernel refuses.
pub fn context(case: &Case<'_>) -> Vec<Proposal> {
    let Some(context) = case.context() else { return Vec::new() };
    let mut found = elements(case, context);
    found.extend(setter(case, context));
    found.extend(typed(case, context));
    found.extend(own_structure(case));
    found.extend(not_in_memory(case, context));
    found.extend(twin(case));
    found.extend(refused(case));
    found
}

/// The parts of an assignment: left side, operator, right side.
fn assignment<'a>(case: &Case<'a>) -> Option<[&'a str; 3]> {
    let code = case.source.code(case.statement.clone()).as_bytes();
    let near = |at: usize| code.get(at).copied().unwrap_or(b' ');
    let at =
        (1..code.len()).find(|at| near(*at) == b'=' && near(at + 1) != b'=' && !b"=!<>".contains(&near(at - 1)))?;
    let begin = if b"+-*/%&|^".contains(&near(at - 1)) { at - 1 } else { at };
    let text = case.text(case.statement.clone());
    let right = text.get(at + 1..)?.trim().trim_end_matches(';').trim();
    Some([text.get(..begin)?.trim(), text.get(begin..=at)?, right])
}

/// The helper that changes a field.
fn setter(case: &Case<'_>, context: &str) -> Option<Proposal> {
    let [left, operator, value] = assignment(case)?;
    let field = left.strip_prefix(context)?.strip_prefix("->")?;
    let [.., call] = SETTERS.iter().find(|row| row[..2] == [field, operator])?;
    let call = call.replace("{c}", context).replace("{v}", value);
    Some(case.replace(case.statement.clone(), &call, false))
}

/// A store that a program may not make: into a copy if it is read later, or else none.
pub fn refused(case: &Case<'_>) -> Vec<Proposal> {
    let Some([left, operator, value]) = assignment(case).filter(|[left, ..]| left.contains(['>', '[', '*', '.']))
    else {
        return Vec::new();
    };
    let source = case.source;
    let alone = source.statement(case.at).is_some_and(|(_, alone)| alone);
    let mut found = Vec::new();
    let end = source.function(case.at).map_or(case.statement.end, |own| own.body.end);
    let reads = source.code(case.statement.end..end).match_indices(left).map(|(at, _)| case.statement.end + at);
    let reads: Vec<Range<usize>> = reads.map(|at| at..at + left.len()).collect();
    if !reads.is_empty() && !alone && !left.starts_with('*') {
        let name = source.fresh("copy");
        let lines = match operator {
            "=" => format!("__typeof__({left}) {name} = {value};"),
            _ => format!("__typeof__({left}) {name} = {left};\n\t{name} {operator} {value};"),
        };
        let mut edits = vec![Edit { range: case.statement.clone(), text: lines }];
        edits.extend(reads.into_iter().map(|range| Edit { range, text: name.clone() }));
        found.push(Proposal {
            title: format!("change a copy of `{left}`: the field is read-only"),
            edits,
            safe: false,
        });
    }
    let nothing = if alone { "{ }" } else { "" };
    found.push(case.replace(case.statement.clone(), nothing, false));
    found
}

/// An access of a field with the field's own width.
fn typed(case: &Case<'_>, context: &str) -> Option<Proposal> {
    let begin = format!("&{context}->");
    let at = case.statement.start + case.source.code(case.statement.clone()).find(&begin)?;
    let (_, field) = case.source.words(at + begin.len()..case.statement.end).next()?;
    let before = case.source.code(case.statement.start..at).trim_end().strip_suffix(')')?;
    let open = case.statement.start + before.rfind('(')?;
    Some(case.replace(open..at, &format!("(volatile __typeof__({context}->{field}) *)"), false))
}

/// A context that the source declares itself: its fields have 32 bits.
fn own_structure(case: &Case<'_>) -> Option<Proposal> {
    let source = case.source;
    let head = source.function(case.at)?.head;
    let mut words = source.words(head.clone()).skip_while(|(_, word)| *word != "struct");
    let (_, name) = words.nth(1)?;
    let open = source.structure(name, head.start)?;
    let wide = ["__u64", "u64", "uint64_t", "unsigned"];
    let edits: Vec<Edit> = source
        .words(open..source.closing(open)?)
        .filter(|(_, word)| wide.contains(word))
        .map(|(at, word)| Edit { range: at..at + word.len(), text: "__u32".to_owned() })
        .collect();
    let title = format!("make the fields of `struct {name}` 32 bits wide, as the kernel's are");
    (!edits.is_empty()).then_some(Proposal { title, edits, safe: false })
}

/// A socket filter has no pointers to the packet: they become offsets, and `rules` makes calls of what reads through them.
fn not_in_memory(case: &Case<'_>, context: &str) -> Option<Proposal> {
    if !case.section.starts_with("socket") {
        return None;
    }
    let source = case.source;
    let body = source.function(case.at)?.body;
    let name = source.fresh("start");
    let places = [
        // The assembly keeps clang from taking an offset for a null pointer.
        ("data", format!("({{ long {name} = 0; {} {name}; }})", opaque(&name))),
        ("data_end", format!("{context}->len")),
    ];
    let mut edits = Vec::new();
    for (at, word) in source.words(body) {
        let begin = at.checked_sub(context.len() + 2).filter(|begin| source.code(*begin..at) == format!("{context}->"));
        let text = places.iter().find(|(field, _)| *field == word).map(|(_, text)| text);
        edits.extend(begin.zip(text).map(|(begin, text)| Edit { range: begin..at + word.len(), text: text.clone() }));
    }
    let title = "use offsets in the packet instead of pointers: a socket filter has none".to_owned();
    (!edits.is_empty()).then_some(Proposal { title, edits, safe: false })
}

/// An array of the context by a variable index: each element.
fn elements(case: &Case<'_>, context: &str) -> Vec<Proposal> {
    let mut found = Vec::new();
    for (array, range) in case.source.subscripts(case.statement.clone()) {
        let begin = case.source.code(0..range.start).rfind(&format!("{context}->{array}"));
        let Some(whole) = begin.map(|begin| begin..range.end + 1) else { continue };
        let index = case.text(range);
        if index.parse::<u64>().is_ok() {
            continue;
        }
        let name = case.source.fresh("element");
        // The assembly keeps clang from making one load of them, at an offset that varies.
        let element = |at: u32| {
            let read = format!("__u32 {name} = {context}->{array}[{at}]; {}", opaque(&name));
            format!("{index} == {at} ? ({{ {read} {name}; }}) : ")
        };
        let elements: String = (0..CONTEXT_ELEMENTS).map(element).collect();
        found.push(case.replace(whole, &format!("({elements}0)"), false));
    }
    found
}

/// For a field of the other family of addresses: the hook of that family.
fn twin(case: &Case<'_>) -> Option<Proposal> {
    let (name, other) = match case.section.split_at_checked(case.section.len().saturating_sub(1))? {
        (name, "4") => (name, '6'),
        (name, "6") => (name, '4'),
        _ => return None,
    };
    Some(case.replace(case.section_name()?, &format!("\"{name}{other}\""), false))
}

/// For a field of a map's value that only helpers may change: a pointer to an object, or a lock in a tracing program.
pub fn special(case: &Case<'_>) -> Vec<Proposal> {
    let mut found: Vec<Proposal> = exchanged(case).into_iter().collect();
    found.extend(without_lock(case));
    found.extend(refused(case));
    found
}

/// A pointer to an object is exchanged, and the old object is given back.
fn exchanged(case: &Case<'_>) -> Option<Proposal> {
    let source = case.source;
    let [left, "=", value] = assignment(case)? else { return None };
    let member = left.rsplit(['>', '.']).next()?;
    let mut places = source.words(0..source.text.len()).filter(|(_, word)| *word == member);
    let (at, _) = places.find(|(at, _)| source.function(*at).is_none())?;
    let begin = source.code(0..at).rfind([';', '{'])? + 1;
    let (_, name) = source.words(begin..at).skip_while(|(_, word)| *word != "struct").nth(1)?;
    let kind = name.trim_end_matches("_struct");
    let release = format!("bpf_{kind}_release");
    let (call, release) = match case.functions.contains(&release) {
        true => (release.clone() + "(OLD)", release),
        false => ("bpf_obj_drop_impl(OLD, 0)".to_owned(), "bpf_obj_drop_impl".to_owned()),
    };
    let old = source.fresh("old");
    let text = format!(
        "struct {name} *{old} = bpf_kptr_xchg(&{left}, {value});\n\tif ({old})\n\t\t{};",
        call.replace("OLD", &old)
    );
    let alone = source.statement(case.at).is_some_and(|(_, alone)| alone);
    let text = if alone { format!("{{ {text} }}") } else { text };
    let mut edits = vec![Edit { range: case.statement.clone(), text }];
    let parameters = if call.ends_with(", 0)") { "void *, void *".to_owned() } else { format!("struct {name} *") };
    edits.extend(held::declared(case, &release, &parameters));
    Some(Proposal {
        title: format!("exchange `{left}` with bpf_kptr_xchg, and give the old one back"),
        edits,
        safe: true,
    })
}

/// Atomic operations in place of a lock, if the lock only guards sums.
fn without_lock(case: &Case<'_>) -> Option<Proposal> {
    let source = case.source;
    let body = source.function(case.at)?.body;
    let (first, _) = source.call("bpf_spin_lock", body.clone())?;
    let (last, _) = source.call("bpf_spin_unlock", body)?;
    let (field, _) = source.words(0..first.start).find(|(_, word)| *word == "bpf_spin_lock")?;
    let begin = source.code(0..field).rfind("struct")?;
    let mut edits = vec![Edit { range: begin..field + "bpf_spin_lock".len(), text: "__u32".to_owned() }];
    let mut at = first.start;
    while at <= last.start {
        let code = source.code(at..source.text.len());
        let begin = at + (code.len() - code.trim_start().len());
        let (own, _) = source.statement(begin).filter(|(own, _)| own.end > at)?;
        at = own.end;
        let text = case.text(own.clone()).trim_end_matches(';').trim();
        let sum = match (text.strip_suffix("++"), text.split_once("+=")) {
            _ if own.contains(&first.start) || own.contains(&last.start) => String::new(),
            (Some(place), _) => format!("__sync_fetch_and_add(&{}, 1);", place.trim()),
            (_, Some((place, value))) => format!("__sync_fetch_and_add(&{}, {});", place.trim(), value.trim()),
            _ => return None,
        };
        edits.push(Edit { range: own, text: sum });
    }
    let title = "add with atomic operations instead of under a lock: tracing programs have no locks".to_owned();
    Some(Proposal { title, edits, safe: false })
}
