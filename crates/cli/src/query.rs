//! `kiln query` and `kiln tables`.

use std::cell::RefCell;
use std::fs::File;
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use kiln_driver::Error;
use kiln_driver::Shown;
use kiln_driver::query::budget::{self, Forecast, Sample};
use kiln_driver::query::export::{Exported, Exporter, Targets};
use kiln_driver::query::plan::{self, Plan, Step};
use kiln_driver::query::replay::{self, Recorder, Recording};
use kiln_driver::query::{self, cgroups, live, lookups};
use kiln_driver::query::{Action, COUNTERS, ColumnHead, Limits, Row, Session, Settings, Split, Summary, Value};
use serde_json::json;

use crate::arguments::{Format, QueryArguments};
use crate::{print, say};

/// `kiln query`.
pub fn query(arguments: &QueryArguments, format: Format) -> Result<u8, Error> {
    let lookups = arguments.lookup.iter().map(|(name, file)| lookups::of_csv(name, file)).collect::<Result<_, _>>()?;
    let mut session = Session::with_lookups(&arguments.sql, lookups)?;
    session.model = kiln_driver::calibrate::model()?;
    if let Some(pid) = arguments.pid {
        session.only("pid", Value::Uint(pid.into()))?;
    }
    if let Some(comm) = &arguments.comm {
        session.only("comm", Value::text(comm))?;
    }
    let cgroups = match (&arguments.cgroup, &arguments.container) {
        (Some(path), _) => cgroups::of_path(path)?,
        (None, Some(id)) => cgroups::of_container(id)?,
        (None, None) => Vec::new(),
    };
    if !cgroups.is_empty() {
        let cgroups: Vec<Value> = cgroups.into_iter().map(Value::Uint).collect();
        session.only_any("cgroup_id", &cgroups)?;
    }
    let format = format_of_rows(format);
    let mut printer = Printer::new(&session, format);
    if let Some(path) = &arguments.replay {
        let summary = replayed(&session, path, arguments, &mut printer)?;
        return printer.finish(&summary, None);
    }
    let settings =
        Settings { except_pid: Some(std::process::id()), ring_bytes: arguments.ring_bytes, ..Settings::default() };
    let split = if arguments.record.is_some() { Some(Split::Mvsf) } else { arguments.split };
    if session.parsed.action == Action::Explain {
        let plan = plan::plan(&session, &settings, split)?;
        explain(&plan, format)?;
        return Ok(0);
    }
    kiln_driver::require_kernel().map_err(naming_replay)?;
    let mut command = Traced::begin(&arguments.command, &mut session)?;
    let sample = arguments.sample.unwrap_or(Sample::All);
    if sample == Sample::Auto && arguments.max_overhead.is_none() {
        return Err(Error::InvalidInput("--sample auto needs what the query may take (--max-overhead)".to_owned()));
    }
    let (plan, forecast) = budget::plan_within(&session, &settings, split, arguments.max_overhead, sample)?;
    let steps = plan.all_steps();
    if arguments.trace_plan {
        told_steps(&steps, None);
        forecast.iter().for_each(told_forecast);
    }
    let mut recorder = arguments.record.as_deref().map(|path| recorder(path, &session, &plan)).transpose()?;
    let mut failed = None;
    let mut tap = |scan: usize, record: &[u8]| {
        if let Some(recorder) = &mut recorder
            && let Err(error) = recorder.add_of(scan, record)
        {
            failed.get_or_insert(error);
        }
    };
    let mut exporter = exporter(&session, arguments)?;
    let interrupted = interrupt()?;
    let traced = RefCell::new(&mut command);
    let status = exporter.as_ref().map(Exporter::status);
    let watch = live::Watch {
        duration: arguments.duration,
        stop: &|| interrupted.load(Ordering::SeqCst) || traced.borrow_mut().is_over(),
        limits: Limits::default(),
        measure: true,
        max_overhead: arguments.max_overhead,
        status: status.as_ref().map(|status| status as &dyn Fn(&Summary)),
    };
    let mut sink = |rows| match &mut exporter {
        Some(exporter) => {
            exporter.rows(rows);
            true
        }
        None => printer.rows(rows),
    };
    let summary = live::run(&session, plan, &watch, &mut tap, &mut sink)?;
    drop(status);
    let exported = exporter.map(|exporter| exporter.finish(&summary));
    if let (Some(path), Some(recorder)) = (&arguments.record, recorder) {
        let finished = recorder.finish();
        failed.map_or(finished, Err).map_err(|error| Error::file(path, &error))?;
    }
    let analyzed = (session.parsed.action == Action::Analyze).then_some(&steps[..]);
    let code = match &exported {
        Some(exported) => {
            told_end(&summary);
            told_exported(exported);
            0
        }
        None => printer.finish(&summary, analyzed)?,
    };
    match (summary.over_budget, arguments.max_overhead) {
        (Some(taken), Some(allowed)) => Err(over_budget(taken, allowed)),
        _ => Ok(code),
    }
}

