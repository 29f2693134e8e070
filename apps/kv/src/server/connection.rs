//! A connection: what is read is served, what is not sent yet waits.

use std::io::{ErrorKind, Read as _, Write as _};

use mio::net::TcpStream;

use super::Protocol;
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
    /// Its socket.
    pub stream: TcpStream,
    session: Spoken<'s, 'h>,
    output: Vec<u8>,
    sent: usize,
    closing: bool,
    /// Whether the client has said that it sends nothing more. Then reads go on until there is nothing.
    ended: bool,
}

impl<'s, 'h> Connection<'s, 'h> {
    /// A connection that was accepted.
    pub fn new(stream: TcpStream, service: &'s Service<'h>, protocol: Protocol) -> Connection<'s, 'h> {
        let session = match protocol {
            Protocol::Memcached => Spoken::Memcached(Session::new(service)),
            Protocol::Redis => Spoken::Redis(redis::Session::new(service)),
        };
        Connection { stream, session, output: Vec::new(), sent: 0, closing: false, ended: false }
    }

    /// Notes that the socket says that nothing comes after what is there.
    pub fn ends(&mut self) {
        self.ended = true;
    }

    /// Reads, serves and writes what is possible now.
    pub fn turn(&mut self, buffer: &mut [u8]) -> After {
        for _ in 0..READS {
            if !self.send() {
                return After::Over;
            }
            if self.closing {
                return if self.output.is_empty() { After::Over } else { After::Wait };
            }
            if self.session.is_full() {
                if !self.output.is_empty() {
                    return After::Wait;
                }
                self.closing = self.session.serve(&[], &mut self.output) == Next::Close;
                continue;
            }
            match self.stream.read(buffer) {
                // A client that sends nothing more may still wait for replies.
                Ok(0) => self.closing = true,
                Ok(bytes) => {
                    self.closing = self.session.serve(&buffer[..bytes], &mut self.output) == Next::Close;
                    // What a read does not fill has left nothing behind: the socket tells what comes later.
                    if bytes < buffer.len() && !self.ended && !self.closing && !self.session.is_full() {
                        return if self.send() { After::Wait } else { After::Over };
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return After::Wait,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return After::Over,
            }
        }
        if self.send() { After::Again } else { After::Over }
    }

    /// Sends what it can; whether the connection still stands.
    fn send(&mut self) -> bool {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return false,
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        self.output.clear();
        self.output.shrink_to(OUTPUT_MOST);
        self.sent = 0;
        true
    }
}
