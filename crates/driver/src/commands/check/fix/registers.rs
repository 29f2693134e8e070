//! Edits for what holds nothing: a result that is not returned, a variable without a value, an argument that is not passed.

use std::ops::Range;

use kiln_platform::{ArgKind, Helper};

use super::elsewhere::callers;
use super::propose::{Case, Proposal};
use super::text::{Edit, Function, Source, is_name};

/// For a register that holds nothing.
pub fn empty(case: &Case<'_>) -> Vec<Proposal> {
    let mut found: Vec<Proposal> =
        case.source.function(case.at).into_iter().filter_map(|own| returns(case.source, &own)).collect();
    found.extend(short_prototype(case));
    found.extend(without_value(case));
    found
}

/// A return at the end of a function that has to return something.
fn returns(source: &Source, function: &Function) -> Option<Proposal> {
    let head = source.code(function.head.clone());
    let is_void = head.split('(').next().unwrap_or_default().split_whitespace().any(|word| word == "void");
    let end = function.body.end - 1;
    let last = source.code(function.body.start..end).trim_end();
    let last = last.trim_end_matches(';').rsplit([';', '{', '}']).next().unwrap_or_default().trim_start();
    let value = if head.contains("struct xdp_md") { "return XDP_PASS;" } else { "return 0;" };
    let text = format!("\t{value}\n");
    let ends = last
        .strip_prefix("return")
        .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'));
    (!is_void && !ends).then(|| Proposal {
        title: format!("add `{value}` at the end of the function"),
        edits: vec![Edit { range: end..end, text }],
        safe: true,
    })
}

/// The same for every function of a source that ends without one: control falls out of the program.
pub fn all_return(source: &Source) -> Vec<Proposal> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = source.code(at..source.text.len()).find('{').map(|own| at + own) {
        at = source.closing(open).unwrap_or(source.text.len());
        found.extend(source.function(open).and_then(|own| returns(source, &own)));
    }
    found
}

