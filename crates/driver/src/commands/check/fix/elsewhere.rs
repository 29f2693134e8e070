//! The edits for a rejected line at other lines: where its value comes from, and where its function is called.

use std::ops::Range;

use kiln_verifier::Reason;

use super::propose::{Case, Proposal};
use super::text::{Edit, Source, is_name};
use super::{arguments, checks};

/// Calls of a function that are looked at.
const MOST_CALLS: usize = 4;

/// What the checks for a reason are, at a line that is not the rejected one.
type Propose = fn(&Case<'_>) -> Vec<Proposal>;
const CHECKS: [(Reason, Propose); 8] = [
    (Reason::ArgumentType, other_context),
    (Reason::PossiblyNull, |case| [before_uses(case), null(case), checks::null(case)].concat()),
    (Reason::PointerArithmetic, before_uses),
    (Reason::NotAPointer, before_uses),
    (Reason::PacketBounds, checks::packet),
    (Reason::MapValueBounds, index),
    (Reason::MemoryBounds, index),
    (Reason::UnboundedOffset, index),
];

/// The proposals for other lines than the rejected one.
pub fn proposals(case: &Case<'_>) -> Vec<Proposal> {
    let Some((reason, propose)) = CHECKS.iter().find(|(reason, _)| reason.code() == case.code) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    if *reason == Reason::PossiblyNull {
        found.extend(propose(case));
    }
    found.extend(places(case).iter().flat_map(propose));
    if *reason == Reason::PossiblyNull {
        found.extend(not_global(case));
    }
    found
}

fn index(case: &Case<'_>) -> Vec<Proposal> {
    [checks::index(case), checks::offset(case)].concat()
}

/// The places where the value was made, the last one first, and the calls of the function.
fn places<'a>(case: &Case<'a>) -> Vec<Case<'a>> {
    let steps = case.steps().filter(|step| ["origin", "copy", "moved"].contains(&step.part)).collect::<Vec<_>>();
    let made = steps.into_iter().rev().filter_map(|step| case.statement_of(step)).map(|(at, _)| at);
    let made: Vec<usize> = made.chain(callers(case)).collect();
    let mut found: Vec<Case<'a>> = Vec::new();
    for at in made {
        let Some(there) = case.moved_to(at).filter(|there| there.statement != case.statement) else { continue };
        if found.iter().all(|own| own.statement != there.statement) {
            found.push(there);
        }
    }
    found
}

/// The calls of the function that a case is in.
pub fn callers(case: &Case<'_>) -> Vec<usize> {
    let source = case.source;
    let Some((name, body)) = source.function(case.at).and_then(|own| Some((name_of(source, &own.head)?, own.body)))
    else {
        return Vec::new();
    };
    let calls = source.words(0..source.text.len()).filter(|(at, word)| *word == name && !body.contains(at));
    calls.map(|(at, _)| at).filter(|at| source.function(*at).is_some()).take(MOST_CALLS).collect()
}

/// The name of a function, by its head: the word before its parameters.
pub fn name_of<'a>(source: &'a Source, head: &Range<usize>) -> Option<&'a str> {
    let mut words = source.words(head.clone()).filter(|(at, word)| {
        let behind = at + word.len();
        source.code(behind..head.end).starts_with('(')
            && source.closing(behind).is_some_and(|end| source.code(end..head.end).trim().is_empty())
    });
    words.next().map(|(_, word)| word)
}

/// The names of a function's parameters.
pub fn parameters<'a>(source: &'a Source, head: &Range<usize>) -> Vec<(usize, &'a str)> {
    let Some(name) = name_of(source, head) else { return Vec::new() };
    let Some((_, arguments)) = source.call(name, head.clone()) else { return Vec::new() };
    arguments.into_iter().filter_map(|range| source.words(range).last()).collect()
}

