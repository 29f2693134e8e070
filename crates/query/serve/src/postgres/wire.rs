//! Messages of the wire protocol on a connection, read with limits.
//!
//! Messages are those of `pgwire`. It expects whole messages, so each is looked at before: its length, and that its fields
//! end where it does.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use kiln_tls::{Tls, Transport};
use pgwire::messages::response::ErrorResponse;
use pgwire::messages::{DecodeContext, Message, PgWireFrontendMessage, ProtocolVersion};

use super::fault::Fault;

/// Maximum bytes of a message from a client.
pub const MAX_MESSAGE: usize = 1 << 20;
/// Maximum bytes of a message from a client that has not given its password.
const MAX_FIRST_MESSAGE: usize = 10_000;
/// How long the rest of a message may take after its first byte.
const MESSAGE_TIME: Duration = Duration::from_secs(30);
/// How long the other end may read nothing.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// Bytes that are collected before they are sent.
const SEND_BYTES: usize = 64 << 10;

/// A socket whose reads end in time, however many of them encryption needs.
struct Timed {
    stream: TcpStream,
    /// When reading has to end, if ever.
    end: Option<Instant>,
}

impl io::Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(left)?;
        // The system's word for a time that is over is that of a socket that does not block.
        self.stream.read(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })
    }
}

impl io::Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection.
pub struct Wire {
    transport: Transport<Timed>,
    context: DecodeContext,
    received: BytesMut,
    sending: BytesMut,
    is_known: bool,
}

/// A client's message that breaks the protocol.
fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl Wire {
    /// A connection that has just been made.
    ///
    /// # Errors
    /// Returns one if the connection is over.
    pub fn new(stream: TcpStream) -> io::Result<Wire> {
        stream.set_write_timeout(Some(WRITE_TIME))?;
        // Rows of a live query are small and should not wait for others.
        stream.set_nodelay(true)?;
        let context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
        let transport = Transport::Plain(Timed { stream, end: None });
        Ok(Wire { transport, context, received: BytesMut::new(), sending: BytesMut::new(), is_known: false })
    }

    /// Encrypts what follows; the handshake is part of the next reads. What a client sent before it could know that it may
    /// encrypt is refused: somebody else may have sent it.
    ///
    /// # Errors
    /// Returns one if there is such a message, and if the connection is over.
    pub fn encrypt(&mut self, tls: Option<&Tls>) -> io::Result<()> {
        if !self.received.is_empty() {
            return Err(broken("a message came before its encryption"));
        }
        let stream = self.transport.stream().stream.try_clone()?;
        self.transport = Transport::new(Timed { stream, end: None }, tls)?;
        Ok(())
    }

    /// Whether messages are encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(self.transport, Transport::Tls(_))
    }

    /// The client has given its password: it may send longer messages.
    pub fn set_known(&mut self) {
        self.is_known = true;
    }

    /// The next message, whose last byte has to arrive before `end`, if there is such a time.
    ///
    /// # Errors
    /// Returns one if the connection is over, the time is, or the message is malformed or too long (`InvalidData`).
    pub fn read(&mut self, end: Option<Instant>) -> io::Result<PgWireFrontendMessage> {
        let mut begun: Option<Instant> = None;
        loop {
            if let Some(message) = self.decoded()? {
                return Ok(message);
            }
            if !self.received.is_empty() && begun.is_none() {
                begun = Some(Instant::now());
            }
            let ends = [end, begun.map(|begun| begun + MESSAGE_TIME)];
            let end = ends.into_iter().flatten().min();
            self.transport.stream().end = end;
            let mut some = [0; 4096];
            let count = self.transport.read(&mut some)?;
            match count {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.received.extend_from_slice(&some[..count]),
            }
        }
    }

    /// Takes a message out of what was received, if it is whole.
    fn decoded(&mut self) -> io::Result<Option<PgWireFrontendMessage>> {
        let tag = if self.context.awaiting_startup { 0 } else { 1 };
        let (length, kind) = loop {
            let Some(length) = self.received.get(tag..tag + 4) else { return Ok(None) };
            let length = u32::from_be_bytes(length.try_into().map_err(|_| broken("no length"))?) as usize;
            let most = if self.is_known { MAX_MESSAGE } else { MAX_FIRST_MESSAGE };
            if length < 4 || length > most {
                return Err(broken(&format!("a message has 4 to {most} bytes")));
            }
            if self.received.len() < tag + length {
                return Ok(None);
            }
            let kind = if tag == 0 { 0 } else { self.received[0] };
            // Data of a COPY; PostgreSQL does not look at it outside of one.
            if !self.is_known || !matches!(kind, b'c' | b'd' | b'f') {
                break (length, kind);
            }
            let _ = self.received.split_to(tag + length);
        };
        if !is_whole(kind, &self.received[tag + 4..tag + length]) {
            return Err(broken("a message is malformed"));
        }
        let mut own = self.received.split_to(tag + length);
        let mut decode = |context: &DecodeContext| {
            PgWireFrontendMessage::decode(&mut own, context)
                .map_err(|error| broken(&error.to_string()))?
                .ok_or_else(|| broken("a message is malformed"))
        };
        let mut message = decode(&self.context)?;
        if let PgWireFrontendMessage::SslNegotiation(pgwire::messages::SslNegotiationMetaMessage::None) = message {
            self.context.awaiting_ssl = false;
            message = decode(&self.context)?;
            self.context.awaiting_startup = false;
        }
        Ok(Some(message))
    }

    /// Adds a message to what is sent; sends when it is enough.
    ///
    /// # Errors
    /// Returns one if the connection is over or nobody reads.
    pub fn send(&mut self, message: &impl Message) -> io::Result<()> {
        message.encode(&mut self.sending).map_err(|error| broken(&error.to_string()))?;
        if self.sending.len() >= SEND_BYTES { self.flush() } else { Ok(()) }
    }

    /// Sends what was added.
    ///
    /// # Errors
    /// As [`Wire::send`].
    pub fn flush(&mut self) -> io::Result<()> {
        let sending = std::mem::take(&mut self.sending);
        self.transport.write_all(&sending)
    }

    /// Sends the fault that ends a session.
    ///
    /// # Errors
    /// As [`Wire::send`].
    pub fn end(&mut self, fault: &Fault) -> io::Result<()> {
        let mut fields = fault.fields("");
        let severities = fields.iter_mut().filter(|(field, _)| matches!(field, b'S' | b'V'));
        severities.for_each(|(_, text)| *text = "FATAL".to_owned());
        self.send(&ErrorResponse::new(fields))?;
        self.flush()
    }

    /// Whether the client has closed the connection, or ended the session. What it sends meanwhile is kept for
    /// [`Wire::read`], up to the length of a message.
    pub fn is_gone(&mut self) -> bool {
        if self.received.len() >= MAX_MESSAGE {
            return false;
        }
        self.transport.stream().end = None;
        let mut some = [0; 4096];
        if self.transport.stream().stream.set_nonblocking(true).is_err() {
            return true;
        }
        let read = self.transport.read(&mut some);
        let is_gone = match read {
            // `Terminate` ends a session.
            Ok(count) => {
                self.received.extend_from_slice(&some[..count]);
                count == 0 || self.received.starts_with(b"X")
            }
            Err(error) => !matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::Interrupted),
        };
        self.transport.stream().stream.set_nonblocking(false).is_err() || is_gone
    }
}

