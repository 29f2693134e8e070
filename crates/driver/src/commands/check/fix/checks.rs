//! Checks that a program lacks: of null, of the packet's end, of an index, of a size.

use std::ops::Range;

use super::ends::{self, end, variable_of};
use super::parts::{argument, is_member_array};
use super::propose::{Case, Dereferenced, Form, Proposal, opaque};
use super::text::{Edit, is_name};

/// For a pointer that may be null.
pub fn null(case: &Case<'_>) -> Vec<Proposal> {
    let argument = case.wanted().argument.and_then(|(helper, index)| argument(case, helper, index));
    let mut names: Vec<&str> = case.dereferenced().iter().map(|own| own.name).collect();
    if let Some(range) = &argument {
        match case.text(range.clone()) {
            text if is_name(text) => names.insert(0, text),
            text => {
                let name = case.source.fresh("checked");
                let lines = format!("__typeof__({text}) {name} = {text};\n");
                let edit = Edit { range: range.clone(), text: name.clone() };
                return case.check_after(&format!("!{name}"), &lines, vec![edit]).into_iter().collect();
            }
        }
    }
    let assigned = case.origin().and_then(|(_, statement)| case.assigned(statement));
    names.extend(assigned);
    names.dedup();
    names.iter().filter_map(|name| case.check(&format!("!{name}"))).collect()
}

/// For a pointer that is null on the path to its use.
pub fn null_here(case: &Case<'_>) -> Vec<Proposal> {
    let names = case.dereferenced().into_iter().map(|own| own.name);
    let names = names.filter(|_| case.step("on this path it is null").is_some());
    names.filter_map(|name| case.check(&format!("!{name}"))).collect()
}

/// For a packet that may be too short.
pub fn packet(case: &Case<'_>) -> Vec<Proposal> {
    let mut found = turned_round(case);
    let meta = case.diagnosis.message.exact().contains("(pkt_meta)");
    let options = case.section.contains("sockopt");
    let field = match (meta, options) {
        (true, _) => "data",
        (_, true) => "optval_end",
        _ => "data_end",
    };
    let Some(end) = end(case, field) else { return found };
    let mut conditions = copied(case, &end);
    for Dereferenced { name, form, .. } in case.dereferenced() {
        conditions.push(match form {
            Form::Member | Form::Whole => format!("(void *)({name} + 1) > {end}"),
            Form::Element(index) => match index.trim().parse::<u64>() {
                Ok(number) => format!("(void *)({name} + {}) > {end}", number + 1),
                Err(_) => format!("(void *)({name} + {index} + 1) > {end}"),
            },
            Form::Cast(kind) => format!("(void *){name} + sizeof({kind}) > {end}"),
        });
    }
    let bytes = case.wanted().packet_bytes;
    let start = variable_of(case, "data").or_else(|| Some(format!("(long){}->data", case.context()?)));
    // In a loop, the variable that began as the start may have moved on.
    let moves = meta || options || !case.source.loops(case.at).is_empty();
    if let (Some((Some(needed), _)), Some(start), false) = (bytes, start, moves) {
        conditions.push(format!("(void *){start} + {needed} > {end}"));
    }
    if let Some((_, own)) = bytes {
        let pointers = case.dereferenced();
        conditions.extend(pointers.iter().map(|pointer| format!("(void *){} + {own} > {end}", pointer.name)));
        conditions.extend(passed(case).into_iter().map(|text| format!("(void *)({text}) + {own} > {end}")));
    }
    found.extend(conditions.iter().filter_map(|condition| case.check(condition)));
    found.extend(ends::old_end(case));
    found.extend(far(case));
    found.extend(moved(case));
    // A comparison that clang cannot leave out because of another one that says the same of a length.
    let name = case.source.fresh("end");
    let lines = format!("void *{name} = {end};\n{}\n", opaque(&name));
    let hidden = conditions.iter().take(2).map(|condition| condition.replace(&end, &name));
    found.extend(hidden.filter_map(|condition| case.check_after(&condition, &lines, Vec::new())));
    found
}

/// Bytes of a packet on Ethernet.
const MOST: &str = "1500";

/// For a pointer into the packet that was moved by a number without a bound: the kernel ignores comparisons of it.
fn far(case: &Case<'_>) -> Option<Proposal> {
    let (at, statement) = case.step("the pointer is moved forward")?;
    let code = case.source.code(statement.clone());
    let begin = statement.start + code.find("+=")? + 2;
    let range = case.source.trimmed(begin..statement.end - 1);
    bounded(case, at, range)
}

