//! A worker: a thread that waits for all its sockets at once.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::connection::{After, Connection};
use super::{Protocol, Server, datagram};
use crate::protocol::Service;

const LISTENER: Token = Token(0);
const DATAGRAMS: Token = Token(1);
const FIRST: usize = 2;
/// How soon a worker notices that it is to stop.
const NOTICED: Duration = Duration::from_millis(100);
const BUFFER_BYTES: usize = 64 << 10;

/// Serves until `stop` is set.
pub fn run<'s>(server: &'s Server, service: &'s Service<'_>, stop: &AtomicBool) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let Server { protocol, tcp, udp, connections: most, .. } = server;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut SourceFd(&tcp.as_raw_fd()), LISTENER, Interest::READABLE)?;
    if let Some(udp) = udp {
        poll.registry().register(&mut SourceFd(&udp.as_raw_fd()), DATAGRAMS, Interest::READABLE)?;
    }
    let (connections, buffer) = (HashMap::new(), vec![0; BUFFER_BYTES]);
    let mut worker = Worker { service, server, protocol: *protocol, most: *most, connections, next: FIRST, buffer };
    let (mut events, mut datagrams, mut again) = (Events::with_capacity(1024), Vec::new(), Vec::new());
    // What is told once, and may be there still.
    let (mut accepts, mut receives) = (false, false);
    while !stop.load(Ordering::SeqCst) {
        let wait = if again.is_empty() && !receives { NOTICED } else { Duration::ZERO };
        match poll.poll(&mut events, Some(wait)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let mut ready: Vec<usize> = std::mem::take(&mut again);
        for event in &events {
            match event.token() {
                LISTENER => accepts = true,
                DATAGRAMS => receives = true,
                Token(number) => {
                    if event.is_read_closed() || event.is_error() {
                        worker.connections.get_mut(&number).into_iter().for_each(Connection::ends);
                    }
                    ready.push(number);
                }
            }
        }
        accepts = accepts && worker.accept(tcp, &poll, &mut ready);
        receives = receives && udp.as_ref().is_some_and(|udp| datagram::serve(udp, service, &mut datagrams));
        ready.sort_unstable();
        ready.dedup();
        again = worker.turns(ready);
    }
    let open = worker.connections.len() as u64;
    service.statistics.connections.fetch_sub(open, Ordering::Relaxed);
    Ok(())
}

struct Worker<'s, 'h> {
    service: &'s Service<'h>,
    server: &'s Server,
    protocol: Protocol,
    /// Connections at most.
    most: usize,
    connections: HashMap<usize, Connection<'s, 'h>>,
    next: usize,
    buffer: Vec<u8>,
}

impl Worker<'_, '_> {
    /// Accepts the connections that are there; whether there may be more. Where files run out, they wait until others are closed.
    fn accept(&mut self, tcp: &TcpListener, poll: &Poll, ready: &mut Vec<usize>) -> bool {
        loop {
            let stream = match tcp.accept() {
                Ok((stream, _)) => stream,
                Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
            };
            if self.connections.len() >= self.most || stream.set_nonblocking(true).is_err() {
                continue;
            }
            let _ = stream.set_nodelay(true);
            let mut stream = mio::net::TcpStream::from_std(stream);
            let number = self.next;
            let interest = Interest::READABLE | Interest::WRITABLE;
            if poll.registry().register(&mut stream, Token(number), interest).is_err() {
                continue;
            }
            let Ok(transport) = self.server.transport(stream) else { continue };
            self.next += 1;
            self.connections.insert(number, Connection::new(transport, self.service, self.protocol));
            self.service.statistics.connections.fetch_add(1, Ordering::Relaxed);
            self.service.statistics.all_connections.fetch_add(1, Ordering::Relaxed);
            ready.push(number);
        }
    }

    /// Gives connections a turn; returns those that have more to do.
    fn turns(&mut self, ready: Vec<usize>) -> Vec<usize> {
        let (mut again, mut held) = (Vec::new(), Vec::new());
        for number in ready {
            let Some(connection) = self.connections.get_mut(&number) else { continue };
            match connection.turn(&mut self.buffer) {
                After::Wait => {}
                After::Again => again.push(number),
                After::Held => held.push(number),
                After::Over => {
                    self.connections.remove(&number);
                    self.service.statistics.connections.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
        // One wait for the disk serves all of them.
        let position = held.iter().filter_map(|number| self.connections.get(number)).map(Connection::recorded).max();
        let is_safe = match (position, self.service.store.journal()) {
            (Some(position), Some(journal)) => journal.wait(position),
            _ => true,
        };
        if is_safe {
            again.append(&mut held);
        }
        for number in held {
            // Whether its changes are going to be on the disk is not known: no reply says so.
            self.connections.remove(&number);
            self.service.statistics.connections.fetch_sub(1, Ordering::Relaxed);
        }
        again
    }
}