/// Bytes of a message's body that are not looked at yet.
struct Rest<'b>(&'b [u8]);

impl Rest<'_> {
    fn bytes(&mut self, count: usize) -> Option<&[u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    /// A text with the zero after it.
    fn text(&mut self) -> Option<()> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        self.bytes(end + 1).map(drop)
    }

    fn count(&mut self) -> Option<usize> {
        let bytes = self.bytes(2)?.try_into().ok()?;
        Some(u16::from_be_bytes(bytes).into())
    }

    /// A number of fields, each of so many bytes.
    fn fields(&mut self, bytes: usize) -> Option<()> {
        let count = self.count()?;
        self.bytes(count * bytes).map(drop)
    }

    /// A value with its length, or null.
    fn value(&mut self) -> Option<()> {
        let length = i32::from_be_bytes(self.bytes(4)?.try_into().ok()?);
        usize::try_from(length).map_or(Some(()), |length| self.bytes(length).map(drop))
    }
}

/// Whether a message's fields end where its body does; `kind` is 0 for a session's first message.
fn is_whole(kind: u8, body: &[u8]) -> bool {
    let mut rest = Rest(body);
    let mut look = || {
        match kind {
            0 if body.len() == 4 => drop(rest.bytes(4)?),
            // To cancel: a code, the session's number and its secret.
            0 if body.starts_with(&80_877_102_u32.to_be_bytes()) => drop(rest.bytes(12)?),
            0 => {
                rest.bytes(4)?;
                while rest.0.len() > 1 {
                    rest.text()?;
                }
                rest.text()?;
            }
            b'Q' => rest.text()?,
            // What proves that the client knows the password: `scram` reads it.
            b'p' => drop(rest.bytes(body.len())?),
            b'P' => {
                rest.text()?;
                rest.text()?;
                rest.fields(4)?;
            }
            b'B' => {
                rest.text()?;
                rest.text()?;
                rest.fields(2)?;
                let values = rest.count()?;
                (0..values).try_for_each(|_| rest.value())?;
                rest.fields(2)?;
            }
            b'C' | b'D' => {
                rest.bytes(1)?;
                rest.text()?;
            }
            b'E' => {
                rest.text()?;
                rest.bytes(4)?;
            }
            b'H' | b'S' | b'X' => {}
            _ => return None,
        }
        rest.0.is_empty().then_some(())
    };
    look().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_end_early_or_late_are_refused() {
        let bind = b"p\0s\0\0\x01\0\0\0\x02\0\0\0\x01a\xff\xff\xff\xff\0\x01\0\x01";
        let startup = b"\0\x03\0\0user\0kiln\0\0";
        for (kind, body) in [
            (b'Q', &b"SELECT 1\0"[..]),
            (b'P', b"s\0SELECT $1\0\0\x01\0\0\0\x14"),
            (b'B', bind),
            (b'D', b"Ss\0"),
            (b'E', b"\0\0\0\0\x07"),
            (0, startup),
        ] {
            assert!(is_whole(kind, body), "{}", body.escape_ascii());
            for end in 0..body.len() {
                // The four bytes of a request for encryption are a message of their own.
                assert!(!is_whole(kind, &body[..end]) || kind == 0 && end == 4, "{}", body[..end].escape_ascii());
            }
            assert!(!is_whole(kind, &[body, b"x"].concat()) || kind == 0, "{}", body.escape_ascii());
        }
        assert!(!is_whole(b'B', b"\0\0\xff\xff"));
        assert!(!is_whole(b'?', b""));
    }
}
