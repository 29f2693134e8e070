//! Redis' protocol: each conversation on a store of this process, whole and byte by byte, beside what Debian's redis-server answers
//! if it is installed. The answers that are written here are for where it is not.

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use kiln_kv::protocol::{Next, Service};
use kiln_kv::redis::{Cluster, REQUEST_MOST, Session};
use kiln_kv::store::{OWN_VARIABLE_BYTES, Settings, Store, own_heap};

use support::redis::{ask, framed, redis_server, request, told};

const SETTINGS: Settings = Settings { buckets: 1 << 10, most_bytes: 16 << 20, served: None };

/// Commands, one a line, that both are asked after a FLUSHALL. Replies have to be equal, byte by byte.
const CONVERSATIONS: &[&str] = &[
    "PING|PING hello|PING a b|ECHO x|ECHO|SELECT 0|SELECT x|nothing|nothing a b|NoThInG 'a b'|GET|GET a b",
    "SET k v|GET k|GET none|TYPE k|TYPE none|EXISTS k k none|DEL k none|GET k|SET k \"\"|GET k|STRLEN k|STRLEN none",
    "SET k v NX|SET k w NX|GET k|SET k w XX|GET k|SET none w XX|SET k x NX XX|SET k x GET|SET new x GET|SET k y NX GET|SET k y XX GET|GET k",
    "SET k v EX 100|TTL k|SET k w KEEPTTL|TTL k|SET k x|TTL k|PTTL k|TTL none|SET k v EX 0|SET k v EX -1|SET k v EX x|SET k v EX|SET k v EX 9223372036854775807|SET k v PX 9223372036854775807|SET k v EX 1 PX 1|SET k v KEEPTTL EX 1|SET k v FOO|SET k v EXAT 99999999999|EXPIRETIME k|PEXPIRETIME k|SET k v PXAT 99999999999999|PEXPIRETIME k",
    "SETNX a 1|SETNX a 2|GET a|SETEX s 100 v|TTL s|SETEX s 0 v|PSETEX s 100000 v|PSETEX s 0 v|SETEX s x v|GETSET s new|TTL s|GETSET none2 v|GETDEL s|GETDEL s",
    "MSET a 1 b 2 c 3|MGET a b c d|MSET a|MSET a 1 b|MGET|DBSIZE|DEL a b c|DBSIZE|UNLINK a|TOUCH a",
    "INCR n|INCR n|DECR n|INCRBY n 10|DECRBY n 3|GET n|INCRBY n x|INCRBY n 1.5|SET n x|INCR n|SET n 9223372036854775807|INCR n|SET n -9223372036854775808|DECR n|DECRBY n -9223372036854775808|SET n 007|INCR n|SET n \" 5\"|INCR n|SET n -0|INCR n|SET n +5|INCR n",
    "INCRBYFLOAT f 10.5|INCRBYFLOAT f 0.25|INCRBYFLOAT f -5.5|GET f|INCRBYFLOAT f x|SET f 3|INCRBYFLOAT f 2|SET f y|INCRBYFLOAT f 1|INCRBYFLOAT g 1e3",
    "APPEND a hello|APPEND a world|GET a|STRLEN a|GETRANGE a 0 3|GETRANGE a -3 -1|GETRANGE a 0 -1|GETRANGE a 5 2|GETRANGE a -1 -5|GETRANGE a 100 200|GETRANGE none 0 -1|SUBSTR a 1 2|GETRANGE a x 1|SETRANGE a 5 X|GET a|SETRANGE a 12 yz|GET a|SETRANGE none 0 \"\"|EXISTS none|SETRANGE pad 3 x|GET pad|SETRANGE a -1 x|SETRANGE a 600000000 x|GETRANGE a -100 100|GETRANGE a -9223372036854775808 -1",
    "SET k v|EXPIRE k 100|TTL k|PERSIST k|PERSIST k|TTL k|PERSIST none|EXPIRE none 1|PEXPIRE k 100000|TTL k|EXPIRE k x|EXPIRE k 9223372036854775807|EXPIRE k -9223372036854775808|EXPIRE k 100 NX|EXPIRE k 200 XX|TTL k|EXPIRE k 100 GT|EXPIRE k 300 GT|EXPIRE k 400 LT|EXPIRE k 100 LT|TTL k|EXPIRE k 1 NX XX|EXPIRE k 1 GT LT|EXPIRE k 1 FOO|EXPIREAT k 99999999999|EXPIRETIME k|PEXPIREAT k 99999999999999|PEXPIRETIME k|EXPIRE k -1|EXISTS k|DBSIZE|SET j v|EXPIREAT j 1|GET j|DBSIZE",
    "SET k v|GETEX k|GETEX k EX 100|TTL k|GETEX k PERSIST|TTL k|GETEX k EX 0|GETEX k EX 1 PERSIST|GETEX none EX 5|GETEX k FOO|GETEX k PXAT 99999999999999|PEXPIRETIME k",
    "SET only v|KEYS *|KEYS o?ly|KEYS x*|SCAN 0|SCAN 0 MATCH on* COUNT 100|SCAN 0 MATCH x|SCAN 0 TYPE string|SCAN 0 TYPE hash|SCAN x|SCAN 0 COUNT 0|SCAN 0 COUNT x|SCAN 0 FOO|SCAN 0 MATCH|FLUSHALL FOO|FLUSHALL ASYNC|DBSIZE|SCAN 0|FLUSHDB|FLUSHALL SYNC X",
    "AUTH x|AUTH default x|AUTH other x|AUTH a b c|HELLO x|HELLO 4|HELLO 2 FOO|HELLO 2 AUTH x|HELLO 2 SETNAME|CLIENT GETNAME|CLIENT SETNAME me|CLIENT GETNAME|CLIENT SETNAME \"a b\"|HELLO 2 SETNAME you|CLIENT GETNAME|CLIENT FOO|CLIENT SETNAME|CLIENT GETNAME x|CONFIG FOO|COMMAND FOO|RESET|CLIENT GETNAME",
    "HELLO 3 SETNAME c|GET none|SET k v XX|MGET a b|SET k v|GET k|SET k w GET|SET q w GET|CONFIG GET save|GETDEL none|INCRBYFLOAT f 1.5|HELLO 2|GET none",
    "SET f 1e17|INCRBYFLOAT f 0|INCRBYFLOAT f 1e17|SET z -0|INCRBYFLOAT z -0|HSET h f 1e17|HINCRBYFLOAT h f 0|INCRBYFLOAT g 1.5e20",
    "GETEX none EX 0|GETEX none EX x|GETEX none EXAT 1 PERSIST|SET k v|GETEX k EX 0|GETEX k EX x|GETEX k EX 100 EX 200|HSET h a 1|GETEX h EX 0",
    "SCAN -1|SCAN +0|SCAN -|SCAN \"\"|SCAN 99999999999999999999|HSCAN none -1|HSCAN none +1|HSCAN none x|SCAN 0x",
    "SET k v EXAT 99999999999 EXAT 99999999998|EXPIRETIME k|SET k v EX 5 PX 5|SET k v PX 5000 KEEPTTL|SET k v KEEPTTL KEEPTTL|SET k v EX 0 EX 100|TTL k",
    "HSCAN none 0 COUNT 0|HSCAN none 0 COUNT x|HSCAN none 0 FOO|HSCAN none x FOO|SET s v|HSCAN s 0 FOO|HSCAN s x|HSET h a 1|HSCAN h 0 COUNT 0|HSCAN h 0 FOO|HSCAN h x FOO|HSCAN h 0 MATCH",
    "ZADD z 1 a 2 b 3 c|ZCOUNT z \" 1\" 2|ZCOUNT z \"1 \" 2|ZCOUNT z \"( 1\" 2|ZCOUNT z 0x1 2|ZCOUNT z \"\" 2|ZCOUNT z ( (|ZRANGEBYSCORE z \" 1\" 2|ZRANGE z \" 1\" 2 BYSCORE|ZADD z 0x10 d|ZSCORE z d|ZADD z \" 1\" e|ZADD z 0x e|ZADD z -0x1.8p1 e|ZSCORE z e|ZINCRBY z 0X10 e|INCRBYFLOAT f 0x10|INCRBYFLOAT f \" 1\"|HINCRBYFLOAT h f 0x.8",
    "CLIENT INFO x|CLIENT SETINFO|COMMAND COUNT x|SELECT 99999999999|SELECT -99999999999|SELECT 99999999999999999999",
    "CLIENT REPLY FOO|CLIENT REPLY ON|COMMAND INFO nothing|CONFIG GET save|CONFIG GET",
    // Whoever meets a key whose time is over removes it.
    "SET k v|GETEX k PXAT 1|DBSIZE|SET k v|GETEX k EXAT 1|DBSIZE|HSET h a 1|PEXPIREAT h 1|DBSIZE",
    "SET k v PXAT 1|DBSIZE|TTL k|DBSIZE|SET k v PXAT 1|PTTL k|DBSIZE|SET k v PXAT 1|EXPIRETIME k|DBSIZE",
    "SET k v PXAT 1|EXISTS k|DBSIZE|SET k v PXAT 1|TOUCH k|DBSIZE|SET k v PXAT 1|PERSIST k|DBSIZE",
    "SET k v PXAT 1|EXPIRE k 100|DBSIZE|SET k v PXAT 1|SET k w XX|DBSIZE|SET k v PXAT 1|SCAN 0|DBSIZE",
    "SET k v PXAT 1|KEYS *|DBSIZE|SET k v PXAT 1|GET k|DBSIZE|SET k v PXAT 1|HGET k a|DBSIZE|SET k v PXAT 1|TYPE k|DBSIZE",
    "HSET h a 1|HSCAN h -1|HSCAN h 7|HSCAN h 18446744073709551615|SCAN 18446744073709551616|SCAN -18446744073709551616",
];

