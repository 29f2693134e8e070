//! The server: sockets to sessions.
//!
//! ```text
//!   listener, datagrams -> worker threads, each with all its connections -> Session -> store
//!                          a thread for what is due (Service::maintain)
//! ```
//!
//! A connection whose client does not read is not read from either, so its output is bounded. So is what all connections keep
//! together, with a reply per worker beyond: the connection that keeps most is closed.

mod connection;
mod datagram;
pub mod metrics;
mod worker;

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::protocol::Service;
use kiln_tls::{Tls, Transport};
use mio::net::TcpStream;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How often [`Service::maintain`] is called.
const MAINTAINED: Duration = Duration::from_millis(50);
/// Connections of a worker, unless [`Server::limited`] says otherwise.
const CONNECTIONS: usize = 16 << 10;
/// Connections that may wait to be accepted, as the standard library has it.
const WAITING: i32 = 128;

/// What is spoken over connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// memcached's, text.
    Memcached,
    /// Redis', RESP2 and RESP3.
    Redis,
}

/// Lets this process have as many files as it may, so that many connections fit: what most systems begin with is 1,024.
pub fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, connections wait until others are closed.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// A socket for connections that has an address, and does not listen.
fn bound(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Connections of an earlier server at this address may still be ending.
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    Ok(socket.into())
}

/// Sockets that are bound.
pub struct Server {
    protocol: Protocol,
    tcp: TcpListener,
    udp: Option<UdpSocket>,
    metrics: Option<TcpListener>,
    /// Connections of a worker. What is beyond is closed when it is accepted.
    connections: usize,
    tls: Option<Tls>,
}

impl Server {
    /// Takes an address, for connections, and for datagrams if `udp`. A port of 0 lets the system choose one. Connections are
    /// refused until [`Server::listen`].
    ///
    /// # Errors
    /// Returns an error if the address is in use or not this machine's.
    pub fn bind(address: SocketAddr, protocol: Protocol, udp: bool) -> io::Result<Server> {
        let tcp = bound(address)?;
        let udp = udp.then(|| UdpSocket::bind(tcp.local_addr()?)).transpose()?;
        udp.as_ref().map_or(Ok(()), |udp| udp.set_nonblocking(true))?;
        Ok(Server { protocol, tcp, udp, metrics: None, connections: CONNECTIONS, tls: None })
    }

    /// The same server, whose workers have so many connections each at most.
    #[must_use]
    pub fn limited(self, connections: usize) -> Server {
        Server { connections, ..self }
    }

    /// Lets clients connect: what the service keeps has been read.
    ///
    /// # Errors
    /// Returns an error if another process listens at the address by now.
    pub fn listen(&self) -> io::Result<()> {
        let mut listeners = std::iter::once(&self.tcp).chain(&self.metrics);
        listeners.try_for_each(|listener| Ok(rustix::net::listen(listener, WAITING)?))
    }

    /// The same server, which also answers Prometheus at an address, under `/metrics`. A port of 0 lets the system choose one.
    ///
    /// # Errors
    /// Returns an error if the address is in use or not this machine's.
    pub fn with_metrics(self, address: SocketAddr) -> io::Result<Server> {
        Ok(Server { metrics: Some(bound(address)?), ..self })
    }

    /// The same server, whose connections are encrypted.
    #[must_use]
    pub fn with_tls(self, tls: Tls) -> Server {
        Server { tls: Some(tls), ..self }
    }

    /// What a connection's bytes go through.
    fn transport(&self, stream: TcpStream) -> io::Result<Transport<TcpStream>> {
        Transport::new(stream, self.tls.as_ref())
    }

    /// Where Prometheus is answered; `None` if it is not.
    ///
    /// # Errors
    /// Returns an error if the system does not say.
    pub fn metrics_address(&self) -> io::Result<Option<SocketAddr>> {
        self.metrics.as_ref().map(TcpListener::local_addr).transpose()
    }

    /// Where it listens.
    ///
    /// # Errors
    /// Returns an error if the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves until `stop` is set; it has to [listen](Server::listen).
    ///
    /// # Errors
    /// Returns an error if a worker cannot wait for its sockets.
    pub fn run(&self, service: &Service<'_>, threads: usize, stop: &AtomicBool) -> io::Result<()> {
        let threads = threads.max(1);
        std::thread::scope(|scope| {
            let mut workers: Vec<_> =
                (0..threads).map(|_| scope.spawn(|| worker::run(self, service, threads, stop))).collect();
            if let Some(listener) = &self.metrics {
                workers.push(scope.spawn(|| metrics::run(listener, service, stop)));
            }
            while !stop.load(Ordering::SeqCst) && !workers.iter().any(|worker| worker.is_finished()) {
                service.maintain();
                std::thread::sleep(MAINTAINED);
            }
            stop.store(true, Ordering::SeqCst);
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }
}