/// Gives the number that moves a pointer a name and a bound, in front of its statement.
fn bounded(case: &Case<'_>, at: usize, range: Range<usize>) -> Option<Proposal> {
    let name = case.source.fresh("offset");
    let lines = format!("__u64 {name} = {};\nif ({name} > {MOST})\n\t{}", case.text(range.clone()), case.leave(at));
    let title = format!("add `{}`", lines.replace(['\n', '\t'], " "));
    case.lines_before(at, &lines, Edit { range, text: name }, title, true)
}

/// For a pointer that the statement reads, and that was made from another one plus a number without a bound.
fn moved(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let Some(body) = source.function(case.at).map(|own| own.body) else { return Vec::new() };
    let mut found = Vec::new();
    for own in case.dereferenced() {
        let places = source.words(body.start..case.statement.start).filter(|(_, word)| *word == own.name);
        for (at, _) in places {
            let Some((statement, _)) = source.statement(at).filter(|(whole, _)| whole.end <= case.statement.start)
            else {
                continue;
            };
            let code = source.code(statement.clone());
            let plus =
                code.rfind('+').filter(|plus| code[..*plus].contains('=') && !code[plus + 1..].contains([')', '(']));
            let Some(plus) = plus.filter(|_| case.assigned(statement.clone()) == Some(own.name)) else { continue };
            let range = source.trimmed(statement.start + plus + 1..statement.end - 1);
            let text = case.text(range.clone());
            if text.parse::<u64>().is_ok() || text.starts_with('=') {
                continue;
            }
            found.extend(bounded(case, at, range));
        }
    }
    found
}

/// For a comparison with the packet's end that is the wrong way round.
fn turned_round(case: &Case<'_>) -> Vec<Proposal> {
    let steps = case.steps().filter(|step| step.part == "branch");
    let compared = steps.filter(|step| step.text.exact().contains("the packet's end"));
    let mut found = Vec::new();
    for step in compared {
        let Some(line) = step.place.line else { continue };
        let Some(begin) = case.source.offset(line, 1) else { continue };
        let code = case.source.code(begin..case.source.text.len());
        let code = &code[..code.find('\n').unwrap_or(code.len())];
        for (sign, other) in [(" < ", " > "), (" <= ", " >= "), (" > ", " < ")] {
            if let (Some(at), 1) = (code.find(sign), code.matches([' ']).count().min(1)) {
                let range = begin + at + 1..begin + at + sign.len() - 1;
                found.push(case.replace(range, other.trim(), false));
                break;
            }
        }
    }
    found
}

/// The arguments of the calls in a statement that may be pointers.
fn passed<'a>(case: &Case<'a>) -> Vec<&'a str> {
    let source = case.source;
    let calls = source.words(case.statement.clone()).filter_map(|(at, word)| {
        let own = source.call(word, at..case.statement.end)?;
        (!["if", "while", "for", "switch", "return", "sizeof"].contains(&word)).then_some(own.1)
    });
    let texts = calls.flatten().map(|range| case.text(range));
    texts.filter(|text| text.starts_with(|first: char| first.is_alphabetic() || "_(&".contains(first))).collect()
}

/// For `memcpy`, or the helper at fault, from or to the packet.
fn copied(case: &Case<'_>, end: &str) -> Vec<String> {
    let call = case.wanted().argument.and_then(|(helper, index)| {
        let [pointer, size] = [index, index + 1].map(|at| argument(case, helper, at));
        Some((case.text(pointer?), case.text(size?)))
    });
    let called = call.map(|(pointer, size)| format!("(void *)({pointer}) + {size} > {end}"));
    called.into_iter().chain(copied_by_compiler(case, end)).collect()
}

fn copied_by_compiler(case: &Case<'_>, end: &str) -> Vec<String> {
    let calls = ["__builtin_memcpy", "memcpy", "__builtin_memmove", "__builtin_memset", "__builtin_memcmp"];
    let found = calls.iter().find_map(|name| case.source.call(name, case.statement.clone()));
    let Some((_, arguments)) = found.filter(|(_, arguments)| arguments.len() == 3) else { return Vec::new() };
    let size = case.text(arguments[2].clone());
    [1, 0].iter().map(|at| format!("(void *)({}) + {size} > {end}", case.text(arguments[*at].clone()))).collect()
}

