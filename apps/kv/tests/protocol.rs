//! The text protocol: each conversation on a store of this process, whole and byte by byte, and with Debian's memcached if it is
//! installed, which has to answer the same.

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use kiln_kv::protocol::{Next, OUTPUT_MOST, Service, Session};
use kiln_kv::store::{OWN_VARIABLE_BYTES, Settings, Store, VALUE_MOST, own_heap};

const SETTINGS: Settings = Settings { buckets: 1 << 10, most_bytes: 16 << 20, served: None };

/// What a client sends and what it gets, line by line: `>` before what is sent, `<` before what is expected. `$CAS` is the version
/// that was told last, `$LONG` a key that is too long, `$HUGE` one far longer, `$MANY` a hundred thousand. A line ends with CR LF.
const CONVERSATIONS: &[(&str, &str)] = &[
    (
        "set and get",
        ">set k 7 0 5|>hello|<STORED|>get k|<VALUE k 7 5|<hello|<END|>get k k|<VALUE k 7 5|<hello|<VALUE k 7 5|<hello|<END",
    ),
    (
        "missing",
        ">get nothing|<END|>gets nothing|<END|>delete nothing|<NOT_FOUND|>touch nothing 1|<NOT_FOUND|>incr nothing 1|<NOT_FOUND",
    ),
    ("empty value", ">set e 0 0 0|>|<STORED|>get e|<VALUE e 0 0|<|<END"),
    ("flags", ">set f 4294967295 0 1|>x|<STORED|>get f|<VALUE f 4294967295 1|<x|<END"),
    (
        "add and replace",
        ">add a 0 0 1|>1|<STORED|>add a 0 0 1|>2|<NOT_STORED|>replace b 0 0 1|>3|<NOT_STORED|>replace a 1 0 1|>4|<STORED|>get a|<VALUE a 1 1|<4|<END",
    ),
    (
        "append and prepend",
        ">append p 0 0 1|>x|<NOT_STORED|>set p 3 0 2|>bc|<STORED|>append p 9 0 1|>d|<STORED|>prepend p 9 0 1|>a|<STORED|>get p|<VALUE p 3 4|<abcd|<END",
    ),
    (
        "cas",
        ">cas c 0 0 1 1|>x|<NOT_FOUND|>set c 0 0 1|>1|<STORED|>gets c|<VALUE c 0 1 $CAS|<1|<END|>cas c 0 0 1 $CAS|>2|<STORED|>cas c 0 0 1 $CAS|>3|<EXISTS|>get c|<VALUE c 0 1|<2|<END",
    ),
    (
        "delete",
        ">set d 0 0 1|>x|<STORED|>delete d|<DELETED|>delete d|<NOT_FOUND|>get d|<END|>delete d 0|<NOT_FOUND|>delete d 5|<CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]",
    ),
    (
        "incr and decr",
        ">set n 0 0 2|>10|<STORED|>incr n 5|<15|>decr n 7|<8|>get n|<VALUE n 0 2|<8 |<END|>decr n 100|<0|>incr n 99999|<99999|>set n 0 0 20|>18446744073709551615|<STORED|>incr n 2|<1",
    ),
    (
        "wrong numbers",
        ">set w 0 0 1|>x|<STORED|>incr w 1|<CLIENT_ERROR cannot increment or decrement non-numeric value|>incr w x|<CLIENT_ERROR invalid numeric delta argument|>incr w -1|<CLIENT_ERROR invalid numeric delta argument",
    ),
    (
        "times",
        ">set t 0 -1 1|>x|<STORED|>get t|<END|>set t 0 100 1|>x|<STORED|>touch t 200|<TOUCHED|>gat 300 t|<VALUE t 0 1|<x|<END|>touch t -1|<TOUCHED|>get t|<END|>touch t x|<CLIENT_ERROR invalid exptime argument|>gat x t|<CLIENT_ERROR invalid exptime argument",
    ),
    (
        "keys of slab classes, of which there are none",
        ">stats cachedump|<CLIENT_ERROR bad command line|>stats cachedump 1|<CLIENT_ERROR bad command line|>stats cachedump x 1|<CLIENT_ERROR bad command line format|>stats cachedump 64 1|<CLIENT_ERROR Illegal slab id|>stats cachedump 63 1|<END|>stats cachedump 0 1 2|<END",
    ),
    ("flush", ">set z 0 0 1|>x|<STORED|>flush_all|<OK|>get z|<END|>flush_all 0|<OK"),
    (
        "no reply",
        ">set q 0 0 1 noreply|>x|>get q|<VALUE q 0 1|<x|<END|>delete q noreply|>get q|<END|>incr q 1 noreply|>touch q 1 noreply|>add q 0 0 1 noreply|>1|>incr q 1 noreply|>get q|<VALUE q 0 1|<2|<END",
    ),
    (
        "errors",
        ">|<ERROR|>nonsense|<ERROR|>get|<ERROR|>set k|<ERROR|>set k 0 0|<ERROR|>touch k|<ERROR|>incr k|<ERROR|>delete|<ERROR|>gat|<ERROR",
    ),
    ("wrong lines without a reply", ">set k x 0 1 noreply|>cas k 0 0 1 x noreply|>mn|<MN"),
    ("bad numbers in lines", ">set k x 0 1|<CLIENT_ERROR bad command line format|>get k|<END"),
    (
        "no keys",
        ">delete  noreply|<NOT_FOUND|>delete noreply |<NOT_FOUND|>delete k  noreply|>gat 100  |<END|>gats 100|<END|>gat x |<CLIENT_ERROR invalid exptime argument|>get  |<ERROR|>incr  noreply|<ERROR|>mn|<MN",
    ),
    ("spaces", ">  set  s  1  0  1  |>x|<STORED|>  get  s |<VALUE s 1 1|<x|<END"),
    ("verbosity", ">verbosity 1|<OK|>verbosity|<ERROR"),
    ("a value with line ends", ">set l 0 0 6|>a\r\nb\r\n|<STORED|>get l|<VALUE l 0 6|<a\r\nb\r\n|<END"),
    ("meta no-op", ">mn|<MN"),
    (
        "numbers as C reads them",
        ">set a +1 +0 +1|>x|<STORED|>get a|<VALUE a 1 1|<x|<END|>set a \t07 0\t01|<ERROR|>set a 7\t8 0 01|>x|<STORED|>get a|<VALUE a 7 1|<x|<END|>set a 1x 0 1|<CLIENT_ERROR bad command line format|>set a 0x1 0 1|<CLIENT_ERROR bad command line format|>set a 0 - 1|<CLIENT_ERROR bad command line format|>set a 0 9223372036854775808 1|<CLIENT_ERROR bad command line format|>cas c 0 0 1 +1|>x|<NOT_FOUND|>cas c 0 0 1 -1|<CLIENT_ERROR bad command line format",
    ),
    (
        "large flags and sizes",
        ">set f 4294967297 0 1|>x|<STORED|>get f|<VALUE f 1 1|<x|<END|>set f 18446744073709551615 0 1|>x|<STORED|>get f|<VALUE f 4294967295 1|<x|<END|>set f 18446744073709551616 0 1|<CLIENT_ERROR bad command line format|>set f -1 0 1|<CLIENT_ERROR bad command line format|>set f -0 0 1|>x|<STORED|>set f 0 0 2147483646|<CLIENT_ERROR bad command line format",
    ),
    (
        "numbers in values",
        ">set n 0 0 2|> 5|<STORED|>incr n +1|<6|>set n 0 0 2|>+5|<STORED|>incr n 1\tx|<6|>set n 0 0 3|>5 6|<STORED|>incr n 01|<6|>set n 0 0 3|>5\0x|<STORED|>incr n 1|<6|>set n 0 0 2|>5x|<STORED|>incr n 1|<CLIENT_ERROR cannot increment or decrement non-numeric value|>set n 0 0 2|>-5|<STORED|>incr n 1|<CLIENT_ERROR cannot increment or decrement non-numeric value|>set n 0 0 1|>+|<STORED|>incr n 1|<CLIENT_ERROR cannot increment or decrement non-numeric value|>set n 0 0 25|>0000000000000000000000005|<STORED|>decr n 1|<4|>incr n 18446744073709551616|<CLIENT_ERROR invalid numeric delta argument",
    ),
    (
        "a line ends at NUL",
        ">set k\0 0 0 1|<ERROR|>set k 0 0 1\0 noreply|>x|<STORED|>get k\0l m|<VALUE k 0 1|<x|<END|>\0get k|<ERROR|>delete k\0 a b c d|<DELETED",
    ),
    (
        "words after the last",
        ">set w 0 0 1 other|>x|<STORED|>set w 0 0 1 other noreply|<ERROR|>touch w 0 other|<TOUCHED|>touch w 0 1 noreply|<ERROR|>incr w 1 2 3|<ERROR|>delete w other|<CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]|>delete w 0 0|<CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]|>delete w 0 0 0|<ERROR|>delete w 0|<DELETED|>flush_all 0 1|<OK|>flush_all 0 1 2|<ERROR|>flush_all x|<CLIENT_ERROR invalid exptime argument",
    ),
    (
        "no reply that is an argument too",
        ">set noreply 0 0 1|>x|<STORED|>delete noreply noreply|>get noreply|<END|>set q 0 0 1|>1|<STORED|>incr q noreply|>touch q noreply|>delete q x noreply|>flush_all x noreply|>verbosity noreply|>verbosity x noreply|>incr noreply|<ERROR|>touch noreply|<ERROR|>get q|<VALUE q 0 1|<1|<END|>flush_all noreply|>set q 0 0 1 noreply|>22|<ERROR|>delete q 0 noreply|>mn|<MN",
    ),
    (
        "verbosity and statistics",
        ">verbosity x|<CLIENT_ERROR bad command line format|>verbosity -1|<CLIENT_ERROR bad command line format|>verbosity 1 2|<OK|>verbosity 1 2 3|<ERROR|>stats foo|<ERROR|>stats noreply|<ERROR|>stats RESET|<ERROR|>stats reset foo|<RESET",
    ),
    (
        "lines that are longer than memory for one read",
        ">get $HUGE|<CLIENT_ERROR bad command line format|>gets $HUGE|<CLIENT_ERROR bad command line format|>set m 0 0 1|>x|<STORED|>get $MANY m|<VALUE m 0 1|<x|<END",
    ),
    (
        "long keys",
        ">incr $LONG|<ERROR|>incr $LONG x|<CLIENT_ERROR bad command line format|>touch $LONG x|<CLIENT_ERROR bad command line format|>delete $LONG x|<CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]|>delete $LONG noreply|>gat x $LONG|<CLIENT_ERROR invalid exptime argument|>gat 0 $LONG|<CLIENT_ERROR bad command line format|>get a $LONG|<CLIENT_ERROR bad command line format",
    ),
];