/// The variables of a function that get no value where they are declared, with the place behind each name.
fn unset<'a>(case: &Case<'a>) -> Vec<(usize, &'a str, bool)> {
    let source = case.source;
    let Some(body) = source.function(case.at).map(|own| own.body) else { return Vec::new() };
    let mut found: Vec<(usize, &'a str, bool)> = Vec::new();
    for (at, name) in source.words(body) {
        let behind = at + name.len();
        let next = source.code(behind..source.text.len()).trim_start();
        let is_first = || source.declaration(name, case.at).is_some_and(|own| own.rest.start == behind);
        let is_next = || {
            let before = source.code(0..at).trim_end().trim_end_matches('*').trim_end();
            before.ends_with(',') && source.declared_type(name, case.at).is_some()
        };
        if !is_name(name) || !next.starts_with([';', ',', '[']) || found.iter().any(|(_, own, _)| *own == name) {
            continue;
        }
        let end = match next.starts_with('[') {
            true => source
                .closing(behind)
                .filter(|end| source.code(*end..source.text.len()).trim_start().starts_with([';', ','])),
            false => Some(behind),
        };
        if let Some(end) = end.filter(|_| is_first() || is_next()) {
            found.push((end, name, next.starts_with('[')));
        }
    }
    found
}

/// Variables get 0 where they are declared: each that the statement names, then all of the function.
pub fn without_value(case: &Case<'_>) -> Vec<Proposal> {
    let unset = unset(case);
    let named: Vec<&str> = case.source.words(case.statement.clone()).map(|(_, word)| word).collect();
    let edit = |(at, name, _): &(usize, &str, bool)| {
        let kind = case.source.declared_type(name, case.at).unwrap_or_default();
        let aggregate = kind.contains("struct ") && !kind.contains('*') || case.source.code(*at - 1..*at) == "]";
        Edit { range: *at..*at, text: if aggregate { " = {}" } else { " = 0" }.to_owned() }
    };
    let mut found: Vec<Proposal> = Vec::new();
    for own in unset.iter().filter(|(_, name, _)| named.contains(name)) {
        found.push(Proposal {
            title: format!("set `{}` where it is declared", own.1),
            edits: vec![edit(own)],
            safe: true,
        });
    }
    if !unset.is_empty() {
        let title = "set all variables of the function where they are declared".to_owned();
        found.push(Proposal { title, edits: unset.iter().map(edit).collect(), safe: true });
    }
    found
}

/// For bytes of the stack that were not written: padding of a variable that is set, and variables of the callers.
pub fn padding(case: &Case<'_>) -> Vec<Proposal> {
    let mut found: Vec<Proposal> = zeroed(case);
    found.extend(without_value(case));
    for there in callers(case).into_iter().filter_map(|at| case.moved_to(at)) {
        found.extend(zeroed(&there));
        found.extend(without_value(&there));
    }
    found
}

/// Variables with members in their initializer, `= { .a = b }`, which leaves the padding: all bytes are set to 0 first.
fn zeroed(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let Some(body) = source.function(case.at).map(|own| own.body) else { return Vec::new() };
    let mut found = Vec::new();
    let mut done: Vec<usize> = Vec::new();
    for (_, name) in source.words(body) {
        let Some(own) = source.declaration(name, case.at).filter(|own| !done.contains(&own.kind.start)) else {
            continue;
        };
        done.push(own.kind.start);
        let Some(values) = initializer(source, &own.rest) else { continue };
        let set = |range: &Range<usize>| {
            let (member, value) = case.text(range.clone()).split_once('=')?;
            let member = member.trim().strip_prefix('.')?;
            Some(format!("\n\t{name}.{member} = {};", value.trim()))
        };
        let Some(sets) = values.iter().map(set).collect::<Option<String>>() else { continue };
        let text = format!(";\n\t__builtin_memset(&{name}, 0, sizeof({name}));{sets}");
        let edits = vec![Edit { range: own.rest.start..own.rest.end + 1, text }];
        found.push(Proposal {
            title: format!("set all bytes of `{name}` to 0, those between its members too"),
            edits,
            safe: true,
        });
    }
    found
}

/// The elements of `= { ... }`.
fn initializer(source: &Source, rest: &Range<usize>) -> Option<Vec<Range<usize>>> {
    let code = source.code(rest.clone());
    let open = rest.start + code.find('{')?;
    code.trim_start().strip_prefix('=')?.trim_start().starts_with('{').then_some(())?;
    let end = source.closing(open)? - 1;
    let (mut found, mut from, mut at) = (Vec::new(), open + 1, open + 1);
    while at <= end {
        match source.code(at..at + 1) {
            "(" | "[" | "{" => at = source.closing(at)?,
            own => {
                if own == "," || at == end {
                    found.push(source.trimmed(from..at));
                    from = at + 1;
                }
                at += 1;
            }
        }
    }
    found.retain(|range| !range.is_empty());
    (!found.is_empty()).then_some(found)
}

/// For a helper that the source declares itself, `(*name)(...) = (void *)25`, with too few parameters: the missing ones, and
/// what they stand for in its calls.
fn short_prototype(case: &Case<'_>) -> Option<Proposal> {
    let source = case.source;
    let is_call = |(at, word): &(usize, &str)| source.code(at + word.len()..case.statement.end).starts_with('(');
    for (_, name) in source.words(case.statement.clone()).filter(is_call) {
        let mut places = source.words(0..case.statement.start).filter(|(_, word)| *word == name);
        let Some((at, _)) = places.find(|(at, _)| source.function(*at).is_none()) else { continue };
        let behind = at + name.len();
        let Some(open) = source.code(behind..source.text.len()).find('(').map(|own| behind + own) else { continue };
        let (Some(close), Some((end, _))) = (source.closing(open), source.text[behind..].match_indices(';').next())
        else {
            continue;
        };
        let end = behind + end;
        let number = source.words(close..end).filter_map(|(_, word)| word.parse().ok()).last();
        let Some(helper) = number.and_then(Helper::by_id) else { continue };
        let given = case.text(open + 1..close - 1).split(',').count();
        let kinds = helper.prototype.args.get(given..).filter(|kinds| !kinds.is_empty())?;
        let (whole, arguments) = source.call(name, case.statement.clone())?;
        let last = arguments.last().map(|range| case.text(range.clone()))?;
        let size = last.strip_prefix('&').map_or_else(|| format!("sizeof(*{last})"), |own| format!("sizeof({own})"));
        let value = |kind: &ArgKind| if matches!(kind, ArgKind::Size { .. }) { size.clone() } else { "0".to_owned() };
        let values: String = kinds.iter().map(|kind| format!(", {}", value(kind))).collect();
        let edits = vec![
            Edit { range: close - 1..close - 1, text: ", __u64".repeat(kinds.len()) },
            Edit { range: whole.end - 1..whole.end - 1, text: values },
        ];
        let title =
            format!("declare `{name}` with the {} parameters of bpf_{}", helper.prototype.args.len(), helper.name);
        return Some(Proposal { title, edits, safe: false });
    }
    None
}
