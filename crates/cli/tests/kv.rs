//! `kiln kv`, from outside: by sockets without privilege, and in XDP between two network namespaces.

#[path = "kv/clock.rs"]
mod clock;
#[path = "kv/cluster.rs"]
mod cluster;
#[path = "kv/crowd.rs"]
mod crowd;
#[path = "kv/data.rs"]
mod data;
#[path = "kv/disk.rs"]
mod disk;

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use kiln_linux::attach::XdpMode;
use kiln_linux::{Link, OwnNetwork, load_image};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(10);
const SERVER: &str = "192.0.2.1:11211";
const REQUESTS: usize = 4000;
/// What the kernel's verifier may process.
const MOST_PROCESSED: u64 = 200_000;

/// A server that is killed with this.
struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts one, and waits until it serves: what it says. The error is what it says if it ends.
    fn start(arguments: &[&str]) -> Result<(Server, Value), String> {
        Server::start_as("memcached", arguments)
    }

    fn start_as(protocol: &str, arguments: &[&str]) -> Result<(Server, Value), String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        Server::start_command(command.args(["kv", protocol, "--format", "json"]).args(arguments))
    }

    fn start_command(command: &mut Command) -> Result<(Server, Value), String> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kiln starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it says something");
        let begun: Value = serde_json::from_str(&line).unwrap_or_default();
        if begun["address"].is_null() {
            let said = child.wait_with_output().expect("it ends");
            return Err(String::from_utf8_lossy(&said.stderr).into_owned());
        }
        let address = begun["address"].as_str().unwrap_or_default().to_owned();
        Ok((Server { child, output, address }, begun))
    }

    fn address(&self) -> String {
        self.address.clone()
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.child.id())]).status().expect("sh");
        assert!(sent.success(), "the command has ended already");
    }

    /// Ends it by Ctrl-C; its exit code.
    fn end(mut self) -> Option<i32> {
        self.signal("INT");
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("it ends");
        self.child.wait().expect("it ends").code()
    }
}

/// A connection.
struct Client(TcpStream);

impl Client {
    fn connect(address: &str) -> Client {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        Client(stream)
    }

    /// Sends bytes, and reads until there is a reply with this end.
    fn ask(&mut self, request: &[u8], end: &str) -> String {
        self.0.write_all(request).expect("it reads");
        let (mut reply, mut part) = (Vec::new(), vec![0; 64 << 10]);
        while !reply.ends_with(end.as_bytes()) {
            let bytes = self.0.read(&mut part).unwrap_or_else(|error| panic!("{error} after {:?}", lossy(&reply)));
            assert!(bytes > 0, "closed after {:?}", lossy(&reply));
            reply.extend(&part[..bytes]);
        }
        lossy(&reply)
    }

    /// Sends a request whose answer is one line; none if the connection is closed.
    fn try_ask(&mut self, request: &[u8]) -> Option<String> {
        self.0.write_all(request).ok()?;
        let (mut reply, mut part) = (Vec::new(), [0; 4096]);
        while !reply.ends_with(b"\n") {
            let bytes = self.0.read(&mut part).ok().filter(|bytes| *bytes > 0)?;
            reply.extend(&part[..bytes]);
        }
        Some(lossy(&reply))
    }

