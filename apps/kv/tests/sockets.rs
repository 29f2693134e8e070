//! The server under clients that do not behave: floods, half-closed connections, no files left, requests without an end, and
//! replies that nobody reads.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kiln_kv::journal::{Journal, Sync};
use kiln_kv::protocol::{CLIENT_BYTES, Service};
use kiln_kv::server::{Protocol, Server};
use kiln_kv::store::{OWN_VARIABLE_BYTES, Settings, Store, VALUE_MOST, own_heap};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const SETTINGS: Settings = Settings { buckets: 1 << 10, most_bytes: 16 << 20, served: None };
const PATIENCE: Duration = Duration::from_secs(20);
/// One test at a time: they share the process's files and processors.
static ALONE: Mutex<()> = Mutex::new(());

/// Ends the server, also if a test fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Has a server with one worker serve while `client` runs.
fn with_server(client: impl FnOnce(SocketAddr)) {
    with(Protocol::Memcached, 1, CLIENT_BYTES, |address, _| client(address));
}

/// Has a server with so many workers serve while `client` runs.
fn with(protocol: Protocol, workers: usize, client_bytes: u64, client: impl FnOnce(SocketAddr, &Service<'_>)) {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    let service = service.with_client_bytes(client_bytes);
    let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into(), protocol, true).expect("it binds");
    server.listen().expect("it listens");
    let address = server.address().expect("an address");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let serving = scope.spawn(|| server.run(&service, workers, &stop));
        client(address, &service);
        stop.store(true, Ordering::SeqCst);
        serving.join().expect("it ends").expect("it served");
    });
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    stream
}

fn ask(stream: &mut TcpStream, request: &[u8], reply: &[u8]) {
    stream.write_all(request).expect("it reads");
    let mut told = vec![0; reply.len()];
    stream.read_exact(&mut told).expect("it answers");
    assert_eq!(String::from_utf8_lossy(&told), String::from_utf8_lossy(reply));
}

/// A datagram with a request.
fn framed(text: &[u8]) -> Vec<u8> {
    [&[1, 2, 0, 0, 0, 1, 0, 0], text].concat()
}

#[test]
fn a_flood_of_datagrams_does_not_stop_connections() {
    const ROUNDS: usize = 200;
    with_server(|address| {
        let flooded = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _end = Stop(&flooded);
            for _ in 0..2 {
                scope.spawn(|| {
                    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
                    while !flooded.load(Ordering::SeqCst) {
                        let _ = socket.send_to(&framed(b"get k\r\n"), address);
                    }
                });
            }
            let begun = Instant::now();
            let mut stream = connect(address);
            for _ in 0..ROUNDS {
                ask(&mut stream, b"mn\r\n", b"MN\r\n");
            }
            println!("{ROUNDS} requests in {:?}", begun.elapsed());
        });
    });
}

#[test]
fn datagrams_are_answered_except_those_of_a_server() {
    with_server(|address| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        // From the server's own port, at another address: an answer to it would be answered.
        let other = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), address.port())).expect("the port");
        other.set_read_timeout(Some(Duration::from_millis(300))).expect("a time limit");
        let mut buffer = [0; 2048];
        other.send_to(&framed(b"get k\r\n"), address).expect("it is sent");
        socket.send_to(&framed(b"set k 0 0 1\r\nx\r\nget k\r\n"), address).expect("it is sent");
        let bytes = socket.recv(&mut buffer).expect("an answer");
        assert_eq!(buffer[..bytes], framed(b"STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n"));
        assert!(other.recv(&mut buffer).is_err(), "no answer");
        // What has no frame, or is a part of several.
        for wrong in [&b""[..], b"1234567"] {
            socket.send_to(wrong, address).expect("it is sent");
        }
        socket.send_to(&[1, 2, 0, 0, 0, 2, 0, 0, b'x'], address).expect("it is sent");
        let bytes = socket.recv(&mut buffer).expect("an answer");
        assert_eq!(buffer[..bytes], framed(b"SERVER_ERROR multi-packet request not supported\r\n"));
    });
}