/// Begins to send rows where the user wants them.
fn exporter(session: &Session, arguments: &QueryArguments) -> Result<Option<Exporter>, Error> {
    let QueryArguments { otlp, prometheus, max_series, .. } = arguments;
    if otlp.is_none() && prometheus.is_none() {
        return Ok(None);
    }
    let targets = Targets { otlp: otlp.clone(), prometheus: prometheus.clone(), max_series: *max_series };
    let exporter = Exporter::begin(session, &targets)?;
    if let Some(address) = exporter.address() {
        anstream::eprintln!("Prometheus is answered at http://{address}/metrics");
    }
    Ok(Some(exporter))
}

/// What became of the rows that were sent.
fn told_exported(exported: &Exported) {
    let Exported { delivered, lost, dropped_series, reason } = exported;
    if *delivered > 0 || *lost > 0 {
        anstream::eprintln!("{delivered} rows delivered");
    }
    if *lost > 0 {
        let reason = reason.clone().unwrap_or_else(|| "the receiver was too slow".into());
        anstream::eprintln!("lost: {lost} rows that were not delivered: {reason}");
    }
    if *dropped_series > 0 {
        anstream::eprintln!("lost: {dropped_series} rows of groups beyond the limit of series (--max-series)");
    }
}

/// How rows are printed: on a terminal as a table, elsewhere line by line, unless the user chose.
fn format_of_rows(format: Format) -> Format {
    match format {
        Format::Text if std::io::stdout().is_terminal() => Format::Table,
        Format::Text => Format::Lines,
        other => other,
    }
}

/// The error of a kernel that cannot be asked, with the way that needs no kernel.
fn naming_replay(error: Error) -> Error {
    match error {
        Error::Os { call, errno, advice } => {
            Error::Os { call, errno, advice: format!("{advice}; recorded events need no privilege (--replay)") }
        }
        other => other,
    }
}

/// Opens a recording of what the last of the plan's programs sends.
fn recorder(path: &Path, session: &Session, plan: &Plan) -> Result<Recorder<File>, Error> {
    let file = File::create(path).map_err(|error| Error::file(path, &error))?;
    let plans = std::iter::once(plan).chain(&plan.others);
    let records: Vec<_> = plans.map(|plan| plan.accepted.last().map_or(&[][..], |own| &own.records)).collect();
    let scans: Vec<_> = session.scans().into_iter().zip(records).collect();
    Recorder::of_scans(file, &scans).map_err(|error| Error::file(path, &error))
}

/// The error of a query that took more than `allowed`, both as parts of one processor.
fn over_budget(taken: f64, allowed: f64) -> Error {
    let [taken, allowed] = [taken, allowed].map(|part| 100.0 * part);
    Error::Limit(format!(
        "the query ended: its programs took {taken:.2} % of one processor, and {allowed} % are allowed (--max-overhead); \
         a condition on a rarer event, or on one process, costs less"
    ))
}

/// Answers from recorded events.
fn replayed(
    session: &Session,
    path: &Path,
    arguments: &QueryArguments,
    printer: &mut Printer,
) -> Result<Summary, Error> {
    let recording = Recording::open(session, path)?;
    let mut sink = |rows| printer.rows(rows);
    let limits = Limits::default();
    match arguments.split {
        None => replay::run(session, recording, limits, &mut sink),
        Some(split) => {
            let settings = Settings { ring_bytes: arguments.ring_bytes, ..Settings::default() };
            replay::run_in_kernel(session, recording, split, &settings, limits, &mut sink)
        }
    }
}

