//! Edits of calls: an argument of another kind than the function takes, or arguments in another order.

use std::ops::Range;

use super::parts::{argument, map_kind};
use super::propose::{Case, Proposal};
use super::text::{Edit, is_name};
use super::{hooks, rewritten};

/// Bytes of packet memory that are copied to the stack at most.
const MOST_COPIED: u64 = 256;

/// For an argument that is not what the function takes.
pub fn wrong(case: &Case<'_>) -> Vec<Proposal> {
    let mut found = rewritten::compared(case);
    found.extend(hooks::stored_socket(case));
    found.extend(hooks::typed_task(case));
    found.extend(zero(case));
    found.extend(local_function(case));
    found.extend(null(case));
    found.extend(constant_text(case));
    found.extend(other_map(case));
    found.extend(context_argument(case));
    found.extend(field_copied(case));
    found.extend(by_value(case));
    found.extend(copied(case));
    found.extend(swapped(case));
    found
}

/// A number that has to be 0, such as flags that nobody has defined yet.
fn zero(case: &Case<'_>) -> Option<Proposal> {
    let (_, arguments, index) = at_fault(case)?;
    let is_zero = case.diagnosis.message.exact().contains(" must be 0");
    is_zero.then(|| case.replace(arguments[index].clone(), "0", false))
}

/// A variable whose address is cast to that of a wider one: it gets the type of the cast.
pub fn typed(case: &Case<'_>) -> Option<Proposal> {
    let (_, arguments, index) = at_fault(case)?;
    let (cast, name) = case.text(arguments[index].clone()).strip_prefix('(')?.split_once(')')?;
    let kind = cast.trim().strip_suffix('*')?.trim();
    let own = case.source.declaration(name.trim().strip_prefix('&')?, case.at)?;
    Some(case.replace(own.kind, &format!("{kind} "), false))
}

/// The helper's name in the source, the arguments, and which one is wrong.
fn at_fault(case: &Case<'_>) -> Option<(String, Vec<Range<usize>>, usize)> {
    let (helper, index) = case.wanted().argument?;
    let name = format!("bpf_{helper}");
    let (_, arguments) = case.source.call(&name, case.statement.clone())?;
    (index < arguments.len()).then_some((name, arguments, index))
}

/// A function that the verifier looks at alone becomes static: then it is verified with the arguments of its calls.
pub fn local_function(case: &Case<'_>) -> Option<Proposal> {
    let source = case.source;
    let is_call = |at: usize, word: &str| source.code(at + word.len()..case.statement.end).starts_with('(');
    source.words(case.statement.clone()).filter(|(at, word)| is_call(*at, word)).find_map(|(_, name)| {
        let mut places = source.words(0..case.statement.start).filter(|(_, word)| *word == name);
        let (head, body) = places.find_map(|(at, _)| {
            let open = source.closing(at + name.len())?;
            let brace = open + source.code(open..source.text.len()).find(|letter: char| !letter.is_whitespace())?;
            let own = source.function(brace)?;
            Some((own.head, own.body))
        })?;
        if body.contains(&case.at) || source.words(head.clone()).any(|(_, word)| word == "static") {
            return None;
        }
        let edits = vec![Edit { range: head.start..head.start, text: "static ".to_owned() }];
        Some(Proposal { title: format!("make `{name}` static"), edits, safe: false })
    })
}

/// A map that is not the one the call needs, such as that of a timer: the other maps of the source.
fn other_map(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let called = source.words(case.statement.clone()).find(|(_, word)| word.starts_with("bpf_"));
    let Some((_, arguments)) = called.and_then(|(_, name)| source.call(name, case.statement.clone())) else {
        return Vec::new();
    };
    let maps: Vec<&str> = source
        .words(0..source.text.len())
        .filter(|(at, word)| {
            let rest = source.code(at + word.len()..source.text.len());
            rest.trim_start().starts_with("SEC(") && source.text[*at..].starts_with(&format!("{word} SEC(\".maps\")"))
        })
        .map(|(_, word)| word)
        .collect();
    let passed = arguments.into_iter().filter_map(|range| {
        let name = case.text(range.clone()).strip_prefix('&')?;
        maps.contains(&name).then_some((range, name))
    });
    let others = passed.flat_map(|(range, name)| {
        let others = maps.iter().filter(move |other| **other != name);
        others.map(move |other| case.replace(range.clone(), &format!("&{other}"), false))
    });
    others.collect()
}

/// An argument that is null on this path.
fn null(case: &Case<'_>) -> Option<Proposal> {
    let (_, arguments, index) = at_fault(case)?;
    let name = case.text(arguments[index].clone());
    case.step("on this path it is null").filter(|_| is_name(name))?;
    case.check(&format!("!{name}"))
}

/// A text that has to be constant: it is static, and so in read-only memory.
fn constant_text(case: &Case<'_>) -> Option<Proposal> {
    let (_, arguments, index) = at_fault(case)?;
    let name = case.text(arguments[index].clone());
    let own = case.source.declaration(name, case.at).filter(|_| is_name(name))?;
    let kind = case.text(own.kind.clone());
    let is_text = kind.contains("char") && case.text(own.rest).trim_start().starts_with('[');
    let words =
        match (kind.contains("const"), case.source.function(own.kind.start).is_some() && !kind.contains("static")) {
            (true, true) => "static ",
            (false, true) => "static const ",
            (false, false) => "const ",
            (true, false) => return None,
        };
    let edits = vec![Edit { range: own.kind.start..own.kind.start, text: words.to_owned() }];
    let title = format!("declare `{name}` as `{words}`: it is in read-only memory then");
    is_text.then_some(Proposal { title, edits, safe: true })
}