    fn statistic(&mut self, name: &str) -> u64 {
        let all = self.ask(b"stats\r\n", "END\r\n");
        let line = all.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
        line.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {name} in {all}"))
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn set(key: &str, value: &str) -> String {
    format!("set {key} 5 0 {}\r\n{value}\r\n", value.len())
}

fn found(key: &str, value: &str) -> String {
    format!("VALUE {key} 5 {}\r\n{value}\r\nEND\r\n", value.len())
}

#[test]
fn sockets_serve_without_privilege() {
    let free = "127.0.0.1:0";
    let arguments = ["--listen", free, "--udp", "--memory", "16", "--metrics", free];
    let (server, begun) = Server::start(&arguments).expect("it starts");
    let address = begun["address"].as_str().expect("an address").to_owned();
    let mut client = Client::connect(&address);
    assert_eq!(client.ask(set("k", "hello").as_bytes(), "\r\n"), "STORED\r\n");
    assert_eq!(client.ask(b"get k\r\n", "END\r\n"), found("k", "hello"));
    let metrics = format!("http://{}/metrics", begun["metrics"].as_str().expect("an address"));
    let text = ureq::get(&metrics).call().expect("it answers").body_mut().read_to_string().expect("it is text");
    let counts = |line: &str| line.starts_with("kiln_kv_") && line.ends_with(" 1");
    assert!(text.lines().any(counts), "{text}");
    // Many requests at once, of several clients.
    std::thread::scope(|scope| {
        for number in 0..8 {
            let address = &address;
            scope.spawn(move || {
                let mut client = Client::connect(address);
                let requests: String =
                    (0..200).map(|at| set(&format!("k{number}-{at}"), &"v".repeat(at * 7))).collect();
                assert_eq!(
                    client.ask(format!("{requests}mn\r\n").as_bytes(), "MN\r\n"),
                    "STORED\r\n".repeat(200) + "MN\r\n"
                );
                let keys: String = (0..200).map(|at| format!(" k{number}-{at}")).collect();
                let all = client.ask(format!("get{keys}\r\n").as_bytes(), "END\r\n");
                assert_eq!(all.matches("VALUE ").count(), 200);
            });
        }
    });
    // The largest value, and more of them than there is memory for.
    let large = "x".repeat(1_000_000);
    for number in 0..40 {
        let key = format!("large{number}");
        assert_eq!(client.ask(set(&key, &large).as_bytes(), "\r\n"), "STORED\r\n", "{number}");
        assert!(client.ask(format!("get {key}\r\n").as_bytes(), "END\r\n") == found(&key, &large), "{key}");
    }
    assert!(client.statistic("evictions") > 20);
    assert!(client.statistic("bytes") <= 16 << 20);
    // Datagrams, of which a long reply is several.
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    socket.connect(&address).expect("connects");
    client.ask(set("d", &"y".repeat(5000)).as_bytes(), "\r\n");
    let mut reply = String::new();
    socket.send(b"\x12\x34\0\0\0\x01\0\0get d\r\n").expect("is sent");
    for number in 0..4u16 {
        let mut part = [0; 2000];
        let bytes = socket.recv(&mut part).expect("a reply");
        assert_eq!((&part[..2], &part[2..6]), (&b"\x12\x34"[..], &[0, number as u8, 0, 4][..]));
        reply += &lossy(&part[8..bytes]);
    }
    assert_eq!(reply, found("d", &"y".repeat(5000)));
    pymemcache(&address);
    assert_eq!(server.end(), Some(0));
}

/// Has Python's client work with a server, if it is installed.
fn pymemcache(address: &str) {
    let (host, port) = address.rsplit_once(':').expect("an address");
    let script = format!(
        "from pymemcache.client.base import Client\n\
         c = Client(('{host}', {port}), default_noreply=False)\n\
         assert c.set('py', b'one', expire=100, flags=3)\n\
         assert c.get('py') == b'one'\n\
         assert c.add('py', b'x') is False and c.replace('py', b'two')\n\
         assert c.append('py', b'!') and c.prepend('py', b'>') and c.get('py') == b'>two!'\n\
         value, cas = c.gets('py')\n\
         assert c.cas('py', b'three', cas) is True and c.cas('py', b'four', cas) is False\n\
         assert c.set_many({{'a': b'1', 'b': b'2'}}) == [] and c.get_many(['a', 'b', 'c']) == {{'a': b'1', 'b': b'2'}}\n\
         assert c.incr('a', 41) == 42 and c.decr('a', 2) == 40 and c.touch('a', 5)\n\
         assert c.delete('a') and not c.delete('a') and c.get('a') is None\n\
         assert c.stats()[b'curr_items'] > 0 and c.version()\n\
         assert c.flush_all() and c.get('py') is None\n"
    );
    python("pymemcache", &script);
}

/// What Python says to a script, if it has a module: the one that is found first, or the system's. The script has to end well.
fn python(module: &str, script: &str) -> Option<String> {
    let run = |python: &str, script: &str| Command::new(python).args(["-c", script]).output();
    let has = |python: &&&str| run(python, &format!("import {module}")).is_ok_and(|output| output.status.success());
    let Some(python) = ["python3", "/usr/bin/python3"].iter().find(has) else {
        println!("skipped: {module} is not installed");
        return None;
    };
    let output = run(python, script).expect("python3");
    assert!(output.status.success(), "{}", lossy(&output.stderr));
    Some(lossy(&output.stdout))
}

#[test]
fn clients_of_redis_are_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("password");
    std::fs::write(&file, "secret\n").expect("is written");
    let password = ["--password-file", file.to_str().expect("text")];
    let arguments = [&["--listen", "127.0.0.1:0", "--memory", "16"][..], &password].concat();
    let (server, begun) = Server::start_as("redis", &arguments).expect("it starts");
    let address = begun["address"].as_str().expect("an address").to_owned();
    let mut client = Client::connect(&address);
    assert_eq!(client.ask(b"GET k\r\n", "\r\n"), "-NOAUTH Authentication required.\r\n");
    // Many requests at once, whose replies are more than is kept.
    let all =
        [&b"AUTH secret\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n"[..], &vec![b'x'; 100_000], b"\r\n"].concat();
    assert_eq!(client.ask(&all, "+OK\r\n+OK\r\n"), "+OK\r\n+OK\r\n");
    let many = client.ask(format!("{}PING\r\n", "GET k\r\n".repeat(100)).as_bytes(), "+PONG\r\n");
    assert_eq!(many.len(), 100 * (9 + 100_000 + 2) + 7);
    redis_cli(&address);
    redis_py(&address);
    assert_eq!(server.end(), Some(0));
    std::fs::write(&file, "").expect("is written");
    let refused = Server::start_as("redis", &arguments).err().expect("no password is refused");
    assert!(refused.contains("is empty"), "{refused}");
}

fn redis_cli(address: &str) {
    let port = address.rsplit_once(':').expect("an address").1;
    let ask = |words: &[&str]| {
        let mut command = Command::new("redis-cli");
        command.args(["-p", port, "-a", "secret", "--no-auth-warning"]).args(words);
        command.output().map(|output| lossy(&output.stdout))
    };
    if ask(&["PING"]).is_err() {
        return println!("skipped: redis-cli is not installed");
    }
    for (words, wanted) in [
        (&["SET", "cli", "one", "EX", "100"][..], "OK\n"),
        (&["-3", "GET", "cli"], "one\n"),
        (&["TTL", "cli"], "100\n"),
        (&["--scan", "--pattern", "cl*"], "cli\n"),
        (&["INCR", "cli"], "ERR value is not an integer or out of range\n\n"),
    ] {
        assert_eq!(ask(words).expect("redis-cli"), wanted, "{words:?}");
    }
}

/// Has Python's client work with a server, if it is installed.
fn redis_py(address: &str) {
    let port = address.rsplit_once(':').expect("an address").1;
    let script = format!(
        "import redis\n\
         r = redis.Redis(port={port}, password='secret')\n\
         assert r.ping() and r.set('py', b'one', px=100000) and r.get('py') == b'one' and 99 <= r.ttl('py') <= 100\n\
         assert r.set('py', 'x', nx=True) is None and r.set('py', 'two', xx=True, get=True) == b'one'\n\
         assert r.append('py', '!') == 4 and r.strlen('py') == 4 and r.getrange('py', 0, 1) == b'tw'\n\
         assert r.mset({{'a': 1, 'b': 2}}) and r.mget('a', 'b', 'c') == [b'1', b'2', None]\n\
         assert r.incr('a', 41) == 42 and r.decr('a') == 41 and r.incrbyfloat('b', 0.5) == 2.5\n\
         p = r.pipeline(transaction=False)\n\
         for n in range(1000): p.set('n%d' % n, n)\n\
         assert all(p.execute()) and len(set(r.scan_iter('n*'))) == 1000\n\
         assert r.expire('a', 100) and r.persist('a') and r.exists('a', 'b', 'c') == 2 and r.type('a') == b'string'\n\
         info = r.info()\n\
         assert info['redis_version'] and info['db0']['keys'] == r.dbsize() > 1000\n\
         assert r.client_setname('me') and r.client_getname() == 'me' and r.client_id() > 0\n\
         assert r.command()['get']['arity'] == 2 and r.command_count() == len(r.command())\n\
         assert r.delete('a', 'b', 'c') == 2 and r.flushall() and r.dbsize() == 0\n"
    );
    python("redis", &script);
}

fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip");
    assert!(output.status.success(), "ip {arguments}: {}", lossy(&output.stderr));
    lossy(&output.stdout)
}

