//! What Prometheus reads: the counters of a server in its text format, and the endpoint for them.
//!
//! ```text
//!   GET /metrics  ->  # TYPE kiln_kv_items gauge
//!                     kiln_kv_items 3
//! ```
//!
//! The endpoint answers one request at a time and gives each a short time, so a client that is slow holds up only other readers of
//! metrics.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::protocol::Service;

/// The longest head of a request.
const HEAD_MOST: usize = 8 << 10;
/// How long a client may take for its request, and again for the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How soon the endpoint notices that it is to stop.
const NOTICED: Duration = Duration::from_millis(100);

/// The counters of a service in Prometheus' text format, version 0.0.4.
pub fn text(service: &Service<'_>) -> String {
    let (store, own, programs) = (&service.store, &service.statistics, service.store.counters());
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let rows = [
        ("items", "gauge", "Keys in the store.", store.items()),
        ("bytes", "gauge", "Bytes of all items.", store.bytes()),
        ("limit_bytes", "gauge", "Bytes from which on items are evicted.", store.most_bytes()),
        ("evictions_total", "counter", "Items that were evicted.", store.evicted()),
        ("connections", "gauge", "Connections now.", of(&own.connections)),
        ("connections_total", "counter", "Connections since the beginning.", of(&own.all_connections)),
        ("client_bytes", "gauge", "Bytes of memory that clients' requests and replies take.", of(&own.client_bytes)),
        (
            "client_limit_bytes",
            "gauge",
            "Bytes from which on the client that takes most is closed.",
            service.most_client_bytes,
        ),
        ("clients_shed_total", "counter", "Connections closed because all took too much memory.", of(&own.shed)),
        ("commands_total", "counter", "Commands of Redis' protocol.", of(&own.commands)),
        ("gets_total", "counter", "Keys that the server was asked for.", of(&own.gets)),
        ("hits_total", "counter", "Keys that the server was asked for and had.", of(&own.hits)),
        ("sets_total", "counter", "Values that the server stored or refused.", of(&own.sets)),
        ("deletes_total", "counter", "Keys deleted by memcached's protocol, or not there.", of(&own.deletes)),
        ("xdp_gets_total", "counter", "Keys that the program in XDP was asked for.", programs.gets),
        ("xdp_hits_total", "counter", "Keys that the program in XDP was asked for and had.", programs.hits),
        ("xdp_sets_total", "counter", "Values that the program in XDP stored.", programs.sets),
        ("xdp_passed_total", "counter", "Requests that the program in XDP left to the server.", programs.passed),
        ("received_bytes_total", "counter", "Bytes that clients sent to the server.", of(&own.received)),
        ("sent_bytes_total", "counter", "Bytes that the server sent to clients.", of(&own.sent)),
        ("uptime_seconds", "gauge", "Seconds since the server began.", service.begun.elapsed().as_secs()),
    ];
    let journal = store.journal();
    let log = journal.map(|journal| {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let failing = u64::from(journal.failure().is_some());
        [
            ("log_bytes", "gauge", "Bytes of the log's files.", journal.files.bytes()),
            ("log_rewrites_total", "counter", "Rewrites of the log.", of(&journal.files.rewrites)),
            ("log_failing", "gauge", "1 while the log cannot be written, and changes are refused.", failing),
        ]
    });
    rows.iter().chain(log.iter().flatten()).fold(String::new(), |mut text, (name, kind, help, value)| {
        let _ = write!(text, "# HELP kiln_kv_{name} {help}\n# TYPE kiln_kv_{name} {kind}\nkiln_kv_{name} {value}\n");
        text
    })
}

/// Answers readers of metrics until `stop` is set.
///
/// # Errors
/// Returns an error if the listener cannot be waited for.
pub fn run(listener: &TcpListener, service: &Service<'_>, stop: &AtomicBool) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(8));
    poll.registry().register(&mut SourceFd(&listener.as_raw_fd()), Token(0), Interest::READABLE)?;
    while !stop.load(Ordering::SeqCst) {
        match poll.poll(&mut events, Some(NOTICED)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        while !stop.load(Ordering::SeqCst) {
            match listener.accept() {
                // A client that goes, or takes too long, has no answer.
                Ok((stream, _)) => drop(answer(stream, service)),
                Err(_) => break,
            }
        }
    }
    Ok(())
}

/// Reads one request and answers it.
fn answer(mut stream: TcpStream, service: &Service<'_>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = head(&mut stream)?;
    let mut words = head.split(|byte| *byte == b' ');
    let (method, url) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = url.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (status, body) = match (method, path) {
        (b"GET", b"/metrics") => ("200 OK", text(service)),
        (b"GET", _) => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET is answered\n".to_owned()),
    };
    let bytes = body.len();
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat())
}

/// Reads up to the empty line that ends the head of a request.
fn head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (begun, mut head, mut part) = (Instant::now(), Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = PATIENCE.checked_sub(begun.elapsed()).filter(|left| !left.is_zero());
        stream.set_read_timeout(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
        let count = stream.read(&mut part)?;
        if count == 0 || head.len() + count > HEAD_MOST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.extend_from_slice(&part[..count]);
    }
    Ok(head)
}
