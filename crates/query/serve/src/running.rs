//! One query of a service: a thread that runs it, and what readers see of it.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kiln_plan::Query;
use kiln_plan::execute::Limits;
use kiln_plan::flow::When;
use kiln_plan::query::Shape;
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::kept::Kept;
use crate::shared::{locked, percent};
use crate::version::{Earlier, Withdrawn};
use kiln_inspect::show::shown::Shown;
use kiln_live::export::{Exported, Exporter, Form, Role, Targets};
use kiln_live::plan::{Plan, plan};
use kiln_live::{Row, Session, Settings, Summary, live};
use kiln_program::Error;

/// The shortest time of which a share is known, in nanoseconds.
const SHARE_INTERVAL_NS: u64 = 100_000_000;
/// How long the last answer of a query that was stopped may take.
const LAST_ANSWER: Duration = Duration::from_secs(1);
/// How often it is looked whether it is there.
const LOOK: Duration = Duration::from_millis(5);

/// What a query is, and what it may take.
#[derive(Clone, Debug, Serialize)]
pub struct Spec {
    /// Its name.
    pub name: Shown,
    /// The query.
    pub sql: Shown,
    /// The part of one processor's time that its programs may take.
    pub max_overhead: f64,
    /// How many rows it keeps.
    pub rows: usize,
    /// Bytes of its ring buffer.
    pub ring_bytes: u32,
    /// Where its rows are sent.
    pub otlp: Option<Shown>,
    /// Its version, from 1; 0 for a reader's query, which has none.
    pub version: u64,
    /// What runs again if this version is withdrawn.
    pub earlier: Option<Earlier>,
    /// The version that was withdrawn for this one.
    pub withdrawn: Option<Withdrawn>,
}

impl Spec {
    /// The latest version that there has been.
    pub fn latest(&self) -> u64 {
        self.withdrawn.as_ref().map_or(self.version, |withdrawn| withdrawn.version.max(self.version))
    }
}

/// How a query is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its programs are attached.
    Running,
    /// It is over: it was stopped, or it has all rows that it asked for.
    Ended,
    /// It was ended because it took more than it may.
    Refused,
    /// It failed.
    Failed,
}

/// What changes while it runs.
struct Progress {
    state: State,
    reason: Option<Shown>,
    summary: Summary,
    /// The part of one processor that its programs took over the last interval.
    share: f64,
    kept: Kept,
    exported: Option<Exported>,
}

/// Who reads a query's rows as they come.
pub struct Reader {
    /// Takes rows; returns whether more are wanted. It must not wait: the kernel's events wait meanwhile.
    pub rows: Box<dyn FnMut(Vec<Row>) -> bool + Send>,
    /// How long the query runs; `None` until it is stopped.
    pub duration: Option<Duration>,
}

/// Is told how a query begins.
type Begun = SyncSender<Result<(), Error>>;

/// Bytes of groups for each row that a query may keep.
const GROUP_BYTES: usize = 4096;

/// What a query keeps in user space that may keep so many rows.
fn limits(rows: usize) -> Limits {
    let most = Limits::default();
    Limits { starts: rows, groups: rows, bytes: rows.saturating_mul(GROUP_BYTES).min(most.bytes), rows, ..most }
}

/// Whether a query's rows are known at its end only. One that is installed shows its groups when it is stopped; `for_reader`,
/// that is never.
fn answers_at_end(session: &Session, for_reader: bool) -> bool {
    let flow = &session.parsed.flow;
    let of_engine = flow.engine().is_some_and(|engine| engine.when == When::End && !engine.inputs.is_empty());
    let waits = |query: &Query| match &query.shape {
        Shape::Groups(groups) => groups.window.is_none() && groups.session_ns.is_none(),
        Shape::Rows => !query.order.is_empty(),
    };
    let mut queries = flow.scans().into_iter().chain(&flow.stages);
    of_engine || for_reader && queries.any(|query| !query.of_windows && waits(query))
}