#[test]
fn a_client_that_sends_nothing_more_still_gets_its_replies() {
    const KEYS: usize = 30;
    with_server(|address| {
        let mut stream = connect(address);
        let value = vec![b'x'; VALUE_MOST];
        let store = [format!("set k 0 0 {VALUE_MOST}\r\n").as_bytes(), &value, b"\r\n"].concat();
        ask(&mut stream, &store, b"STORED\r\n");
        // Replies of 30 MiB: more than fits into any buffer, so most of them are sent after the client's last byte.
        stream.write_all(format!("get{}\r\nmn\r\n", " k".repeat(KEYS)).as_bytes()).expect("it reads");
        stream.shutdown(Shutdown::Write).expect("half of it");
        std::thread::sleep(Duration::from_millis(300));
        let mut told = Vec::new();
        stream.read_to_end(&mut told).expect("it answers");
        assert!(told.ends_with(b"END\r\nMN\r\n"));
        assert_eq!(told.len(), KEYS * (VALUE_MOST + format!("VALUE k 0 {VALUE_MOST}\r\n\r\n").len()) + 9);
    });
}

/// Lets the process have no more files than it has, and gives that back at the end.
struct NoFiles {
    before: Rlimit,
    held: Vec<std::fs::File>,
}

impl NoFiles {
    fn begin() -> NoFiles {
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(256), ..before }).expect("a lower limit");
        let held = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).take(300).collect();
        NoFiles { before, held }
    }
}

impl Drop for NoFiles {
    fn drop(&mut self) {
        let _ = setrlimit(Resource::Nofile, self.before);
    }
}

#[test]
fn connections_beyond_the_last_file_wait_for_one() {
    with_server(|address| {
        let mut first = connect(address);
        ask(&mut first, b"mn\r\n", b"MN\r\n");
        let mut files = NoFiles::begin();
        // The one file that is left is the client's; there is none for the server's side.
        drop(files.held.pop().expect("there were files"));
        let mut second = connect(address);
        second.write_all(b"mn\r\n").expect("it is sent");
        second.set_read_timeout(Some(Duration::from_millis(300))).expect("a time limit");
        assert!(second.read(&mut [0]).is_err(), "nobody can accept it");
        // Who was there before is served, and the server waits without turning.
        let spent = || rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let before = spent();
        for _ in 0..20 {
            ask(&mut first, b"mn\r\n", b"MN\r\n");
            std::thread::sleep(Duration::from_millis(25));
        }
        let after = spent();
        let used = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1_000_000;
        assert!(used < 250, "{used} ms of a processor in half a second");
        drop(files);
        second.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        let mut told = [0; 4];
        second.read_exact(&mut told).expect("it is accepted now");
        assert_eq!(&told, b"MN\r\n");
    });
}

/// Sends what the socket takes; whether the connection still stands.
fn push(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(count) => sent += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(_) => return false,
        }
    }
    let stands = match stream.peek(&mut [0]) {
        Ok(bytes) => bytes > 0,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    };
    stream.set_nonblocking(false).expect("a socket");
    stands
}

/// Has 60 clients, each of which sends `bytes` and reads nothing, until the server has closed some; what the server has counted most.
fn crowd(address: SocketAddr, service: &Service<'_>, bytes: &[u8]) -> u64 {
    let own = &service.statistics;
    let mut polite = connect(address);
    let (mut most, begun) = (0, Instant::now());
    let mut clients: Vec<TcpStream> = (0..60).map(|_| connect(address)).collect();
    while own.shed.load(Ordering::Relaxed) < 20 {
        assert!(begun.elapsed() < PATIENCE, "{} of {most} bytes", own.shed.load(Ordering::Relaxed));
        for client in &mut clients {
            if !push(client, bytes) {
                *client = connect(address);
            }
            most = most.max(own.client_bytes.load(Ordering::Relaxed));
        }
        // Who keeps little is served all the time.
        ask(&mut polite, b"PING\r\n", b"+PONG\r\n");
    }
    drop(clients);
    while own.client_bytes.load(Ordering::Relaxed) > 64 << 10 {
        assert!(begun.elapsed() < PATIENCE, "{} bytes are left", own.client_bytes.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_millis(20));
    }
    most
}

