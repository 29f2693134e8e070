//! `kiln optimize --report`: what was rewritten and why, as one HTML file that needs nothing else.
//!
//! ```text
//!   summary     a row a program: slots, processed instructions, bars
//!   rules       what each rule and law contributed, with links to where
//!   listings    a table a function: before | after, aligned by instruction id, source lines between; a change has the
//!               numbers of its rewrites beside it, and a link to the next change
//!   rewrites    a row each: rule or law and what it says, proof, gain, the lines, the query folded
//! ```
//!
//! An object file is hostile input, so is every name in it: `maud` escapes whatever is put into the page, [`clean`]
//! shows control characters and those that turn the direction of text, links lead only to numbers within the page, and
//! the page's own policy forbids it to load anything or to run scripts.

mod align;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use kiln_program::text::{Labels, node_text};
use kiln_program::{Function, FunctionId, InsnId, Node, Object, clean};
use kiln_superopt::{Because, Evidence};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::commands::check::{KernelVerdict, Verdict};
use crate::commands::optimize::{Optimized, Outcome};
use align::{Kind, Row};

const STYLE: &str = include_str!("report/style.css");

/// Bytes of queries that a page holds at most; what is beyond is only in `--evidence`.
const QUERY_BYTES: usize = 8 << 20;

/// The page about turning an object into another.
pub fn page(before: &Object, outcome: &Outcome) -> String {
    let page = Page {
        before,
        after: &outcome.object,
        evidence: &outcome.evidence,
        touching: touching(&outcome.evidence),
        before_ids: ids_of(before),
        after_ids: ids_of(&outcome.object),
    };
    let title = format!("{}, optimized", clean(&before.name));
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    nav aria-label="Parts" {
                        a href="#summary" { "Summary" } " " a href="#rules" { "Rules and laws" } " "
                        a href="#listings" { "Listings" } " " a href="#rewrites" { "Rewrites" }
                    }
                }
                main {
                    (summary(outcome))
                    (page.rules())
                    (page.listings())
                    (page.rewrites())
                }
                footer { p { "Written by " code { "kiln optimize --report" } " of Kiln " (env!("CARGO_PKG_VERSION")) "." } }
            }
        }
    };
    markup.into_string()
}

/// Rewrites by the instructions they replaced or made.
fn touching(evidence: &[Evidence]) -> HashMap<InsnId, Vec<usize>> {
    let mut touching: HashMap<InsnId, Vec<usize>> = HashMap::new();
    for (index, one) in evidence.iter().enumerate() {
        let mut add = |id| {
            let rewrites = touching.entry(id).or_default();
            if rewrites.last() != Some(&index) {
                rewrites.push(index);
            }
        };
        one.before_ids.iter().chain(&one.after_ids).chain([&one.site]).copied().for_each(&mut add);
    }
    touching
}

/// Where each instruction is: its function and place.
fn ids_of(object: &Object) -> HashMap<InsnId, FunctionId> {
    let functions = object.functions.iter().enumerate();
    functions
        .flat_map(|(index, function)| function.nodes.iter().map(move |node| (node.id, FunctionId(index as u32))))
        .collect()
}

fn processed(kernel: &Option<KernelVerdict>, ours: &Verdict) -> (Option<u64>, String) {
    match (kernel, ours) {
        (Some(KernelVerdict::Accepted { processed_insns }), _) => {
            (Some((*processed_insns).into()), format!("{processed_insns}"))
        }
        (Some(KernelVerdict::Rejected { .. }), _) => (None, "the kernel rejects it".to_owned()),
        (Some(KernelVerdict::NotAsked { .. }) | None, Verdict::Accepted { processed_insns, .. }) => {
            (Some(*processed_insns), format!("{processed_insns}"))
        }
        (_, Verdict::Rejected { code, .. }) => (None, code.clone()),
        (_, Verdict::Unsupported { .. } | Verdict::Invalid { .. }) => (None, "unsupported".to_owned()),
    }
}

