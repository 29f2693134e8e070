//! How results look.

pub mod run;
mod table;

use anstyle::{AnsiColor, Style};
use kiln_driver::check::{Checked, KernelVerdict, Verdict};
use kiln_driver::cost::Cost;
use kiln_driver::diagnostic;
use kiln_driver::doctor::{Finding, Level, State};
use kiln_driver::explain::Explained;
use kiln_driver::kernels::Matrix;
use kiln_driver::optimize::Outcome;
pub use kiln_driver::shown::count;
use kiln_driver::shown::{Clean, clean, escaped_json};
use kiln_driver::{Error, Shown, forge, ops, sarif};

pub use table::{fitted, table, terminal_width};

use crate::arguments::Format;
use crate::{output, say};

/// The style of what is well.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// The style of what is not.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
const MILD: Style = AnsiColor::Yellow.on_default();

/// With colours, which disappear if the stream is not a terminal, and at the terminal's width.
fn look() -> diagnostic::Look {
    diagnostic::Look { colours: true, width: table::terminal_width() }
}

/// Text in a style; colours disappear if the stream is not a terminal.
pub fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// An error: text on standard error, and a document on standard output where one is expected.
pub fn error(error: &Error, format: Format) {
    anstream::eprintln!("{}: {error}", styled(BAD, "error"));
    match format {
        Format::Json => error_document(error.kind(), &error.to_string(), error.exit_code(), error.errno()),
        Format::Sarif => failed_log(&error.to_string(), error.exit_code()),
        Format::Github => output::write(&forge::github(&failed(&error.to_string(), error.exit_code()))),
        // A document in memory can be written.
        Format::Gitlab => drop(json(&forge::gitlab(&failed(&error.to_string(), error.exit_code())))),
        _ => {}
    }
}

/// An error as a SARIF log, on standard output.
pub fn failed_log(message: &str, exit_code: u8) {
    // A document in memory can be written.
    let _ = json(&failed(message, exit_code));
}

fn failed(message: &str, exit_code: u8) -> serde_json::Value {
    sarif::failed(&std::env::current_dir().unwrap_or_default(), message, exit_code)
}

/// What failed for one of several objects, on standard error.
pub fn failure(object: Option<&Shown>, message: &Shown) {
    let object = object.map_or_else(String::new, |object| format!("{object}: "));
    anstream::eprintln!("{}: {object}{message}", styled(BAD, "error"));
}

/// An error as JSON, on standard output.
pub fn error_document(kind: &str, message: &str, exit_code: u8, errno: Option<i32>) {
    let mut document = serde_json::json!({"error": {"kind": kind, "message": message, "exit_code": exit_code}});
    if let Some(errno) = errno {
        document["error"]["errno"] = errno.into();
    }
    // A document in memory can be written.
    let _ = json(&document);
}

/// A value as JSON, on standard output.
pub fn json(value: &impl serde::Serialize) -> Result<(), Error> {
    let mut document = output::Document::default();
    serde_json::to_writer_pretty(&mut document, value).map_err(|error| Error::Unsupported(error.to_string()))?;
    document.finish();
    Ok(())
}

/// A value as one line of JSON, on standard output.
pub fn json_line(value: &serde_json::Value) {
    say!("{}", escaped_json(&value.to_string()));
}

/// Verdicts, explained; with `quiet`, without what is accepted.
pub fn checked(input: &kiln_driver::Input, results: &[Checked], quiet: bool) -> String {
    let wanted = |result: &&Checked| !quiet || !result.verdict.is_accepted() || result.disagrees();
    results.iter().filter(wanted).map(|result| verdict(input, result)).collect()
}

/// The lint's warnings.
pub fn warnings(input: &kiln_driver::Input, findings: &[kiln_driver::lint::Finding]) -> String {
    findings
        .iter()
        .map(|finding| diagnostic::render_finding(&input.object, finding, look()).trim_end().to_owned() + "\n")
        .collect()
}

