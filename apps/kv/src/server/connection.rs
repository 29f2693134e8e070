//! A connection: what is read is served, what is not sent yet waits.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;

use super::Protocol;
use crate::protocol::{KEPT_BYTES, Next, Service, Session};
use crate::redis;
use kiln_tls::Transport;
use mio::net::TcpStream;

/// Reads at a time, before others have their turn.
const READS: usize = 16;

/// What becomes of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// It waits for its socket.
    Wait,
    /// It has more to do.
    Again,
    /// Its replies wait until the disk has what they acknowledge.
    Held,
    /// It is over.
    Over,
}

/// A session of either protocol.
enum Spoken<'s, 'h> {
    Memcached(Session<'s, 'h>),
    Redis(redis::Session<'s, 'h>),
}

impl Spoken<'_, '_> {
    fn serve(&mut self, arrived: &[u8], output: &mut Vec<u8>) -> Next {
        match self {
            Spoken::Memcached(session) => session.serve(arrived, output),
            Spoken::Redis(session) => session.serve(arrived, output),
        }
    }

    fn is_full(&self) -> bool {
        match self {
            Spoken::Memcached(session) => session.is_full(),
            Spoken::Redis(session) => session.is_full(),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Spoken::Memcached(session) => session.memory(),
            Spoken::Redis(session) => session.memory(),
        }
    }
}

/// A connection.
pub struct Connection<'s, 'h> {
    transport: Transport<TcpStream>,
    service: &'s Service<'h>,
    session: Spoken<'s, 'h>,
    output: Vec<u8>,
    sent: usize,
    closing: bool,
    /// Whether the client has said that it sends nothing more. Then reads go on until there is nothing.
    ended: bool,
    /// Replies wait until the disk has what was recorded before this position: the connection's own changes.
    recorded: u64,
    /// Replies may show what was recorded before this position, by any connection.
    seen: u64,
    /// Bytes of its memory that are in [`crate::protocol::Statistics::client_bytes`].
    counted: u64,
}

/// What became of replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sent {
    /// The socket has them, or has no room for more.
    Done,
    Held,
    Over,
}

impl<'s, 'h> Connection<'s, 'h> {
    /// A connection that was accepted.
    pub fn new(transport: Transport<TcpStream>, service: &'s Service<'h>, protocol: Protocol) -> Connection<'s, 'h> {
        let session = match protocol {
            Protocol::Memcached => Spoken::Memcached(Session::new(service)),
            Protocol::Redis => Spoken::Redis(redis::Session::new(service)),
        };
        let output = Vec::new();
        service.statistics.connections.fetch_add(1, Ordering::Relaxed);
        service.statistics.all_connections.fetch_add(1, Ordering::Relaxed);
        Connection {
            transport,
            service,
            session,
            output,
            sent: 0,
            closing: false,
            ended: false,
            recorded: 0,
            seen: 0,
            counted: 0,
        }
    }

    /// Notes that the socket says that nothing comes after what is there.
    pub fn ends(&mut self) {
        self.ended = true;
    }

    /// Bytes of memory that its requests and replies take, as [`Connection::count`] has counted them last.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// Counts the bytes of memory that its requests and replies take.
    pub fn count(&mut self) -> u64 {
        let now = (self.session.memory() + self.output.capacity()) as u64;
        let before = std::mem::replace(&mut self.counted, now);
        self.service.statistics.client_bytes.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        now
    }

    /// Reads, serves and writes what is possible now.
    pub fn turn(&mut self, buffer: &mut [u8]) -> After {
        for _ in 0..READS {
            match self.send() {
                Sent::Done => {}
                Sent::Held => return After::Held,
                Sent::Over => return After::Over,
            }
            if self.closing {
                return if self.output.is_empty() { After::Over } else { After::Wait };
            }
            if self.session.is_full() {
                if !self.output.is_empty() {
                    return After::Wait;
                }
                self.serve(&[]);
                continue;
            }
            // While there is too much of it, nothing more is read.
            if self.service.is_crowded() && self.counted > 0 {
                return After::Again;
            }
            match self.transport.read(buffer) {
                // A client that sends nothing more may still wait for replies.
                Ok(0) => self.closing = true,
                Ok(bytes) => {
                    self.service.statistics.received.fetch_add(bytes as u64, Ordering::Relaxed);
                    self.serve(&buffer[..bytes]);
                    // What a read does not fill has left nothing behind: the socket tells what comes later.
                    let is_all = bytes < buffer.len() && self.transport.reads_all();
                    if is_all && !self.ended && !self.closing && !self.session.is_full() {
                        return self.send_before(After::Wait);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return After::Wait,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return After::Over,
            }
        }
        self.send_before(After::Again)
    }

    fn serve(&mut self, arrived: &[u8]) {
        let position = || self.service.store.journal().map_or(0, |journal| journal.position());
        let before = position();
        self.closing = self.session.serve(arrived, &mut self.output) == Next::Close;
        self.seen = position();
        if self.seen != before {
            self.recorded = self.seen;
        }
    }

    /// The position before which all has to be on the disk, if replies wait for it.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether the disk has all that replies acknowledge. If not, and the log fails, they are never sent.
    pub fn is_safe(&self) -> bool {
        self.service.store.journal().is_none_or(|journal| journal.is_safe(self.recorded))
    }

    /// Whether replies may be sent: what they acknowledge is on the disk, and what they show, too, unless the log fails: then
    /// reads go on.
    fn may_send(&self) -> bool {
        let Some(journal) = self.service.store.journal() else { return true };
        journal.is_safe(self.seen) || (journal.is_safe(self.recorded) && journal.failure().is_some())
    }

    /// Sends what it can; what is next if the connection still stands.
    fn send_before(&mut self, next: After) -> After {
        match self.send() {
            Sent::Done => next,
            Sent::Held => After::Held,
            Sent::Over => After::Over,
        }
    }

    /// Sends what it can.
    fn send(&mut self) -> Sent {
        if !self.output.is_empty() && !self.may_send() {
            return Sent::Held;
        }
        while self.sent < self.output.len() {
            match self.transport.write(&self.output[self.sent..]) {
                Ok(0) => return Sent::Over,
                Ok(bytes) => {
                    self.service.statistics.sent.fetch_add(bytes as u64, Ordering::Relaxed);
                    self.sent += bytes;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Sent::Done,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Sent::Over,
            }
        }
        match self.transport.flush() {
            Ok(true) => {}
            // The last of it is still here: the output is kept, of which all is written.
            Ok(false) => return Sent::Done,
            Err(_) => return Sent::Over,
        }
        self.output.clear();
        self.output.shrink_to(KEPT_BYTES);
        self.sent = 0;
        Sent::Done
    }
}

impl Drop for Connection<'_, '_> {
    fn drop(&mut self) {
        let statistics = &self.service.statistics;
        statistics.client_bytes.fetch_sub(self.counted, Ordering::Relaxed);
        statistics.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