/// A query that was installed.
pub struct Running {
    spec: Spec,
    /// Name and type of each column; of groups also whether it is a measure of them, and not a key.
    columns: Vec<Json>,
    windowed: bool,
    /// When it was asked to end.
    stopped: OnceLock<Instant>,
    /// Ends the answer that the SQL engine is computing.
    interrupt: Arc<AtomicBool>,
    is_told: AtomicBool,
    progress: Mutex<Progress>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Running {
    /// Plans a query and begins to run it in a thread of its own. Returns when its programs are attached.
    ///
    /// # Errors
    /// What reading it, planning it, loading it and reaching its receiver return.
    pub fn begin(spec: Spec) -> Result<Arc<Running>, Error> {
        let session = Session::new(spec.sql.exact())?;
        Running::begin_for(spec, session, None)
    }

    /// Begins a query as [`Running::begin`] does, and gives its rows to a reader, if there is one, instead of keeping them.
    ///
    /// # Errors
    /// As [`Running::begin`].
    pub fn begin_for(spec: Spec, mut session: Session, reader: Option<Reader>) -> Result<Arc<Running>, Error> {
        session.model = kiln_live::model::model()?;
        if session.parsed.action != kiln_live::Action::Run {
            return Err(Error::InvalidInput(
                "only queries that give rows can be installed; `kiln query` explains".into(),
            ));
        }
        let duration = reader.as_ref().and_then(|reader| reader.duration);
        if duration.is_none() && answers_at_end(&session, reader.is_some()) {
            let message =
                "this query has an answer at its end only, and a query of a service has none; add WINDOW 10 SECONDS";
            return Err(Error::InvalidInput(message.to_owned()));
        }
        let groups = spec.rows.clamp(1, 1 << 20) as u32;
        let settings = Settings {
            except_pid: Some(std::process::id()),
            ring_bytes: spec.ring_bytes,
            wake_bytes: spec.ring_bytes / 4,
            max_groups: groups,
            max_starts: groups,
            ..Settings::default()
        };
        let plan = plan(&session, &settings, None)?;
        let targets = Targets {
            otlp: spec.otlp.as_ref().map(|url| url.exact().to_owned()),
            query: Some(spec.name.clone()),
            version: Some(spec.version),
            ..Targets::default()
        };
        let exporter = if targets.otlp.is_some() { Some(Exporter::begin(&session, &targets)?) } else { None };
        let progress = Progress {
            state: State::Running,
            reason: None,
            summary: Summary::default(),
            share: 0.0,
            kept: Kept::new(spec.rows),
            exported: None,
        };
        let running = Arc::new(Running {
            columns: columns(&session),
            windowed: session.windowed(),
            spec,
            stopped: OnceLock::new(),
            interrupt: Arc::default(),
            is_told: AtomicBool::new(false),
            progress: Mutex::new(progress),
            thread: Mutex::new(None),
        });
        let (begun, begins) = sync_channel(1);
        let own = Arc::clone(&running);
        let thread = std::thread::Builder::new().name("kiln-query".into()).stack_size(kiln_sql::STACK_BYTES);
        let thread = thread.spawn(move || own.run(&session, plan, (exporter, reader), &begun));
        let thread = thread.map_err(|error| Error::machine("a thread for the query", &error, ""))?;
        *locked(&running.thread) = Some(thread);
        match begins.recv() {
            Ok(Ok(())) => Ok(running),
            Ok(Err(error)) => {
                running.join();
                Err(error)
            }
            Err(_) => {
                running.join();
                match locked(&running.progress).reason.clone() {
                    Some(reason) => Err(Error::Unsupported(format!("the query ended at once: {}", reason.exact()))),
                    // It has all its rows: none, after LIMIT 0.
                    None => Ok(Arc::clone(&running)),
                }
            }
        }
    }

    /// Runs the query; the thread's body. Whatever happens here ends this query alone.
    fn run(&self, session: &Session, plan: Plan, to: (Option<Exporter>, Option<Reader>), begun: &Begun) {
        let ran = catch_unwind(AssertUnwindSafe(|| self.live(session, plan, to, begun)));
        let mut progress = locked(&self.progress);
        progress.share = 0.0;
        let (state, reason) = match ran {
            Ok(Ok(())) => (State::Ended, None),
            // Its last answer was interrupted. A reader, who asked for no more, is not told.
            Ok(Err(error)) if self.stopped.get().is_some() => {
                (State::Ended, (self.spec.version > 0).then(|| error.to_string().into()))
            }
            Ok(Err(error)) => {
                // The one who installs it gets the error, unless that was long ago.
                let _ = begun.try_send(Err(error.clone()));
                let state = if matches!(error, Error::Limit(_)) { State::Refused } else { State::Failed };
                (state, Some(error.to_string().into()))
            }
            Err(_) => (State::Failed, Some("a bug in kiln ended it; the service's log has the place".into())),
        };
        if progress.state == State::Running {
            progress.state = state;
            progress.reason = reason;
        }
    }

    fn live(
        &self,
        session: &Session,
        plan: Plan,
        (mut exporter, mut reader): (Option<Exporter>, Option<Reader>),
        begun: &Begun,
    ) -> Result<(), Error> {
        let send_status = exporter.as_ref().map(Exporter::status);
        let is_first = Cell::new(true);
        let status = |summary: &Summary| {
            locked(&self.progress).report(summary);
            if let Some(send) = &send_status {
                send(summary);
            }
            if is_first.replace(false) {
                // It was attached; the one who waits for this cannot have gone.
                let _ = begun.send(Ok(()));
            }
        };
        let rows = self.spec.rows;
        let is_kept = reader.is_none();
        let stop = || {
            let stopped = self.stopped.get().is_some();
            if stopped && is_kept {
                // No answer was interrupted, and the last one is kept if it is soon there.
                self.interrupt.store(false, Ordering::SeqCst);
            }
            stopped
        };
        let watch = live::Watch {
            duration: reader.as_ref().and_then(|reader| reader.duration),
            stop: &stop,
            interrupt: Arc::clone(&self.interrupt),
            limits: limits(rows),
            measure: true,
            max_overhead: Some(self.spec.max_overhead),
            status: Some(&status),
        };
        let mut sink = |rows: Vec<Row>| {
            match (&mut reader, &mut exporter) {
                (Some(reader), _) => return (reader.rows)(rows),
                (None, exporter) => {
                    locked(&self.progress).kept.add(&rows);
                    if let Some(exporter) = exporter {
                        exporter.rows(rows);
                    }
                }
            }
            true
        };
        let ran = live::run(session, plan, &watch, &mut |_, _| {}, &mut sink);
        drop(send_status);
        if let Ok(summary) = &ran {
            locked(&self.progress).summary = summary.clone();
        }
        let last = locked(&self.progress).summary.clone();
        let exported = exporter.map(|exporter| exporter.finish(&last));
        locked(&self.progress).exported = exported;
        match ran?.over_budget {
            Some(taken) => Err(Error::Limit(format!(
                "its programs took {} of one processor, and may take {} (--max-overhead)",
                percent(taken),
                percent(self.spec.max_overhead)
            ))),
            None => Ok(()),
        }
    }

    /// What it is, and what it may take.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// How it is.
    pub fn state(&self) -> State {
        locked(&self.progress).state
    }

    /// Why it ended, if it did not end by itself.
    pub fn reason(&self) -> Option<Shown> {
        locked(&self.progress).reason.clone()
    }

    /// The part of one processor that its programs took over the last interval.
    pub fn share(&self) -> f64 {
        locked(&self.progress).share
    }

    /// Asks it to end.
    pub fn stop(&self) {
        self.interrupt.store(true, Ordering::SeqCst);
        self.stopped.get_or_init(Instant::now);
    }

    /// Asks it to end, for a reason.
    pub fn end(&self, state: State, reason: String) {
        let mut progress = locked(&self.progress);
        if progress.state == State::Running {
            (progress.state, progress.reason, progress.share) = (state, Some(reason.into()), 0.0);
        }
        drop(progress);
        self.stop();
    }

    /// How it ended, the first time that this is asked after it did.
    pub fn news(&self) -> Option<Shown> {
        let progress = locked(&self.progress);
        let is_news = progress.state != State::Running && !self.is_told.swap(true, Ordering::SeqCst);
        let reason = progress.reason.as_ref().map_or("it has all its rows", Shown::exact);
        is_news.then(|| format!("query `{}` ended: {reason}", self.spec.name.exact()).into())
    }

    /// Waits until it has ended; for the last answer of one that was stopped, only [`LAST_ANSWER`].
    pub fn join(&self) {
        let Some(thread) = locked(&self.thread).take() else { return };
        if let Some(stopped) = self.stopped.get() {
            while !thread.is_finished() && stopped.elapsed() < LAST_ANSWER {
                std::thread::sleep(LOOK);
            }
            self.interrupt.store(true, Ordering::SeqCst);
        }
        // A panic was caught and is its reason.
        thread.join().ok();
    }

    /// What readers see, with the windows after a number.
    pub fn document(&self, after: Option<u64>) -> Json {
        let progress = locked(&self.progress);
        let mut document = json!({
            "query": self.spec,
            "columns": self.columns,
            "windowed": self.windowed,
            "state": progress.state,
            "reason": progress.reason,
            "summary": progress.summary,
            "share": progress.share,
            "lost": progress.summary.lost_in_all(),
            "kept_rows": progress.kept.rows(),
            "cut_rows": progress.kept.cut(),
            "last_window": progress.kept.last(),
            "exported": progress.exported,
        });
        if let Some(after) = after {
            document["windows"] = progress.kept.after(after).into();
        }
        document
    }
}

fn columns(session: &Session) -> Vec<Json> {
    let roles = Form::of(session).columns.into_iter().map(|(_, role)| role.map(|role| role != Role::Label));
    let heads = session.columns().into_iter().zip(roles);
    heads.map(|(head, measure)| json!({"name": head.name, "type": head.data_type, "measure": measure})).collect()
}

impl Progress {
    /// Takes how it goes; the share is of the time since the last report.
    fn report(&mut self, summary: &Summary) {
        let before = &self.summary;
        let elapsed = summary.elapsed_ns.saturating_sub(before.elapsed_ns);
        let of = |summary: &Summary| summary.program_ns.unwrap_or_default();
        let taken = of(summary).saturating_sub(of(before)) as f64;
        // The first report comes at once, when a share says nothing.
        if self.state == State::Running && elapsed >= SHARE_INTERVAL_NS {
            self.share = taken / elapsed as f64;
        }
        self.summary = summary.clone();
    }
}
