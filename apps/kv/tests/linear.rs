//! Linearizability behind sockets: what clients at once have seen of a few keys can have happened one after the other. With the
//! program in XDP beside them: `extension.rs`.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_kv::protocol::Service;
use kiln_kv::server::{Protocol, Server};
use kiln_kv::store::{OWN_VARIABLE_BYTES, Settings, Store, own_heap};
use support::linear::{Did, Operation, Recorder, check, check_slowly};

const SETTINGS: Settings = Settings { buckets: 1 << 10, most_bytes: 32 << 20, served: None };
const CLIENTS: usize = 4;
const KEYS: usize = 3;

/// Random operations of a few clients, most of which no store has done.
fn random(next: &mut impl FnMut(usize) -> usize) -> Vec<Operation> {
    let mut all = Vec::new();
    for client in 0..3 {
        let mut time = next(4) as u64;
        for _ in 0..1 + next(2) {
            let (begun, value) = (time, next(3) as u64);
            time += 1 + next(6) as u64;
            let did = match next(5) {
                0 | 1 => Did::Read(Some(value).filter(|value| *value > 0)),
                2 => Did::Write(value),
                3 => Did::Remove(next(2) == 0),
                _ => Did::Add(value, next(2) == 0),
            };
            all.push(Operation { client, key: 0, begun, ended: time, did });
            time += 1 + next(3) as u64;
        }
    }
    all
}

#[test]
fn the_search_finds_what_trying_all_orders_finds() {
    let (mut next, mut possible) = (support::numbers(), 0);
    const ROUNDS: usize = 30_000;
    for _ in 0..ROUNDS {
        let operations = random(&mut next);
        let wanted = check_slowly(&operations);
        assert_eq!(check(&operations).is_ok(), wanted, "{operations:#?}");
        possible += usize::from(wanted);
    }
    assert!((ROUNDS / 10..ROUNDS * 9 / 10).contains(&possible), "{possible}");
}

/// A connection that asks for one thing at a time.
struct Client(TcpStream, Vec<u8>);

impl Client {
    fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("it accepts");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
        stream.set_nodelay(true).expect("a socket");
        Client(stream, Vec::new())
    }

    /// The reply to a line: one line, or two for a string.
    fn ask(&mut self, line: &str) -> &str {
        self.0.write_all(line.as_bytes()).expect("it reads");
        self.1.clear();
        let mut part = [0; 4096];
        loop {
            let bytes = self.0.read(&mut part).expect("it answers");
            assert!(bytes > 0, "closed");
            self.1.extend(&part[..bytes]);
            let lines = self.1.iter().filter(|byte| **byte == b'\n').count();
            let wanted = if self.1.starts_with(b"$") && !self.1.starts_with(b"$-") { 2 } else { 1 };
            if lines == wanted {
                return std::str::from_utf8(&self.1).expect("text");
            }
        }
    }

    /// The value of a reply, which may have letters behind it to be longer.
    fn value(reply: &str) -> Option<u64> {
        let digits = reply.lines().nth(1)?.trim_end_matches('x');
        Some(digits.parse().expect("a value that somebody has stored"))
    }

    fn operation(&mut self, key: usize, value: u64, kind: usize, padding: usize) -> Did {
        let text = format!("{value}{}", "x".repeat(padding));
        match kind {
            0..8 => Did::Read(Client::value(self.ask(&format!("GET k{key}\r\n")))),
            8..13 => {
                assert_eq!(self.ask(&format!("SET k{key} {text}\r\n")), "+OK\r\n");
                Did::Write(value)
            }
            13 => Did::Remove(self.ask(&format!("DEL k{key}\r\n")) == ":1\r\n"),
            14 => Did::Add(value, self.ask(&format!("SETNX k{key} {text}\r\n")) == ":1\r\n"),
            _ => Did::Exchange(Client::value(self.ask(&format!("GETSET k{key} {text}\r\n"))), value),
        }
    }
}

/// Has four clients do so many operations each; what they have seen.
fn history(address: SocketAddr, count: usize) -> Vec<Operation> {
    let clock = Instant::now();
    std::thread::scope(|scope| {
        let client = |number: usize| {
            move || {
                let (mut client, mut recorder) = (Client::connect(address), Recorder::new(clock, number));
                let mut next = support::numbers();
                (0..number).for_each(|_| {
                    next(2);
                });
                for turn in 0..count {
                    let (key, kind, value) = (next(KEYS), next(16), (number * count + turn + 1) as u64);
                    // Sizes that are stored over the old value, and others that are not.
                    let padding = [0, 5, 300, 1000][next(4)];
                    recorder.record(key, || client.operation(key, value, kind, padding));
                }
                recorder.operations
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(client(number))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("it ends")).collect()
    })
}

fn linear(count: usize) {
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into(), Protocol::Redis, false).expect("it binds");
    server.listen().expect("it listens");
    let (address, stop) = (server.address().expect("an address"), AtomicBool::new(false));
    let mut operations = std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&service, CLIENTS, &stop));
        let operations = history(address, count);
        stop.store(true, Ordering::SeqCst);
        serving.join().expect("it ends").expect("it served");
        operations
    });
    println!("{} operations of {CLIENTS} clients on {KEYS} keys", operations.len());
    check(&operations).unwrap_or_else(|why| panic!("{why}"));
    // The check would have seen a value that is old: the same history with one.
    let is_old = |it: &&mut Operation| it.key == 0 && matches!(it.did, Did::Read(Some(_)));
    let read = operations.iter_mut().filter(is_old).last().expect("somebody has read");
    read.did = Did::Read(Some(1));
    assert!(check(&operations).is_err(), "an old value is not noticed");
}

#[test]
fn clients_at_once_see_one_order() {
    linear(10_000);
}

#[test]
#[ignore = "minutes: make test-long"]
fn millions_of_operations_have_one_order() {
    linear(500_000);
}