/// Has a store of this process.
fn with_service(test: impl FnOnce(&Service<'_>)) {
    let heap = own_heap(&SETTINGS);
    test(&Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store")));
}

/// Without what is another's own: the number of a client.
fn comparable(line: &str, reply: &str) -> String {
    if !line.starts_with("HELLO") || !reply.contains("$2\r\nid\r\n:") {
        return reply.to_owned();
    }
    let (before, rest) = reply.split_once("$2\r\nid\r\n:").expect("is there");
    format!("{before}{}", rest.split_once("\r\n").expect("a line").1)
}

#[test]
fn redis_answers_the_same() {
    let Some((_child, port)) = redis_server() else { return println!("skipped: redis-server is not installed") };
    for conversation in CONVERSATIONS {
        with_service(|service| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it accepts");
            stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time limit");
            told(&mut stream, &request("FLUSHALL"));
            // Its clock would remove keys between two questions.
            told(&mut stream, &request("DEBUG SET-ACTIVE-EXPIRE 0"));
            let mut session = Session::new(service);
            for line in conversation.split('|') {
                let wanted = told(&mut stream, &request(line));
                // Byte by byte: what is kept of an incomplete request is served.
                let own: String = request(line).chunks(1).map(|byte| ask(&mut session, byte)).collect();
                assert_eq!(comparable(line, &own), comparable(line, &wanted), "{line} in {conversation}");
            }
            assert_eq!(session.kept(), 0);
        });
    }
}

/// What both are asked that have half of all slots.
const IN_A_CLUSTER: &str = "GET foo|SET b 1|GET b|MGET a b|MGET b a|MGET {b}1 {b}2|MSET {b}1 x {b}2 y|DEL {b}1 {b}2 b|DEL b c|MSET b 1 c 2|EXISTS {b}|GET|GET b c|PING|CLUSTER KEYSLOT|CLUSTER KEYSLOT a b|CLUSTER KEYSLOT \"\"|CLUSTER KEYSLOT {}x|CLUSTER KEYSLOT a{b}c{d}|CLUSTER FOO|CLUSTER|CLUSTER SLOTS x|SELECT 1|SELECT 0|ASKING|ASKING x|READONLY|READWRITE|INFO cluster|CONFIG GET cluster-require-full-coverage|ZADD foo 1 a|HSET b f v|HGET b f|GET b";

#[test]
fn slots_are_served_as_redis_does() {
    const DISABLED: &str = "CLUSTER SLOTS|CLUSTER KEYSLOT a|CLUSTER FOO|READONLY|ASKING|READWRITE";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cluster");
    let bus = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its number").port();
    let (folder, bus) = (folder.path().to_str().expect("text"), bus.to_string());
    let fixed = ["--port", "PORT", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder];
    let more = ["--cluster-enabled", "yes", "--cluster-require-full-coverage", "no", "--cluster-port", &bus];
    let Some((_child, port)) = support::peer("redis-server", &[&fixed[..], &more].concat()) else {
        return println!("skipped: redis-server is not installed");
    };
    let own = ([127, 0, 0, 1], port).into();
    std::fs::write(&path, format!("127.0.0.1:{port} 0-8191\n")).expect("is written");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it accepts");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time limit");
    assert_eq!(told(&mut stream, &request("CLUSTER ADDSLOTSRANGE 0 8191")), "+OK\r\n");
    for _ in 0..200 {
        if told(&mut stream, &request("DEL b")).starts_with(':') {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    let service = service.with_cluster(Some(Cluster::open(&path, own).expect("is right")));
    let mut session = Session::new(&service);
    let mut next = support::numbers();
    let random = (0..300).map(|_| {
        let key: String = (0..1 + next(12)).map(|_| ['a', 'b', '{', '}', '0', '_'][next(6)]).collect();
        format!("CLUSTER KEYSLOT {key}")
    });
    for line in IN_A_CLUSTER.split('|').map(str::to_owned).chain(random) {
        assert_eq!(ask(&mut session, &request(&line)), told(&mut stream, &request(&line)), "{line}");
    }
    if let Some((_child, port)) = redis_server() {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it accepts");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time limit");
        with_service(|service| {
            for line in DISABLED.split('|') {
                let own = ask(&mut Session::new(service), &request(line));
                assert_eq!(own, told(&mut stream, &request(line)), "{line}");
            }
        });
    }
}

#[test]
fn replies_are_skipped_as_redis_does() {
    let lines = [
        "CLIENT REPLY SKIP|PING|ECHO a",
        "CLIENT REPLY SKIP|CLIENT REPLY SKIP|ECHO a|ECHO b",
        "CLIENT REPLY SKIP|CLIENT REPLY ON|ECHO a",
        "CLIENT REPLY OFF|CLIENT REPLY SKIP|ECHO a|CLIENT REPLY ON|ECHO b",
    ];
    let wanted = ["$1\r\na\r\n", "$1\r\nb\r\n", "+OK\r\n$1\r\na\r\n", "+OK\r\n$1\r\nb\r\n"];
    let peer = redis_server();
    for (line, wanted) in lines.into_iter().zip(wanted) {
        let bytes: Vec<u8> = line.split('|').flat_map(request).collect();
        with_service(|service| assert_eq!(ask(&mut Session::new(service), &bytes), wanted, "{line}"));
        if let Some((_, port)) = &peer {
            let mut stream = TcpStream::connect(("127.0.0.1", *port)).expect("it accepts");
            stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time limit");
            assert_eq!(told(&mut stream, &bytes), wanted, "Redis: {line}");
        }
    }
}

#[test]
fn requests_of_browsers_end_the_connection() {
    with_service(|service| {
        for line in ["POST / HTTP/1.1\r\n", "host: a\r\n", "Host: a\r\n"] {
            let (mut session, mut output) = (Session::new(service), Vec::new());
            let next = session.serve(format!("{line}SET k v\r\n").as_bytes(), &mut output);
            assert_eq!((next, &*output), (Next::Close, &b""[..]), "{line}");
            assert_eq!(service.store.items(), 0);
        }
    });
}

#[test]
fn answers_are_known_without_a_peer() {
    with_service(|service| {
        let mut session = Session::new(service);
        let all = "SET k v|GET k|GET none|INCR n|MGET k none|HELLO 3|GET none|nothing a|TTL k|SET k v PX 20";
        let wanted = [
            "+OK\r\n",
            "$1\r\nv\r\n",
            "$-1\r\n",
            ":1\r\n",
            "*2\r\n$1\r\nv\r\n$-1\r\n",
            "",
            "_\r\n",
            "-ERR unknown command 'nothing', with args beginning with: 'a' \r\n",
            ":-1\r\n",
            "+OK\r\n",
        ];
        for (line, wanted) in all.split('|').zip(wanted) {
            let own = ask(&mut session, &request(line));
            assert!(own == wanted || (line.starts_with("HELLO") && own.starts_with("%7\r\n")), "{line}: {own}");
        }
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(ask(&mut session, &request("GET k")), "_\r\n", "milliseconds count");
        // Lines, quotes, and many requests at once.
        let all = b"PING\r\n  set a \"x\\x41\\n\" \nget a\r\n\r\n*0\r\n*-1\r\nGET 'a'\r\n";
        assert_eq!(ask(&mut session, all), "+PONG\r\n+OK\r\n$3\r\nxA\n\r\n$3\r\nxA\n\r\n");
        // A key of 64 KiB with any bytes.
        let key: Vec<u8> = (0..65_536u32).map(|at| at as u8).collect();
        assert_eq!(ask(&mut session, &framed(&[b"SET", &key, b"long"])), "+OK\r\n");
        assert_eq!(ask(&mut session, &framed(&[b"GET", &key])), "$4\r\nlong\r\n");
    });
}

#[test]
fn a_scan_meets_each_key_once() {
    with_service(|service| {
        let mut session = Session::new(service);
        (0..3000).for_each(|number| {
            ask(&mut session, &request(&format!("SET k{number} v")));
        });
        let (mut cursor, mut keys, mut turns) = ("0".to_owned(), Vec::new(), 0);
        loop {
            let reply = ask(&mut session, &request(&format!("SCAN {cursor} COUNT 100")));
            let mut lines = reply.lines().filter(|line| !line.starts_with(['$', '*']));
            cursor = lines.next().expect("a cursor").to_owned();
            keys.extend(lines.map(str::to_owned));
            turns += 1;
            if cursor == "0" {
                break;
            }
        }
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 3000);
        assert!((20..=30).contains(&turns), "{turns}");
    });
}

