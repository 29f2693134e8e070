//! How results look.

pub mod run;

use kiln_checker::print::{listed, named_by};
use kiln_driver::check::{KernelVerdict, Verdict};
use kiln_driver::doctor::{Finding, Level, State};
use kiln_driver::explain::Explained;
use kiln_driver::optimize::Outcome;
pub use kiln_driver::shown::count;
use kiln_driver::shown::{Clean, clean};
use kiln_driver::{Error, Shown, ops};

pub use kiln_checker::print::{BAD, GOOD, MILD, failure, json, json_line, styled, verdict};
pub use kiln_checker::table::{fitted, table, terminal_width};

use crate::arguments::Format;
use crate::{output, say};

/// An error: text on standard error, and a document on standard output where one is expected.
pub fn error(error: &Error, format: Format) {
    kiln_checker::print::error(error, format.of_check());
}

/// The kernels that a result must load on, if any were named.
pub fn wanted_kernels(choice: &kiln_driver::target::Choice) {
    if let Some(names) = kernel_names(choice) {
        say!("to load on {names}");
    }
}

/// The kernels that were named, and who named them; `None` if none were.
pub fn kernel_names(choice: &kiln_driver::target::Choice) -> Option<String> {
    let names: Vec<_> = choice.kernels.iter().map(ToString::to_string).collect();
    (!names.is_empty()).then(|| format!("{}{}", listed(&names), named_by(&choice.by)))
}

/// What the codes of rejections mean.
pub fn reasons(reasons: &[Explained], with_examples: bool) {
    for reason in reasons {
        let Explained { code, kind, meaning, fix, rejected, mended, rejected_c, mended_c, more_c } = reason;
        let lint = *kind == "lint";
        let (style, first, second) = match lint {
            true => (MILD, "doubtful, in C:", "mended, in C:"),
            false => (BAD, "rejected, in C:", "accepted, in C:"),
        };
        say!("{}: {meaning}\n    {} {fix}", styled(style, code), styled(GOOD, "usually:"));
        if !with_examples {
            continue;
        }
        let in_c = [(style, first, rejected_c.as_ref()), (GOOD, second, mended_c.as_ref())];
        let more =
            more_c.iter().flat_map(|more| [(style, first, Some(&more.rejected)), (GOOD, second, more.mended.as_ref())]);
        let listings = [(BAD, "rejected:", rejected.as_ref()), (GOOD, "accepted:", mended.as_ref())];
        for (style, head, text) in in_c.into_iter().chain(more).chain(listings) {
            if let Some(text) = text {
                say!("\n{}\n\n{text}", styled(style, head));
            }
        }
    }
}

/// Maps and listings.
pub fn listings(maps: &str, listings: impl Iterator<Item = impl std::fmt::Display>) {
    output::write(maps);
    let mut between = if maps.is_empty() { "" } else { "\n" };
    for listing in listings {
        output::write(&format!("{between}{listing}"));
        between = "\n";
    }
}

/// What optimization did.
pub fn optimized(outcome: &Outcome, verbose: bool, timings: bool) {
    let mut rows = Vec::new();
    let asked = outcome.programs.iter().any(|own| own.kernel_before.is_some() || own.kernel_after.is_some());
    for program in &outcome.programs {
        let processed = |verdict: &Verdict| match verdict {
            Verdict::Accepted { processed_insns, .. } => processed_insns.to_string(),
            Verdict::Rejected { code, .. } => code.clone(),
            Verdict::Unsupported { .. } | Verdict::Invalid { .. } => "unsupported".to_owned(),
        };
        let kernel = |verdict: &Option<KernelVerdict>| match verdict {
            Some(KernelVerdict::Accepted { processed_insns }) => processed_insns.to_string(),
            Some(KernelVerdict::Rejected { .. }) => "rejected".to_owned(),
            Some(KernelVerdict::NotAsked { .. }) => "not asked".to_owned(),
            None => "-".to_owned(),
        };
        let mut row = vec![
            program.program.to_string(),
            format!("{} -> {}", program.slots_before, program.slots_after),
            percent(program.slots_before.into(), program.slots_after.into()),
            format!("{:.1} -> {:.1}", program.estimated_ns_before, program.estimated_ns_after),
            format!("{} -> {}", processed(&program.before), processed(&program.after)),
        ];
        if asked {
            row.push(format!("{} -> {}", kernel(&program.kernel_before), kernel(&program.kernel_after)));
        }
        rows.push(row);
    }
    let header = ["program", "slots", "saved", "est. ns", "processed", "kernel processed"];
    let header = &header[..header.len() - usize::from(!asked)];
    say!("{}", table(header, &rows));
    for program in &outcome.programs {
        if let Some(reason) = &program.skipped {
            say!("left as it is: {}: {}", program.program, Clean(reason.exact().lines().next().unwrap_or_default()));
        }
    }
    let uncertified = outcome.uncertified.iter().filter(|own| own.why.is_some()).count();
    let (tries, certificates) = outcome.refused.split_at(outcome.refused.len().saturating_sub(uncertified));
    for refused in tries.iter().filter(|_| verbose).chain(certificates) {
        say!("not kept: {refused}");
    }
    let ended = if outcome.cut_short { ", stopped early" } else { "" };
    let seconds = outcome.spent.as_secs_f64();
    if let Some(total) = object_total(outcome) {
        say!("{total}");
    }
    let rewrites = count(outcome.evidence.len(), "rewrite");
    say!("{rewrites} in {seconds:.2} s{ended}; goal {}, estimates for {}", outcome.goal, outcome.machine);
    if !tries.is_empty() && !verbose {
        let tries = if tries.len() == 1 { "1 try".to_owned() } else { format!("{} tries", tries.len()) };
        say!("{tries} not kept (-v lists them)");
    }
    if timings {
        for (what, time, calls) in outcome.timings.rows() {
            say!("{:>9.1} ms  {calls:>6} x  {what}", time.as_secs_f64() * 1000.0);
        }
    }
    if verbose {
        for evidence in &outcome.evidence {
            say!("{}", rewrite(evidence));
        }
    }
}

