//! Edits that say something in another way, because the kernel does not let a program say it as it does.

use std::ops::Range;

use super::parts::include;
use super::propose::{Case, Proposal};
use super::text::{Edit, Source, is_name};

/// A call of a local function through a table, `table[E](...)`: the functions by name.
pub fn function_table(source: &Source) -> Option<Proposal> {
    /// Entries of a table that is written out.
    const MOST: usize = 16;
    let all = 0..source.text.len();
    let calls = source.subscripts(all);
    let (name, index) = calls.iter().find(|(name, index)| {
        source.code(index.end + 1..source.text.len()).starts_with('(') && source.function(index.start).is_some() && {
            let declared = source.words(0..index.start).find(|(_, word)| word == name);
            declared.is_some_and(|(at, _)| source.code(0..at).contains("(*") && source.function(at).is_none())
        }
    })?;
    let (declared, _) = source.words(0..index.start).find(|(_, word)| word == name)?;
    let begin = declared + source.code(declared..source.text.len()).find('{')?;
    let functions = source.closing(begin).map(|end| &source.text[begin + 1..end - 1])?;
    let functions: Vec<&str> = functions.split(',').map(str::trim).filter(|own| !own.is_empty()).collect();
    if functions.len() > MOST || functions.iter().any(|own| !is_name(own)) {
        return None;
    }
    let start = index.start.checked_sub(name.len() + 1)?;
    let end = source.closing(index.end + 1)?;
    let arguments = &source.text[index.end + 1..end];
    let number = source.fresh("which");
    let own: String =
        functions.iter().enumerate().map(|(at, own)| format!("{number} == {at} ? {own}{arguments} : ")).collect();
    let text = format!("({{ __u32 {number} = {}; {own}0; }})", &source.text[index.clone()]);
    let title = format!("call the functions of `{name}` by name: the kernel has no call through a pointer");
    Some(Proposal { title, edits: vec![Edit { range: start..end, text }], safe: true })
}

/// For a helper that XDP lacks and tc has: the program as one of tc.
pub fn other_hook(case: &Case<'_>) -> Vec<Proposal> {
    /// What names of XDP are in tc.
    const NAMES: [(&str, &str); 3] = [("xdp_md", "__sk_buff"), ("XDP_PASS", "TC_ACT_OK"), ("XDP_DROP", "TC_ACT_SHOT")];
    let source = case.source;
    let section = format!("SEC(\"{}\")", case.section);
    let here = source.text.match_indices(&section).filter(|(at, _)| *at < case.at).last();
    let (Some((at, _)), "xdp", Some(function)) = (here, case.section, source.function(case.at)) else {
        return Vec::new();
    };
    let mut edits = vec![Edit { range: at..at + section.len(), text: "SEC(\"tc\")".to_owned() }];
    for (at, word) in source.words(function.head.start..function.body.end) {
        match NAMES.iter().find(|(name, _)| *name == word) {
            Some((_, other)) => edits.push(Edit { range: at..at + word.len(), text: (*other).to_owned() }),
            None if word.starts_with("XDP_") => return Vec::new(),
            None => {}
        }
    }
    edits.sort_by_key(|edit| edit.range.start);
    edits.dedup_by_key(|edit| edit.range.start);
    edits.extend(include(case, "linux/pkt_cls.h"));
    let title = "make it a program of tc, which has this helper: attach it with `tc filter` or bpf_tc_attach";
    vec![Proposal { title: title.to_owned(), edits, safe: false }]
}

/// For strings of which the helper wants the second to be constant: the compiler's comparison.
pub fn compared(case: &Case<'_>) -> Vec<Proposal> {
    let Some((whole, arguments)) = case.source.call("bpf_strncmp", case.statement.clone()) else { return Vec::new() };
    let [first, size, second] = &arguments[..] else { return Vec::new() };
    let [first, size, second] = [first, size, second].map(|range| case.text(range.clone()));
    vec![case.replace(whole, &format!("__builtin_memcmp({first}, {second}, {size})"), false)]
}

