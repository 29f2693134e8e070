//! `kiln optimize --report`: what was gained and why, as one HTML file that needs nothing else.
//!
//! ```text
//!   summary     slots before and after, the largest gain, one row per program with bars
//!   rules       what each rule and law contributed; a button shows only its rewrites
//!   programs    one fold per program: its listings before | after, and its rewrites with their reasons and queries
//!   about       command, kernel, goal, both objects with their SHA-256
//! ```
//!
//! Summary, rules and the heads of the folds are markup. What the folds hold is compressed JSON in the page ([`data`]):
//! the page's script (`report/page.js`) unpacks it when a fold is opened or a filter is typed, so that a page with
//! thousands of rewrites opens at once.
//!
//! An object file is hostile input, so is every name in it. `maud` escapes what becomes markup; [`data::json`] escapes
//! `<`, so that no text ends the element that holds it; the script writes text with `textContent` alone. [`clean`] shows
//! control characters and those that turn the direction of text. The page's own policy forbids it to load anything, and
//! to run any script but the one whose hash it names.

mod align;
mod data;

use std::collections::BTreeMap;
use std::time::Duration;

use kiln_program::clean;
use kiln_superopt::{Because, Evidence};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::commands::optimize::{Optimized, Outcome};
use data::{Details, Group, json, packed};
use kiln_inspect::check::{KernelVerdict, Verdict};
use kiln_inspect::input::Input;
use kiln_inspect::show::shown::Shown;

const STYLE: &str = include_str!("report/style.css");
const THEME_SCRIPT: &str = include_str!("report/theme.js");
const SCRIPT: &str = include_str!("report/page.js");

/// What a page says of the command that wrote it.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The command line.
    pub command: Shown,
    /// The kernel that is meant, and whether it was asked.
    pub kernel: Shown,
    /// Where the optimized object was written.
    pub output: Shown,
}

/// Returns the page about turning an object into another.
pub fn page(input: &Input, outcome: &Outcome, about: &About) -> String {
    let details = Details::new(&input.object, &outcome.object, &outcome.evidence);
    let title = format!("{}, optimized", clean(&input.object.name));
    let script = [THEME_SCRIPT, SCRIPT].concat();
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        data::base64(&Sha256::digest(script.as_bytes()))
    );
    let index = Index {
        rules: details.rule_names(),
        rewrites: details.index(),
        groups: details.groups.iter().map(|group| (&group.functions[..], &group.rewrites[..])).collect(),
        elsewhere: &details.owner,
    };
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { h1 { (title) } }
                (navigation(&outcome.evidence))
                main {
                    (summary(outcome, &details))
                    (rules(&outcome.evidence))
                    (programs(&details))
                    (origin(input, outcome, about))
                }
                script id="index" type="application/json" { (PreEscaped(json(&index))) }
                script id="details" type="application/octet-stream" { (PreEscaped(packed(&details.contents()))) }
                script id="queries" type="application/octet-stream" { (PreEscaped(packed(&details.queries()))) }
                script { (PreEscaped(script)) }
            }
        }
    };
    markup.into_string()
}

/// What the script knows before anything is unfolded.
#[derive(Serialize)]
struct Index<'a> {
    rules: Vec<String>,
    /// By rewrite: rule, function, slots saved.
    rewrites: Vec<(usize, u32, i64)>,
    /// By fold: functions and rewrites.
    groups: Vec<(&'a [u32], &'a [usize])>,
    /// By function: its fold.
    elsewhere: &'a [usize],
}

fn navigation(evidence: &[Evidence]) -> Markup {
    html! {
        nav.bar aria-label="Parts of the page" {
            span.parts {
                a href="#summary" { "Summary" } " " a href="#rules" { "Rules" } " "
                a href="#programs" { "Programs" } " " a href="#about" { "About" }
            }
            span.find {
                input #filter type="search" placeholder="Filter: program, rule, source, instruction" aria-label="Filter rewrites";
                " " select #rule aria-label="Rule or law" {
                    option value="" { "all rules and laws" }
                    @for (name, _) in by_rule(evidence) { option value=(clean(name)) { (clean(name)) } }
                }
            }
            span.tools {
                output #found aria-live="polite" {} " "
                button #fold type="button" { "Unfold changed" } " "
                button #theme type="button" { "Theme" }
            }
        }
    }
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