/// For a number that is added to a pointer without a bound.
pub fn offset(case: &Case<'_>) -> Vec<Proposal> {
    let name = case.source.fresh("offset");
    let mut found = Vec::new();
    for range in added(case) {
        let text = case.text(range.clone());
        // From above it may have a bound.
        found.extend(is_name(text).then(|| case.check(&format!("{text} < 0"))).flatten());
        let lines = format!("__u64 {name} = {text};\n");
        let edit = Edit { range, text: name.clone() };
        found.extend(case.check_after(&format!("{name} > {MOST}"), &lines, vec![edit]));
    }
    found
}

/// What is added to something in the statement: indexes, and names after a plus.
fn added(case: &Case<'_>) -> Vec<Range<usize>> {
    let source = case.source;
    let indexes = source.subscripts(case.statement.clone()).into_iter().map(|(_, range)| range);
    let words = source
        .words(case.statement.clone())
        .filter(|(at, word)| is_name(word) && source.code(case.statement.start..*at).trim_end().ends_with('+'));
    let words: Vec<_> = words.map(|(at, word)| at..at + word.len()).collect();
    indexes.chain(words).filter(|range| case.text(range.clone()).parse::<u64>().is_err()).collect()
}

/// For an index that may be past the end.
pub fn index(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let mut found = written_from(case);
    for (array, range) in source.subscripts(case.statement.clone()) {
        let text = case.text(range.clone());
        if text.parse::<u64>().is_ok() {
            continue;
        }
        let declared = source.declaration(&array, case.at);
        let member = member(case, &array, range.start - 1);
        let is_array = declared.is_some_and(|own| source.code(own.rest).trim_start().starts_with('['));
        let is_array = is_array && member.is_none();
        let own = member.map(|member| format!("sizeof({member}) / sizeof({member}[0])"));
        let limits = match is_array {
            true => [Some(format!("sizeof({array}) / sizeof({array}[0])")), None],
            false => [own, case.wanted().elements.map(|elements| elements.to_string())],
        };
        found.extend(limits.iter().flatten().flat_map(|limit| below(case, &range, limit)));
        if let (true, [Some(limit), _]) = (is_array, &limits) {
            let masked = format!("({text}) & ({limit} - 1)");
            let title = format!("mask the index: `{array}[{masked}]`, if the number of elements is a power of two");
            found.push(Proposal { title, edits: vec![Edit { range, text: masked }], safe: false });
        }
    }
    found
}

/// An index that is compared with the number of elements.
fn below(case: &Case<'_>, range: &Range<usize>, limit: &str) -> Vec<Proposal> {
    let text = case.text(range.clone());
    let mut found = Vec::new();
    if is_name(text) {
        found.extend(case.check(&format!("{text} >= {limit}")));
    }
    let name = case.source.fresh("index");
    let lines = format!("__u64 {name} = {text};\n");
    let edit = |text: String| Edit { range: range.clone(), text };
    found.extend(case.check_after(&format!("{name} >= {limit}"), &lines, vec![edit(name.clone())]));
    // clang may make a test for one number of it, from which the kernel learns no bound.
    let hidden = format!("{lines}{}\n", opaque(&name));
    found.extend(case.check_after(&format!("{name} >= {limit}"), &hidden, vec![edit(name.clone())]));
    found
}

/// For a call that is given a place in an array, `&array[index]`, and a size: the place leaves room for the size.
fn written_from(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let mut called = source.words(case.statement.clone()).filter(|(_, word)| word.starts_with("bpf_"));
    let Some((_, arguments)) = called.find_map(|(_, name)| source.call(name, case.statement.clone())) else {
        return Vec::new();
    };
    let places = arguments.windows(2).filter(|two| case.text(two[0].clone()).starts_with('&'));
    let one = |two: &[Range<usize>]| {
        let (array, index) = source.subscripts(two[0].clone()).pop()?;
        let whole = member(case, &array, index.start - 1).map_or(array.clone(), str::to_owned);
        let whole = whole.trim_start_matches('&');
        let [index, size] = [index, two[1].clone()].map(|range| case.text(range));
        let limit = format!("sizeof({whole}) - {size}");
        index.parse::<u64>().is_err().then(|| case.check(&format!("{index} > {limit}")))?
    };
    places.filter_map(one).collect()
}

/// The expression for an array that is a member of a structure of this source, such as `p->a.b`, before a bracket.
fn member<'a>(case: &Case<'a>, array: &str, bracket: usize) -> Option<&'a str> {
    let source = case.source;
    let is_array = |at: usize| source.code(at + array.len()..source.text.len()).starts_with('[');
    let mut places = source.words(0..source.text.len()).filter(|(_, word)| *word == array);
    places.find(|(at, _)| source.function(*at).is_none() && is_array(*at))?;
    let code = source.code(case.statement.start..bracket);
    let begin = code.rfind(|letter: char| !letter.is_alphanumeric() && !"_->.".contains(letter)).map_or(0, |at| at + 1);
    let whole = case.text(case.statement.start + begin..bracket);
    whole.ends_with(array).then_some(whole).filter(|whole| whole.len() > array.len() && !whole.starts_with('-'))
}

