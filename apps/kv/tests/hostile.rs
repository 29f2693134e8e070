//! Both protocols under bytes that nobody meant: whatever a client sends, and wherever it is cut, the answers are the same, memory is
//! bounded, and the store is whole. Connections have a limit, and metrics an endpoint that is slow for nobody else.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_kv::protocol::{self, Next, OUTPUT_MOST, Service};
use kiln_kv::redis::{self, REQUEST_MOST};
use kiln_kv::server::{Protocol, Server};
use kiln_kv::store::{OWN_VARIABLE_BYTES, Settings, Store, VALUE_MOST, own_heap};
use support::redis::framed;

const SETTINGS: Settings = Settings { buckets: 1 << 8, most_bytes: 8 << 20, served: None };

/// A session of either protocol.
enum Session<'s, 'h> {
    Memcached(protocol::Session<'s, 'h>),
    Redis(redis::Session<'s, 'h>),
}

impl<'s, 'h> Session<'s, 'h> {
    fn new(service: &'s Service<'h>, protocol: Protocol) -> Session<'s, 'h> {
        match protocol {
            Protocol::Memcached => Session::Memcached(protocol::Session::new(service)),
            Protocol::Redis => Session::Redis(redis::Session::new(service)),
        }
    }

    fn serve(&mut self, arrived: &[u8], output: &mut Vec<u8>) -> Next {
        match self {
            Session::Memcached(session) => session.serve(arrived, output),
            Session::Redis(session) => session.serve(arrived, output),
        }
    }

    fn is_full(&self) -> bool {
        match self {
            Session::Memcached(session) => session.is_full(),
            Session::Redis(session) => session.is_full(),
        }
    }

    fn kept(&self) -> usize {
        match self {
            Session::Memcached(session) => session.kept(),
            Session::Redis(session) => session.kept(),
        }
    }
}

/// What a session on an empty store answers to pieces, and whether it closes.
fn answers(service: &Service<'_>, protocol: Protocol, pieces: &[&[u8]]) -> (Vec<u8>, Next) {
    service.store.clear();
    let (mut session, mut output) = (Session::new(service, protocol), Vec::new());
    for piece in pieces {
        if session.serve(piece, &mut output) == Next::Close {
            return (output, Next::Close);
        }
    }
    (output, Next::Go)
}

const TEXT: [&str; 40] = [
    "get ",
    "gets ",
    "gat 100 ",
    "set ",
    "add ",
    "cas ",
    "append ",
    "incr ",
    "touch ",
    "delete ",
    "flush_all",
    "mg ",
    "ms ",
    "md ",
    "ma ",
    "me ",
    "mn",
    " v",
    " t",
    " k",
    " q",
    " b",
    " N30",
    " T0",
    " MA",
    " J5",
    " Oabc",
    "k",
    "k ",
    "key",
    "0 ",
    "1 ",
    "5 ",
    "-1 ",
    "99999999999999999999 ",
    " noreply",
    "\r\n",
    "\r\n",
    "\r\n",
    "\n",
];

const WORDS: [&str; 42] = [
    "GET",
    "SET",
    "INCR",
    "APPEND",
    "SETRANGE",
    "GETRANGE",
    "MGET",
    "MSET",
    "DEL",
    "EXPIRE",
    "PERSIST",
    "TYPE",
    "ZADD",
    "ZINCRBY",
    "ZRANGE",
    "ZRANGEBYSCORE",
    "ZRANK",
    "ZPOPMIN",
    "ZREM",
    "ZCOUNT",
    "ZREMRANGEBYRANK",
    "HSET",
    "HGET",
    "HGETALL",
    "HDEL",
    "HINCRBY",
    "HMGET",
    "BYSCORE",
    "LIMIT",
    "WITHSCORES",
    "NX",
    "k",
    "z",
    "h",
    "m",
    "0",
    "-1",
    "inf",
    "(1",
    "9223372036854775807",
    "",
    "x y",
];