#[test]
fn strangers_say_the_password_first() {
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    let service = service.with_password(Some("secret".to_owned()));
    {
        let mut session = Session::new(&service);
        for (line, wanted) in [
            ("GET k", "-NOAUTH Authentication required.\r\n"),
            ("nothing", "-ERR unknown command 'nothing', with args beginning with: \r\n"),
            ("AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"),
            ("AUTH secretsecret", "-WRONGPASS invalid username-password pair or user is disabled.\r\n"),
            ("AUTH secret", "+OK\r\n"),
            ("GET k", "$-1\r\n"),
        ] {
            assert_eq!(ask(&mut session, &request(line)), wanted, "{line}");
        }
        let mut output = Vec::new();
        assert_eq!(Session::new(&service).serve(b"*11\r\n", &mut output), Next::Close);
        assert_eq!(Session::new(&service).serve(b"*1\r\n$20000\r\n", &mut output), Next::Close);
        let told = String::from_utf8_lossy(&output);
        assert_eq!(
            told,
            "-ERR Protocol error: unauthenticated multibulk length\r\n-ERR Protocol error: unauthenticated bulk length\r\n"
        );
    }
}

/// Refusals repeat the request's words byte by byte, up to a zero byte, and some up to 128 bytes.
#[test]
fn refusals_repeat_any_bytes() {
    let server = redis_server();
    let long = [b'\xfe'; 200];
    for (words, wanted) in [
        (
            &[&b"no\xff"[..], b"\x80a\r\n\xc3\xa4"][..],
            "-ERR unknown command 'no\u{ff}', with args beginning with: '\u{80}a  \u{c3}\u{a4}' \r\n",
        ),
        (&[b"no\0t", b"a\0b"], "-ERR unknown command 'no', with args beginning with: 'a' \r\n"),
        (&[&long, &long, b"a"], ""),
        (&[b"a", &long[..60], &long[..62], &long], ""),
        (&[b"CLIENT", b"\xff\0x"], ""),
        (&[b"CLIENT", &long], ""),
        (&[b"EXPIRE", b"k", b"1", b"\xf0\x9f"], "-ERR Unsupported option \u{f0}\u{9f}\r\n"),
        (&[b"EXPIRE", b"k", b"1", &long], ""),
        (&[b"HELLO", b"3", b"\xffo\0"], "-ERR Syntax error in HELLO option '\u{ff}o'\r\n"),
        (&[b"HELLO", b"3", &long], ""),
    ] {
        let bytes = framed(words);
        let mut own = String::new();
        with_service(|service| own = ask(&mut Session::new(service), &bytes));
        let shown = bytes.escape_ascii();
        assert!(own == wanted || wanted.is_empty() && own.starts_with('-'), "{shown}: {own:?}");
        if let Some((_, port)) = &server {
            let mut stream = TcpStream::connect(("127.0.0.1", *port)).expect("it accepts");
            stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time limit");
            assert_eq!(own, told(&mut stream, &bytes), "{shown}");
        }
    }
}