fn summary(outcome: &Outcome, details: &Details<'_>) -> Markup {
    let sum = |counts: fn(&Optimized) -> [u64; 2]| {
        outcome.programs.iter().map(counts).fold([0u64; 2], |sum, own| [sum[0] + own[0], sum[1] + own[1]])
    };
    let slots = sum(|program| [program.slots_before.into(), program.slots_after.into()]);
    let insns = sum(|program| {
        match [processed(&program.kernel_before, &program.before).0, processed(&program.kernel_after, &program.after).0]
        {
            [Some(before), Some(after)] => [before, after],
            _ => [0; 2],
        }
    });
    let changed = outcome.programs.iter().filter(|program| program.slots_before != program.slots_after).count();
    let mut programs: Vec<_> = outcome.programs.iter().zip(&details.program_groups).collect();
    // The largest gain first.
    programs.sort_by_key(|(program, _)| std::cmp::Reverse(program.slots_before.saturating_sub(program.slots_after)));
    let row = |(program, group): (&Optimized, &usize)| summary_row(program, *group);
    let touched = |(_, group): &(&Optimized, &usize)| !details.groups[**group].rewrites.is_empty();
    let (gained, unchanged): (Vec<_>, Vec<_>) = programs.into_iter().partition(touched);
    let [gained, unchanged] = [gained, unchanged].map(|programs| programs.into_iter().map(row).collect::<Vec<_>>());
    let best = outcome.programs.iter().max_by_key(|program| program.slots_before.saturating_sub(program.slots_after));
    let asked = outcome.programs.iter().any(|program| program.kernel_before.is_some());
    html! {
        section #summary {
            div.cards {
                (card("slots", slots, "8-byte instruction slots, subprograms included"))
                @if outcome.object_slots != slots {
                    (card("slots in the object", outcome.object_slots, "slots of the file: what programs share counts once"))
                }
                @if insns[0] > 0 {
                    (card("processed instructions", insns, if asked { "what the running kernel's verifier has to do" }
                        else { "what Kiln's verifier has to do" }))
                }
                div.card { span.large { (outcome.evidence.len()) } span.what { "rewrites" }
                    span.quiet { "in " (seconds(outcome.spent))
                        @if outcome.cut_short { ", stopped early" } ", each proved; "
                        (changed) " of " (outcome.programs.len()) " programs are shorter" } }
                @if let Some(best) = best.filter(|best| best.slots_after < best.slots_before) {
                    div.card { span.large { "−" (best.slots_before - best.slots_after) } span.what { "slots: the largest gain" }
                        span.quiet { "in " code { (best.program) } } }
                }
            }
            div.scroll { table.cells {
                thead { tr {
                    th scope="col" { "program" } th scope="col" { "slots" } th scope="col" { "saved" }
                    th scope="col" { "" }
                    th scope="col" { "estimated ns" } th scope="col" { "saved" }
                    th scope="col" { "processed" } th scope="col" { "saved" } th scope="col" { "" }
                } }
                tbody { @for row in &gained { (row) } }
            } }
            @if !unchanged.is_empty() {
                details open[gained.is_empty()] {
                    summary { "As they were: " (unchanged.len()) }
                    div.scroll { table.cells { tbody { @for row in &unchanged { (row) } } } }
                }
            }
            @if !outcome.refused.is_empty() {
                details {
                    summary { "Tried and not kept: " (outcome.refused.len()) }
                    ul { @for refused in &outcome.refused { li { (refused) } } }
                }
            }
        }
    }
}

fn card(what: &str, [before, after]: [u64; 2], means: &str) -> Markup {
    html! {
        div.card title=(means) {
            span.large { (saved(before, after)) } span.what { "fewer " (what) }
            span.quiet { (before) " → " (after) }
            (bars(before, after))
        }
    }
}