/// For a dynptr that was not made: of the packet.
pub fn dynptr(case: &Case<'_>) -> Vec<Proposal> {
    let source = case.source;
    let calls = ["bpf_dynptr_read", "bpf_dynptr_write", "bpf_dynptr_data", "bpf_dynptr_slice", "bpf_dynptr_size"];
    let words: Vec<Range<usize>> = calls
        .iter()
        .filter_map(|name| source.call(name, case.statement.clone()))
        .flat_map(|(_, arguments)| arguments)
        .collect();
    let is_dynptr = |name: &str| {
        let declared = source.declaration(name, case.at);
        declared.is_some_and(|own| source.code(own.kind).contains("bpf_dynptr"))
    };
    let named = words.into_iter().map(|range| case.text(range).trim_start_matches('&'));
    let (Some(name), Some(context)) = (named.into_iter().find(|name| is_dynptr(name)), case.context()) else {
        return Vec::new();
    };
    let (function, kind) = match case.section {
        "tc" | "classifier" | "tcx/ingress" | "tcx/egress" => ("bpf_dynptr_from_skb", "struct __sk_buff"),
        "xdp" => ("bpf_dynptr_from_xdp", "struct xdp_md"),
        _ => return Vec::new(),
    };
    let Some(mut edits) =
        source.before(case.at, &format!("if ({function}({context}, 0, &{name}))\n\t{}", case.leave(case.at)))
    else {
        return Vec::new();
    };
    if !source.text.contains(&format!(" {function}(")) {
        let line = format!("\nextern int {function}({kind} *, __u64, struct bpf_dynptr *) __ksym;\n");
        let last = source.text.rfind("\n#include ").map(|at| at + 1);
        let end = last.map(|last| source.text[last..].find('\n').map_or(source.text.len(), |at| last + at + 1));
        edits.extend(end.map(|end| Edit { range: end..end, text: line }));
    }
    vec![Proposal { title: format!("make `{name}` of the packet: `{function}`"), edits, safe: true }]
}

/// For a lock that is taken while another is held, in code such as `lock(A); lock(B); S; unlock(B); unlock(A);`: what
/// is about A alone comes first, and A is unlocked before B is locked.
pub fn one_lock(case: &Case<'_>, held: &str) -> Option<Proposal> {
    let source = case.source;
    let body = source.function(case.at)?.body;
    let (_, own) = source.call("bpf_spin_lock", case.statement.clone())?;
    let wanted = case.text(own.first()?.clone());
    let base = |text: &str| -> String {
        text.trim_start_matches('&').chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
    };
    let (first, second) = (base(held), base(wanted));
    let (mut moved, mut edits, mut at) = (String::new(), Vec::new(), case.statement.end);
    while at < body.end {
        let code = source.code(at..body.end);
        let begin = at + (code.len() - code.trim_start().len());
        let Some((own, alone)) = source.statement(begin).filter(|(own, _)| own.end > at) else { break };
        at = own.end;
        let text = case.text(own.clone());
        let named = |name: &str| source.words(own.clone()).any(|(_, word)| word == name);
        let line_begin = source.text[..own.start].rfind('\n').map_or(0, |at| at + 1);
        let line = line_begin..own.end + source.text[own.end..].find('\n').map_or(0, |at| at + 1);
        if alone {
            return None;
        }
        if let Some((_, unlocked)) = source.call("bpf_spin_unlock", own.clone()) {
            if case.text(unlocked.first()?.clone()) == held {
                edits.push(Edit { range: line, text: String::new() });
                break;
            }
        } else if named(&first) && !named(&second) {
            moved.push_str(&format!("{text}\n"));
            edits.push(Edit { range: line, text: String::new() });
        }
    }
    let mut all = source.before(case.at, &format!("{moved}bpf_spin_unlock({held});"))?;
    let is_whole = !edits.is_empty();
    all.extend(edits);
    let title =
        format!("hold one lock at a time: unlock `{held}` before `{wanted}` is locked (both no longer change at once)");
    is_whole.then_some(Proposal { title, edits: all, safe: false })
}
