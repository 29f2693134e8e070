//! A connection: what is read is served, what is not sent yet waits.

use std::io::ErrorKind;

use super::Protocol;
use super::transport::Transport;
use crate::protocol::{Next, OUTPUT_MOST, Service, Session};
use crate::redis;

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
}

/// A connection.
pub struct Connection<'s, 'h> {
    transport: Transport,
    service: &'s Service<'h>,
    session: Spoken<'s, 'h>,
    output: Vec<u8>,
    sent: usize,
    closing: bool,
    /// Whether the client has said that it sends nothing more. Then reads go on until there is nothing.
    ended: bool,
    /// Replies wait until the disk has what was recorded before this position.
    recorded: u64,
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
    pub fn new(transport: Transport, service: &'s Service<'h>, protocol: Protocol) -> Connection<'s, 'h> {
        let session = match protocol {
            Protocol::Memcached => Spoken::Memcached(Session::new(service)),
            Protocol::Redis => Spoken::Redis(redis::Session::new(service)),
        };
        let output = Vec::new();
        Connection { transport, service, session, output, sent: 0, closing: false, ended: false, recorded: 0 }
    }

    /// Notes that the socket says that nothing comes after what is there.
    pub fn ends(&mut self) {
        self.ended = true;
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
            match self.transport.read(buffer) {
                // A client that sends nothing more may still wait for replies.
                Ok(0) => self.closing = true,
                Ok(bytes) => {
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
        let after = position();
        // Only changes wait for the disk, so that reads go on while the log fails.
        if after != before {
            self.recorded = after;
        }
    }

    /// The position before which all has to be on the disk, if replies wait for it.
    pub fn recorded(&self) -> u64 {
        self.recorded
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
        if !self.output.is_empty()
            && self.service.store.journal().is_some_and(|journal| !journal.is_safe(self.recorded))
        {
            return Sent::Held;
        }
        while self.sent < self.output.len() {
            match self.transport.write(&self.output[self.sent..]) {
                Ok(0) => return Sent::Over,
                Ok(bytes) => self.sent += bytes,
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
        self.output.shrink_to(OUTPUT_MOST);
        self.sent = 0;
        Sent::Done
    }
}
