//! Where a server listens, and its connections: TCP or Unix, as they are or encrypted, each call with a time.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use kiln_tls::{Tls, Transport};

/// How long the other end may do nothing.
pub const IDLE_TIME: Duration = Duration::from_secs(5);

/// Where a server listens.
pub enum Listener {
    /// At an address.
    Tcp(TcpListener),
    /// At an address, with TLS.
    Tls(TcpListener, Tls),
    /// At a socket.
    Unix(UnixListener),
}

impl Listener {
    /// Waits for a connection.
    pub(super) fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) | Listener::Tls(listener, _) => Ok(Stream::Tcp(listener.accept()?.0)),
            Listener::Unix(listener) => Ok(Stream::Unix(listener.accept()?.0)),
        }
    }

    /// What a connection's bytes go through.
    pub(super) fn channel(&self, stream: Stream) -> io::Result<Channel> {
        let tls = if let Listener::Tls(_, tls) = self { Some(tls) } else { None };
        let timed = Timed { stream, end: Instant::now() };
        Ok(Channel(Transport::new(timed, tls)?))
    }

    /// Wakes whoever accepts, with an error.
    pub(super) fn shut(&self) {
        let how = rustix::net::Shutdown::Both;
        // It fails where it was shut already.
        let _ = match self {
            Listener::Tcp(listener) | Listener::Tls(listener, _) => rustix::net::shutdown(listener, how),
            Listener::Unix(listener) => rustix::net::shutdown(listener, how),
        };
    }
}

/// A connection's socket.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Does the same with either kind.
macro_rules! either {
    ($stream:expr, $own:ident => $do:expr) => {
        match $stream {
            Stream::Tcp($own) => $do,
            Stream::Unix($own) => $do,
        }
    };
}

impl Stream {
    pub(super) fn try_clone(&self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Tcp(stream) => Stream::Tcp(stream.try_clone()?),
            Stream::Unix(stream) => Stream::Unix(stream.try_clone()?),
        })
    }

    pub(super) fn shut(&self, how: Shutdown) {
        // It fails where the other end has gone.
        let _ = either!(self, stream => stream.shutdown(how));
    }
}

/// A socket whose reads and writes end in time, however many of them encryption needs.
struct Timed {
    stream: Stream,
    end: Instant,
}

impl Timed {
    /// The time until the end, or until the other end has been idle for too long.
    fn left(&self) -> io::Result<Duration> {
        let left = self.end.saturating_duration_since(Instant::now()).min(IDLE_TIME);
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// The system's word for a time that is over is that of a socket that does not block.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

impl Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.left()?;
        either!(&mut self.stream, stream => { stream.set_read_timeout(Some(left))?; stream.read(bytes) })
            .map_err(timed_out)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left()?;
        either!(&mut self.stream, stream => { stream.set_write_timeout(Some(left))?; stream.write(bytes) })
            .map_err(timed_out)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection, encrypted or not.
pub(super) struct Channel(Transport<Timed>);

impl Channel {
    /// Reads some bytes before a time.
    pub(super) fn read_before(&mut self, bytes: &mut [u8], end: Instant) -> io::Result<usize> {
        self.0.stream().end = end;
        self.0.read(bytes)
    }

    /// Writes all bytes before a time.
    pub(super) fn write_before(&mut self, bytes: &[u8], end: Instant) -> io::Result<()> {
        self.0.stream().end = end;
        self.0.write_all(bytes)
    }

    /// Tells the other end that no more follows.
    pub(super) fn end(&mut self) {
        self.0.end();
        self.0.stream().stream.shut(Shutdown::Write);
    }
}