#[test]
fn broken_requests_end_as_in_redis() {
    let server = redis_server();
    for bytes in [
        &b"*x\r\n"[..],
        b"*1048577777777\r\n",
        b"*1\r\nx\r\n",
        b"*1\r\n$x\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$99999999999\r\n",
        b"get \"a\r\n",
        b"get 'a'b\r\n",
        &[b'x'; 70_000],
        &[&b"*"[..], &[b'1'; 70_000]].concat(),
        &[&b"*1\r\n$"[..], &[b'1'; 70_000]].concat(),
    ] {
        let (mut output, mut own) = (Vec::new(), Next::Go);
        with_service(|service| own = Session::new(service).serve(bytes, &mut output));
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(30)]).into_owned();
        assert_eq!(own, Next::Close, "{shown}");
        assert!(output.starts_with(b"-ERR Protocol error: "), "{shown}");
        if let Some((_, port)) = &server {
            let mut stream = TcpStream::connect(("127.0.0.1", *port)).expect("it accepts");
            stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time limit");
            stream.write_all(bytes).expect("it reads");
            let mut told = vec![0; output.len()];
            stream.read_exact(&mut told).unwrap_or_else(|error| panic!("{shown}: {error}"));
            assert_eq!(String::from_utf8_lossy(&output), String::from_utf8_lossy(&told), "{shown}");
        }
    }
}

