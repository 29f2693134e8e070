//! `kiln query`.

use std::cell::RefCell;
use std::fs::File;
use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kiln_driver::Error;
use kiln_driver::query::budget::{self, Forecast, Sample};
use kiln_driver::query::export::{Exporter, Targets};
use kiln_driver::query::held::Held;
use kiln_driver::query::plan::{self, Plan};
use kiln_driver::query::replay::{self, Recorder, Recording};
use kiln_driver::query::rows_file::{self, RowsFile};
use kiln_driver::query::{self, cgroups, live, lookups};
use kiln_driver::query::{Action, Limits, Session, Settings, Split, Summary, Value};
use kiln_driver::stack_files;

use crate::arguments::{Format, QueryArguments};
use crate::live::Screen;
use crate::rows::{Printer, told_end, told_exported, told_steps};
use crate::{print, say};

/// `kiln query @`: the queries that have names.
fn named(format: Format) -> Result<u8, Error> {
    let row =
        |query: &query::named::Named| serde_json::json!({ "name": query.name, "about": query.about, "sql": query.sql });
    match format {
        Format::Json => print::json(&query::named::NAMED.iter().map(row).collect::<Vec<_>>())?,
        Format::Ndjson => query::named::NAMED.iter().for_each(|query| print::json_line(&row(query))),
        Format::Text | Format::Table | Format::Lines => {
            query::named::NAMED.iter().for_each(|query| say!("@{:<14} {}", query.name, query.about));
        }
        _ => return Err(Error::InvalidInput("`kiln query @` is text, json or ndjson".to_owned())),
    }
    Ok(0)
}