/// The other end of the veth pair, in a namespace of its own: what it does is given by `work`.
fn at_the_other_end(
    thread: &mpsc::Sender<i32>,
    ready: &mpsc::Receiver<()>,
    done: &mpsc::Sender<()>,
    work: fn(&UdpSocket),
) {
    let _network = OwnNetwork::enter().expect("a namespace of its own");
    thread.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("the test waits");
    ready.recv().expect("the test goes on");
    ip("link set heapskv1 up");
    ip("addr add 192.0.2.2/24 dev heapskv1");
    // Native XDP_TX delivers only to interfaces with a program.
    let pass = kiln_program::text::parse("; program xdp\n r0 = 2\n exit\n").expect("a program");
    let pass = load_image(&pass, &pass.programs[0]).expect("loads");
    let index = ip("-o link show heapskv1").split(':').next().and_then(|number| number.trim().parse().ok());
    let _link = Link::xdp(&pass.prog, index.expect("a number"), XdpMode::Native).expect("attaches");
    let socket = UdpSocket::bind("192.0.2.2:0").expect("a port is free");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    socket.connect(SERVER).expect("connects");
    work(&socket);
    done.send(()).expect("the test waits");
    // The interfaces go with the namespace.
    let _ = ready.recv();
}

/// A request in a datagram; the text of the reply.
fn datagram(socket: &UdpSocket, request: &str) -> String {
    let sent = [&b"\x55\xaa\0\0\0\x01\0\0"[..], request.as_bytes()].concat();
    socket.send(&sent).expect("is sent");
    let mut reply = [0; 2000];
    let bytes = socket.recv(&mut reply).unwrap_or_else(|error| panic!("{request}: {error}"));
    assert_eq!(&reply[..6], b"\x55\xaa\0\0\0\x01", "{request}");
    lossy(&reply[8..bytes])
}

