//! The packet's end: where a function has it, comparisons with it that the kernel does not understand, and old ends.

use std::ops::Range;

use super::elsewhere::parameters;
use super::propose::{Case, Proposal};
use super::text::{Edit, is_name};

/// The expression for the end that a packet pointer is compared with.
pub fn end(case: &Case<'_>, field: &str) -> Option<String> {
    let name = variable_of(case, field).or_else(|| passed(case));
    name.map(|name| format!("(void *){name}"))
        .or_else(|| {
            member(case).map(str::to_owned).or_else(|| in_parameter(case)).map(|text| format!("(void *)(long){text}"))
        })
        .or_else(|| Some(format!("(void *)(long){}->{field}", case.context()?)))
}

/// The variable that holds a field of the context.
pub fn variable_of(case: &Case<'_>, field: &str) -> Option<String> {
    let body = case.source.function(case.at)?.body;
    let uses = case.source.words(body.start..case.statement.start).filter(|(_, word)| *word == field);
    uses.filter_map(|(at, _)| {
        let code = case.source.code(0..at);
        if !code.trim_end().ends_with("->") {
            return None;
        }
        let statement = case.source.statement(at)?.0;
        let before = code.get(statement.start..)?;
        // A length is a difference of two fields.
        let alone = case.text(at + field.len()..statement.end).trim_start().starts_with([';', ',']);
        let own = before.rsplit(',').next()?;
        if !alone || own.contains(" - ") {
            return None;
        }
        let name = match own.split_once('=') {
            // `void *data = ..., *data_end = ctx->data_end;`
            Some((name, _)) if own.len() < before.len() => Some(name.trim_start_matches([' ', '*']).trim()),
            _ => case.assigned(statement),
        };
        name.filter(|name| is_name(name)).map(str::to_owned)
    })
    .last()
}

/// The parameter that is the end, by its name.
fn passed(case: &Case<'_>) -> Option<String> {
    let head = case.source.function(case.at)?.head;
    let is_end = |(at, name): &(usize, &str)| {
        name.contains("end") && case.source.code(head.start..*at).trim_end().ends_with('*')
    };
    parameters(case.source, &head).into_iter().find(is_end).map(|(_, name)| name.to_owned())
}

/// The member of an own structure that is the end, such as `cursor->end`, where the function names it.
fn member<'a>(case: &Case<'a>) -> Option<&'a str> {
    let source = case.source;
    let function = source.function(case.at)?;
    let own = parameters(source, &function.head);
    let mut words = source.words(function.body.clone()).filter(|(_, word)| word.ends_with("end"));
    words.find_map(|(at, word)| {
        let before = source.code(function.body.start..at);
        let base = before.strip_suffix("->").or_else(|| before.strip_suffix('.'))?;
        let begin = base.rfind(|letter: char| !letter.is_alphanumeric() && letter != '_').map_or(0, |at| at + 1);
        let is_context = own.first().is_some_and(|(_, name)| *name == &base[begin..]) && word == "data_end";
        (!is_context || before.ends_with('.')).then(|| case.text(function.body.start + begin..at + word.len()))
    })
}

/// The same of a structure that a parameter points to.
fn in_parameter(case: &Case<'_>) -> Option<String> {
    let source = case.source;
    let head = source.function(case.at)?.head;
    parameters(source, &head).into_iter().find_map(|(_, name)| {
        let kind = source.declared_type(name, case.at)?.strip_prefix("struct ")?.strip_suffix('*')?.trim();
        let open = source.structure(kind, head.start)?;
        let (_, field) = source.words(open..source.closing(open)?).find(|(_, word)| word.ends_with("end"))?;
        Some(format!("{name}->{field}"))
    })
}

/// For an end that was read before a call that moves the packet: it is read again, behind what reads the start again.
pub fn old_end(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let (Some(body), Some(name)) = (source.function(case.at).map(|own| own.body), variable_of(case, "data_end")) else {
        return Vec::new();
    };
    let reads = |field: &'static str| {
        let words = source.words(body.start..case.statement.start).filter(move |(_, word)| *word == field);
        words.filter(|(at, _)| source.code(0..*at).ends_with("->")).map(|(at, _)| at)
    };
    let Some((first, _)) = reads("data_end").last().and_then(|at| source.statement(at)) else { return Vec::new() };
    let Some((_, value)) = case.text(first.clone()).split_once('=') else { return Vec::new() };
    let line = format!("{name} = {}", value.trim());
    let starts =
        reads("data").filter_map(|at| source.statement(at)).filter(|(own, alone)| own.start > first.start && !alone);
    let mut found: Vec<Proposal> = starts
        .filter_map(|(own, _)| source.after(own.start, &line))
        .map(|edits| Proposal { title: format!("read the packet's end again: `{line}`"), edits, safe: true })
        .collect();
    found.reverse();
    found
}