/// Requests as a client may send them, some of them damaged.
fn requests(next: &mut impl FnMut(usize) -> usize, protocol: Protocol) -> Vec<u8> {
    let mut sent = Vec::new();
    for _ in 0..1 + next(6) {
        match (protocol, next(8)) {
            (_, 0) => sent.extend((0..next(12)).map(|_| next(256) as u8)),
            (Protocol::Memcached, _) => (0..next(8)).for_each(|_| sent.extend(TEXT[next(TEXT.len())].as_bytes())),
            (Protocol::Redis, 1) => {
                (0..next(5)).for_each(|_| sent.extend(format!("{} ", WORDS[next(WORDS.len())]).bytes()));
                sent.extend(b"\r\n");
            }
            (Protocol::Redis, _) => {
                let words: Vec<&[u8]> = (0..1 + next(6)).map(|_| WORDS[next(WORDS.len())].as_bytes()).collect();
                sent.extend(framed(&words));
            }
        }
        if next(5) == 0 && !sent.is_empty() {
            let at = next(sent.len());
            match next(3) {
                0 => sent[at] = next(256) as u8,
                1 => drop(sent.remove(at)),
                _ => sent.insert(at, next(256) as u8),
            }
        }
    }
    sent
}

/// Versions differ between runs on one store.
fn is_comparable(sent: &[u8]) -> bool {
    !["gets", "mg", "ms", "ma", "me"].iter().any(|word| sent.windows(word.len()).any(|part| part == word.as_bytes()))
}

fn wherever_it_is_cut(protocol: Protocol, rounds: usize) {
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    let mut next = support::numbers();
    let mut compared = 0;
    let mut memory = support::Memory::default();
    for round in 0..rounds {
        let sent = requests(&mut next, protocol);
        let whole = answers(&service, protocol, &[&sent]);
        for cut in 0..sent.len() {
            let cut_once = answers(&service, protocol, &[&sent[..cut], &sent[cut..]]);
            if is_comparable(&sent) {
                let shown = String::from_utf8_lossy(&sent);
                assert_eq!(
                    String::from_utf8_lossy(&cut_once.0),
                    String::from_utf8_lossy(&whole.0),
                    "{shown:?} cut at {cut}"
                );
                assert_eq!(cut_once.1, whole.1, "{shown:?} cut at {cut}");
                compared += 1;
            }
        }
        let bytes: Vec<&[u8]> = sent.chunks(1).collect();
        let single = answers(&service, protocol, &bytes);
        assert!(!is_comparable(&sent) || single == whole, "{:?} byte by byte", String::from_utf8_lossy(&sent));
        if round % 500 == 499 {
            memory.look();
        }
    }
    assert!(compared > 5 * rounds, "{compared}");
    service.store.clear();
    assert_eq!((service.store.items(), service.store.bytes()), (0, 0));
    let accounts = kiln_heap::supply::accounts(&heap).expect("an allocator");
    assert_eq!((accounts.allocated_bytes, accounts.bad_frees), (0, 0), "{accounts:?}");
}

#[test]
fn answers_of_memcached_do_not_depend_on_pieces() {
    wherever_it_is_cut(Protocol::Memcached, support::rounds(600));
}

#[test]
fn answers_of_redis_do_not_depend_on_pieces() {
    wherever_it_is_cut(Protocol::Redis, support::rounds(600));
}

#[test]
fn one_session_after_another_stays_within_its_memory() {
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    let mut closed = 0;
    for protocol in [Protocol::Memcached, Protocol::Redis] {
        let mut next = support::numbers();
        let mut session = Session::new(&service, protocol);
        for _ in 0..support::rounds(60_000) {
            // Both protocols meet what the other one has stored, too.
            let other = next(10) == 0;
            let sent = requests(&mut next, if other { Protocol::Redis } else { protocol });
            let mut output = Vec::new();
            if session.serve(&sent, &mut output) == Next::Close {
                session = Session::new(&service, protocol);
                closed += 1;
            }
            assert!(session.kept() <= REQUEST_MOST && output.len() <= 2 * OUTPUT_MOST, "{}", session.kept());
            assert!(service.store.bytes() <= SETTINGS.most_bytes);
        }
    }
    assert!(closed > 0, "some requests end a connection");
    service.store.clear();
    assert_eq!((service.store.items(), service.store.bytes()), (0, 0));
}

