//! Results that leave the machine: an OTLP receiver that they are sent to, an endpoint where Prometheus reads them.
//!
//! ```text
//!   live --rows, status--> Exporter --queue--> thread --+-- otlp: POST to /v1/metrics or /v1/logs
//!                                                       +-- prometheus: totals, read at /metrics
//! ```
//!
//! Groups become metrics: keys are their attributes, aggregates their values. Other rows become log records. The reader of
//! the kernel's events never waits for a receiver: what the queue does not take is counted.

mod form;
pub mod otlp;
pub mod prometheus;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use kiln_plan::Row;

use crate::session::{Session, Summary};
pub use form::{Form, Role};
use kiln_inspect::show::shown::Shown;
use kiln_program::Error;
use otlp::Otlp;
use prometheus::Endpoint;

/// Batches of rows that wait for a receiver.
const QUEUE: usize = 256;
/// Rows of one document.
const BATCH_ROWS: usize = 5000;

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
    /// Its version there, likewise.
    pub version: Option<u64>,
    /// When the machine of a recording had begun to count, in nanoseconds since the Unix epoch; `None` for this machine's
    /// events.
    pub recorded_boot_ns: Option<u64>,
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
        let otlp = targets.otlp.as_deref().map(|url| Otlp::connect(url, form.clone(), targets)).transpose()?;
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

    /// Sends rows of a recording, which can wait.
    pub fn recorded(&mut self, rows: Vec<Row>) {
        self.put(rows, |queue, rows| queue.send(rows).is_ok());
    }

    /// Sends rows. The kernel does not wait: what finds no room is lost.
    pub fn rows(&mut self, rows: Vec<Row>) {
        self.put(rows, |queue, rows| queue.try_send(rows).is_ok());
    }

    fn put(&mut self, rows: Vec<Row>, sends: impl FnOnce(&SyncSender<Message>, Message) -> bool) {
        let count = rows.len() as u64;
        if !self.queue.as_ref().is_some_and(|queue| sends(queue, Message::Rows(rows))) {
            self.lost += count;
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