fn summary(outcome: &Outcome) -> Markup {
    let slots = outcome.programs.iter().fold([0u64; 2], |sum, program| {
        [sum[0] + u64::from(program.slots_before), sum[1] + u64::from(program.slots_after)]
    });
    let asked = outcome.programs.iter().any(|program| program.kernel_before.is_some());
    html! {
        section id="summary" {
            h2 { "Summary" }
            p {
                (outcome.evidence.len()) " rewrites in " (seconds(outcome.spent)) "; "
                (slots[0]) " slots became " (slots[1]) ", " (saved(slots[0], slots[1])) " fewer. Processed instructions are "
                @if asked { "those of the running kernel's verifier." } @else { "those of Kiln's verifier." }
            }
            div.scroll { table {
                thead { tr {
                    th scope="col" { "program" } th scope="col" { "slots" } th scope="col" { "saved" }
                    th scope="col" { "" }
                    th scope="col" { "estimated ns" } th scope="col" { "saved" }
                    th scope="col" { "processed" } th scope="col" { "saved" } th scope="col" { "" }
                } }
                tbody { @for program in &outcome.programs { (summary_row(program)) } }
            } }
            @if !outcome.refused.is_empty() {
                details {
                    summary { "Tried and dropped: " (outcome.refused.len()) }
                    ul { @for refused in &outcome.refused { li { (refused) } } }
                }
            }
        }
    }
}