/// An expression without the casts before it.
fn without_casts(mut text: &str) -> &str {
    while let Some((cast, rest)) = text.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        let rest = rest.trim();
        if rest.is_empty() || !cast.chars().all(|letter| letter.is_alphanumeric() || "_ *".contains(letter)) {
            break;
        }
        text = rest;
    }
    text
}

/// A key or a value of a map that is given itself, and not its address.
fn by_value(case: &Case<'_>) -> Option<Proposal> {
    let (_, arguments, index) = at_fault(case)?;
    let what = match index {
        1 => "key",
        2 => "value",
        _ => return None,
    };
    let map = case.text(arguments[0].clone()).trim_start_matches('&');
    let kind = map_kind(case, map, what)?;
    let value = without_casts(case.text(arguments[index].clone()));
    let name = case.source.fresh(what);
    let declared = case.source.declaration(value, case.at).filter(|_| is_name(value));
    let same = declared.is_some_and(|own| case.text(own.kind).trim() == kind);
    let range = arguments[index].clone();
    if same {
        return Some(case.replace(range, &format!("&{value}"), false));
    }
    let line = format!("{kind} {name} = {value};");
    let edit = Edit { range, text: format!("&{name}") };
    case.lines_before(case.at, &line, edit, format!("add `{line}` and pass its address"), false)
}

/// Memory that the helper does not take, such as the packet's, is copied to the stack first.
fn copied(case: &Case<'_>) -> Option<Proposal> {
    let (_, arguments, index) = at_fault(case)?;
    let text = case.text(arguments[index].clone());
    let size = case.text(arguments.get(index + 1)?.clone());
    let is_constant = size.starts_with("sizeof") || size.parse().is_ok_and(|size: u64| size <= MOST_COPIED);
    if !is_constant || text.starts_with('&') {
        return None;
    }
    let name = case.source.fresh("copy");
    let lines = format!("__u8 {name}[{size}];\n__builtin_memcpy({name}, {text}, {size});");
    let edit = Edit { range: arguments[index].clone(), text: name };
    case.lines_before(case.at, &lines, edit, format!("copy `{text}` to the stack before the call"), true)
}

/// The wrong argument and another one change places.
fn swapped(case: &Case<'_>) -> Vec<Proposal> {
    let Some((function, arguments, index)) = at_fault(case) else { return Vec::new() };
    let others = (0..arguments.len()).filter(|other| *other != index);
    let swap = |other: usize| {
        let [own, its] = [index, other].map(|at| arguments[at].clone());
        let (left, right) = (case.text(own.clone()).to_owned(), case.text(its.clone()).to_owned());
        let edits = vec![Edit { range: own, text: right.clone() }, Edit { range: its, text: left.clone() }];
        Proposal { title: format!("swap `{left}` and `{right}` in the call of {function}"), edits, safe: false }
    };
    others.map(swap).collect()
}

/// The output helper of the map's type, with the same event.
pub fn other_output(case: &Case<'_>, definition: &str) -> Option<Proposal> {
    let call = |name: &str| case.source.call(name, case.statement.clone());
    let text = |range: &Range<usize>| case.text(range.clone());
    let (whole, new) = if definition.contains("RINGBUF") {
        let (whole, arguments) = call("bpf_perf_event_output")?;
        let [_, map, _, data, size] = &arguments[..] else { return None };
        (whole, format!("bpf_ringbuf_output({}, {}, {}, 0)", text(map), text(data), text(size)))
    } else if definition.contains("PERF_EVENT_ARRAY") {
        let (whole, arguments) = call("bpf_ringbuf_output")?;
        let [map, data, size, _] = &arguments[..] else { return None };
        let [map, data, size] = [map, data, size].map(text);
        let context = case.context()?;
        (whole, format!("bpf_perf_event_output({context}, {map}, BPF_F_CURRENT_CPU, {data}, {size})"))
    } else {
        return None;
    };
    Some(case.replace(whole, &new, false))
}

/// For an argument that has to be the context.
fn context_argument(case: &Case<'_>) -> Option<Proposal> {
    let (helper, index) = case.wanted().argument.filter(|(_, index)| *index == 0)?;
    Some(case.replace(argument(case, helper, index)?, case.context()?, false))
}

/// For an argument that is the address of a field, in the context or in a structure of the kernel.
pub fn field_copied(case: &Case<'_>) -> Option<Proposal> {
    let (helper, index) = case.wanted().argument.filter(|(_, index)| *index > 0)?;
    let range = argument(case, helper, index)?;
    let field = case.text(range.clone()).strip_prefix('&').filter(|field| field.contains("->"))?;
    let name = case.source.fresh("copy");
    let line = format!("__typeof__({field}) {name} = {field};");
    let edit = Edit { range, text: format!("&{name}") };
    case.lines_before(case.at, &line, edit, format!("add `{line}` and pass its address"), true)
}

#[cfg(test)]
mod tests {
    use super::without_casts;

    #[test]
    fn casts_are_left_out_and_expressions_are_not() {
        for (text, expected) in
            [("(void *)(long)cpu", "cpu"), ("(void *)1", "1"), ("(a + b) * 2", "(a + b) * 2"), ("()", "()")]
        {
            assert_eq!(without_casts(text), expected);
        }
    }
}
