//! A small HTTP server for readers of this machine: one request and one answer a connection.
//!
//! ```text
//!   accept --> a thread each --> head, body (a time for both) --> answer --> closed
//! ```
//!
//! There are at most [`MAX_CONNECTIONS`]. A further one takes the place of the one that has waited longest for its request to
//! arrive or its answer to be read, so that idle connections keep nobody away, and an answer that is being made is never
//! interrupted. Heads are parsed by `httparse`. Connections of [`Listener::Tls`] are encrypted; the handshake is part of the
//! time for a request.

mod stream;

use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub use stream::Listener;
use stream::{Channel, Stream};

/// Connections that are open at the same time.
pub const MAX_CONNECTIONS: usize = 64;
/// How long a request may take to arrive, and an answer to be read.
const REQUEST_TIME: Duration = Duration::from_secs(10);
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// How long what the reader still sends is thrown away after the answer: closing before would take the answer from it.
const LINGER_TIME: Duration = Duration::from_millis(500);
/// How long to wait before accepting again after it failed, such as for want of descriptors.
const AGAIN: Duration = Duration::from_millis(200);
/// Maximum length of a request's head, in bytes, and maximum number of its headers.
const MAX_HEAD: usize = 16 << 10;
const MAX_HEADERS: usize = 64;

/// A request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `GET`, `PUT` or another.
    pub method: String,
    /// Its path and question.
    pub url: String,
    /// Its headers, in order.
    pub headers: Vec<(String, String)>,
    /// Its body; nothing where none is read.
    pub body: Vec<u8>,
}

impl Request {
    /// The value of a header, by its name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP's status.
    pub status: u16,
    /// What the body is.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

/// What answers requests, in any number of threads.
pub trait Handler: Send + Sync + 'static {
    /// Headers of every answer.
    const HEADERS: &'static [(&'static str, &'static str)] = &[];

    /// Bytes that a body may have; a request with more is answered by [`Handler::refused`]. `None`: bodies are not read.
    fn max_body(&self) -> Option<usize> {
        None
    }

    /// Answers a request.
    fn answer(&self, request: &Request) -> Answer;

    /// Answers a request whose body is too long, or whose head is malformed or too long (`status`).
    fn refused(&self, status: u16, why: &str) -> Answer;
}

/// Open connections, the oldest first.
#[derive(Default)]
struct Open {
    connections: Mutex<VecDeque<Connection>>,
    /// Told when an answer has been made, or a connection was closed.
    changed: Condvar,
}

struct Connection {
    number: u64,
    stream: Stream,
    /// Whether its answer is being made.
    is_busy: bool,
}

impl Open {
    fn connections(&self) -> MutexGuard<'_, VecDeque<Connection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for a connection and keeps it. Waits while the answers of all others are being made.
    fn add(&self, connection: Connection) {
        let mut connections = self.connections();
        while connections.len() >= MAX_CONNECTIONS {
            if let Some(at) = connections.iter().position(|other| !other.is_busy) {
                connections.remove(at).into_iter().for_each(|other| other.stream.shut(Shutdown::Both));
            } else {
                connections = self.changed.wait(connections).unwrap_or_else(PoisonError::into_inner);
            }
        }
        connections.push_back(connection);
    }

    fn set_busy(&self, number: u64, is_busy: bool) {
        self.connections().iter_mut().filter(|own| own.number == number).for_each(|own| own.is_busy = is_busy);
        self.changed.notify_all();
    }

    fn remove(&self, number: u64) {
        self.connections().retain(|own| own.number != number);
        self.changed.notify_all();
    }

    fn shut_all(&self) {
        self.connections().iter().for_each(|own| own.stream.shut(Shutdown::Both));
    }
}