/// Requests over both ways, beside a model.
fn both_ways(socket: &UdpSocket) {
    let mut client = Client::connect(SERVER);
    assert_eq!(datagram(socket, "get k\r\n"), "END\r\n");
    assert_eq!(datagram(socket, &set("k", "from XDP")), "STORED\r\n");
    assert_eq!(client.ask(b"get k\r\n", "END\r\n"), found("k", "from XDP"));
    assert_eq!(client.ask(set("k", "from user space").as_bytes(), "\r\n"), "STORED\r\n");
    assert_eq!(datagram(socket, "get k\r\n"), found("k", "from user space"));
    assert_eq!((client.statistic("xdp_gets"), client.statistic("xdp_sets"), client.statistic("xdp_passed")), (2, 1, 0));
    let known = at_random(socket, &mut client, 1100, true);
    let [gets, sets, passed] = ["xdp_gets", "xdp_sets", "xdp_passed"].map(|name| client.statistic(name));
    println!("in XDP: {gets} get, {sets} set; left to user space: {passed}");
    assert!(gets > REQUESTS as u64 / 5 && sets > REQUESTS as u64 / 6 && passed > 100, "{gets}, {sets}, {passed}");
    // And the key of the beginning.
    assert_eq!(client.statistic("curr_items"), 1 + known);
    pymemcache(SERVER);
}