fn summary_row(program: &Optimized, group: usize) -> Markup {
    let (before, before_text) = processed(&program.kernel_before, &program.before);
    let (after, after_text) = processed(&program.kernel_after, &program.after);
    let [old, new] = [program.slots_before, program.slots_after].map(u64::from);
    html! {
        tr {
            th scope="row" {
                a href={ "#p" (group) } { code { (program.program) } }
                @if let Some(reason) = &program.skipped {
                    br; span.quiet { "left as it is: " (clean(reason.exact().lines().next().unwrap_or_default())) }
                }
            }
            td.number data-what="slots" { (old) " → " (new) }
            td.number data-what="saved" { (saved(old, new)) }
            td.bars { (bars(old, new)) }
            td.number data-what="estimated ns" {
                (format!("{:.1} → {:.1}", program.estimated_ns_before, program.estimated_ns_after))
            }
            td.number data-what="saved" { (time_saved(program)) }
            td.number data-what="processed" { (before_text) " → " (after_text) }
            @match (before, after) {
                (Some(before), Some(after)) => {
                    td.number data-what="saved" { (saved(before, after)) } td.bars { (bars(before, after)) }
                }
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

/// Rules and laws with their uses and the slots that they saved, the most first.
fn by_rule(evidence: &[Evidence]) -> Vec<(&str, (usize, i64))> {
    let mut rules: BTreeMap<&str, (usize, i64)> = BTreeMap::new();
    for one in evidence {
        let rule = rules.entry(one.because.name()).or_default();
        rule.0 += 1;
        rule.1 += one.slots_saved;
    }
    let mut rules: Vec<_> = rules.into_iter().collect();
    rules.sort_by_key(|(_, (_, slots))| std::cmp::Reverse(*slots));
    rules
}

/// What each rule and law contributed.
fn rules(evidence: &[Evidence]) -> Markup {
    let rules = by_rule(evidence);
    let most = rules.iter().map(|(_, (_, slots))| slots.unsigned_abs()).max().unwrap_or(1).max(1);
    html! {
        section #rules {
            h2 { "Rules and laws" }
            p { "A " em { "rule" } " replaces a run of instructions, and each use is proved equal. A " em { "law" }
                " concerns control flow or values that are dead; the function is proved equal before and after." }
            div.scroll { table.cells {
                thead { tr {
                    th scope="col" { "name" } th scope="col" { "times" } th scope="col" { "slots saved" }
                    th scope="col" { "" } th scope="col" { "" }
                } }
                tbody { @for (name, (uses, slots)) in &rules {
                    tr {
                        th scope="row" { code { (clean(name)) } }
                        td.number data-what="times" { (uses) }
                        td.number data-what="slots saved" { (slots) }
                        td.bars { svg width="120" height="8" viewBox="0 0 120 8" aria-hidden="true" {
                            rect.after x="0" y="1" height="6"
                                width=(format!("{:.1}", 120.0 * slots.max(&0).unsigned_abs() as f64 / most as f64)) {}
                        } }
                        td { button.only type="button" value=(clean(name)) { "show" } }
                    }
                } }
            } }
        }
    }
}

/// One fold per program: its head; the script fills it when it is opened.
fn programs(details: &Details<'_>) -> Markup {
    html! {
        section #programs {
            h2 { "Programs" }
            p { "Instructions that stayed stand side by side. The numbers at the right are the rewrites that replaced or "
                "made a line. Runs without a change are folded." }
            noscript { p { strong { "The listings need scripts, which this browser does not run." } } }
            @for (at, group) in details.groups.iter().enumerate() {
                details.program #{ "p" (at) } data-group=(at) {
                    summary {
                        code { (clean(&group.name)) } " "
                        span.quiet { (clean(&group.section)) }
                        (group_gain(group))
                    }
                    div.body {}
                }
            }
        }
    }
}

fn group_gain(group: &Group) -> Markup {
    let [old, new] = group.slots;
    html! {
        span.gain {
            (old) " → " (new) " slots"
            @match group.rewrites.len() {
                0 => { ", as it was" }
                1 => { ", 1 rewrite" }
                count => { ", " (count) " rewrites" }
            }
        }
        @if new < old { (bars(old.into(), new.into())) }
    }
}

/// Which command made which object of which, for which kernel.
fn origin(input: &Input, outcome: &Outcome, about: &About) -> Markup {
    let object = |bytes: &[u8]| {
        let digest = format!("{:x}", Sha256::digest(bytes));
        html! { (bytes.len()) " bytes, SHA-256 " code.hash { (digest) } }
    };
    html! {
        section #about {
            h2 { "About" }
            dl {
                dt { "command" } dd { code { (about.command) } }
                dt { "kernel" } dd { (about.kernel) }
                dt { "goal" } dd { (outcome.goal.to_string()) ", estimates for " (outcome.machine) }
                dt { "before" } dd { code { (clean(&input.object.name)) } ", " (object(&input.bytes)) }
                dt { "after" } dd { code { (about.output) } ", " (object(&outcome.bytes)) }
                dt { "written by" } dd { "Kiln " (env!("CARGO_PKG_VERSION")) }
            }
        }
    }
}

/// Why a rewrite may be made.
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
            let by = if proposed_by == "search" { "Found by search".to_owned() } else { format!("Rule {proposed_by}") };
            format!("{by}; proved in {micros} µs: {how}.")
        }
    }
}

#[cfg(test)]
mod tests;
