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
mod stats;
mod storing;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::store::Store;
use storing::Storing;

/// The version that clients are told: what this server behaves like, and its own name.
pub const VERSION: &str = concat!("1.6.18-kiln-", env!("CARGO_PKG_VERSION"));
/// Bytes of output from which on nothing more is served.
pub const OUTPUT_MOST: usize = 1 << 20;
/// The longest line, unless it is a `get` of many keys.
const LINE_MOST: usize = 2048;
/// The longest line of a `get`.
const KEYS_MOST: usize = 64 << 10;

/// What a server counts, of all its sessions.
#[derive(Default, Debug)]
pub struct Statistics {
    /// Keys asked for by `get` and its like.
    pub gets: AtomicU64,
    /// Of these, those that were there.
    pub hits: AtomicU64,
    /// Values stored or refused.
    pub sets: AtomicU64,
    /// Keys touched.
    pub touches: AtomicU64,
    /// Keys deleted, or not there.
    pub deletes: AtomicU64,
    /// `flush_all`.
    pub flushes: AtomicU64,
    /// Connections now.
    pub connections: AtomicU64,
    /// Connections since the beginning.
    pub all_connections: AtomicU64,
}

/// A store with what all its sessions share.
pub struct Service<'h> {
    /// The store.
    pub store: Store<'h>,
    /// Counters.
    pub statistics: Statistics,
    /// When everything is to be flushed, in seconds since 1970; 0: no.
    flush_at: AtomicU64,
    begun: Instant,
}

impl<'h> Service<'h> {
    /// A service of a store.
    pub fn new(store: Store<'h>) -> Service<'h> {
        Service { store, statistics: Statistics::default(), flush_at: AtomicU64::new(0), begun: Instant::now() }
    }

    /// Does what is due: time, room for programs, a flush that waits. To be called several times a second.
    pub fn maintain(&self) {
        self.store.tick();
        self.store.make_room_ahead();
        let at = self.flush_at.load(Ordering::Relaxed);
        if at != 0 && at <= self.store.seconds() && self.flush_at.swap(0, Ordering::Relaxed) != 0 {
            self.store.clear();
        }
    }
}

/// Whether a connection goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// It does.
    Go,
    /// It is to be closed when the output is sent.
    Close,
}

/// What a line asks for.
enum Step {
    /// It is answered.
    Done,
    /// So many of its keys are, and there is no room for more.
    Keys(usize),
    /// It waits for its value.
    Value(Storing),
    /// So many bytes are to be left out.
    Skip(usize),
    /// The connection ends.
    Close,
}

/// A connection's requests.
pub struct Session<'s, 'h> {
    service: &'s Service<'h>,
    input: Vec<u8>,
    waiting: Option<Storing>,
    skip: usize,
    /// Keys of the first line of `input` that are answered already.
    answered: usize,
    full: bool,
}

impl<'s, 'h> Session<'s, 'h> {
    /// A new session.
    pub fn new(service: &'s Service<'h>) -> Session<'s, 'h> {
        Session { service, input: Vec::new(), waiting: None, skip: 0, answered: 0, full: false }
    }

    /// Serves what has arrived, and keeps what is not complete. Replies are appended to `output`, until there are [`OUTPUT_MOST`]
    /// bytes of them: then the session [is full](Session::is_full).
    pub fn serve(&mut self, arrived: &[u8], output: &mut Vec<u8>) -> Next {
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

    /// Serves one request, or part of one: how many bytes that took. `None` if it is not complete.
    fn one(&mut self, input: &[u8], output: &mut Vec<u8>) -> Option<(usize, Next)> {
        if self.skip > 0 {
            let skipped = self.skip.min(input.len());
            self.skip -= skipped;
            return (skipped > 0).then_some((skipped, Next::Go));
        }
        if let Some(storing) = &self.waiting {
            let needed = storing.bytes + 2;
            let (value, end) = (input.get(..storing.bytes)?, input.get(storing.bytes..needed)?);
            let storing = self.waiting.take()?;
            if end == b"\r\n" {
                storing.store(self.service, value, output);
            } else {
                output.extend(b"CLIENT_ERROR bad data chunk\r\n");
            }
            return Some((needed, Next::Go));
        }
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
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