/// What is sent and what is expected, with `$CAS` in both.
fn parts(conversation: &str) -> (String, Vec<(usize, String)>) {
    let (mut sent, mut expected) = (String::new(), Vec::new());
    for line in conversation
        .replace("$LONG", &"k".repeat(251))
        .replace("$HUGE", &"k".repeat(200_000))
        .replace("$MANY", &["k"; 100_000].join(" "))
        .split('|')
    {
        match line.split_at(1) {
            (">", text) => sent += &format!("{text}\r\n"),
            (_, text) => expected.push((sent.len(), format!("{text}\r\n"))),
        }
    }
    (sent, expected)
}

/// Has a conversation by a function that sends bytes and returns the reply to them, so many bytes of it.
fn converse(name: &str, conversation: &str, mut exchange: impl FnMut(&[u8], usize) -> Vec<u8>) {
    let (sent, expected) = parts(conversation);
    let (mut at, mut version) = (0, String::new());
    let mut index = 0;
    while at < sent.len() || index < expected.len() {
        let until = expected.get(index).map_or(sent.len(), |(until, _)| *until);
        let group: Vec<&String> =
            expected[index..].iter().take_while(|(own, _)| *own == until).map(|(_, text)| text).collect();
        let wanted: String = group.iter().map(|text| text.as_str()).collect();
        let bytes = sent[at..until].replace("$CAS", &version);
        let learns = wanted.contains("$CAS");
        // A version has digits that nobody knows before.
        let count = if learns { 0 } else { wanted.len() };
        let told = String::from_utf8_lossy(&exchange(bytes.as_bytes(), count)).into_owned();
        if learns {
            let line = told.lines().next().unwrap_or_default();
            version = line.rsplit(' ').next().unwrap_or_default().to_owned();
            assert!(version.parse::<u64>().is_ok(), "{name}: {told:?}");
        }
        assert_eq!(told, wanted.replace("$CAS", &version), "{name}: after {bytes:?}");
        index += group.len();
        at = until;
    }
}

