//! Results that leave the machine: an OTLP receiver that they are sent to, an endpoint where Prometheus reads them.
//!
//! ```text
//!   live --rows, status--> Exporter --queue--> thread --+-- otlp: POST to /v1/metrics or /v1/logs
//!                                                       +-- prometheus: totals, read at /metrics
//! ```
//!
//! Groups become metrics: keys are their attributes, aggregates their values. Other rows become log records. The reader of
//! the kernel's events never waits for a receiver: what the queue does not take is counted.

pub mod otlp;
pub mod prometheus;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kiln_plan::expr::Expr;
use kiln_plan::query::{AggregateFunction, Output, Shape};
use kiln_plan::{DataType, Row, Value};

use super::{Session, Summary, live};
use kiln_inspect::show::shown::Shown;
use kiln_program::Error;
use otlp::Otlp;
use prometheus::Endpoint;

/// Batches of rows that wait for a receiver.
const QUEUE: usize = 256;
/// Rows of one document.
const BATCH_ROWS: usize = 5000;

/// What a column of a result is to a collector of metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It names a series.
    Label,
    /// It counts what happened in a window, so windows can be added up.
    Counter,
    /// It is a number as of now.
    Gauge,
    /// It is a distribution of values in a window, so windows can be added up.
    Histogram,
}

/// The form of a result.
#[derive(Clone, Debug)]
pub struct Form {
    /// Its table, which names of metrics begin with.
    pub table: String,
    /// The names of columns, and what they are. Rows that are not groups have none of the latter.
    pub columns: Vec<(String, Option<Role>)>,
    /// The column that says when a row was complete.
    pub time: Option<usize>,
}

impl Form {
    /// The form of a query's result.
    pub fn of(session: &Session) -> Form {
        let outer = session.parsed.flow.last();
        let role = |output: &Output| match &outer.shape {
            Shape::Rows => None,
            Shape::Groups(groups) => Some(match output.expr {
                Expr::Column(at) if at >= groups.keys.len() => {
                    let aggregate = &groups.aggregates[at - groups.keys.len()];
                    match aggregate.function {
                        AggregateFunction::Count if !aggregate.distinct => Role::Counter,
                        AggregateFunction::Sum if !aggregate.distinct && output.data_type == DataType::Uint => {
                            Role::Counter
                        }
                        AggregateFunction::Histogram => Role::Histogram,
                        _ if output.data_type == DataType::Text => Role::Label,
                        _ => Role::Gauge,
                    }
                }
                ref expr => {
                    let mut columns = BTreeSet::new();
                    expr.columns(&mut columns);
                    let of_keys = columns.iter().all(|column| *column < groups.keys.len());
                    if of_keys || output.data_type == DataType::Text { Role::Label } else { Role::Gauge }
                }
            }),
        };
        let columns = outer.outputs.iter().map(|output| (output.name.clone(), role(output))).collect();
        let time = |name: &str| {
            outer.outputs.iter().position(|output| output.name == name && output.data_type == DataType::Time)
        };
        Form { table: session.query().table.name.clone(), columns, time: time("end_ts").or_else(|| time("ts")) }
    }

    /// Whether rows are groups, whose aggregates are metrics.
    pub fn is_metrics(&self) -> bool {
        self.columns.iter().any(|(_, role)| role.is_some_and(|role| role != Role::Label))
    }
}

/// Where results are sent.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// An OTLP receiver: `http://host:4318`.
    pub otlp: Option<String>,
    /// The address to answer Prometheus at: `127.0.0.1:9090`.
    pub prometheus: Option<String>,
    /// Maximum number of series that Prometheus is given.
    pub max_series: usize,
    /// The name under which a service has the query; OTLP receivers get it with each document.
    pub query: Option<Shown>,
}

enum Message {
    Rows(Vec<Row>),
    Status(Box<Summary>),
}

/// What became of the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Exported {
    /// Rows that were delivered to the OTLP receiver.
    pub delivered: u64,
    /// Rows that no receiver took, or that came while the queue was full.
    pub lost: u64,
    /// Series that Prometheus was not given because there were more than it may be given.
    pub dropped_series: u64,
    /// The last reason.
    pub reason: Option<Shown>,
}

/// Sends results from a thread of its own.
pub struct Exporter {
    queue: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<Exported>>,
    /// Whether the query is over, so that nobody waits for a receiver that has gone.
    is_over: Arc<AtomicBool>,
    /// Where Prometheus is answered.
    address: Option<std::net::SocketAddr>,
    lost: u64,
}