/// Requests over both ways, where the program has the store.
fn both_ways_to_a_pool(socket: &UdpSocket) {
    let mut client = Client::connect(SERVER);
    assert_eq!(datagram(socket, &set("k", "from XDP")), "STORED\r\n");
    assert_eq!(client.ask(b"get k\r\n", "END\r\n"), found("k", "from XDP"));
    let long = "k".repeat(64);
    let largest = "v".repeat(1024 - "5 1011\r\n\r\n".len());
    assert_eq!(client.ask(set(&long, &largest).as_bytes(), "\r\n"), "STORED\r\n");
    let both = client.ask(format!("get k nothing {long}\r\n").as_bytes(), "END\r\n");
    assert_eq!(both, found("k", "from XDP").replace("END\r\n", "") + &found(&long, &largest));
    assert_eq!(datagram(socket, &format!("get {long}\r\n")), found(&long, &largest));
    assert_eq!(datagram(socket, "set quiet 0 0 1 noreply\r\nq\r\nget quiet\r\n"), "VALUE quiet 0 1\r\nq\r\nEND\r\n");
    // What it has not. The old value is not what the client wanted to be there.
    for (request, wanted) in [
        (format!("set {long}k 0 0 1\r\nx\r\n"), "SERVER_ERROR keys have at most 64 bytes in this store\r\n"),
        (format!("get {long}k\r\n"), "SERVER_ERROR keys have at most 64 bytes in this store\r\n"),
        (set(&long, &format!("{largest}v")), "SERVER_ERROR object too large for cache\r\n"),
        (format!("get {long}\r\n"), "END\r\n"),
        ("set k 5 100 1\r\nx\r\n".to_owned(), "SERVER_ERROR values have no times in this store\r\n"),
        ("get k\r\n".to_owned(), "END\r\n"),
        (
            "add k 0 0 1\r\nx\r\n".to_owned(),
            "SERVER_ERROR this store has get, set, delete, stats and version alone\r\n",
        ),
        ("incr k 1\r\n".to_owned(), "SERVER_ERROR this store has get, set, delete, stats and version alone\r\n"),
        ("mg k v\r\n".to_owned(), "SERVER_ERROR this store has get, set, delete, stats and version alone\r\n"),
    ] {
        assert_eq!(datagram(socket, &request), wanted, "UDP: {request}");
        assert_eq!(client.ask(request.as_bytes(), "\r\n"), wanted, "TCP: {request}");
    }
    assert!(client.ask(b"version\r\n", "\r\n").starts_with("VERSION 1.6"));
    at_random(socket, &mut client, 900, false);
    let [gets, hits, sets] = ["xdp_gets", "get_hits", "xdp_sets"].map(|name| client.statistic(name));
    assert!(
        gets > REQUESTS as u64 / 3 && hits > 100 && gets > hits && sets > REQUESTS as u64 / 4,
        "{gets}, {hits}, {sets}"
    );
}

/// Random requests over both ways, with values of less than `largest` bytes, beside a model: how many keys there are then.
fn at_random(socket: &UdpSocket, client: &mut Client, largest: u64, appends: bool) -> u64 {
    let mut model: HashMap<String, String> = HashMap::new();
    let mut random = 0x2545_f491_4f6c_dd1du64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) % below
    };
    for step in 0..REQUESTS {
        let key = format!("key{}", next(100));
        let over_udp = next(4) > 0;
        let (request, expected) = match next(10) {
            0..5 => {
                let expected = model.get(&key).map_or("END\r\n".to_owned(), |value| found(&key, value));
                (format!("get {key}\r\n"), expected)
            }
            5..8 => {
                let most = if next(4) == 0 { largest } else { 130 };
                let value: String = (0..next(most)).map(|_| char::from(b' ' + next(90) as u8)).collect();
                model.insert(key.clone(), value.clone());
                (set(&key, &value), "STORED\r\n".to_owned())
            }
            choice if choice == 8 || !appends => {
                let known = model.remove(&key).is_some();
                (format!("delete {key}\r\n"), if known { "DELETED\r\n" } else { "NOT_FOUND\r\n" }.to_owned())
            }
            _ => {
                let known = model.get_mut(&key).map(|value| value.push('+')).is_some();
                (format!("append {key} 0 0 1\r\n+\r\n"), if known { "STORED\r\n" } else { "NOT_STORED\r\n" }.to_owned())
            }
        };
        let told = if over_udp {
            datagram(socket, &request)
        } else {
            client.ask(request.as_bytes(), if request.starts_with("get") { "END\r\n" } else { "\r\n" })
        };
        assert_eq!(told, expected, "step {step}, {}: {request}", if over_udp { "UDP" } else { "TCP" });
    }
    model.len() as u64
}