#[test]
fn the_binary_protocol_ends_a_connection() {
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    let served = |parts: &[&[u8]]| {
        let (mut session, mut output) = (Session::new(&service), Vec::new());
        let next = parts.iter().map(|part| session.serve(part, &mut output)).last();
        (next, String::from_utf8(output).expect("text"))
    };
    assert_eq!(served(&[b"\x80\x0b\0\0"]), (Some(Next::Close), String::new()));
    // After text it is a byte like others.
    assert_eq!(served(&[b"mn\r\n", b"\x80\x0b\r\n"]), (Some(Next::Go), "MN\r\nERROR\r\n".to_owned()));
}

#[test]
fn conversations_go_as_expected() {
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    for (name, conversation) in CONVERSATIONS {
        let mut session = Session::new(&service);
        converse(name, conversation, |bytes, _| {
            let mut output = Vec::new();
            assert_eq!(session.serve(bytes, &mut output), Next::Go, "{name}");
            output
        });
        service.store.clear();
        let mut session = Session::new(&service);
        converse(&format!("{name}, byte by byte"), conversation, |bytes, _| {
            let mut output = Vec::new();
            bytes.chunks(1).for_each(|byte| assert_eq!(session.serve(byte, &mut output), Next::Go, "{name}"));
            output
        });
        assert_eq!(session.kept(), 0, "{name}");
        service.store.clear();
    }
    assert_eq!((service.store.items(), service.store.bytes()), (0, 0));
}