/// A server that answers until it is dropped.
pub struct Server {
    listener: Arc<Listener>,
    open: Arc<Open>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Answers from threads of its own.
    pub fn begin<H: Handler>(listener: Listener, handler: H) -> Server {
        let (listener, handler) = (Arc::new(listener), Arc::new(handler));
        let (open, is_over) = (Arc::new(Open::default()), Arc::new(AtomicBool::new(false)));
        let own = (Arc::clone(&listener), Arc::clone(&open), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || accept(&own.0, &own.1, &own.2, &handler));
        Server { listener, open, is_over, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.listener.shut();
        self.open.shut_all();
        // It has nothing to say but that it ended.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn accept<H: Handler>(listener: &Listener, open: &Arc<Open>, is_over: &AtomicBool, handler: &Arc<H>) {
    let mut number = 0;
    while !is_over.load(Ordering::SeqCst) {
        let accepted = listener.accept().and_then(|stream| Ok((stream.try_clone()?, listener.channel(stream)?)));
        let Ok((stream, mut own)) = accepted else {
            if !is_over.load(Ordering::SeqCst) {
                std::thread::sleep(AGAIN);
            }
            continue;
        };
        number += 1;
        open.add(Connection { number, stream, is_busy: false });
        let (shared, handler, number) = (Arc::clone(open), Arc::clone(handler), number);
        let thread = std::thread::Builder::new().stack_size(kiln_sql::STACK_BYTES).spawn(move || {
            // A reader that has gone away is no concern of the others.
            let _ = serve(&mut own, &*handler, |is_busy| shared.set_busy(number, is_busy));
            shared.remove(number);
        });
        // Where there are no threads left, the reader finds the connection closed.
        if thread.is_err() {
            open.remove(number);
        }
    }
}

/// Reads a request and answers it.
fn serve<H: Handler>(stream: &mut Channel, handler: &H, busy: impl Fn(bool)) -> io::Result<()> {
    let request = read(stream, handler.max_body(), Instant::now() + REQUEST_TIME)?;
    busy(true);
    let (answer, is_head) = match &request {
        Ok(request) => (handler.answer(request), request.method == "HEAD"),
        Err((status, why)) => (handler.refused(*status, why), false),
    };
    busy(false);
    let mut head = format!("HTTP/1.1 {} {}\r\nConnection: close\r\n", answer.status, phrase(answer.status));
    let length = answer.body.len().to_string();
    let own = [("Content-Type", answer.content_type), ("Content-Length", &length)];
    own.iter().chain(H::HEADERS).for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    let end = Instant::now() + ANSWER_TIME;
    stream.write_before((head + "\r\n").as_bytes(), end)?;
    stream.write_before(if is_head { b"" } else { answer.body.as_bytes() }, end)?;
    stream.end();
    let (end, mut rest) = (Instant::now() + LINGER_TIME, [0; 4096]);
    while stream.read_before(&mut rest, end)? > 0 {}
    Ok(())
}

/// Reads a request; or says with which status and why it is refused.
fn read(stream: &mut Channel, max_body: Option<usize>, end: Instant) -> io::Result<Result<Request, (u16, String)>> {
    let mut bytes = Vec::new();
    let mut some = [0; 4096];
    let (mut request, length) = loop {
        let count = stream.read_before(&mut some, end)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&some[..count]);
        match head(&bytes) {
            Err(why) => return Ok(Err((400, why))),
            Ok(Some(parsed)) => break parsed,
            Ok(None) if bytes.len() > MAX_HEAD => return Ok(Err((431, "the request's head is too long".to_owned()))),
            Ok(None) => {}
        }
    };
    let Some(max_body) = max_body else { return Ok(Ok(request)) };
    let Some(wanted) = body_bytes(&request) else {
        return Ok(Err((411, "a body needs its length (Content-Length)".to_owned())));
    };
    if wanted > max_body {
        return Ok(Err((413, format!("a body has up to {max_body} bytes"))));
    }
    let mut body = bytes.split_off(length);
    while body.len() < wanted {
        match stream.read_before(&mut some, end)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => body.extend_from_slice(&some[..count]),
        }
    }
    body.truncate(wanted);
    request.body = body;
    Ok(Ok(request))
}

