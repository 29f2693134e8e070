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

/// Serves until `stop` is set, as one of so many workers.
pub fn run<'s>(server: &'s Server, service: &'s Service<'_>, workers: usize, stop: &AtomicBool) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let Server { protocol, tcp, udp, connections: most, .. } = server;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut SourceFd(&tcp.as_raw_fd()), LISTENER, Interest::READABLE)?;
    if let Some(udp) = udp {
        poll.registry().register(&mut SourceFd(&udp.as_raw_fd()), DATAGRAMS, Interest::READABLE)?;
    }
    let (connections, buffer) = (HashMap::new(), vec![0; BUFFER_BYTES]);
    let (protocol, most, workers) = (*protocol, *most, workers as u64);
    let mut worker = Worker { service, server, protocol, most, connections, next: FIRST, buffer, counted: 0, workers };
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
    /// Bytes of memory that its connections' requests and replies take.
    counted: u64,
    workers: u64,
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
            ready.push(number);
        }
    }

    /// Gives connections a turn; returns those that have more to do.
    fn turns(&mut self, ready: Vec<usize>) -> Vec<usize> {
        let (mut again, mut held) = (Vec::new(), Vec::new());
        for number in ready {
            let Some(connection) = self.connections.get_mut(&number) else { continue };
            let after = connection.turn(&mut self.buffer);
            let before = connection.counted();
            self.counted = self.counted + connection.count() - before;
            match after {
                After::Wait => {}
                After::Again => again.push(number),
                After::Held => held.push(number),
                After::Over => self.close(number),
            }
            self.shed();
        }
        // Another worker may have made it too much.
        self.shed();
        // One wait for the disk serves all of them.
        let position = held.iter().filter_map(|number| self.connections.get(number)).map(Connection::seen).max();
        if let (Some(position), Some(journal)) = (position, self.service.store.journal()) {
            journal.wait(position);
        }
        for number in held {
            // If its changes are not on the disk now, whether they are going to be is not known: no reply says so.
            if self.connections.get(&number).is_some_and(Connection::is_safe) {
                again.push(number);
            } else {
                self.close(number);
            }
        }
        again
    }

    fn close(&mut self, number: usize) {
        if let Some(connection) = self.connections.remove(&number) {
            self.counted -= connection.counted();
        }
    }

    /// While the connections of all workers take too much memory, closes those that take most. A worker that has no more than its
    /// share leaves that to the others, of which one has.
    fn shed(&mut self) {
        while self.service.is_crowded() && self.counted > self.service.most_client_bytes / self.workers {
            let most = self.connections.iter().max_by_key(|(_, connection)| connection.counted());
            let Some((number, _)) = most else { break };
            self.service.statistics.shed.fetch_add(1, Ordering::Relaxed);
            self.close(*number);
        }
    }
}