impl Exporter {
    /// Begins to send the results of a query.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] where no receiver answers, where an address cannot be listened at, and for a query whose
    /// rows are not metrics if Prometheus is to read them.
    pub fn begin(session: &Session, targets: &Targets) -> Result<Exporter, Error> {
        let form = Form::of(session);
        let otlp =
            targets.otlp.as_deref().map(|url| Otlp::connect(url, form.clone(), targets.query.clone())).transpose()?;
        if targets.prometheus.is_some() && !(form.is_metrics() && session.windowed()) {
            let message =
                "Prometheus reads aggregates of windows: add an aggregate and, for example, `WINDOW 10 SECONDS`";
            return Err(Error::InvalidInput(message.to_owned()));
        }
        let endpoint = targets.prometheus.as_deref();
        let endpoint = endpoint.map(|at| Endpoint::listen(at, form.clone(), targets.max_series)).transpose()?;
        let address = endpoint.as_ref().map(Endpoint::address);
        let (queue, messages) = sync_channel(QUEUE);
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || pass_on(&messages, &ends, otlp, endpoint));
        Ok(Exporter { queue: Some(queue), thread: Some(thread), is_over, address, lost: 0 })
    }

    /// Where Prometheus is answered, if it is.
    pub fn address(&self) -> Option<std::net::SocketAddr> {
        self.address
    }

    /// Sends rows.
    pub fn rows(&mut self, rows: Vec<Row>) {
        let count = rows.len() as u64;
        match self.queue.as_ref().map(|queue| queue.try_send(Message::Rows(rows))) {
            Some(Ok(())) => {}
            _ => self.lost += count,
        }
    }

    /// Returns a function that sends how the query goes. An older report that still waits is as good as a new one.
    pub fn status(&self) -> impl Fn(&Summary) + use<> {
        let queue = self.queue.clone();
        move |summary| {
            // A queue that is full has an older report, and a thread that has gone needs none.
            let _ = queue.as_ref().map(|queue| queue.try_send(Message::Status(Box::new(summary.clone()))));
        }
    }

    /// Sends what is left. All functions of [`Exporter::status`] must be gone.
    pub fn finish(mut self, summary: &Summary) -> Exported {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(queue) = self.queue.take() {
            // The last report is worth waiting for; it fails only if the thread is gone.
            let _ = queue.send(Message::Status(Box::new(summary.clone())));
        }
        let exported = self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        Exported { lost: exported.lost + self.lost, ..exported }
    }
}

fn pass_on(
    messages: &Receiver<Message>,
    is_over: &AtomicBool,
    mut otlp: Option<Otlp>,
    mut endpoint: Option<Endpoint>,
) -> Exported {
    let mut exported = Exported::default();
    while let Ok(message) = messages.recv() {
        let (mut rows, mut status) = (Vec::new(), None);
        let mut next = Some(message);
        while let Some(message) = next {
            match message {
                Message::Rows(mut more) => rows.append(&mut more),
                Message::Status(summary) => status = Some(summary),
            }
            next = if rows.len() < BATCH_ROWS { messages.try_recv().ok() } else { None };
        }
        if let Some(endpoint) = &mut endpoint {
            endpoint.add(&rows, status.as_deref());
        }
        if let Some(otlp) = &mut otlp {
            for rows in rows.chunks(BATCH_ROWS) {
                let refused = otlp.send(rows, is_over);
                let lost = refused.as_ref().map_or(0, |refused| refused.rows.min(rows.len() as u64));
                exported.delivered += rows.len() as u64 - lost;
                exported.lost += lost;
                exported.reason = refused.map(|refused| refused.reason.into()).or(exported.reason.take());
            }
        }
    }
    exported.dropped_series = endpoint.map_or(0, Endpoint::end);
    exported
}

/// Nanoseconds from the Unix epoch to the beginning of the monotonic clock. Asked for each batch, because somebody may set
/// the time.
fn boot_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    (now.as_nanos() as u64).saturating_sub(live::now_ns())
}

/// A name of metrics or labels: letters, digits and underlines, beginning with a letter.
fn identifier(text: &str) -> String {
    let mut name = String::new();
    for letter in text.chars() {
        match letter {
            letter if letter.is_ascii_alphanumeric() => name.push(letter.to_ascii_lowercase()),
            _ if name.ends_with('_') || name.is_empty() => {}
            _ => name.push('_'),
        }
    }
    let name = name.trim_end_matches('_');
    let begins_well = name.starts_with(|letter: char| letter.is_ascii_alphabetic());
    if begins_well { name.to_owned() } else { format!("column_{name}").trim_end_matches('_').to_owned() }
}

/// A label's value.
fn label(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Text(text) => text.to_string(),
        Value::Histogram(histogram) => histogram.to_string(),
    }
}