/// Ctrl-C ends the query, a second one the process.
pub fn interrupt() -> Result<Arc<AtomicBool>, Error> {
    const INTERRUPTED: i32 = 130;
    let interrupted = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&interrupted);
    let handler = move || {
        if seen.swap(true, Ordering::SeqCst) {
            std::process::exit(INTERRUPTED);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Error::Unsupported(format!("Ctrl-C cannot be handled: {error}")))?;
    Ok(interrupted)
}

/// A command that is looked at, in a cgroup of its own; killed with the query.
struct Traced {
    child: Option<Child>,
    cgroup: Option<query::live::Scope>,
}

impl Traced {
    fn begin(command: &[String], session: &mut Session) -> Result<Traced, Error> {
        let Some((program, arguments)) = command.split_first() else {
            return Ok(Traced { child: None, cgroup: None });
        };
        let scope = live::Scope::enter()?;
        session.only("cgroup_id", Value::Uint(scope.id()))?;
        // The command waits for a line before it begins, so that nothing of it is missed.
        let mut shell = std::process::Command::new("/bin/sh");
        shell.args(["-c", "read -r _ && exec \"$@\" </dev/null", "sh", program]).args(arguments).stdin(Stdio::piped());
        let child = shell.spawn().map_err(|error| Error::InvalidInput(format!("{program}: {error}")))?;
        Ok(Traced { child: Some(child), cgroup: Some(scope) })
    }

    /// Whether the command has ended. The first time it is asked, the programs are attached, and the command begins.
    fn is_over(&mut self) -> bool {
        let Some(child) = &mut self.child else { return false };
        if let Some(mut stdin) = child.stdin.take() {
            use std::io::Write as _;
            // A command that cannot be told to begin is over already.
            let _ = stdin.write_all(b"\n");
        }
        !matches!(child.try_wait(), Ok(None))
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        drop(self.cgroup.take());
    }
}

/// Prints rows as they come.
struct Printer {
    format: Format,
    columns: Vec<ColumnHead>,
    windowed: bool,
    begun: bool,
    kept: Vec<serde_json::Value>,
    waiting: Vec<Row>,
}

impl Printer {
    fn new(session: &Session, format: Format) -> Printer {
        let windowed = session.windowed();
        Printer { format, columns: session.columns(), windowed, begun: false, kept: Vec::new(), waiting: Vec::new() }
    }

    fn names(&self) -> Vec<Shown> {
        let window = ["window_start", "window_end"].into_iter().filter(|_| self.windowed).map(Shown::from);
        window.chain(self.columns.iter().map(|column| column.name.clone())).collect()
    }

    fn object(&self, row: &Row) -> serde_json::Value {
        let window = row.window.iter().flatten().map(|time| json!(time));
        let values = window.chain(row.values.iter().map(query::json));
        serde_json::Value::Object(self.names().iter().map(|name| name.exact().to_owned()).zip(values).collect())
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let values = row.values.iter().zip(&self.columns);
        values.map(|(value, column)| query::text(value, column.data_type).to_string()).collect()
    }

    /// Prints rows; whether more are wanted.
    fn rows(&mut self, rows: Vec<Row>) -> bool {
        match self.format {
            Format::Json => self.kept.extend(rows.iter().map(|row| self.object(row)).collect::<Vec<_>>()),
            Format::Ndjson => rows.iter().for_each(|row| print::json_line(&self.object(row))),
            Format::Csv => self.csv(&rows),
            Format::Table if self.windowed => self.tables(rows),
            // Columns are as wide as what is in them, so all rows come first.
            Format::Table if !self.columns.is_empty() => self.waiting.extend(rows),
            _ => self.lines(&rows),
        }
        true
    }