/// The slots of the object, where they are not those of its only program, and the functions that it no longer has.
fn object_total(outcome: &Outcome) -> Option<String> {
    let [before, after] = outcome.object_slots;
    let of_program = |own: &kiln_driver::optimize::Optimized| [own.slots_before, own.slots_after].map(u64::from);
    if outcome.removed.is_empty() && outcome.programs.iter().map(of_program).eq([[before, after]]) {
        return None;
    }
    let names: Vec<_> = outcome.removed.iter().map(ToString::to_string).collect();
    let removed = if names.is_empty() { String::new() } else { format!("; inlined and removed: {}", names.join(", ")) };
    Some(format!("the object: {before} -> {after} slots ({} saved){removed}", percent(before, after)))
}

fn rewrite(evidence: &kiln_driver::Evidence) -> String {
    use kiln_driver::Because;
    let because = match &evidence.because {
        Because::Law(law) => format!("law {}", law.name()),
        Because::Window { proposed_by, proved_by, micros, .. } => {
            format!("{proposed_by}, proved by {proved_by} in {micros} us")
        }
    };
    let mut text = format!("{} @{}: {because}", Clean(&evidence.function_name), evidence.at.0);
    for line in &evidence.before {
        text.push_str(&format!("\n  {}", styled(BAD, &format!("- {}", Clean(line)))));
    }
    for line in &evidence.after {
        text.push_str(&format!("\n  {}", styled(GOOD, &format!("+ {}", Clean(line)))));
    }
    text
}

/// Problems listed at most; the rest is counted.
const PROBLEMS_SHOWN: usize = 50;

/// What was learned.
pub fn learned(outcome: &kiln_driver::learn::Outcome) {
    for problem in outcome.unread.iter().take(PROBLEMS_SHOWN) {
        say!("not read: {problem}");
    }
    for rule in &outcome.rules {
        say!("new: {rule}");
    }
    let (new, known) = (outcome.rules.len(), outcome.text.lines().filter(|line| line.starts_with("rule ")).count());
    let (new, windows, objects) =
        (count(new, "new rule"), count(outcome.windows, "window"), count(outcome.objects, "object"));
    say!("{new}, {known} in all, of {windows} in {objects}");
    say!(
        "{} searched, {} shortened; dropped: {} that others do too, {} that one program needs",
        count(outcome.searched, "window"),
        outcome.shortened,
        outcome.subsumed,
        outcome.rare
    );
}