#[test]
fn requests_without_an_end_take_no_more_than_the_limit() {
    const LIMIT: u64 = 8 << 20;
    for workers in [1, 2] {
        with(Protocol::Redis, workers, LIMIT, |address, service| {
            let half = [&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\n"[..], &vec![b'x'; 900_000]].concat();
            let most = crowd(address, service, &half);
            // Beyond the limit is what each worker has read last, and what a vector grows by.
            assert!(most <= LIMIT + workers as u64 * (2 << 20), "{most}");
        });
    }
}

#[test]
fn replies_that_nobody_reads_take_no_more_than_the_limit() {
    const LIMIT: u64 = 8 << 20;
    with(Protocol::Redis, 2, LIMIT, |address, service| {
        let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${VALUE_MOST}\r\n");
        let large = [head.as_bytes(), &vec![b'x'; VALUE_MOST], b"\r\n"].concat();
        ask(&mut connect(address), &large, b"+OK\r\n");
        let most = crowd(address, service, &b"GET k\r\n".repeat(20));
        assert!(most <= LIMIT + 2 * (4 << 20), "{most}");
    });
}

#[test]
fn what_is_not_on_the_disk_is_shown_to_nobody() {
    with(Protocol::Redis, 2, CLIENT_BYTES, |address, service| {
        let journal = Arc::new(Journal::new(Sync::Always));
        service.store.record_to(Arc::clone(&journal));
        let short = Some(Duration::from_millis(200));
        let mut readers: Vec<TcpStream> = (0..4).map(|_| connect(address)).collect();
        readers.iter_mut().for_each(|reader| ask(reader, b"GET k\r\n", b"$-1\r\n"));
        let mut writer = connect(address);
        writer.write_all(b"SET k 1\r\n").expect("it reads");
        while journal.position() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        for reader in readers.iter_mut().chain([&mut writer]) {
            let _ = reader.write_all(b"GET k\r\n");
            reader.set_read_timeout(short).expect("a time limit");
            assert!(reader.read(&mut [0]).is_err(), "nobody gets to know before the disk has it");
            reader.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        }
        // A thread of a log would do this after `fsync`.
        let synced = || journal.synced(journal.take(Duration::ZERO).position, Instant::now());
        synced();
        ask(&mut writer, b"", b"+OK\r\n$1\r\n1\r\n");
        readers.iter_mut().for_each(|reader| ask(reader, b"", b"$1\r\n1\r\n"));
        // While the log fails, the change is not acknowledged, and reads go on.
        writer.write_all(b"SET k 2\r\n").expect("it reads");
        journal.fail(Some("no space".to_owned()));
        readers.iter_mut().for_each(|reader| ask(reader, b"STRLEN k\r\n", b":1\r\n"));
        ask(&mut readers[0], b"SET k 3\r\n", b"-MISCONF Errors writing to the AOF file: no space\r\n");
        journal.fail(None);
        synced();
        ask(&mut readers[0], b"PING\r\n", b"+PONG\r\n");
    });
}

#[test]
fn connections_are_refused_until_the_server_listens() {
    let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
    let server = Server::bind(any, Protocol::Redis, false).and_then(|server| server.with_metrics(any));
    let server = server.expect("it binds");
    let addresses = [Some(server.address().expect("an address")), server.metrics_address().expect("an address")];
    for address in addresses.into_iter().flatten() {
        let refused = TcpStream::connect(address).expect_err("nothing was read yet");
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    }
    server.listen().expect("it listens");
    addresses.into_iter().flatten().for_each(|address| drop(connect(address)));
}