fn summary_row(program: &Optimized) -> Markup {
    let (before, before_text) = processed(&program.kernel_before, &program.before);
    let (after, after_text) = processed(&program.kernel_after, &program.after);
    let [old, new] = [program.slots_before, program.slots_after].map(u64::from);
    html! {
        tr {
            th scope="row" {
                code { (program.program) }
                @if let Some(reason) = &program.skipped {
                    br; span.quiet { "left as it is: " (clean(reason.exact().lines().next().unwrap_or_default())) }
                }
            }
            td.number { (old) " → " (new) }
            td.number { (saved(old, new)) }
            td { (bars(old, new)) }
            td.number { (format!("{:.1} → {:.1}", program.estimated_ns_before, program.estimated_ns_after)) }
            td.number { (time_saved(program)) }
            td.number { (before_text) " → " (after_text) }
            @match (before, after) {
                (Some(before), Some(after)) => { td.number { (saved(before, after)) } td { (bars(before, after)) } }
                _ => { td {} td {} }
            }
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn saved(before: u64, after: u64) -> String {
    format!("{:.1} %", 100.0 * (1.0 - after as f64 / before.max(1) as f64))
}

fn time_saved(program: &Optimized) -> String {
    let before = program.estimated_ns_before.max(f64::MIN_POSITIVE);
    format!("{:.1} %", 100.0 * (1.0 - program.estimated_ns_after / before))
}

/// Two bars, one above the other: before, and after as a part of it.
fn bars(before: u64, after: u64) -> Markup {
    let most = before.max(after).max(1) as f64;
    let width = |value: u64| format!("{:.1}", 120.0 * value as f64 / most);
    html! {
        svg role="img" width="120" height="16" viewBox="0 0 120 16" aria-label={ (before) " before, " (after) " after" } {
            rect.before x="0" y="1" height="6" width=(width(before)) {}
            rect.after x="0" y="9" height="6" width=(width(after)) {}
        }
    }
}

struct Page<'a> {
    before: &'a Object,
    after: &'a Object,
    evidence: &'a [Evidence],
    touching: HashMap<InsnId, Vec<usize>>,
    before_ids: HashMap<InsnId, FunctionId>,
    after_ids: HashMap<InsnId, FunctionId>,
}

impl Page<'_> {
    /// What each rule and law contributed.
    fn rules(&self) -> Markup {
        let mut rules: BTreeMap<&str, (Vec<usize>, i64)> = BTreeMap::new();
        for (index, one) in self.evidence.iter().enumerate() {
            let rule = rules.entry(one.because.name()).or_default();
            rule.0.push(index);
            rule.1 += one.slots_saved;
        }
        let mut rules: Vec<_> = rules.into_iter().collect();
        rules.sort_by_key(|(_, (_, slots))| std::cmp::Reverse(*slots));
        let most = rules.iter().map(|(_, (_, slots))| slots.unsigned_abs()).max().unwrap_or(1).max(1);
        html! {
            section id="rules" {
                h2 { "Rules and laws" }
                p { "A " em { "rule" } " replaces a run of instructions, and each use is proved equal. A " em { "law" }
                    " speaks of control flow or of what is read later; the function is proved equal before and after." }
                div.scroll { table {
                    thead { tr {
                        th scope="col" { "name" } th scope="col" { "times" } th scope="col" { "slots saved" }
                        th scope="col" { "" } th scope="col" { "where" }
                    } }
                    tbody { @for (name, (uses, slots)) in &rules {
                        tr {
                            th scope="row" { code { (clean(name)) } }
                            td.number { (uses.len()) }
                            td.number { (slots) }
                            td { svg width="120" height="8" viewBox="0 0 120 8" aria-hidden="true" {
                                rect.after x="0" y="1" height="6"
                                    width=(format!("{:.1}", 120.0 * slots.max(&0).unsigned_abs() as f64 / most as f64)) {}
                            } }
                            td.links { @for index in uses.iter().take(LINKS) { a href={ "#r" (index + 1) } { (index + 1) } " " }
                                @if uses.len() > LINKS { span.quiet { "and " (uses.len() - LINKS) " more" } } }
                        }
                    } }
                } }
            }
        }
    }

    fn listings(&self) -> Markup {
        html! {
            section id="listings" {
                h2 { "Listings" }
                p { "Instructions that stayed stand side by side. The numbers at the right lead to the rewrites that "
                    "replaced or made a line, the arrow to the next change." }
                @for (index, (before, after)) in self.before.functions.iter().zip(&self.after.functions).enumerate() {
                    (self.listing(index, before, after))
                }
            }
        }
    }

    fn listing(&self, index: usize, before: &Function, after: &Function) -> Markup {
        // Without labels, which differ where something in front of them went: a branch names its target by id.
        let text = |object: &Object, node: &Node| node_text(object, node, &Labels::default());
        let rows =
            align::rows((&before.nodes, &after.nodes), |old, new| text(self.before, old) == text(self.after, new));
        let entry = self.before.programs.iter().find(|program| program.entry.index() == index);
        let changes = align::changes(&rows);
        let [old, new] = [before.slots(), after.slots()];
        html! {
            section.function id={ "f" (index) } {
                h3 {
                    code { (clean(&before.name)) } " "
                    span.quiet {
                        @if let Some(program) = entry { "program in " (clean(&program.section)) ", " }
                        (old) " → " (new) " slots"
                        @if changes.is_empty() { ", as it was" } @else { ", " (changes.len()) " changes" }
                    }
                }
                @if !changes.is_empty() {
                    p { a href={ "#f" (index) "c0" } { "first change" } }
                    div.scroll { table.listing {
                        colgroup { col.slot; col.code; col.slot; col.code; col.marks; }
                        thead { tr {
                            th scope="col" colspan="2" { "before" } th scope="col" colspan="2" { "after" }
                            th scope="col" { "rewrites" }
                        } }
                        tbody { (self.rows(index, (before, after), &rows, &changes)) }
                    } }
                }
            }
        }
    }

    fn rows(
        &self,
        function: usize,
        (before, after): (&Function, &Function),
        rows: &[Row],
        changes: &[usize],
    ) -> Markup {
        let starts = [slots_of(before), slots_of(after)];
        let labels = [Labels::of(before), Labels::of(after)];
        let mut source = (None, 0);
        let mut lines = Vec::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            let node = row.before.map(|at| (self.before, &before.nodes[at]));
            let node = node.or(row.after.map(|at| (self.after, &after.nodes[at])));
            let line = node.and_then(|(object, node)| object.line(node)).filter(|line| line.line != 0);
            if let Some(line) = line.filter(|line| (Some(&line.file), line.line) != source) {
                source = (Some(&line.file), line.line);
                let file = line.file.rsplit('/').next().unwrap_or_default();
                lines.push(html! {
                    tr.source { td colspan="5" { span.quiet { (clean(file)) ":" (line.line) } " " (clean(line.text.trim())) } }
                });
            }
            let change = changes.binary_search(&at).ok();
            let next = change.filter(|change| change + 1 < changes.len());
            let sides = [row.before.map(|at| &before.nodes[at]), row.after.map(|at| &after.nodes[at])];
            let cell = |side: usize, place: Option<usize>| {
                let object = [self.before, self.after][side];
                html! {
                    td.slot { @if let Some(place) = place { (starts[side][place]) } }
                    td.code { @if let Some(node) = sides[side] {
                        @if let Some(label) = labels[side].get(node.id) { span.label { (clean(&label)) ":" } " " }
                        code { (clean(&node_text(object, node, &labels[side]))) }
                    } }
                }
            };
            lines.push(html! {
                tr.(row.kind.class()) id=[change.map(|change| format!("f{function}c{change}"))] {
                    (cell(0, row.before)) (cell(1, row.after))
                    td.marks {
                        @if row.kind != Kind::Same { (self.marks(&sides)) }
                        @if let Some(next) = next {
                            a href={ "#f" (function) "c" (next + 1) } title="next change" aria-label="next change" { "↓" }
                        }
                    }
                }
            });
        }
        html! { @for line in &lines { (line) } }
    }

    /// Links to the rewrites of a row's instructions.
    fn marks(&self, sides: &[Option<&Node>; 2]) -> Markup {
        let touched = sides.iter().flatten().filter_map(|node| self.touching.get(&node.id)).flatten();
        let mut rewrites: Vec<usize> = touched.copied().collect();
        rewrites.sort_unstable();
        rewrites.dedup();
        html! { @for index in &rewrites {
            a href={ "#r" (index + 1) } title=(self.evidence[*index].because.name()) { (index + 1) } " "
        } }
    }

    fn rewrites(&self) -> Markup {
        let mut query_bytes = 0;
        html! {
            section id="rewrites" {
                h2 { "Rewrites" }
                p { "In the order in which they were made; a later one may work on what an earlier one left." }
                @for (index, one) in self.evidence.iter().enumerate() { (self.rewrite(index, one, &mut query_bytes)) }
            }
        }
    }

    fn rewrite(&self, index: usize, one: &Evidence, query_bytes: &mut usize) -> Markup {
        let place = one.before_ids.iter().chain(&one.after_ids).chain([&one.site]);
        let function = place.filter_map(|id| self.before_ids.get(id).or(self.after_ids.get(id))).next();
        let query = match &one.because {
            Because::Window { record: Some(record), .. } if *query_bytes < QUERY_BYTES => {
                record.query(self.before).ok()
            }
            _ => None,
        };
        *query_bytes += query.as_ref().map_or(0, String::len);
        html! {
            article.rewrite id={ "r" (index + 1) } {
                h3 {
                    (index + 1) ". " code { (one.because.name()) } " "
                    span.quiet {
                        "in " @match function {
                            Some(function) => { a href={ "#f" (function.0) } { code { (clean(&one.function_name)) } } }
                            None => { code { (clean(&one.function_name)) } }
                        }
                        ", " (gain(one.slots_saved))
                    }
                }
                p { (justification(&one.because)) }
                div.pair {
                    pre tabindex="0" aria-label="before" { (clean_lines(&one.before)) }
                    pre tabindex="0" aria-label="after" { (clean_lines(&one.after)) }
                }
                @if let Some(query) = &query {
                    details { summary { "The query (SMT-LIB 2): unsat means equal" } pre tabindex="0" { (query) } }
                }
            }
        }
    }
}

