//! Edits of the order: a statement that stands on the wrong side of a call.

use std::ops::Range;

use super::held::{declared, returns};
use super::propose::{Case, Proposal};
use super::text::Edit;

const RCU: [&str; 2] = ["bpf_rcu_read_lock", "bpf_rcu_read_unlock"];

/// The calls of a function in a range.
fn calls(case: &Case<'_>, name: &str, range: Range<usize>) -> Vec<usize> {
    let words = case.source.words(range).filter(|(_, word)| *word == name);
    words.map(|(at, _)| at).filter(|at| case.source.call(name, *at..at + name.len()).is_some()).collect()
}

/// The rejected statement behind the next one that calls one of the functions.
pub fn behind(case: &Case<'_>, names: &[&str]) -> Option<Proposal> {
    let source = case.source;
    let end = source.function(case.at)?.body.end;
    let next = names.iter().flat_map(|name| calls(case, name, case.statement.end..end)).min()?;
    moved(case, source.after(next, case.text(case.statement.clone()))?, "behind", next)
}

/// The rejected statement in front of an earlier one.
pub fn in_front(case: &Case<'_>, at: usize) -> Option<Proposal> {
    moved(case, case.source.before(at, case.text(case.statement.clone()))?, "in front of", at)
}

fn moved(case: &Case<'_>, mut edits: Vec<Edit>, side: &str, at: usize) -> Option<Proposal> {
    let (_, alone) = case.source.statement(case.at)?;
    let (own, other) = (case.text(case.statement.clone()), case.source.position(at).0);
    edits.push(Edit { range: case.source.lines(case.statement.clone()), text: String::new() });
    let title = format!("move `{}` {side} line {other}", own.lines().next().unwrap_or_default());
    (!alone && !own.starts_with("return")).then_some(Proposal { title, edits, safe: false })
}

/// The call in the rejected statement before the statement at a place, which begins a section in which it may not be.
pub fn hoisted(case: &Case<'_>, at: usize, is_it: impl Fn(&str) -> bool) -> Option<Proposal> {
    let source = case.source;
    let (_, name) = source.words(case.statement.clone()).find(|(_, word)| is_it(word))?;
    let (range, _) = source.call(name, case.statement.clone())?;
    let text = case.text(range.clone());
    let name = source.fresh("early");
    let line = format!("__typeof__({text}) {name} = {text};");
    let title = format!("add `{line}` before line {}", source.position(at).0);
    case.lines_before(at, &line, Edit { range, text: name }, title, true)
}

/// For an object that is only good in an RCU read section: the section ends later, or there is one.
pub fn rcu(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let Some(body) = source.function(case.at).map(|own| own.body) else { return Vec::new() };
    let [lock, unlock] = RCU;
    let mut found: Vec<Proposal> = behind(case, &[lock]).into_iter().collect();
    for at in calls(case, unlock, body.start..case.statement.start).into_iter().rev() {
        let (Some((own, _)), Some(mut edits)) = (source.statement(at), source.after(case.at, &format!("{unlock}();")))
        else {
            continue;
        };
        edits.push(Edit { range: source.lines(own), text: String::new() });
        let title = format!("end the RCU read section after line {}", source.position(case.at).0);
        found.push(Proposal { title, edits, safe: false });
    }
    if calls(case, lock, body).is_empty() && case.functions.iter().any(|known| known == lock) {
        let from = case.origin().map_or(case.at, |(at, _)| at);
        let begin = source.before(from, &format!("{lock}();"));
        let ends = returns(case, from).into_iter().filter_map(|own| source.before(own.start, &format!("{unlock}();")));
        let mut edits: Vec<Edit> = begin.into_iter().flatten().chain(ends.flatten()).collect();
        edits.extend([lock, unlock].iter().filter_map(|name| declared(case, name, "void")));
        found.push(Proposal { title: format!("put it between {lock} and {unlock}"), edits, safe: true });
    }
    found
}
