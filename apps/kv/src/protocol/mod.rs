//! memcached's text protocol: bytes in, bytes out, on a [`Service`].
//!
//! ```text
//!   set k 7 0 5\r\n   -> line -> Storing { k, 7, 0, 5 } -> needs 7 bytes more
//!   hello\r\n         -> stored                         -> STORED\r\n
//! ```
//!
//! [`Session`] keeps what has not been served yet: part of a line, or a line that waits for its value. Requests may arrive in pieces
//! and many at once. What a hostile client can make a session keep is bounded: a line, or a value of the largest size.

mod command;
mod meta;
mod number;
mod program;
mod service;
mod stats;
mod step;
mod storing;

pub use service::{CLIENT_BYTES, Service, Statistics, StoreProgram, VERSION};
pub use step::OUTPUT_MOST;
use step::{Step, Waiting};

/// The longest line, unless it is a `get` of many keys.
const LINE_MOST: usize = 2048;
/// The longest line of a `get`. memcached has no limit.
const KEYS_MOST: usize = 1 << 20;

/// The first byte of memcached's binary protocol.
const BINARY: u8 = 0x80;

/// Bytes of memory that a connection keeps for its next requests, and again for its next replies.
pub const KEPT_BYTES: usize = 4 << 10;

/// Whether a connection goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// It does.
    Go,
    /// It is to be closed when the output is sent.
    Close,
}

/// A connection's requests.
pub struct Session<'s, 'h> {
    service: &'s Service<'h>,
    input: Vec<u8>,
    waiting: Option<Box<dyn Waiting>>,
    skip: usize,
    /// Keys of the first line of `input` that are answered already.
    answered: usize,
    full: bool,
    /// Bytes of `input` in which there is no end of a line.
    searched: usize,
    /// Whether something has arrived.
    begun: bool,
}

impl<'s, 'h> Session<'s, 'h> {
    /// A new session.
    pub fn new(service: &'s Service<'h>) -> Session<'s, 'h> {
        let input = Vec::new();
        Session { service, input, waiting: None, skip: 0, answered: 0, full: false, searched: 0, begun: false }
    }

    /// Serves what has arrived, and keeps what is not complete. Replies are appended to `output`, until there are [`OUTPUT_MOST`]
    /// bytes of them: then the session [is full](Session::is_full).
    pub fn serve(&mut self, arrived: &[u8], output: &mut Vec<u8>) -> Next {
        if !arrived.is_empty() && !std::mem::replace(&mut self.begun, true) && arrived[0] == BINARY {
            // As text it would have no end, and its client would wait for an answer.
            return Next::Close;
        }
        let mut kept = std::mem::take(&mut self.input);
        let is_kept = !kept.is_empty();
        if is_kept {
            kept.extend_from_slice(arrived);
        }
        let all = if is_kept { &kept[..] } else { arrived };
        let mut at = 0;
        self.full = false;
        let next = loop {
            if output.len() >= OUTPUT_MOST {
                self.full = true;
                break Next::Go;
            }
            match self.one(&all[at..], output) {
                Some((used, Next::Go)) => at += used,
                Some((_, Next::Close)) => break Next::Close,
                None => break Next::Go,
            }
        };
        self.input = if is_kept && at == 0 { kept } else { all[at..].to_vec() };
        next
    }

    /// Whether requests wait until the output is sent. Then `serve` is to be called with nothing more.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Bytes that the session keeps.
    pub fn kept(&self) -> usize {
        self.input.len()
    }

    /// Bytes of memory that the session takes for what it keeps.
    pub fn memory(&self) -> usize {
        self.input.capacity()
    }

    /// Serves one request, or part of one: how many bytes that took. `None` if it is not complete.
    fn one(&mut self, input: &[u8], output: &mut Vec<u8>) -> Option<(usize, Next)> {
        if self.skip > 0 {
            let skipped = self.skip.min(input.len());
            self.skip -= skipped;
            return (skipped > 0).then_some((skipped, Next::Go));
        }
        if let Some(storing) = &self.waiting {
            let bytes = storing.bytes();
            let needed = bytes + 2;
            let (value, end) = (input.get(..bytes)?, input.get(bytes..needed)?);
            let storing = self.waiting.take()?;
            if end == b"\r\n" {
                match self.service.store.admit() {
                    Ok(()) => storing.store(self.service, value, output),
                    Err(_) if storing.is_quiet() => {}
                    Err(why) => command::refuse(&why, output),
                }
            } else {
                storing.refuse(output);
            }
            return Some((needed, Next::Go));
        }
        let searched = std::mem::take(&mut self.searched).min(input.len());
        let Some(end) = input[searched..].iter().position(|byte| *byte == b'\n').map(|at| at + searched) else {
            self.searched = input.len();
            let is_get = input.starts_with(b"get ") || input.starts_with(b"gets ");
            let most = if is_get { KEYS_MOST } else { LINE_MOST };
            return (input.len() > most).then_some((0, Next::Close));
        };
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        let next = match command::line(self.service, line, self.answered, output) {
            Step::Done => Next::Go,
            Step::Keys(answered) => {
                self.answered = answered;
                return Some((0, Next::Go));
            }
            Step::Value(storing) => {
                self.waiting = Some(storing);
                Next::Go
            }
            Step::Skip(bytes) => {
                self.skip = bytes;
                Next::Go
            }
            Step::Close => Next::Close,
        };
        self.answered = 0;
        Some((end + 1, next))
    }
}