/// One verdict, explained.
pub fn verdict(input: &kiln_driver::Input, result: &Checked) -> String {
    let head = match &result.verdict {
        // A frame with a stack of its own is no part of the chain's.
        Verdict::Accepted { processed_insns, stack_bytes, frame_bytes } => format!(
            "{} {} ({}): {}, {processed_insns} processed, {} B of stack, {:.1} ms",
            styled(GOOD, "accepted"),
            result.program,
            result.program_type.unwrap_or("no type"),
            count(result.slots as usize, "slot"),
            stack_bytes.max(frame_bytes),
            result.micros as f64 / 1000.0,
        ),
        Verdict::Rejected { code, diagnosis, .. } => {
            diagnostic::render(&input.object, result.program.exact(), code, diagnosis, look())
        }
        Verdict::Unsupported { reason } => format!("{} {}: {reason}", styled(MILD, "unsupported"), result.program),
        Verdict::Invalid { reason } => format!("{} {}: {reason}", styled(BAD, "invalid"), result.program),
    };
    let mut lines = vec![head.trim_end().to_owned()];
    lines.extend(match &result.kernel {
        Some(KernelVerdict::Accepted { processed_insns }) => {
            Some(format!("  the kernel: accepted, {processed_insns} processed"))
        }
        Some(KernelVerdict::Rejected { reason }) => Some(format!("  the kernel: rejected, {reason}")),
        Some(KernelVerdict::NotAsked { reason, .. }) => Some(format!("  the kernel: could not be asked, {reason}")),
        None => None,
    });
    if let Some(own) = &result.sandboxed {
        lines.push(format!(
            "  sandboxed: {} heap accesses, {}, {} elided, {}",
            own.accesses,
            count(own.guards, "guard"),
            own.elided,
            count(own.points.len(), "cancellation point")
        ));
        lines.extend(own.points.iter().map(|point| format!("    {}", run::cancellation_point(point))));
    }
    if result.disagrees() {
        let word = styled(BAD, "disagreement");
        lines.push(format!("  {word}: Kiln and the kernel do not agree; please report this program"));
    }
    lines.extend(result.profile.as_ref().map(cost));
    lines.join("\n") + "\n"
}

/// Which kernels the verdicts are about.
pub fn which_kernels(result: &kiln_driver::commands::check::reports::Result) {
    use kiln_driver::commands::check::reports::Result::{Checked, Failed, Kernels};
    match result {
        Checked { kernel, types, .. } => say!("as Linux {kernel}, {types}"),
        Kernels(matrix) => say!("{}", columns(matrix)),
        Failed { .. } => {}
    }
}