/// Links to uses of a rule at most.
const LINKS: usize = 24;

fn gain(slots: i64) -> String {
    match slots {
        0 => "no slots saved".to_owned(),
        1 => "1 slot saved".to_owned(),
        -1 => "costs 1 slot".to_owned(),
        _ if slots < 0 => format!("costs {} slots", -slots),
        _ => format!("{slots} slots saved"),
    }
}

fn justification(because: &Because) -> String {
    match because {
        Because::Law(law) => format!("Law: {}", law.statement().trim()),
        Because::Window { proposed_by, proved_by, micros, .. } => {
            let how = match *proved_by {
                "normal-form" => "both have one normal form",
                "smt" => "a solver found no state in which they differ",
                "rule" => "the rule itself is proved for all operands",
                other => other,
            };
            let by =
                if *proposed_by == "search" { "Found by search".to_owned() } else { format!("Rule {proposed_by}") };
            format!("{by}; proved in {micros} µs: {how}.")
        }
    }
}

fn clean_lines(lines: &[String]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| clean(line)).collect();
    if lines.is_empty() { "(nothing)".to_owned() } else { lines.join("\n") }
}

/// The slot at which each instruction begins.
fn slots_of(function: &Function) -> Vec<u32> {
    let mut next = 0;
    let starts = function.nodes.iter().map(|node| {
        let start = next;
        next += u32::from(node.insn.slots());
        start
    });
    starts.collect()
}

#[cfg(test)]
mod tests;