/// The comparisons in a statement: the left side, the sign, the right side.
fn comparisons(case: &Case<'_>) -> Vec<[Range<usize>; 3]> {
    let source = case.source;
    let whole = case.statement.clone();
    let code = source.code(whole.clone()).as_bytes();
    let at = |index: usize| code.get(index).copied().unwrap_or(b' ');
    let sign = |index: &usize| {
        let own = at(*index);
        let before = index.checked_sub(1).map_or(b' ', at);
        b"<>".contains(&own) && !b"<>-".contains(&before) && at(index + 1) != own
    };
    let stops =
        |index: usize| b";,?:{}".contains(&at(index)) || [[b'&'; 2], [b'|'; 2]].contains(&[at(index), at(index + 1)]);
    let side = |from: usize, back: bool| {
        let (mut index, mut depth) = (from, 0_usize);
        loop {
            let next = if back { index.checked_sub(1) } else { Some(index).filter(|own| *own < code.len()) };
            let Some(next) = next else { return index };
            match (at(next), back) {
                (b'(' | b'[', false) | (b')' | b']', true) => depth += 1,
                (b')' | b']', false) | (b'(' | b'[', true) if depth == 0 => return index,
                (b')' | b']', false) | (b'(' | b'[', true) => depth -= 1,
                _ if depth == 0 && (stops(next) || back && next > 0 && stops(next - 1)) => return index,
                _ => {}
            }
            index = if back { next } else { next + 1 };
        }
    };
    let one = |index: usize| {
        let end = index + 1 + usize::from(at(index + 1) == b'=');
        let [left, right] = [side(index, true)..index, end..side(end, false)];
        let moved = |own: Range<usize>| source.trimmed(whole.start + own.start..whole.start + own.end);
        [moved(left), whole.start + index..whole.start + end, moved(right)]
    };
    (0..code.len()).filter(sign).map(one).collect()
}

/// For a comparison with a place before the packet's end, `p > end - n`, which the kernel does not take: `p + n > end`.
pub fn before_end(case: &Case<'_>) -> Vec<Proposal> {
    let mut found = Vec::new();
    for [left, sign, right] in comparisons(case) {
        for (minus, other) in [(left.clone(), right.clone()), (right, left)] {
            let code = case.source.code(minus.clone());
            let Some((base, number)) = code.rsplit_once(" - ").or_else(|| code.rsplit_once('-')) else { continue };
            if !base.contains("end") || base.ends_with('-') || number.starts_with('>') {
                continue;
            }
            let (base, number) = (base.trim().to_owned(), case.text(minus.end - number.len()..minus.end).trim());
            let text = format!("(void *)({}) + {number}", case.text(other.clone()));
            let edits = vec![Edit { range: minus, text: base }, Edit { range: other, text }];
            let title =
                format!("add `{number}` to the other side of `{}`, not to the packet's end", case.text(sign.clone()));
            found.push(Proposal { title, edits, safe: true });
        }
    }
    found
}

/// Types of 32 bits or less, which no pointer and no difference of pointers fits into.
const NARROW: [&str; 10] =
    ["__u32", "u32", "uint32_t", "int", "unsigned int", "unsigned", "__s32", "__u16", "u16", "s32"];

/// For a pointer that became a number of 32 bits: the variables and casts of the statement, and of where its variables are
/// declared, get 64 bits.
pub fn widened(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let mut found = Vec::new();
    let mut ranges = vec![case.statement.clone()];
    for (_, name) in source.words(case.statement.clone()) {
        let Some(own) = source.declaration(name, case.at) else { continue };
        if NARROW.contains(&case.text(own.kind.clone()).trim()) {
            found.push(case.replace(own.kind.clone(), "__u64 ", false));
        }
        ranges.push(own.rest);
    }
    for range in ranges {
        let opens = range.clone().filter(|at| source.code(*at..at + 1) == "(");
        let casts = opens.filter_map(|at| Some(at + 1..source.closing(at)? - 1));
        let casts = casts.filter(|own| NARROW.contains(&case.text(own.clone()).trim()));
        let edits: Vec<Edit> = casts.map(|range| Edit { range, text: "__u64".to_owned() }).collect();
        if !edits.is_empty() {
            found.push(Proposal { title: "cast to 64 bits: a pointer has as many".to_owned(), edits, safe: false });
        }
    }
    found
}