/// Runs a server at one end of a veth pair and `work` at the other end, then `end` with the server, which has `more` arguments.
fn between(more: &[&str], work: fn(&UdpSocket), end: impl FnOnce(Server)) {
    let Ok(_network) = OwnNetwork::enter().map_err(|error| println!("skipped: a network namespace: {error}")) else {
        return;
    };
    let ((thread, threads), (go, ready), (done, worked)) = (mpsc::channel(), mpsc::channel(), mpsc::channel());
    let client = std::thread::spawn(move || at_the_other_end(&thread, &ready, &done, work));
    let peer = threads.recv().expect("a namespace");
    ip(&format!("link add heapskv0 type veth peer name heapskv1 netns {peer}"));
    ip("link set heapskv0 up");
    ip("addr add 192.0.2.1/24 dev heapskv0");
    let arguments = [&["--listen", SERVER, "--xdp", "heapskv0", "--memory", "32"], more].concat();
    let server = match Server::start(&arguments) {
        Ok((server, begun)) => {
            let processed = begun["processed"].as_u64().expect("a number");
            println!("{processed} processed instructions, {MOST_PROCESSED} allowed");
            assert!(processed <= MOST_PROCESSED, "{processed}");
            assert!(begun["warning"].as_str().is_some_and(|warning| warning.contains("veth")), "{begun}");
            server
        }
        Err(said) => {
            println!("skipped: {said}");
            drop(go);
            let _ = client.join();
            return;
        }
    };
    assert!(ip("-o link show heapskv0").contains("xdp"), "a program is attached");
    go.send(()).expect("the client waits");
    if worked.recv().is_ok() {
        end(server);
        assert!(!ip("-o link show heapskv0").contains("xdp"), "the program is still attached");
    }
    drop(go);
    client.join().expect("the client works");
}

#[test]
fn xdp_and_user_space_serve_one_store() {
    between(&[], both_ways, |server| assert_eq!(server.end(), Some(0)));
}

#[test]
fn a_program_serves_a_store_of_its_own() {
    between(&["--store", "array"], both_ways_to_a_pool, |server| assert_eq!(server.end(), Some(0)));
}

#[test]
fn a_killed_server_leaves_nothing() {
    let once = |socket: &UdpSocket| assert_eq!(datagram(socket, &set("k", "v")), "STORED\r\n");
    between(&[], once, drop);
}

#[test]
fn wrong_options_are_said() {
    for (arguments, code, wanted) in [
        (&["--memory", "4"][..], 2, "4 is not in 8..=2048"),
        (&["--listen", "nowhere"], 2, "invalid socket address"),
        (&["--listen", "192.0.2.77:1"], 3, "listening at 192.0.2.77:1"),
        (&["--xdp", "lo", "--listen", "0.0.0.0:0"], 2, "--listen ADDRESS:PORT"),
        (&["--xdp", "lo", "--listen", "[::1]:0"], 2, "serves IPv4"),
        (&["--mode", "native"], 2, "--xdp"),
        (&["--store", "array"], 2, "--xdp"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_kiln")).args(["kv", "memcached"]).args(arguments).output();
        let output = output.expect("kiln runs");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        assert!(lossy(&output.stderr).contains(wanted), "{arguments:?}: {}", lossy(&output.stderr));
    }
}