/// `kiln query`.
pub fn query(arguments: &QueryArguments, format: Format) -> Result<u8, Error> {
    if arguments.sql.trim() == "@" {
        return named(format);
    }
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
    check_output(arguments, format, session.parsed.action)?;
    let is_live = is_live(&session, arguments, format);
    let format = format_of_rows(format);
    let mut printer = Printer::new(session.columns(), session.windowed(), format);
    if session.parsed.action != Action::Explain
        && let Some(file) = file_of_rows(&session, arguments, format)?
    {
        printer = printer.into_file(file);
    }
    if let Some(path) = &arguments.replay {
        return replayed(&session, path, arguments, printer);
    }
    let settings =
        Settings { except_pid: Some(std::process::id()), ring_bytes: arguments.ring_bytes, ..Settings::default() };
    let split = if arguments.record.is_some() { Some(Split::Mvsf) } else { arguments.split };
    if session.parsed.action == Action::Explain {
        let plan = plan::plan(&session, &settings, split)?;
        explain(&session, &plan, format)?;
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
    let mut exporter = exporter(&session, arguments, None)?;
    let computing = Arc::new(AtomicBool::new(false));
    let interrupted = interrupt_also(Arc::clone(&computing))?;
    let traced = RefCell::new(&mut command);
    let send = exporter.as_ref().map(Exporter::status);
    let screen =
        if is_live { Some(Screen::begin(&arguments.sql, session.columns(), session.windowed())?) } else { None };
    let screen = RefCell::new(screen);
    let status = |summary: &Summary| {
        if let Some(send) = &send {
            send(summary);
        }
        if let Some(screen) = &mut *screen.borrow_mut() {
            screen.status(summary);
        }
    };
    let watch = live::Watch {
        duration: arguments.duration,
        stop: &|| {
            let is_interrupted = interrupted.load(Ordering::SeqCst);
            if is_interrupted {
                // No answer was interrupted, and the last one is wanted.
                computing.store(false, Ordering::SeqCst);
            }
            is_interrupted || traced.borrow_mut().is_over() || turn(&screen)
        },
        interrupt: Arc::clone(&computing),
        limits: Limits::default(),
        measure: true,
        max_overhead: arguments.max_overhead,
        status: Some(&status),
    };
    let mut sink = |rows| match (&mut exporter, &mut *screen.borrow_mut()) {
        (Some(exporter), _) => {
            exporter.rows(rows);
            true
        }
        (None, Some(screen)) => {
            screen.rows(rows);
            true
        }
        (None, None) => printer.rows(rows),
    };
    let ran = live::run(&session, plan, &watch, &mut tap, &mut sink);
    // The terminal is given back before anything is printed.
    let seen = screen.into_inner().map(Screen::finish);
    let summary = ran?;
    if let Some(rows) = seen {
        printer.rows(rows?);
    }
    drop(send);
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

/// Whether rows are shown in a table that is drawn again and again: on a terminal that nobody else writes to.
fn is_live(session: &Session, arguments: &QueryArguments, format: Format) -> bool {
    format == Format::Text
        && std::io::stdout().is_terminal()
        && std::io::stdin().is_terminal()
        && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
        && session.parsed.action == Action::Run
        && arguments.command.is_empty()
        && [&arguments.otlp, &arguments.prometheus].iter().all(|target| target.is_none())
        && arguments.replay.is_none()
}

/// Draws the live table if there is one. Returns whether the user wants to end.
fn turn(screen: &RefCell<Option<Screen>>) -> bool {
    screen.borrow_mut().as_mut().is_some_and(Screen::turn)
}

/// Begins to send rows where the user wants them; those of a recording by the clock that recorded.
fn exporter(
    session: &Session,
    arguments: &QueryArguments,
    recorded_boot_ns: Option<u64>,
) -> Result<Option<Exporter>, Error> {
    let QueryArguments { otlp, prometheus, max_series, .. } = arguments;
    if otlp.is_none() && prometheus.is_none() {
        return Ok(None);
    }
    let (otlp, prometheus) = (otlp.clone(), prometheus.clone());
    let targets = Targets { otlp, prometheus, max_series: *max_series, query: None, version: None, recorded_boot_ns };
    let exporter = Exporter::begin(session, &targets)?;
    if let Some(address) = exporter.address() {
        anstream::eprintln!("Prometheus is answered at http://{address}/metrics");
    }
    Ok(Some(exporter))
}

/// Whether rows can go where the user wants them: bytes are not for a terminal.
fn check_output(arguments: &QueryArguments, format: Format, action: Action) -> Result<(), Error> {
    let problem = match (format, &arguments.output) {
        (Format::Parquet, None) => "--format parquet needs --output FILE",
        (Format::Arrow | Format::Pprof, None) if std::io::stdout().is_terminal() => {
            "--format arrow and pprof need --output FILE on a terminal"
        }
        (Format::Arrow | Format::Pprof | Format::FlameGraph, None) if action == Action::Analyze => {
            "EXPLAIN ANALYZE shows plans on standard output, so --format arrow, flame-graph and pprof need --output FILE"
        }
        (Format::Parquet | Format::Arrow | Format::Pprof | Format::FlameGraph, _) | (_, None) => return Ok(()),
        _ => "--output is for --format parquet, arrow, flame-graph and pprof",
    };
    Err(Error::InvalidInput(problem.to_owned()))
}

/// The file that rows are written into, if a format is one.
fn file_of_rows(
    session: &Session,
    arguments: &QueryArguments,
    format: Format,
) -> Result<Option<Box<dyn RowsFile>>, Error> {
    let (columns, path) = (session.columns(), arguments.output.as_deref());
    let kind = match (format, path) {
        (Format::Parquet, Some(path)) => return rows_file::parquet(path, &columns, session.windowed()).map(Some),
        (Format::Arrow, path) => return rows_file::arrow(path, &columns, session.windowed()).map(Some),
        (Format::FlameGraph, _) => stack_files::Kind::FlameGraph,
        (Format::Pprof, _) => stack_files::Kind::Pprof,
        _ => return Ok(None),
    };
    Ok(Some(stack_files::create(kind, &arguments.sql, path, &columns)))
}

/// How rows are printed: on a terminal as a table, elsewhere line by line, unless the user chose.
pub fn format_of_rows(format: Format) -> Format {
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
fn replayed(session: &Session, path: &Path, arguments: &QueryArguments, mut printer: Printer) -> Result<u8, Error> {
    let recording = Recording::open(session, path)?;
    let mut exporter = exporter(session, arguments, recording.boot_ns())?;
    let mut sink = |rows| match &mut exporter {
        Some(exporter) => {
            exporter.recorded(rows);
            true
        }
        None => printer.rows(rows),
    };
    let limits = Limits::default();
    let summary = match arguments.split {
        None => replay::run(session, recording, limits, &mut sink)?,
        Some(split) => {
            let settings = Settings { ring_bytes: arguments.ring_bytes, ..Settings::default() };
            replay::run_in_kernel(session, recording, split, &settings, limits, &mut sink)?
        }
    };
    let Some(exporter) = exporter else { return printer.finish(&summary, None) };
    let exported = exporter.finish(&summary);
    told_end(&summary);
    told_exported(&exported);
    Ok(0)
}

/// Ctrl-C ends the query, a second one the process.
pub fn interrupt() -> Result<Arc<AtomicBool>, Error> {
    interrupt_also(Arc::default())
}

/// Ctrl-C sets both `also` and what is returned, in this order; a second one ends the process.
fn interrupt_also(also: Arc<AtomicBool>) -> Result<Arc<AtomicBool>, Error> {
    const INTERRUPTED: i32 = 130;
    let interrupted = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&interrupted);
    let handler = move || {
        also.store(true, Ordering::SeqCst);
        if seen.swap(true, Ordering::SeqCst) {
            std::process::exit(INTERRUPTED);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Error::Unsupported(format!("Ctrl-C cannot be handled: {error}")))?;
    Ok(interrupted)
}

/// A command that is looked at, in a cgroup of its own; killed with the query.
struct Traced {
    // Before the cgroup, which is removed when nobody is in it.
    command: Option<Held>,
    _cgroup: Option<live::Scope>,
}

impl Traced {
    fn begin(command: &[String], session: &mut Session) -> Result<Traced, Error> {
        let Some((program, arguments)) = command.split_first() else {
            return Ok(Traced { command: None, _cgroup: None });
        };
        let scope = live::Scope::enter()?;
        session.only("cgroup_id", Value::Uint(scope.id()))?;
        let command = Held::begin(program, arguments)?;
        Ok(Traced { command: Some(command), _cgroup: Some(scope) })
    }

    /// Whether the command has ended. The first time it is asked, the programs are attached, and the command begins.
    fn is_over(&mut self) -> bool {
        self.command.as_mut().is_some_and(Held::is_over)
    }
}

/// What a plan is expected to take.
fn told_forecast(forecast: &Forecast) {
    let rates: Vec<String> = forecast.rates.iter().map(|rate| format!("{rate:.0}")).collect();
    let [least, most] = [forecast.parts.least, forecast.parts.most].map(|part| 100.0 * part);
    say!("{} events a second: {least:.2} to {most:.2} % of one processor are expected", rates.join(" and "));
}

fn explain(session: &Session, plan: &Plan, format: Format) -> Result<(), Error> {
    match format {
        Format::Json | Format::Ndjson => print::json(&plan.all_steps()),
        _ => {
            told_steps(&plan.all_steps(), None);
            if let Some(rest) = session.rest() {
                say!("the rest, in SQLite: {rest}");
            }
            Ok(())
        }
    }
}