    fn csv(&mut self, rows: &[Row]) {
        let quoted = |text: &String| match text.contains(['"', ',', '\n', '\r']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.clone(),
        };
        if !std::mem::replace(&mut self.begun, true) {
            say!("{}", self.names().iter().map(|name| quoted(&name.to_string())).collect::<Vec<_>>().join(","));
        }
        for row in rows {
            let window = row.window.iter().flatten().map(u64::to_string);
            let cells: Vec<_> = window.chain(self.cells(row)).map(|cell| quoted(&cell)).collect();
            say!("{}", cells.join(","));
        }
    }

    fn lines(&mut self, rows: &[Row]) {
        if !std::mem::replace(&mut self.begun, true) {
            say!("{}", joined(&self.names(), "\t"));
        }
        for row in rows {
            let window = row.window.iter().flatten().map(|time| format!("{:.3}", *time as f64 / 1e9));
            say!("{}", window.chain(self.cells(row)).collect::<Vec<_>>().join("\t"));
        }
    }

    /// A table for each window.
    fn tables(&mut self, rows: Vec<Row>) {
        for rows in rows.chunk_by(|one, other| one.window == other.window) {
            if let Some([start, end]) = rows[0].window {
                say!("from {:.3} s to {:.3} s since boot", start as f64 / 1e9, end as f64 / 1e9);
            }
            self.table(rows);
        }
    }