/// The request whose head begins these bytes, and the head's length; nothing if more bytes are needed.
fn head(bytes: &[u8]) -> Result<Option<(Request, usize)>, String> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let status = parsed.parse(bytes).map_err(|error| format!("this is no HTTP request: {error}"))?;
    let httparse::Status::Complete(length) = status else { return Ok(None) };
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let header = |own: &httparse::Header<'_>| (own.name.to_owned(), String::from_utf8_lossy(own.value).into_owned());
    let headers: Vec<(String, String)> = parsed.headers.iter().map(header).collect();
    for once in ["Host", "Content-Length", "Transfer-Encoding", "Authorization", "Origin"] {
        if headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(once)).nth(1).is_some() {
            return Err(format!("the request has two headers {once}"));
        }
    }
    let request = Request { method: text(parsed.method), url: text(parsed.path), headers, body: Vec::new() };
    Ok(Some((request, length)))
}

/// Bytes of a request's body; `None` where it does not say.
fn body_bytes(request: &Request) -> Option<usize> {
    match request.header("Content-Length") {
        Some(length) => length.trim().parse().ok(),
        None if request.header("Transfer-Encoding").is_some() => None,
        None => Some(0),
    }
}

fn phrase(status: u16) -> &'static str {
    match status {
        200..300 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        501 => "Not Implemented",
        500.. => "Internal Server Error",
        _ => "Refused",
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::stream::IDLE_TIME;
    use super::*;

    /// Answers with the request's method, path and body.
    struct Echo;

    impl Handler for Echo {
        fn max_body(&self) -> Option<usize> {
            Some(8)
        }

        fn answer(&self, request: &Request) -> Answer {
            let body = format!("{} {} {}", request.method, request.url, String::from_utf8_lossy(&request.body));
            Answer { status: 200, content_type: "text/plain", body }
        }

        fn refused(&self, status: u16, why: &str) -> Answer {
            Answer { status, content_type: "text/plain", body: why.to_owned() }
        }
    }

    fn begin() -> (Server, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        (Server::begin(Listener::Tcp(listener), Echo), address)
    }

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(request).expect("it is sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("it is answered");
        text
    }

    #[test]
    fn requests_are_answered_or_refused() {
        let (_server, address) = begin();
        let answers = |request: &[u8], status: &str, body: &str| {
            let text = ask(address, request);
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")) && text.ends_with(body), "{text}");
        };
        answers(b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n", "200", "\r\n\r\nGET /a?b=c ");
        answers(b"PUT /a HTTP/1.0\r\nContent-Length: 3\r\n\r\nabcd", "200", "PUT /a abc");
        answers(b"HEAD /a HTTP/1.1\r\n\r\n", "200", "\r\n\r\n");
        answers(b"PUT /a HTTP/1.1\r\nContent-Length: 9\r\n\r\n", "413", "up to 8 bytes");
        answers(b"PUT /a HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "411", "(Content-Length)");
        answers(b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "411", "(Content-Length)");
        answers(b"GET / HTTP/1.1\r\nHost: x\r\nhost: y\r\n\r\n", "400", "two headers Host");
        answers(b"\0\0\0\0", "400", "");
        answers(&[b"GET / HTTP/1.1\r\nA: ", &[b'a'; 2 * MAX_HEAD][..]].concat(), "431", "too long");
        answers(&[b"GET / HTTP/1.1\r\n", &b"A: a\r\n".repeat(MAX_HEADERS + 1)[..], b"\r\n"].concat(), "400", "headers");
    }

    #[test]
    fn idle_connections_keep_nobody_away() {
        let (server, address) = begin();
        let connect = |sent: &[u8]| {
            let mut stream = TcpStream::connect(address).expect("it listens");
            stream.write_all(sent).expect("it is sent");
            stream
        };
        // Some say nothing, some begin a request, some promise a body.
        let begun = Instant::now();
        let sent: [&[u8]; 3] = [b"", b"GET / HTT", b"PUT / HTTP/1.1\r\nContent-Length: 8\r\n\r\nabc"];
        let idle: Vec<TcpStream> = (0..10 * MAX_CONNECTIONS).map(|at| connect(sent[at % 3])).collect();
        for _ in 0..20 {
            assert!(ask(address, b"GET / HTTP/1.1\r\n\r\n").ends_with("GET / "));
        }
        assert!(begun.elapsed() < IDLE_TIME, "{:?}", begun.elapsed());
        assert!(server.open.connections().len() <= MAX_CONNECTIONS);
        drop(server);
        assert!(begun.elapsed() < IDLE_TIME, "{:?}", begun.elapsed());
        drop(idle);
    }
}