#[test]
fn memcached_goes_as_expected_too() {
    let program = std::env::var("KILN_MEMCACHED").unwrap_or_else(|_| "memcached".to_owned());
    let arguments = ["-l", "127.0.0.1", "-p", "PORT", "-U", "0", "-u", "root", "-t", "1"];
    let Some((_child, port)) = support::peer(&program, &arguments) else {
        return println!("skipped: memcached is not installed");
    };
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it accepts");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time limit");
    for (name, conversation) in CONVERSATIONS {
        // Its keys only: it flushes by the second.
        converse(&format!("memcached: {name}"), conversation, |bytes, count| {
            stream.write_all(bytes).expect("it reads");
            let mut told = vec![0; count];
            match count {
                0 if bytes.starts_with(b"gets") => {
                    while !told.ends_with(b"END\r\n") {
                        let mut byte = [0];
                        stream.read_exact(&mut byte).expect("it answers");
                        told.extend(byte);
                    }
                }
                _ => stream.read_exact(&mut told).unwrap_or_else(|error| panic!("{name}: after {bytes:?}: {error}")),
            }
            told
        });
    }
}

#[test]
fn hostile_clients_are_bounded() {
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    let one = |bytes: &[u8]| {
        let (mut session, mut output) = (Session::new(&service), Vec::new());
        let next = session.serve(bytes, &mut output);
        (next, String::from_utf8_lossy(&output).into_owned(), session.kept())
    };
    // A line without an end, and a get of too many keys.
    assert_eq!(one(&[b'x'; 4096]).0, Next::Close);
    assert_eq!(one(&[b"get ", &[b'x'; 2 << 20][..]].concat()).0, Next::Close);
    // Keys and sizes that are too large, and negative ones.
    let long = "k".repeat(251);
    for line in
        [format!("get {long}"), format!("set {long} 0 0 1"), format!("delete {long}"), "set k 0 0 -1".to_owned()]
    {
        let (next, told, kept) = one(format!("{line}\r\n").as_bytes());
        assert_eq!((next, told.as_str(), kept), (Next::Go, "CLIENT_ERROR bad command line format\r\n", 0), "{line}");
    }
    let (_, told, _) = one(b"set k 0 0 5\r\nhelloxx\r\nmn\r\n");
    assert_eq!(told, "CLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n");
    // A value that is too large is left out, and the request behind it is served; the old value goes.
    assert_eq!(one(b"set k 0 0 1\r\nx\r\n").1, "STORED\r\n");
    let head = format!("set k 0 0 {}\r\n", VALUE_MOST + 1);
    let value = vec![b'x'; VALUE_MOST + 1];
    let (_, told, kept) = one(&[head.as_bytes(), &value, b"\r\nget k\r\n"].concat());
    assert_eq!((told.as_str(), kept), ("SERVER_ERROR object too large for cache\r\nEND\r\n", 0));
    // The largest value, asked for many times by one line: the output is bounded, and then goes on.
    let head = format!("set k 0 0 {VALUE_MOST}\r\n");
    assert_eq!(one(&[head.as_bytes(), &value[1..], b"\r\n"].concat()).1, "STORED\r\n");
    let (mut session, mut total) = (Session::new(&service), 0);
    let mut line = format!("get{}\r\nmn\r\n", " k".repeat(1000)).into_bytes();
    loop {
        let mut output = Vec::new();
        assert_eq!(session.serve(&std::mem::take(&mut line), &mut output), Next::Go);
        assert!(output.len() < OUTPUT_MOST + VALUE_MOST + 100, "{}", output.len());
        total += output.len();
        if !session.is_full() {
            assert!(output.ends_with(b"MN\r\n"));
            break;
        }
    }
    assert_eq!(total, 1000 * (VALUE_MOST + format!("VALUE k 0 {VALUE_MOST}\r\n\r\n").len()) + 9);
}