#[test]
fn many_large_values_at_once_wait_until_the_client_reads() {
    const KEYS: usize = 1000;
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    let mut session = Session::new(&service, Protocol::Redis);
    let mut output = Vec::new();
    session.serve(&framed(&[b"SET", b"k", &vec![b'x'; VALUE_MOST]]), &mut output);
    session.serve(&framed(&[b"HSET", b"h", b"f", b"v"]), &mut output);
    assert_eq!(output, b"+OK\r\n:1\r\n");
    let words: Vec<&[u8]> =
        std::iter::once(&b"MGET"[..]).chain(std::iter::repeat_n(&b"k"[..], KEYS)).chain([&b"h"[..]]).collect();
    for request in [framed(&words), [&words.join(&b' ')[..], b"\r\n"].concat()] {
        let (mut sent, mut total, mut turns) = ([request, framed(&[b"PING"])].concat(), 0, 0);
        loop {
            let mut output = Vec::new();
            assert_eq!(session.serve(&std::mem::take(&mut sent), &mut output), Next::Go);
            assert!(output.len() < OUTPUT_MOST + VALUE_MOST + 100, "{}", output.len());
            total += output.len();
            turns += 1;
            if !session.is_full() {
                assert!(output.ends_with(b"$-1\r\n+PONG\r\n"));
                break;
            }
        }
        assert!(turns > KEYS / 3, "{turns}");
        let values = KEYS * (VALUE_MOST + "$1048064\r\n\r\n".len());
        assert_eq!(total, "*1001\r\n".len() + values + "$-1\r\n+PONG\r\n".len());
    }
}

/// Ends the server, also if a test fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Has a server of Redis' protocol with one worker, four connections and metrics serve while `client` runs.
fn with_server(client: impl FnOnce(SocketAddr, SocketAddr)) {
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    let server = Server::bind(any, Protocol::Redis, false).expect("it binds").limited(4);
    let server = server.with_metrics(any).expect("it binds");
    let metrics = server.metrics_address().expect("an address").expect("there are metrics");
    server.listen().expect("it listens");
    let (address, stop) = (server.address().expect("an address"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let serving = scope.spawn(|| server.run(&service, 1, &stop));
        client(address, metrics);
        stop.store(true, Ordering::SeqCst);
        serving.join().expect("it ends").expect("it served");
    });
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it accepts");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
    stream
}

/// Whether a connection is served; else it is closed.
fn is_served(stream: &mut TcpStream) -> bool {
    let mut told = [0; 7];
    stream.write_all(b"PING\r\n").is_ok() && stream.read_exact(&mut told).is_ok() && &told == b"+PONG\r\n"
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    with_server(|address, _| {
        let mut served: Vec<TcpStream> = (0..4).map(|_| connect(address)).collect();
        assert!(served.iter_mut().all(is_served));
        assert!((0..20).all(|_| !is_served(&mut connect(address))));
        assert!(served.iter_mut().all(is_served), "those that are there stay");
        served.pop();
        let begun = Instant::now();
        while !is_served(&mut connect(address)) {
            assert!(begun.elapsed() < Duration::from_secs(10), "a place that is free again");
        }
    });
}

/// The answer to a request of HTTP.
fn http(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut told = String::new();
    stream.read_to_string(&mut told).expect("it answers");
    told
}

#[test]
fn metrics_tell_what_was_served() {
    with_server(|address, metrics| {
        let mut stream = connect(address);
        stream.write_all(b"SET a 1\r\nGET a\r\nGET b\r\nHSET h f v\r\n").expect("it reads");
        let mut told = [0; "+OK\r\n$1\r\n1\r\n$-1\r\n:1\r\n".len()];
        stream.read_exact(&mut told).expect("it answers");
        // Somebody who says nothing, and somebody who says too much.
        let _slow = connect(metrics);
        let mut long = connect(metrics);
        let _ = long.write_all(&[b'x'; 64 << 10]);
        let told = http(metrics, "GET /metrics?x=1 HTTP/1.1\r\nHost: here\r\n\r\n");
        assert!(told.starts_with("HTTP/1.1 200 OK\r\n"), "{told}");
        for row in [
            "kiln_kv_items 2",
            "kiln_kv_commands_total 4",
            "kiln_kv_gets_total 2",
            "kiln_kv_hits_total 1",
            "kiln_kv_sets_total 2",
            "kiln_kv_connections 1",
            "kiln_kv_evictions_total 0",
        ] {
            assert!(told.lines().any(|line| line == row), "{row} is not in {told}");
        }
        assert_eq!(told.matches("# TYPE ").count(), told.matches("# HELP ").count());
        assert!(http(metrics, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(http(metrics, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(is_served(&mut stream));
    });
}
