//! A connection's bytes: as they are, or encrypted.

use std::io::{self, Read as _, Write as _};

use mio::net::TcpStream;

#[cfg(feature = "tls")]
use super::tls::Secured;

/// A connection's socket, and its encryption if there is one.
pub enum Transport {
    /// Bytes as they are.
    Plain(TcpStream),
    /// TLS.
    #[cfg(feature = "tls")]
    Tls(Box<Secured>),
}

impl Transport {
    /// Reads what is there, as [`io::Read::read`].
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.read(buffer),
            #[cfg(feature = "tls")]
            Transport::Tls(secured) => secured.read(buffer),
        }
    }

    /// Writes as much as there is room for, as [`io::Write::write`].
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Transport::Tls(secured) => secured.write(bytes),
        }
    }

    /// Gives the socket what was written; whether it has everything.
    pub fn flush(&mut self) -> io::Result<bool> {
        match self {
            Transport::Plain(_) => Ok(true),
            #[cfg(feature = "tls")]
            Transport::Tls(secured) => secured.flush(),
        }
    }

    /// Whether a read that does not fill its buffer has left nothing in the socket.
    pub fn reads_all(&self) -> bool {
        match self {
            Transport::Plain(_) => true,
            #[cfg(feature = "tls")]
            Transport::Tls(_) => false,
        }
    }
}