/// What the replay of a certificate said.
pub fn rechecked(checked: &kiln_driver::verify_evidence::Recheck) {
    for problem in checked.problems.iter().take(PROBLEMS_SHOWN) {
        let whose = clean(problem.function.as_ref().map_or("the folder", Shown::exact));
        say!("{whose}: {}: {}", styled(BAD, &format!("{:?}", problem.fault).to_lowercase()), problem.detail);
    }
    if let Some(more) = checked.problems.len().checked_sub(PROBLEMS_SHOWN).filter(|more| *more > 0) {
        say!("and {more} more");
    }
    let whole = checked.scope == kiln_driver::verify_evidence::Scope::Objects;
    say!("{}", styled(if whole { GOOD } else { MILD }, checked.scope.says()));
    for path in &checked.compared {
        say!("{path} is an end of the chain");
    }
    for (name, digest) in &checked.bound {
        say!("bound to {}, SHA-256 {digest}", clean(name));
    }
    for what in &checked.not_bound {
        say!("not bound: {what}");
    }
    say!("{} of {} changed functions proved by {}", checked.proved, checked.functions, checked.solver);
    let seconds = checked.milliseconds as f64 / 1000.0;
    let (pairs, identical, queries) = (checked.pairs, checked.identical, checked.queries);
    say!("{pairs} meeting pairs, {queries} queries, {identical} ends of paths that are the same, {seconds:.1} s");
    say!("assumed from the verifier: {} facts; taken for granted:", checked.assumed_from_verifier);
    for assumption in &checked.assumptions {
        say!("  {}: {}", assumption.name, assumption.says);
    }
}

/// How much smaller `after` is than `before`.
pub fn percent(before: u64, after: u64) -> String {
    if before == 0 {
        return "-".to_owned();
    }
    format!("{:.1}%", 100.0 * (before as f64 - after as f64) / before as f64)
}

/// What the machine can do.
pub fn findings(findings: &[Finding]) {
    for finding in findings {
        let mark = match finding.state {
            State::Ok => styled(GOOD, "ok     "),
            State::Missing => styled(if finding.level == Level::Optional { MILD } else { BAD }, "missing"),
            State::Unknown => styled(MILD, "unknown"),
        };
        say!("{mark} {}: {}", finding.what, finding.detail);
        if finding.state != State::Ok {
            say!("        needed for: {}\n        mend: {}", finding.needed_for, finding.mend);
        }
    }
}

/// What the sandbox did.
pub fn sandboxed(outcome: &kiln_driver::sandbox::Outcome, explain: bool) {
    let rows: Vec<Vec<String>> = outcome
        .functions
        .iter()
        .map(|own| {
            vec![
                own.function.clone(),
                own.accesses.to_string(),
                own.guards.to_string(),
                own.elided_guards.to_string(),
                own.points.len().to_string(),
                own.bounded_loops.to_string(),
                format!("{} -> {}", own.slots[0], own.slots[1]),
            ]
        })
        .collect();
    let header = ["function", "heap accesses", "guards", "elided", "cancellation points", "bounded loops", "slots"];
    say!("{}", table(&header, &rows));
    for function in outcome.functions.iter().filter(|_| explain) {
        for point in &function.points {
            let place = point.line.clone().unwrap_or_else(|| format!("instruction {}", point.insn));
            let releases = if point.releases.is_empty() {
                String::new()
            } else {
                format!("; releases {}", point.releases.join(", "))
            };
            say!("{}: cancellation point at {place}{releases}", function.function);
        }
    }
    if let Some(why) = &outcome.not_asked {
        say!("the kernel was not asked ({why}): it may refuse the result");
    }
    for (program, verdict) in &outcome.kernel {
        match verdict {
            KernelVerdict::Accepted { processed_insns } => {
                say!(
                    "{program}: {} by the kernel ({processed_insns} instructions processed)",
                    styled(GOOD, "accepted")
                );
            }
            KernelVerdict::Rejected { reason } => {
                say!("{program}: {} by the kernel: {reason}", styled(BAD, "rejected"))
            }
            KernelVerdict::NotAsked { reason, .. } => say!("{program}: the kernel could not be asked: {reason}"),
        }
    }
}

/// The operations, a paragraph each.
pub fn operations(rows: &[ops::Row]) {
    for row in rows {
        say!("{}  [{}]", row.name, ops::machines(row));
        say!("  {}", row.meaning);
        for sequence in &row.proof_sequences {
            say!("  proof sequence, {}: {}", sequence.name, sequence.instructions.join(" ; "));
        }
        for way in &row.native {
            let needs = way.needs.iter().map(|need| format!(" with {need}")).collect::<String>();
            say!("  {}{needs}: {}", way.arch, way.instructions.join(" ; "));
        }
        say!("  pays in {}", row.pays);
        say!("  native code: proved, {}", row.proved_by.join(", "));
        say!("");
    }
}

/// Where an object has operations, a line each.
pub fn found_operations(found: &[ops::Found]) {
    for row in found {
        say!("{} slot {}: {}", row.function, row.slot, row.operation);
    }
    say!("{}", count(found.len(), "operation"));
}