#[test]
fn what_does_not_fit_changes_nothing_else() {
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    let ask = |bytes: &[u8]| {
        let mut output = Vec::new();
        assert_eq!(Session::new(&service).serve(bytes, &mut output), Next::Go);
        String::from_utf8_lossy(&output).into_owned()
    };
    let storing = |command: &str, bytes: usize| {
        [format!("{command} {bytes}\r\n").as_bytes(), &vec![b'x'; bytes], b"\r\n"].concat()
    };
    // An append beyond the largest value is answered as memcached does, and the old value stays.
    assert_eq!(ask(&storing("set k 0 0", VALUE_MOST - 1)), "STORED\r\n");
    assert_eq!(ask(&storing("append k 0 0", 2)), "NOT_STORED\r\n");
    assert_eq!(ask(b"touch k 0\r\n"), "TOUCHED\r\n");
    // A store that is smaller than a value: nobody goes for it, and only `set` removes the old value.
    let small = Settings { most_bytes: 64 << 10, ..SETTINGS };
    let heap = own_heap(&small);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &small).expect("a store"));
    let ask = |bytes: &[u8]| {
        let mut output = Vec::new();
        assert_eq!(Session::new(&service).serve(bytes, &mut output), Next::Go);
        String::from_utf8_lossy(&output).into_owned()
    };
    let full = "SERVER_ERROR out of memory storing object\r\n";
    assert_eq!(ask(b"set other 0 0 1\r\nx\r\nset k 0 0 1\r\nx\r\n"), "STORED\r\nSTORED\r\n");
    for command in ["add k 0 0", "replace k 0 0", "append k 0 0", "prepend k 0 0"] {
        assert_eq!(ask(&storing(command, 70_000)), full, "{command}");
        assert_eq!(ask(b"get k other\r\n"), "VALUE k 0 1\r\nx\r\nVALUE other 0 1\r\nx\r\nEND\r\n", "{command}");
    }
    assert_eq!(ask(&storing("set k 0 0", 70_000)), full);
    assert_eq!(ask(b"get k other\r\n"), "VALUE other 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn a_flush_cancels_the_one_that_waits() {
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    let mut session = Session::new(&service);
    let mut ask = |bytes: &[u8]| {
        let mut output = Vec::new();
        assert_eq!(session.serve(bytes, &mut output), Next::Go);
        String::from_utf8_lossy(&output).into_owned()
    };
    let stays = |ask: &mut dyn FnMut(&[u8]) -> String| {
        assert_eq!(ask(b"set k 0 0 1\r\nx\r\n"), "STORED\r\n");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1300) {
            service.maintain();
            std::thread::sleep(Duration::from_millis(50));
        }
        ask(b"get k\r\n") != "END\r\n"
    };
    assert_eq!(ask(b"flush_all 1\r\n"), "OK\r\n");
    assert!(!stays(&mut ask), "a delayed flush comes");
    assert_eq!(ask(b"flush_all 1\r\nflush_all\r\n"), "OK\r\nOK\r\n");
    assert!(stays(&mut ask), "unless there was another one");
}

