//! What a check prints: the same words from `kiln check` and from `kiln-check`.

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use kiln_inspect::check::{Checked, KernelVerdict, Verdict};
use kiln_inspect::cost::Cost;
use kiln_inspect::kernels::{Matrix, RUNNING, Row};
use kiln_inspect::lint::Finding;
use kiln_inspect::sandboxed::PointOf;
use kiln_inspect::show::diagnostic;
use kiln_inspect::show::shown::{Clean, count, escaped_json};
use kiln_inspect::{Error, Input, Shown};

use crate::reports;
use crate::sources::Fix;
use crate::table::{table, terminal_width};
use crate::{forge, output, sarif, say};

/// How the results of a check are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs: one JSON document on standard output.
    Json,
    /// For code review: SARIF 2.1.0.
    Sarif,
    /// Annotations of a GitHub workflow, and the text.
    Github,
    /// For GitLab: a Code Quality report.
    Gitlab,
}

impl Format {
    /// Whether verdicts are printed as text.
    pub fn has_text(self) -> bool {
        matches!(self, Format::Text | Format::Github)
    }
}

/// The style of what is well.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// The style of what is not.
pub const BAD: Style = AnsiColor::Red.on_default().bold();
/// The style of what is neither.
pub const MILD: Style = AnsiColor::Yellow.on_default();

/// With colours, which disappear if the stream is not a terminal, and at the terminal's width.
fn look() -> diagnostic::Look {
    diagnostic::Look { colours: true, width: terminal_width() }
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

/// Where a cancellation point is.
pub fn cancellation_point(point: &PointOf) -> String {
    let line = point.line.as_ref().map_or(String::new(), |line| format!(" at {line}"));
    format!("point {} in {}{line}", point.number, point.function)
}

/// Verdicts, explained; with `quiet`, without what is accepted.
pub fn checked(input: &Input, results: &[Checked], quiet: bool) -> String {
    let wanted = |result: &&Checked| !quiet || !result.verdict.is_accepted() || result.disagrees();
    results.iter().filter(wanted).map(|result| verdict(input, result)).collect()
}

/// The lint's warnings.
pub fn warnings(input: &Input, findings: &[Finding]) -> String {
    findings
        .iter()
        .map(|finding| diagnostic::render_finding(&input.object, finding, look()).trim_end().to_owned() + "\n")
        .collect()
}

/// One verdict, explained.
pub fn verdict(input: &Input, result: &Checked) -> String {
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
        lines.extend(own.points.iter().map(|point| format!("    {}", cancellation_point(point))));
    }
    if result.disagrees() {
        let word = styled(BAD, "disagreement");
        lines.push(format!("  {word}: Kiln and the kernel do not agree; please report this program"));
    }
    lines.extend(result.profile.as_ref().map(cost));
    lines.join("\n") + "\n"
}

/// Which kernels the verdicts are about; `running` is the release of the one that runs here.
pub fn which_kernels(result: &reports::Result, running: Option<&str>) {
    use reports::Result::{Checked, Failed, Kernels};
    match result {
        Checked { kernel, types, .. } => say!("as Linux {kernel}, {types}"),
        Kernels(matrix) => say!("{}", columns(matrix, running)),
        Failed { .. } => {}
    }
}

/// Who named kernels, in brackets, if that is not the command line.
pub fn named_by(by: &Option<Shown>) -> String {
    by.as_ref().map_or_else(String::new, |by| format!(" ({by})"))
}

/// `a`, `a and b`, `a, b and c`.
pub fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

/// A kernel's release; that of the running one, too.
fn release(kernel: &Shown, running: Option<&str>) -> String {
    match (kernel.exact(), running) {
        (RUNNING, Some(release)) => format!("{release} (running)"),
        _ => kernel.to_string(),
    }
}

/// Which kernels the columns of a table are about: a line for each group of neighbours with the same types.
fn columns(matrix: &Matrix, running: Option<&str>) -> String {
    let columns: Vec<_> = matrix.kernels.iter().zip(&matrix.types).collect();
    let line = |group: &[(&Shown, &Shown)]| {
        let names: Vec<_> = group.iter().map(|(kernel, _)| release(kernel, running)).collect();
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
pub fn matrix(input: &Input, matrix: &Matrix, quiet: bool) -> String {
    let accepted = |row: &Row| row.verdicts.iter().all(Verdict::is_accepted);
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

/// A fix as text: what it leads to, its steps, and the lines.
pub fn fix(own: &Fix) -> String {
    let mut text = match (&own.next, own.accepted) {
        (_, true) if own.safe => {
            format!("fix: {} is accepted with this change (kiln check --fix writes it)\n", own.program)
        }
        (_, true) => format!("fix: {} is accepted with this change (--fix --unsafe-fixes writes it)\n", own.program),
        (Some(next), false) => format!("fix: for {}, this leads to the next rejection: {next}\n", own.program),
        (None, false) => return String::new(),
    };
    for line in own.diff().lines() {
        text.push_str(&format!("  {}\n", Shown::from(line)));
    }
    text
}