/// For a number that moves a pointer in an array or in a map's value.
pub fn moved_in_array(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let size = case.wanted().argument.and_then(|(helper, index)| argument(case, helper, index + 1));
    let mut found = Vec::new();
    for (at, word) in source.words(case.statement.clone()) {
        let before = source.code(case.statement.start..at).trim_end();
        let Some(left) = before.strip_suffix('+').filter(|_| is_name(word)).map(str::trim_end) else { continue };
        let name = left.rsplit(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default();
        let array = source.declaration(name, case.at).filter(|own| source.code(own.rest.clone()).starts_with('['));
        let word = case.text(at..at + word.len());
        let condition = match (&array, &size, case.wanted().elements) {
            (Some(_), Some(size), _) => format!("{word} > sizeof({name}) - {}", case.text(size.clone())),
            (_, _, Some(elements)) => format!("{word} >= {elements}"),
            _ => continue,
        };
        found.extend(case.check(&condition));
    }
    found
}

/// For memory that was reserved with the size of the pointer to it.
pub fn reserved(case: &Case<'_>) -> Option<Proposal> {
    let (_, statement) = case.origin()?;
    let name = case.assigned(statement.clone())?;
    let old = format!("sizeof({name})");
    let at = statement.start + case.text(statement.clone()).find(&old)?;
    Some(case.replace(at..at + old.len(), &format!("sizeof(*{name})"), false))
}

/// For a pointer that was made from the packet's end, which the kernel does not let a program read through: the same place
/// from the packet's start.
pub fn from_end(case: &Case<'_>) -> Option<Proposal> {
    let source = case.source;
    let (start, end) = (variable_of(case, "data")?, variable_of(case, "data_end")?);
    let body = source.function(case.at)?.body;
    let mut places = source.words(body.start..case.statement.end).filter(|(_, word)| *word == end);
    places.find_map(|(at, _)| {
        let rest = source.code(at + end.len()..case.statement.end.max(source.statement(at)?.0.end));
        let minus = rest.trim_start().strip_prefix('-')?;
        let from = at + end.len() + (rest.len() - minus.len());
        let own = source.trimmed(from..source.statement(at)?.0.end - 1);
        let (name, back) = (source.fresh("distance"), case.text(own.clone()));
        // The difference of both is a length.
        (!source.words(own.clone()).any(|(_, word)| word == start)).then_some(())?;
        let hidden = opaque(&name);
        let text = format!(
            "(void *){start} + ({{ __u64 {name} = (__u64)(long){end} - (__u64)(long){start} - ({back}); {hidden} {name} & 0x3fff; }})"
        );
        Some(case.replace(at..own.end, &text, false))
    })
}

/// For a record of a size that is not constant: the constant with which the size was compared before, or the record's type.
pub fn reserved_at_most(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let Some((_, arguments)) = source.call("bpf_ringbuf_reserve", case.statement.clone()) else { return Vec::new() };
    let (Some(body), Some(range)) = (source.function(case.at).map(|own| own.body), arguments.get(1)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (place, size) in source.words(range.clone()).filter(|(_, word)| is_name(word)) {
        let same = source.words(body.start..case.statement.start).filter(|(_, word)| *word == size);
        for (at, _) in same {
            // The first number that the variable, or what it is made of, is compared with.
            let Some((own, _)) = source.statement(at) else { continue };
            let rest = source.code(at + size.len()..own.end.min(case.statement.start));
            let Some(limit) = rest.find(['>', '<']).map(|sign| rest[sign + 1..].trim_start_matches('=').trim_start())
            else {
                continue;
            };
            let limit: String = limit.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
            found.extend((!limit.is_empty()).then(|| case.replace(place..place + size.len(), &limit, false)));
        }
    }
    let name = case.assigned(case.statement.clone());
    found.extend(name.map(|name| case.replace(range.clone(), &format!("sizeof(*{name})"), false)));
    found
}

/// For a size of a helper's argument.
pub fn size(case: &Case<'_>) -> Vec<Proposal> {
    let Some((helper, at)) = case.wanted().argument else { return Vec::new() };
    let Some((_, arguments)) = case.source.call(&format!("bpf_{helper}"), case.statement.clone()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for index in [at, at + 1] {
        let (Some(range), Some(buffer)) = (arguments.get(index), index.checked_sub(1)) else { continue };
        let text = case.text(range.clone());
        let room = room(case, arguments.get(buffer).cloned());
        found.extend(constant_size(case, room.clone(), index));
        // A pointer is no size: after a check of one nothing would run, and so be accepted.
        let is_pointer = case.source.declared_type(text, case.at).is_some_and(|kind| kind.ends_with('*'));
        if is_pointer || text.parse::<u64>().is_ok() || text.starts_with('&') || text.starts_with("sizeof") {
            continue;
        }
        found.extend(not_zero(case, range, text));
        let Some(room) = room else { continue };
        let name = case.source.fresh("size");
        let named = if is_name(text) { text } else { name.as_str() };
        let (lines, edits) = match is_name(text) {
            true => (String::new(), Vec::new()),
            false => (format!("__u64 {name} = {text};\n"), vec![Edit { range: range.clone(), text: name.clone() }]),
        };
        // What is held is still given back behind it.
        let clamp = format!("{lines}if ({named} > {room})\n\t{named} = {room};");
        let clamped = edits.first().cloned().map_or_else(
            || {
                case.source.before(case.at, &clamp).map(|edits| Proposal {
                    title: format!("add `{}`", clamp.replace(['\n', '\t'], " ")),
                    edits,
                    safe: true,
                })
            },
            |edit| {
                case.lines_before(case.at, &clamp, edit, format!("add `{}`", clamp.replace(['\n', '\t'], " ")), true)
            },
        );
        found.extend(clamped);
        for condition in [
            format!("{named} > {room}"),
            format!("{named} < 0 || {named} > {room}"),
            format!("{named} == 0 || {named} > {room}"),
            format!("{named} <= 0 || {named} > {room}"),
        ] {
            found.extend(case.check_after(&condition, &lines, edits.clone()));
        }
        // A register that clang may not copy before it tests it.
        let fresh = case.source.fresh("bounded");
        let hidden = opaque(&fresh);
        let lines = format!("__u64 {fresh} = {text};\n{hidden}\n");
        let edit = Edit { range: range.clone(), text: fresh.clone() };
        for condition in [format!("{fresh} > {room}"), format!("{fresh} == 0 || {fresh} > {room}")] {
            found.extend(case.check_after(&condition, &lines, vec![edit.clone()]));
        }
        // Two comparisons that clang may not make one of: of that one, older kernels learn no lower bound.
        let least = format!("if ({fresh} <= 0)\n\t{}\n", case.leave(case.at));
        let lines = format!("__s64 {fresh} = {text};\n{hidden}\n{least}{hidden}\n");
        found.extend(case.check_after(&format!("{fresh} > (__s64){room}"), &lines, vec![edit]));
    }
    found
}

/// For a size that may only be too small.
fn not_zero(case: &Case<'_>, range: &Range<usize>, text: &str) -> Option<Proposal> {
    case.diagnosis.message.exact().ends_with(" may be 0").then_some(())?;
    let name = case.source.fresh("bytes");
    let lines = format!("__u64 {name} = {text};\n{}\n", opaque(&name));
    case.check_after(&format!("{name} == 0"), &lines, vec![Edit { range: range.clone(), text: name.clone() }])
}

/// The size of the memory that an argument points to.
fn room(case: &Case<'_>, buffer: Option<Range<usize>>) -> Option<String> {
    let name = buffer.map(|range| case.text(range).trim_start_matches('&'));
    let member = name.filter(|text| is_member_array(case, text)).map(|text| format!("sizeof({text})"));
    let known =
        name.filter(|name| is_name(name)).and_then(|name| Some((name, case.source.declaration(name, case.at)?)));
    match known {
        Some((name, own)) if !case.source.code(own.kind.clone()).contains('*') => Some(format!("sizeof({name})")),
        _ => member.or_else(|| case.wanted().room.map(|room| room.to_string())),
    }
}

/// For a size that is a constant, and more than the memory has.
fn constant_size(case: &Case<'_>, room: Option<String>, index: usize) -> Option<Proposal> {
    let (helper, _) = case.wanted().argument?;
    let range = argument(case, helper, index)?;
    let text = case.text(range.clone());
    let is_number = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_digit()) || case.source.text.contains(&format!("#define {word} "))
    };
    let is_constant = text.starts_with("sizeof") || case.source.words(range.clone()).all(|(_, word)| is_number(word));
    let room = room.filter(|room| is_constant && room != text)?;
    Some(case.replace(range, &room, false))
}
