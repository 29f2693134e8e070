//! A connection's bytes: as they are, or encrypted.

use std::io::{self, Read, Write};

use crate::{Secured, Tls};

/// A connection's stream, and its encryption if there is one.
pub enum Transport<S: Read + Write> {
    /// Bytes as they are.
    Plain(S),
    /// TLS.
    Tls(Box<Secured<S>>),
}

impl<S: Read + Write> Transport<S> {
    /// A connection that was accepted; its handshake is part of the first reads.
    ///
    /// # Errors
    /// Returns an error if there is no memory or no randomness.
    pub fn new(stream: S, tls: Option<&Tls>) -> io::Result<Transport<S>> {
        Ok(match tls {
            None => Transport::Plain(stream),
            Some(tls) => Transport::Tls(Box::new(tls.accept(stream)?)),
        })
    }

    /// Reads what is there, as [`Read::read`].
    ///
    /// # Errors
    /// Returns the stream's errors, and `InvalidData` if the client breaks TLS.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.read(buffer),
            Transport::Tls(secured) => secured.read(buffer),
        }
    }

    /// Writes as much as there is room for, as [`Write::write`].
    ///
    /// # Errors
    /// Returns the stream's errors; `WouldBlock` if nothing can be taken now.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.write(bytes),
            Transport::Tls(secured) => secured.write(bytes),
        }
    }

    /// Gives the stream what was written; returns whether it has everything.
    ///
    /// # Errors
    /// Returns the stream's errors.
    pub fn flush(&mut self) -> io::Result<bool> {
        match self {
            Transport::Plain(_) => Ok(true),
            Transport::Tls(secured) => secured.flush(),
        }
    }

    /// Writes all bytes to a stream that blocks, and sends them.
    ///
    /// # Errors
    /// Returns the stream's errors, and `TimedOut` if it has not taken everything in its time.
    pub fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.write(bytes)?;
            bytes = bytes.get(written..).filter(|_| written > 0).ok_or(io::ErrorKind::WriteZero)?;
        }
        if self.flush()? { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
    }

    /// Tells the client that no more follows, where encryption has a message for that.
    pub fn end(&mut self) {
        if let Transport::Tls(secured) = self {
            secured.end();
        }
    }

    /// The stream below.
    pub fn stream(&mut self) -> &mut S {
        match self {
            Transport::Plain(stream) => stream,
            Transport::Tls(secured) => secured.stream(),
        }
    }

    /// Whether a read that does not fill its buffer has left nothing in the stream.
    pub fn reads_all(&self) -> bool {
        matches!(self, Transport::Plain(_))
    }
}