#[test]
fn random_bytes_neither_stop_nor_fill_it() {
    with_service(|service| {
        let words: Vec<&str> = CONVERSATIONS.iter().flat_map(|text| text.split(['|', ' '])).collect();
        let mut next = support::numbers();
        let mut session = Session::new(service);
        for _ in 0..30_000 {
            let chosen: Vec<&[u8]> = (0..1 + next(5)).map(|_| words[next(words.len())].as_bytes()).collect();
            let mut sent = framed(&chosen);
            if next(4) == 0 {
                let at = next(sent.len());
                sent[at] = next(256) as u8;
            }
            if next(8) == 0 {
                sent.truncate(next(sent.len()));
            }
            let mut output = Vec::new();
            if session.serve(&sent, &mut output) == Next::Close {
                session = Session::new(service);
            }
            assert!(session.kept() < REQUEST_MOST, "{}", session.kept());
        }
        // A request that never ends is given up.
        let mut session = Session::new(service);
        let word = framed(&[&vec![b'x'; 1 << 20]]);
        let mut output = Vec::new();
        let mut turns = 0;
        assert_eq!(session.serve(b"*1000000\r\n", &mut output), Next::Go);
        while session.serve(&word[4..], &mut output) == Next::Go {
            turns += 1;
            assert!(turns < 20 && session.kept() <= REQUEST_MOST);
        }
        service.store.clear();
        assert_eq!((service.store.items(), service.store.bytes()), (0, 0), "nothing leaks");
    });
}
