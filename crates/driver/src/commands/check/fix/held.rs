//! Edits for what has to be given back: references, iterators, locks, critical sections.

use std::ops::Range;

use super::propose::{Case, Proposal};
use super::text::Edit;
use super::{order, rewritten};

/// Calls that begin a section, and those that end it, with the same arguments.
const SECTIONS: [(&str, &str); 3] = [
    ("bpf_rcu_read_lock", "bpf_rcu_read_unlock"),
    ("bpf_preempt_disable", "bpf_preempt_enable"),
    ("bpf_local_irq_save", "bpf_local_irq_restore"),
];

/// The returns of the rejected function after a place, those of the rejected line first.
pub fn returns(case: &Case<'_>, from: usize) -> Vec<Range<usize>> {
    let Some(function) = case.source.function(case.at) else { return Vec::new() };
    let words = case.source.words(from.max(function.body.start)..function.body.end);
    let places: Vec<usize> = words.filter(|(_, word)| *word == "return").map(|(at, _)| at).collect();
    let mut found: Vec<Range<usize>> =
        places.into_iter().filter_map(|at| case.source.statement(at)).map(|(own, _)| own).collect();
    found.sort_by_key(|own| !own.contains(&case.at));
    found
}

/// A line before one of the returns.
fn before_returns(case: &Case<'_>, from: usize, line: &str) -> Vec<Proposal> {
    let one = |own: &Range<usize>| {
        let edits = case.source.before(own.start, line)?;
        let (number, _) = case.source.position(own.start);
        Some(Proposal { title: format!("add `{line}` before the return in line {number}"), edits, safe: true })
    };
    returns(case, from).iter().filter_map(one).collect()
}

/// For a reference that is still held at the end.
pub fn release(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let Some((at, statement)) = case.origin() else { return Vec::new() };
    if let Some((_, arguments)) = source.call("bpf_ringbuf_reserve_dynptr", statement.clone()) {
        let held = arguments.get(3).map(|range| case.text(range.clone())).unwrap_or_default();
        return before_returns(case, at, &format!("bpf_ringbuf_discard_dynptr({held}, 0);"));
    }
    if let (Some(name), Some((call, _))) =
        (case.assigned(statement.clone()), source.call("bpf_kptr_xchg", statement.clone()))
    {
        return exchanged(case, call.start, name);
    }
    let Some(helper) = case.wanted().release else { return kernel_release(case, at, statement) };
    let Some(name) = case.assigned(statement) else { return Vec::new() };
    let flags = if helper.contains("ringbuf") { ", 0" } else { "" };
    if source.call("bpf_tail_call", case.statement.clone()).is_some() {
        // If it returns, it failed: what is held is given back before it.
        let early = source.before(case.at, &format!("{helper}({name}{flags});"));
        let title = format!("add `{helper}({name}{flags});` before the tail call");
        let early = early.map(|edits| Proposal { title, edits, safe: true });
        return order::behind(case, &[&format!("bpf_{helper}"), helper]).into_iter().chain(early).collect();
    }
    before_returns(case, at, &format!("{helper}({name}{flags});"))
}

/// For what was in a map before an exchange: it may be null.
fn exchanged(case: &Case<'_>, at: usize, name: &str) -> Vec<Proposal> {
    let kind = case.source.declared_type(name, case.at).unwrap_or_default();
    let kind = kind.trim_end_matches('*').trim().trim_start_matches("struct ").trim_end_matches("_struct");
    let function = format!("bpf_{kind}_release");
    if !case.functions.contains(&function) {
        return Vec::new();
    }
    let mut found = before_returns(case, at, &format!("if ({name})\n\t{function}({name});"));
    let declared = declared(case, &function, &format!("struct {kind} *"));
    found.iter_mut().for_each(|own| own.edits.extend(declared.clone()));
    found
}

/// For what a function of the kernel gave: `bpf_iter_KIND_destroy`, or `bpf_KIND_release`.
fn kernel_release(case: &Case<'_>, at: usize, statement: Range<usize>) -> Vec<Proposal> {
    let source = case.source;
    let mut called = source.words(statement.clone()).filter(|(_, word)| word.starts_with("bpf_"));
    let Some((call, (_, arguments))) = called.find_map(|(_, word)| Some((word, source.call(word, statement.clone())?)))
    else {
        return Vec::new();
    };
    if call.starts_with("bpf_map_lookup_elem") {
        // Only a map of sockets gives a reference.
        let name = case.assigned(statement);
        return name.map_or_else(Vec::new, |name| before_returns(case, at, &format!("bpf_sk_release({name});")));
    }
    if call.starts_with("bpf_obj_new") {
        let Some(name) = case.assigned(statement) else { return Vec::new() };
        let line = match call.ends_with("_impl") {
            true => format!("bpf_obj_drop_impl({name}, 0);"),
            false => format!("bpf_obj_drop({name});"),
        };
        let mut found = before_returns(case, at, &line);
        let declared = call.ends_with("_impl").then(|| declared(case, "bpf_obj_drop_impl", "void *, void *")).flatten();
        found.iter_mut().for_each(|own| own.edits.extend(declared.clone()));
        return found;
    }
    let (function, held, kind) = match call.strip_suffix("_new") {
        Some(iterator) if iterator.starts_with("bpf_iter_") => {
            let held = arguments.first().map(|range| case.text(range.clone())).unwrap_or_default();
            (format!("{iterator}_destroy"), held, format!("struct {iterator} *"))
        }
        _ => {
            let kind = call["bpf_".len()..].split('_').next().unwrap_or_default();
            let Some(name) = case.assigned(statement) else { return Vec::new() };
            let declared = source.declaration(name, case.at).map(|own| case.text(own.kind).trim());
            (format!("bpf_{kind}_release"), name, declared.unwrap_or("void *").to_owned())
        }
    };
    if held.is_empty() || !case.functions.contains(&function) {
        return Vec::new();
    }
    let mut found = before_returns(case, at, &format!("{function}({held});"));
    let declared = declared(case, &function, &kind);
    found.iter_mut().for_each(|own| own.edits.extend(declared.clone()));
    found
}