#[test]
fn what_is_expired_goes_without_being_asked_for() {
    const KEYS: u64 = 500;
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    let mut output = Vec::new();
    for number in 0..2 * KEYS {
        let seconds = if number % 2 == 0 { 1 } else { 1000 };
        Session::new(&service).serve(format!("set k{number} 0 {seconds} 1\r\nx\r\n").as_bytes(), &mut output);
    }
    assert_eq!(service.store.items(), 2 * KEYS);
    std::thread::sleep(Duration::from_millis(1100));
    // A second of the server's.
    (0..20).for_each(|_| service.maintain());
    assert_eq!(service.store.items(), KEYS);
}

#[test]
fn random_bytes_neither_stop_nor_fill_it() {
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    let words: [&[u8]; 24] = [
        b"get",
        b"set",
        b"add",
        b"cas",
        b"append",
        b"incr",
        b"touch",
        b"gat",
        b"delete",
        b"flush_all",
        b"stats",
        b" ",
        b" ",
        b" ",
        b"k",
        b"0",
        b"1",
        b"5",
        b"-1",
        b"99999999999999999999",
        b"noreply",
        b"\r\n",
        b"\r\n",
        b"\n",
    ];
    let mut next = support::numbers();
    let mut session = Session::new(&service);
    for _ in 0..support::rounds(20_000) {
        let mut sent = Vec::new();
        for _ in 0..next(8) {
            match next(10) {
                0 => sent.extend((0..next(10)).map(|_| next(256) as u8)),
                _ => sent.extend(words[next(words.len())]),
            }
        }
        let mut output = Vec::new();
        if session.serve(&sent, &mut output) == Next::Close {
            session = Session::new(&service);
        }
        assert!(session.kept() < 80 << 10, "{}", session.kept());
    }
    service.store.clear();
    assert_eq!((service.store.items(), service.store.bytes()), (0, 0));
    let accounts = kiln_heap::supply::accounts(&heap).expect("an allocator");
    assert_eq!((accounts.allocated_bytes, accounts.bad_frees), (0, 0), "nothing leaks: {accounts:?}");
}