/// For pointers that were read through before they are compared with null: the comparison where the function begins, and
/// behind the assignment.
fn before_uses(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let Some(own) = source.function(case.at) else { return Vec::new() };
    let parameters = parameters(source, &own.head);
    let mut names: Vec<&str> = case.dereferenced().iter().map(|own| own.name).collect();
    names.extend(
        source
            .words(case.statement.clone())
            .map(|(_, word)| word)
            .filter(|word| source.declared_type(word, case.at).is_some_and(|kind| kind.ends_with('*'))),
    );
    let mut found: Vec<Proposal> = Vec::new();
    for name in names {
        let check = format!("if (!{name})\n\t{}", case.leave(case.at));
        let title = |place: &str| format!("add `{}` {place}", check.replace("\n\t", " "));
        if parameters.iter().any(|(_, own)| *own == name) {
            let begin = own.body.start + 1;
            let text = format!("\n\t{}\n", check.replace('\n', "\n\t"));
            let edits = vec![Edit { range: begin..begin, text }];
            found.push(Proposal { title: title("where the function begins"), edits, safe: true });
        }
        let places = source.words(own.body.start..case.statement.start).filter(|(_, word)| *word == name);
        let assigned = places.filter_map(|(at, _)| source.statement(at)).filter(|(whole, alone)| {
            !alone && whole.end <= case.statement.start && case.assigned(whole.clone()) == Some(name)
        });
        let last = assigned.last().and_then(|(whole, _)| source.after(whole.start, &check));
        found.extend(last.map(|edits| Proposal { title: title("behind the assignment"), edits, safe: true }));
    }
    found.dedup_by(|left, right| left.edits == right.edits);
    found
}

/// For a pointer that is no variable, such as a field's or a call's value: it becomes one.
fn null(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let mut values: Vec<Range<usize>> = Vec::new();
    for own in case.dereferenced() {
        let mut end = own.at + own.name.len();
        while source.code(end..case.statement.end).starts_with("->") {
            let Some((at, field)) = source.words(end..case.statement.end).next() else { break };
            if source.code(at + field.len()..case.statement.end).starts_with("->") {
                values.push(own.at..at + field.len());
            }
            end = at + field.len();
        }
    }
    let calls = source.words(case.statement.clone()).filter(|(_, word)| word.starts_with("bpf_"));
    values.extend(calls.filter_map(|(at, word)| Some(source.call(word, at..case.statement.end)?.0)));
    // What is passed, where this is a call.
    let callee = source.words(case.statement.clone()).find_map(|(_, word)| source.call(word, case.statement.clone()));
    values.extend(callee.into_iter().flat_map(|(_, arguments)| arguments));
    let name = source.fresh("checked");
    let leave = case.leave(case.at);
    let one = |range: Range<usize>| {
        let text = case.text(range.clone());
        if is_name(text) {
            return case.check(&format!("!{text}"));
        }
        // What a variable gets anyhow needs no second one.
        let whole = case.source.code(0..range.start).trim_end().ends_with('=')
            && case.text(range.end..case.statement.end) == ";";
        if text.starts_with('&') || whole {
            return None;
        }
        let lines = format!("__typeof__({text}) {name} = {text};\nif (!{name})\n\t{leave}");
        let title = format!("add `{}`", lines.replace(['\n', '\t'], " "));
        case.lines_before(case.at, &lines, Edit { range, text: name.clone() }, title, true)
    };
    values.into_iter().filter_map(one).collect()
}

/// The function that is verified alone, with any arguments, becomes static.
fn not_global(case: &Case<'_>) -> Option<Proposal> {
    let call = callers(case).first().and_then(|at| case.moved_to(*at))?;
    arguments::local_function(&call)
}

/// For a parameter that has to be the context: where the function is called, the caller's context in its place.
fn other_context(case: &Case<'_>) -> Vec<Proposal> {
    let (Some(context), Some(callee)) = (
        case.context(),
        case.source.words(case.statement.clone()).find_map(|(at, word)| case.source.call(word, at..case.statement.end)),
    ) else {
        return Vec::new();
    };
    let others = callee.1.into_iter().filter(|range| case.text(range.clone()) != context);
    others.map(|range| case.replace(range, context, false)).collect()
}