    fn table(&self, rows: &[Row]) {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(self.columns.iter().map(|column| &column.name));
        for row in rows {
            table.add_row(self.cells(row));
        }
        for (column, head) in table.column_iter_mut().zip(&self.columns) {
            if head.data_type != "text" {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        say!("{table}");
    }

    fn finish(mut self, summary: &Summary, steps: Option<&[Step]>) -> Result<u8, Error> {
        match self.format {
            Format::Json => {
                let document = json!({
                    "columns": self.columns,
                    "rows": std::mem::take(&mut self.kept),
                    "summary": summary,
                    "lost": summary.lost_in_all(),
                    "plan": steps,
                });
                print::json(&document)?;
                return Ok(0);
            }
            Format::Csv | Format::Lines if !self.begun => {
                let nothing: &[Row] = &[];
                if self.format == Format::Csv { self.csv(nothing) } else { self.lines(nothing) }
            }
            Format::Table if !self.windowed => self.table(&self.waiting),
            _ => {}
        }
        if let Some(steps) = steps {
            told_steps(steps, Some(summary));
        }
        told_end(summary);
        Ok(0)
    }
}

/// What a query cost and lost.
fn told_end(summary: &Summary) {
    anstream::eprintln!("{}", told(summary));
    let counts = summary.lost_in_kernel.iter().zip(COUNTERS).filter(|(count, _)| **count > 0);
    counts.for_each(|(count, what)| anstream::eprintln!("lost: {count} {what}"));
    let lost = summary.lost;
    let own = [
        (lost.starts, "beginnings that found no room in user space"),
        (lost.groups, "rows that found no room for a group in user space"),
        (lost.rows, "rows that found no room to be ordered"),
        (lost.late, "rows of windows that had ended"),
        (lost.malformed, "records that were too short"),
        (lost.evicted, "rows that a join no longer kept, so that they may lack matches"),
    ];
    own.iter().filter(|(count, _)| *count > 0).for_each(|(count, what)| anstream::eprintln!("lost: {count} {what}"));
    if lost.unmatched > 0 {
        anstream::eprintln!("{} rows had no match in a lookup table; LEFT JOIN shows them", lost.unmatched);
    }
}

/// Names as a reader sees them, on one line.
fn joined(names: &[Shown], between: &str) -> String {
    names.iter().map(Shown::to_string).collect::<Vec<_>>().join(between)
}

/// The splits that were tried, with estimates; beside them what was measured, if the query ran.
fn told_steps(steps: &[Step], ran: Option<&Summary>) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let measured = if ran.is_some() { &["runs", "measured ns"][..] } else { &[] };
    let head = ["split", "program", "slots", "processed", "us", "program ns", "ns a row"];
    table.set_header(head.iter().chain(measured).chain(&[""]));
    for step in steps {
        let micros = step.micros.to_string();
        let runs = ran.filter(|summary| summary.split == Some(step.split)).map_or(&[][..], |summary| &summary.programs);
        if let Some(refused) = &step.refused {
            table.add_row([step.split.name(), "", "", "", &micros, &format!("not taken: {refused}")]);
        }
        let in_all = step.expected_ns.map(|ns| format!("{ns:.0}")).unwrap_or_default();
        for (at, program) in step.programs.iter().enumerate() {
            let first = |text: &str| if at == 0 { text.to_owned() } else { String::new() };
            let [slots, processed] = [program.slots.to_string(), program.processed.to_string()];
            let time = program.estimate.unwrap_or_default().program_ns;
            let estimate = format!("{:.0} to {:.0}", time.least, time.most);
            let section = program.section.to_string();
            let mut row =
                vec![first(step.split.name()), section, slots, processed, first(&micros), estimate, first(&in_all)];
            if let Some(run) = runs.iter().find(|run| run.section == program.section) {
                row.extend([run.events.to_string(), format!("{:.0}", run.ns as f64 / run.events.max(1) as f64)]);
            }
            table.add_row(row);
        }
    }
    say!("{table}");
}

/// What a plan is expected to take.
fn told_forecast(forecast: &Forecast) {
    let rates: Vec<String> = forecast.rates.iter().map(|rate| format!("{rate:.0}")).collect();
    let [least, most] = [forecast.parts.least, forecast.parts.most].map(|part| 100.0 * part);
    say!("{} events a second: {least:.2} to {most:.2} % of one processor are expected", rates.join(" and "));
}

/// One line below a result.
fn told(summary: &Summary) -> String {
    let mut text = format!("{} rows", summary.rows);
    if summary.elapsed_ns > 0 {
        text += &format!(" in {:.1} s", summary.elapsed_ns as f64 / 1e9);
    }
    if let Some(split) = summary.split {
        text += &format!("; split {}", split.name());
    }
    if summary.sample > 1 {
        text += &format!(
            "; a sample of one event in {0}: counts, sums and histograms are multiplied by {0}",
            summary.sample
        );
    }
    if let (Some(program_ns), true) = (summary.program_ns, summary.events > 0) {
        let part = 100.0 * program_ns as f64 / summary.elapsed_ns.max(1) as f64;
        let each = program_ns as f64 / summary.events as f64;
        text += &format!("; programs ran {} times, {each:.0} ns each, {part:.2} % of one CPU", summary.events);
    }
    if summary.records > 0 {
        text += &format!("; {} records", summary.records);
    }
    match summary.lost_in_all() {
        0 => text + "; nothing lost",
        lost => text + &format!("; {lost} lost"),
    }
}

fn explain(plan: &Plan, format: Format) -> Result<(), Error> {
    match format {
        Format::Json | Format::Ndjson => print::json(&plan.all_steps()),
        _ => {
            told_steps(&plan.all_steps(), None);
            Ok(())
        }
    }
}

/// `kiln tables`.
pub fn tables(name: Option<&str>, format: Format) -> Result<u8, Error> {
    let tables = query::describe_tables(name)?;
    if format == Format::Json {
        print::json(&tables)?;
        return Ok(0);
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if name.is_none() {
        table.set_header(["table", "a row is", "from", ""]);
        for one in &tables {
            let lacks = one.lacks.clone().unwrap_or_default();
            table.add_row([one.name.to_string(), one.about.to_string(), joined(&one.hooks, ", "), lacks.to_string()]);
        }
        say!("{table}");
        say!(
            "\nAny tracepoint is a table too: tracepoint.CATEGORY.NAME. `kiln tables TABLE` lists the columns of one."
        );
        return Ok(0);
    }
    for one in &tables {
        say!("{}: {} (from {})", one.name, one.about, joined(&one.hooks, ", "));
        if let Some(lacks) = &one.lacks {
            say!("not on this kernel: {lacks}");
        }
        table.set_header(["column", "type", "what it says"]);
        for column in &one.columns {
            table.add_row([&column.name.to_string(), column.data_type, &column.about.to_string()]);
        }
    }
    say!("{table}");
    Ok(0)
}