/// Who named kernels, in brackets, if that is not the command line.
fn named_by(by: &Option<Shown>) -> String {
    by.as_ref().map_or_else(String::new, |by| format!(" ({by})"))
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

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

/// A kernel's release; that of the running one, too.
fn release(kernel: &Shown) -> String {
    match (kernel.exact(), kiln_driver::running::release()) {
        ("running", Ok(release)) => format!("{release} (running)"),
        _ => kernel.to_string(),
    }
}

/// Which kernels the columns of a table are about: a line for each group of neighbours with the same types.
fn columns(matrix: &Matrix) -> String {
    let columns: Vec<_> = matrix.kernels.iter().zip(&matrix.types).collect();
    let line = |group: &[(&Shown, &Shown)]| {
        let names: Vec<_> = group.iter().map(|(kernel, _)| release(kernel)).collect();
        format!("as Linux {}{}, {}", listed(&names), named_by(&matrix.named_by), group[0].1)
    };
    columns.chunk_by(|(_, one), (_, other)| one.exact() == other.exact()).map(line).collect::<Vec<_>>().join("\n")
}

/// Lines that a profile shows; `--format json` has all.
const LINES_SHOWN: usize = 20;
/// Characters of a source line in it.
const SOURCE_SHOWN: usize = 60;

/// Where the processed instructions went.
fn cost(profile: &Cost) -> String {
    let mut text = format!(
        "  {} of {} instructions processed ({:.1} %)\n",
        profile.processed_insns,
        profile.limit,
        profile.share()
    );
    let all = profile.processed_insns.max(1) as f64;
    let rows: Vec<Vec<String>> = profile
        .lines
        .iter()
        .take(LINES_SHOWN)
        .map(|line| {
            vec![
                format!("{} {}", line.place(), line.source.to_string().chars().take(SOURCE_SHOWN).collect::<String>()),
                format!("{:.1}%", 100.0 * line.processed_insns as f64 / all),
                line.processed_insns.to_string(),
                line.visits.to_string(),
                line.forks.to_string(),
                line.states.to_string(),
            ]
        })
        .collect();
    text.push_str(&table(&["line", "share", "processed", "visits", "both ways", "states"], &rows));
    if profile.lines.len() > LINES_SHOWN {
        text.push_str(&format!("\n ... and {} more", count(profile.lines.len() - LINES_SHOWN, "line")));
    }
    for function in profile.functions.iter().filter(|_| profile.functions.len() > 1) {
        let share = 100.0 * function.processed_insns as f64 / all;
        text.push_str(&format!("\n  in {}: {} ({share:.1} %)", function.function, function.processed_insns));
    }
    for hint in &profile.hints {
        text.push_str(&format!("\n  {} {hint}", styled(GOOD, "hint:")));
    }
    text
}

/// Verdicts by program and kernel, then the first explanation of each program that some kernel rejects; with `quiet`,
/// without programs that all kernels accept.
pub fn matrix(input: &kiln_driver::Input, matrix: &Matrix, quiet: bool) -> String {
    let accepted = |row: &kiln_driver::kernels::Row| row.verdicts.iter().all(Verdict::is_accepted);
    if quiet && matrix.programs.iter().all(accepted) {
        return String::new();
    }
    let cell = |verdict: &Verdict| match verdict {
        Verdict::Accepted { .. } => "yes".to_owned(),
        Verdict::Rejected { code, .. } => code.clone(),
        Verdict::Unsupported { .. } => "unsupported".to_owned(),
        Verdict::Invalid { .. } => "invalid".to_owned(),
    };
    let rows: Vec<Vec<String>> = matrix
        .programs
        .iter()
        .filter(|row| !quiet || !accepted(row))
        .map(|row| {
            let cells = row.verdicts.iter().map(cell);
            [row.program.to_string()].into_iter().chain(cells).chain([row.loads_on.clone()]).collect()
        })
        .collect();
    let kernels: Vec<String> = matrix.kernels.iter().map(ToString::to_string).collect();
    let header: Vec<&str> =
        ["program"].into_iter().chain(kernels.iter().map(String::as_str)).chain(["loads on"]).collect();
    let mut out = table(&header, &rows) + "\n";
    for row in &matrix.programs {
        let mut said = Vec::new();
        for (kernel, verdict) in matrix.kernels.iter().zip(&row.verdicts) {
            let text: &str = match verdict {
                Verdict::Rejected { explanation, .. } => explanation,
                Verdict::Unsupported { reason } | Verdict::Invalid { reason } => reason.exact(),
                Verdict::Accepted { .. } => continue,
            };
            if said.contains(&text) {
                continue;
            }
            said.push(text);
            match verdict {
                Verdict::Rejected { code, diagnosis, .. } => {
                    let text = diagnostic::render(&input.object, row.program.exact(), code, diagnosis, look());
                    out.push_str(&format!("on {kernel}: {}\n\n", text.trim_end()));
                }
                _ => {
                    let word = styled(MILD, "unsupported");
                    out.push_str(&format!("on {kernel}: {word} {}: {}\n", row.program, Clean(text)));
                }
            }
        }
    }
    out + &format!("all programs load on: {}\n", matrix.loads_on)
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

/// A fix as text: what it leads to, its steps, and the lines.
pub fn fix(own: &kiln_driver::fix::Fix) -> String {
    let mut text = match (&own.next, own.accepted) {
        (_, true) if own.safe => {
            format!("fix: {} is accepted with this change (kiln check --fix writes it)\n", own.program)
        }
        (_, true) => format!("fix: {} is accepted with this change (--fix --unsafe-fixes writes it)\n", own.program),
        (Some(next), false) => format!("fix: for {}, this leads to the next rejection: {next}\n", own.program),
        (None, false) => return String::new(),
    };
    for line in own.diff().lines() {
        text.push_str(&format!("  {}\n", kiln_driver::Shown::from(line)));
    }
    text
}
