//! The answer to a statement: rows that are there, or those of a query that runs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::time::Duration;

use kiln_live::{ColumnHead, Limits, Row, Session, Value, live};

use super::catalog;
use super::fault::Fault;
use crate::running::Reader;
use crate::service::Service;

/// How long rows are waited for until the client is looked at again.
const WAIT: Duration = Duration::from_millis(50);
/// How many times rows may come before the client takes the first of them.
const MAX_WAITING: usize = 4096;

/// What a statement answers.
pub enum Answer {
    /// These words alone.
    Tag(&'static str),
    /// Rows.
    Rows(Rows),
}

/// Rows of an answer.
pub struct Rows {
    /// Their columns.
    pub columns: Vec<ColumnHead>,
    waiting: VecDeque<Vec<Value>>,
    query: Option<Following>,
    lost: u64,
    given: u64,
    tag: &'static str,
}

/// What comes next of an answer.
pub enum Next {
    /// A row.
    Row(Vec<Value>),
    /// Nothing yet.
    Nothing,
    /// No more; so many rows were lost.
    End(u64),
}

/// A query of the service that runs for this answer; it is stopped when this is dropped.
struct Following {
    service: Arc<Service>,
    name: String,
    rows: Receiver<Vec<Row>>,
    /// How many rows wait in it.
    waiting: Arc<AtomicUsize>,
    /// Rows that the client was too slow for.
    dropped: Arc<AtomicU64>,
}

impl Drop for Following {
    fn drop(&mut self) {
        // It may have been stopped by its name already.
        let _ = self.service.stop(&self.name);
    }
}

impl Following {
    fn begin(
        service: &Arc<Service>,
        sql: &str,
        session: Session,
        duration: Option<Duration>,
    ) -> Result<Following, Fault> {
        let (sender, rows) = sync_channel::<Vec<Row>>(MAX_WAITING);
        let (waiting, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
        let (own_waiting, own_dropped) = (Arc::clone(&waiting), Arc::clone(&dropped));
        let most = service.rows_of_query();
        let take = move |rows: Vec<Row>| {
            let count = rows.len();
            let fits = own_waiting.load(Ordering::SeqCst) + count <= most;
            own_waiting.fetch_add(count, Ordering::SeqCst);
            if !fits || sender.try_send(rows).is_err() {
                own_waiting.fetch_sub(count, Ordering::SeqCst);
                own_dropped.fetch_add(count as u64, Ordering::SeqCst);
            }
            true
        };
        let name = service.follow(sql, session, Reader { rows: Box::new(take), duration })?;
        Ok(Following { service: Arc::clone(service), name, rows, waiting, dropped })
    }

    /// How the query ended: what it lost, or why it failed.
    fn end(&self) -> Result<u64, Fault> {
        let dropped = self.dropped.load(Ordering::SeqCst);
        let Ok(document) = self.service.stop(&self.name) else {
            return Err(Fault::new("57014", "the query was stopped by `kiln serve stop`"));
        };
        let reason = document["reason"].as_str();
        match (document["state"].as_str(), reason) {
            (Some("refused"), Some(reason)) => Err(Fault::new("53400", reason)),
            (Some("failed"), Some(reason)) => Err(Fault::new("58000", reason)),
            _ => Ok(dropped + document["lost"].as_u64().unwrap_or_default()),
        }
    }
}

impl Rows {
    /// Waits for rows, for a short time.
    pub fn wait(&mut self) {
        let Some(query) = &self.query else { return };
        match query.rows.recv_timeout(WAIT) {
            Ok(rows) => self.take(rows),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }

    fn take(&mut self, rows: Vec<Row>) {
        if let Some(query) = &self.query {
            query.waiting.fetch_sub(rows.len(), Ordering::SeqCst);
        }
        self.waiting.extend(rows.into_iter().map(|row| row.values));
    }

    /// The next row, if it is there.
    ///
    /// # Errors
    /// Returns why the query failed.
    pub fn next(&mut self) -> Result<Next, Fault> {
        loop {
            if let Some(row) = self.waiting.pop_front() {
                self.given += 1;
                return Ok(Next::Row(row));
            }
            let Some(query) = &self.query else { return Ok(Next::End(self.lost)) };
            match query.rows.try_recv() {
                Ok(rows) => self.take(rows),
                Err(TryRecvError::Empty) => return Ok(Next::Nothing),
                Err(TryRecvError::Disconnected) => {
                    self.lost = query.end()?;
                    self.query = None;
                }
            }
        }
    }

    /// What is said after the last row.
    pub fn tag(&self) -> String {
        if self.tag == "SELECT" { format!("SELECT {}", self.given) } else { self.tag.to_owned() }
    }
}

impl Answer {
    /// Rows that are there.
    pub fn constant(columns: Vec<ColumnHead>, rows: Vec<Vec<Value>>, tag: &'static str) -> Answer {
        Answer::Rows(Rows { columns, waiting: rows.into(), query: None, lost: 0, given: 0, tag })
    }
}

/// Reads a query of a client; catalogs are tables for it.
fn read(sql: &str) -> Result<Session, Fault> {
    let session = match catalog::rewritten(sql) {
        Some(own) => Session::read(&own, catalog::lookups()).map_err(|error| Fault { at: None, ..error.into() }),
        None => Session::read(sql, Vec::new()).map_err(Fault::from),
    }?;
    if session.parsed.action != kiln_live::Action::Run {
        return Err(Fault::new("0A000", "only queries that give rows are answered here").hint("`kiln query` explains"));
    }
    Ok(session)
}

/// The columns of a query's answer.
///
/// # Errors
/// Returns what is wrong with the query.
pub fn described(sql: &str) -> Result<Vec<ColumnHead>, Fault> {
    Ok(read(sql)?.columns())
}

/// Begins to answer a query. One of events runs until the client ends it, it has all its rows, or its time is over; any
/// other one is answered here, unless `cancelled` is set.
///
/// # Errors
/// Returns what is wrong with the query, or which limit keeps it from running.
pub fn answer(
    service: &Arc<Service>,
    sql: &str,
    duration: Option<Duration>,
    cancelled: &Arc<AtomicBool>,
) -> Result<Answer, Fault> {
    let session = read(sql)?;
    let columns = session.columns();
    if session.scans().is_empty() {
        let answer = at_once(&session, service.rows_of_query(), cancelled);
        let (rows, lost) =
            answer.map_err(|fault| if cancelled.load(Ordering::SeqCst) { Fault::cancelled() } else { fault })?;
        return Ok(Answer::Rows(Rows { columns, waiting: rows.into(), query: None, lost, given: 0, tag: "SELECT" }));
    }
    let query = Following::begin(service, sql, session, duration).map_err(|fault| {
        let is_of_end = fault.message.contains("has an answer at its end only");
        if is_of_end { fault.hint("or say how long it runs: SET kiln.duration = '5s'") } else { fault }
    })?;
    Ok(Answer::Rows(Rows { columns, waiting: VecDeque::new(), query: Some(query), lost: 0, given: 0, tag: "SELECT" }))
}

/// The rows of a query of lookup tables alone, and how many more there are.
fn at_once(session: &Session, most: usize, cancelled: &Arc<AtomicBool>) -> Result<(Vec<Vec<Value>>, u64), Fault> {
    let plan = kiln_live::plan::plan(session, &kiln_live::Settings::default(), None)?;
    let watch = live::Watch {
        duration: Some(Duration::ZERO),
        stop: &|| false,
        interrupt: Arc::clone(cancelled),
        limits: Limits { rows: most, ..Limits::default() },
        measure: false,
        max_overhead: None,
        status: None,
    };
    let mut all = Vec::new();
    let mut sink = |rows: Vec<Row>| {
        all.extend(rows.into_iter().map(|row| row.values));
        true
    };
    let summary = live::run(session, plan, &watch, &mut |_, _| {}, &mut sink)?;
    Ok((all, summary.lost_in_all()))
}