/// The declaration of a function of the kernel that returns nothing, if the source does not name it yet.
pub fn declared(case: &Case<'_>, function: &str, parameters: &str) -> Option<Edit> {
    let source = case.source;
    if source.words(0..source.text.len()).any(|(_, word)| word == function) {
        return None;
    }
    let at = source.function(case.at).map(|own| own.head.start).unwrap_or_default();
    Some(Edit { range: at..at, text: format!("extern void {function}({parameters}) __ksym;\n\n") })
}

/// For a critical section that a path does not leave.
pub fn section(case: &Case<'_>) -> Vec<Proposal> {
    let Some(body) = case.source.function(case.at).map(|own| own.body) else { return Vec::new() };
    let mut found = Vec::new();
    for (begin, end) in SECTIONS {
        let Some((call, arguments)) = case.source.call(begin, body.clone()) else { continue };
        let arguments: Vec<&str> = arguments.into_iter().map(|range| case.text(range)).collect();
        // What may sleep comes before it.
        found
            .extend(order::hoisted(case, call.start, |word| word.starts_with("bpf_") && ![begin, end].contains(&word)));
        found.extend(before_returns(case, call.end, &format!("{end}({});", arguments.join(", "))));
    }
    found
}

/// For a lock that is held where it must not be.
pub fn lock(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let taken = case.step("the lock is taken here");
    let Some((at, statement)) = taken else {
        return order::behind(case, &["bpf_spin_lock"]).into_iter().chain(locked(case)).collect();
    };
    let Some((_, arguments)) = source.call("bpf_spin_lock", statement) else { return Vec::new() };
    let held = arguments.first().map(|range| case.text(range.clone())).unwrap_or_default();
    if let Some((_, own)) = source.call("bpf_spin_unlock", case.statement.clone()) {
        return own.into_iter().map(|range| case.replace(range, held, false)).collect();
    }
    if let Some((whole, own)) = source.call("bpf_spin_lock", case.statement.clone()) {
        // The same lock again: the second one was to be the unlock.
        let again = own.first().is_some_and(|range| case.text(range.clone()) == held);
        let unlock = again.then(|| case.replace(whole, &format!("bpf_spin_unlock({held})"), false));
        return unlock.into_iter().chain(rewritten::one_lock(case, held)).collect();
    }
    let early = order::hoisted(case, at, |word| word.starts_with("bpf_") && !word.contains("spin"));
    if early.is_some() {
        return early.into_iter().collect();
    }
    before_returns(case, at, &format!("bpf_spin_unlock({held});"))
}

/// For a call that gives back what is not held, such as a part of a record: the variables that hold something.
pub fn unmodified(case: &Case<'_>) -> Vec<Proposal> {
    /// Parts of the names of functions that give something to hold.
    const GIVES: [&str; 6] = ["reserve", "lookup_tcp", "lookup_udp", "acquire", "from_", "_get"];
    let source = case.source;
    let Some(body) = source.function(case.at).map(|own| own.body) else { return Vec::new() };
    let words = source.words(case.statement.clone());
    let calls =
        words.filter(|(_, word)| ["submit", "discard", "release", "put", "drop"].iter().any(|own| word.contains(own)));
    let Some((_, arguments)) = calls.into_iter().find_map(|(_, word)| source.call(word, case.statement.clone())) else {
        return Vec::new();
    };
    let given = source
        .words(body.start..case.statement.start)
        .filter(|(_, word)| word.starts_with("bpf_") && GIVES.iter().any(|own| word.contains(own)));
    let names = given.filter_map(|(at, _)| case.assigned(source.statement(at)?.0));
    let origin = case.origin().and_then(|(_, statement)| case.assigned(statement));
    let mut names: Vec<&str> = origin.into_iter().chain(names).collect();
    names.dedup();
    let Some(first) = arguments.first() else { return Vec::new() };
    let others = names.into_iter().filter(|name| case.text(first.clone()) != *name);
    let mut found: Vec<Proposal> = others.map(|name| case.replace(first.clone(), name, false)).collect();
    // What is not held needs no release.
    let alone = source.statement(case.at).is_some_and(|(_, alone)| alone);
    found.push(case.replace(case.statement.clone(), if alone { "{ }" } else { "" }, false));
    found
}

/// For a list or tree that is changed without its lock: between lock and unlock.
fn locked(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let all = 0..source.text.len();
    let kinds = source.words(all).filter(|(at, word)| *word == "bpf_spin_lock" && source.function(*at).is_none());
    let names = kinds.filter_map(|(at, word)| Some(source.words(at + word.len()..source.text.len()).next()?.1));
    let first = source.words(case.statement.clone()).find_map(|(_, word)| source.call(word, case.statement.clone()));
    let beside =
        first.and_then(|(_, arguments)| case.text(arguments.first()?.clone()).rsplit_once("->")).map(|(base, _)| base);
    let places = names.flat_map(|name| [beside.map(|base| format!("{base}->{name}")), Some(format!("&{name}"))]);
    let one = |lock: String| {
        let mut edits = source.before(case.at, &format!("bpf_spin_lock({lock});"))?;
        edits.extend(source.after(case.at, &format!("bpf_spin_unlock({lock});"))?);
        Some(Proposal { title: format!("hold the lock `{lock}` meanwhile"), edits, safe: true })
    };
    places.flatten().filter_map(one).collect()
}
