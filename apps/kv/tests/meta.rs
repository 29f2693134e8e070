//! memcached's meta commands, beside what Debian's memcached answers if it is installed: lines whose answers are known, and random
//! commands to both.

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use kiln_kv::protocol::{Next, Service, Session};
use kiln_kv::store::{OWN_VARIABLE_BYTES, Settings, Store, VALUE_MOST, own_heap};

const SETTINGS: Settings = Settings { buckets: 1 << 10, most_bytes: 16 << 20, served: None };
/// Random commands of one run.
const COMMANDS: usize = 20_000;

/// What is sent, a line or a line and a value, and the answer. Versions are numbers of each server's own: `c#`.
const CONVERSATION: &[(&str, &str)] = &[
    ("mn", "MN"),
    ("mn a b", "MN"),
    ("mx a", "ERROR"),
    ("mg", "ERROR"),
    ("ms", "ERROR"),
    ("md", "ERROR"),
    ("ma", "ERROR"),
    ("me", "CLIENT_ERROR bad command line format"),
    ("me a", "EN"),
    ("mg a", "EN"),
    ("mg a v q", ""),
    ("mg a k Oabc", "EN ka Oabc"),
    ("mg none b k Oq", "EN knone b Oq"),
    ("ms a", "CLIENT_ERROR bad command line format"),
    ("ms a x", "CLIENT_ERROR bad command line format"),
    ("ms a -1", "CLIENT_ERROR bad command line format"),
    ("ms a 2|hi", "HD"),
    ("mg a", "HD"),
    ("mg a v f c s t k Oabc h", "VA 2 f0 c# s2 t-1 ka Oabc h1|hi"),
    ("mg a s v q", "VA 2 s2|hi"),
    ("mg a v v", "CLIENT_ERROR duplicate flag"),
    ("mg a y", "CLIENT_ERROR invalid flag"),
    ("mg a O12345678901234567890123456789012", "CLIENT_ERROR opaque token too long"),
    ("mg a O1234567890123456789012345678901", "HD O1234567890123456789012345678901"),
    ("mg a Tx", "CLIENT_ERROR bad token in command line format"),
    ("mg a t T100 t", "CLIENT_ERROR duplicate flag"),
    ("mg a T100 t", "HD t100"),
    ("mg a T-1", "HD"),
    ("mg a", "EN"),
    ("mg n N30 t c v", "VA 0 t30 c# W|"),
    ("mg n N30 t v", "VA 0 t30 Z|"),
    ("mg n R40 t", "HD t30 Z"),
    ("ms n 1 T30|x", "HD"),
    ("mg n R30", "HD"),
    ("mg n R40", "HD W"),
    ("mg n R40", "HD Z"),
    ("ms b 2 T100 F77 c k Oz|hi", "HD c# kb Oz"),
    ("mg b t f v k", "VA 2 t100 f77 kb|hi"),
    ("ms b 3 M|hix", "CLIENT_ERROR incorrect length for M token"),
    ("ms b 3 Mx|hix", "CLIENT_ERROR invalid mode for ms M token"),
    ("ms b 2 ME|zz", "NS"),
    ("ms b 2 ME q|zz", "NS"),
    ("ms b 2 MA|zz", "HD"),
    ("ms b 2 MP T5 F1|yy", "HD"),
    ("mg b t f v", "VA 6 t100 f77|yyhizz"),
    ("ms none 2 MA|zz", "NS"),
    ("ms none 2 MP N10|zz", "NS"),
    ("ms none 2 MR|zz", "NS"),
    ("ms b 2 MR|rr", "HD"),
    ("ms b 2 MS q|ss", ""),
    ("ms b 2 C1|ss", "EX"),
    ("ms none 2 C1|ss", "NF"),
    ("ms b 2 C1 ME|ss", "NS"),
    ("ms b 2 Cx|ss", "CLIENT_ERROR bad token in command line format"),
    ("ms b 2 Fx|ss", "CLIENT_ERROR bad command line format"),
    ("ms b 2 y|ss", "CLIENT_ERROR invalid flag"),
    ("ms b 2 b|ss", "CLIENT_ERROR error decoding key"),
    ("ms b 2|sss", "CLIENT_ERROR bad data chunk|ERROR"),
    ("ms b 2 I C1|st", "HD"),
    ("mg b v t", "VA 2 t-1 X W|st"),
    ("mg b v", "VA 2 Z X|st"),
    ("ms b 2|hi", "HD"),
    ("ms Zm9v 2 b k|hi", "HD kZm9v b"),
    ("mg foo k v", "VA 2 kZm9v b|hi"),
    ("mg Zm9v b v", "VA 2|hi"),
    ("mg !!! b v", "CLIENT_ERROR error decoding key"),
    ("md none", "NF"),
    ("md none q", "NF"),
    ("md none k Oabc", "NF knone Oabc"),
    ("md b C1", "EX"),
    ("md b I T30", "HD"),
    ("mg b v t c", "VA 2 t30 c# X W|hi"),
    ("mg b v t c", "VA 2 t30 c# Z X|hi"),
    ("md b q", ""),
    ("md b x", "CLIENT_ERROR invalid or duplicate flag"),
    ("ma none", "NF"),
    ("ma none q k", "NF knone"),
    ("ma m N0 J13 D5 v", "VA 2|13"),
    ("ma m N0 J13 D5 v", "VA 2|18"),
    ("ma m v t c k Oabc", "VA 2 t-1 c# km Oabc|19"),
    ("ma m MD D12 v", "VA 1|7"),
    ("mg m v", "VA 2|7 "),
    ("ma m M- D300 v", "VA 1|0"),
    ("ma m q", ""),
    ("ma m C1", "EX"),
    ("ma m Mx", "CLIENT_ERROR invalid mode for ma M token"),
    ("ma m Dx", "CLIENT_ERROR invalid or duplicate flag"),
    ("ma m T50 v t", "VA 1 t50|2"),
    ("ma m D0 t T100", "HD t50"),
    ("ma m D0 N30 t", "HD t100"),
    ("ma foo", "CLIENT_ERROR cannot increment or decrement non-numeric value"),
    ("ma m Mx O12345678901234567890123456789012", "CLIENT_ERROR invalid mode for ma M token"),
    ("ma foo O12345678901234567890123456789012", "CLIENT_ERROR cannot increment or decrement non-numeric value"),
    ("ma none O12345678901234567890123456789012", "CLIENT_ERROR opaque token too long"),
    ("ma m C0 v", "VA 1|3"),
    ("ma m O12345678901234567890123456789012", "CLIENT_ERROR opaque token too long"),
    ("mg m v", "VA 2|4 "),
    ("mg m O12345678901234567890123456789012 Rx", "CLIENT_ERROR bad token in command line format"),
    ("mg none q O12345678901234567890123456789012", "CLIENT_ERROR opaque token too long"),
    ("md m O12345678901234567890123456789012", "CLIENT_ERROR opaque token too long"),
    ("ms m 2 Mx O12345678901234567890123456789012|hi", "CLIENT_ERROR invalid mode for ms M token"),
    ("ms m 2 O12345678901234567890123456789012|hi", "CLIENT_ERROR opaque token too long"),
    ("ms foo 2 MA C0|ss", "HD"),
    ("me !!! x b", "EN"),
    ("me !!! b", "CLIENT_ERROR bad command line format"),
    ("mg m 1 2 3 4 5 6 7 8 9 a b c d e f g h i", "CLIENT_ERROR options flags are too long"),
];

/// The numbers behind a letter, replaced by `#`: versions.
fn without_versions(text: &str) -> String {
    let is_version =
        |word: &str| word.len() > 1 && word.starts_with('c') && word[1..].bytes().all(|byte| byte.is_ascii_digit());
    let words: Vec<&str> = text.split(' ').collect();
    let shown = words.iter().enumerate().map(|(at, word)| {
        let (word, end) = word.find('\r').map_or((*word, ""), |at| word.split_at(at));
        if at > 0 && is_version(word) { format!("c#{end}") } else { format!("{word}{end}") }
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// A server's answer to a request.
trait Server {
    fn ask(&mut self, request: &str) -> String;
}

impl Server for Session<'_, '_> {
    fn ask(&mut self, request: &str) -> String {
        let mut output = Vec::new();
        // Byte by byte: what is kept of an incomplete request is served.
        request.bytes().for_each(|byte| assert_eq!(self.serve(&[byte], &mut output), Next::Go, "{request}"));
        String::from_utf8_lossy(&output).into_owned()
    }
}

impl Server for TcpStream {
    fn ask(&mut self, request: &str) -> String {
        // What follows the request answers as nothing else does.
        self.write_all(format!("{request}version\r\n").as_bytes()).expect("it reads");
        let (mut told, mut part) = (Vec::new(), [0; 4096]);
        loop {
            let count = self.read(&mut part).unwrap_or_else(|error| panic!("{request}: {error}: {told:?}"));
            assert!(count > 0, "closed after {request}");
            told.extend(&part[..count]);
            let text = String::from_utf8_lossy(&told);
            let lines = text.strip_suffix("\r\n").unwrap_or_default();
            let last = lines.rfind("\r\n").map_or(0, |at| at + 2);
            if lines[last..].starts_with("VERSION ") {
                return lines[..last].to_owned();
            }
        }
    }
}

fn with_session(test: impl FnOnce(&Service<'_>, &mut Session<'_, '_>)) {
    let heap = own_heap(&SETTINGS);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    test(&service, &mut Session::new(&service));
    service.store.clear();
    assert_eq!((service.store.items(), service.store.bytes()), (0, 0));
}

fn memcached() -> Option<(support::Ended, TcpStream)> {
    // A thread that holds an item for a moment would have a counter made anew, without what is known of it.
    let alone = "no_lru_maintainer,no_lru_crawler,no_slab_reassign";
    let arguments = ["-l", "127.0.0.1", "-p", "PORT", "-U", "0", "-u", "root", "-t", "1", "-o", alone];
    let Some((child, port)) = support::peer("memcached", &arguments) else {
        println!("skipped: memcached is not installed");
        return None;
    };
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("it accepts");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a time limit");
    Some((child, stream))
}

fn converse(server: &mut dyn Server) {
    for (sent, wanted) in CONVERSATION {
        let told = server.ask(&format!("{}\r\n", sent.replace('|', "\r\n")));
        let wanted = if wanted.is_empty() { String::new() } else { format!("{}\r\n", wanted.replace('|', "\r\n")) };
        assert_eq!(without_versions(&told), wanted, "{sent}");
    }
}

#[test]
fn it_answers_as_expected() {
    with_session(|_, session| converse(session));
}

#[test]
fn memcached_answers_as_expected_too() {
    let Some((_child, mut stream)) = memcached() else { return };
    converse(&mut stream);
}

/// A random command. A version is a number that neither server has come to.
fn command(next: &mut impl FnMut(usize) -> usize) -> String {
    let name = ["mg", "mg", "ms", "ms", "md", "ma"][next(6)];
    let key = ["a", "b", "n", "Zm9v", "foo", "x"][next(6)];
    let mut flags = String::new();
    let mut seen = 0u128;
    for _ in 0..next(6) {
        let flag = match next(24) {
            0 | 1 => "v".to_owned(),
            2 => "f".to_owned(),
            3 => "s".to_owned(),
            4 => "t".to_owned(),
            5 => "k".to_owned(),
            6 => "h".to_owned(),
            7 => "q".to_owned(),
            8 => "b".to_owned(),
            9 => "c".to_owned(),
            10 => format!("O{}", next(100)),
            // Far enough apart, so that the seconds of both clocks do not matter.
            // A counter that gets longer does not take a time in memcached.
            11 if name != "ma" => format!("T{}", [0, 1000, 5000, 9000][next(4)]),
            12 => format!("N{}", [0, 1000, 5000][next(3)]),
            13 => format!("R{}", [500, 3000, 7000][next(3)]),
            14 => format!("F{}", next(1000)),
            15 => "C999999999".to_owned(),
            16 | 17 => format!("M{}", ["E", "A", "P", "R", "S", "I", "D", "+", "-", "x"][next(10)]),
            18 => format!("J{}", next(1000)),
            19 => format!("D{}", next(100)),
            20 => "u".to_owned(),
            21 => ["y", "Cx", "Tx", "Jx", "M", "Mee"][next(6)].to_owned(),
            _ => continue,
        };
        // One of each: what is said twice is refused, which is tested elsewhere.
        if seen >> flag.as_bytes()[0] & 1 == 0 {
            seen |= 1 << flag.as_bytes()[0];
            flags += &format!(" {flag}");
        }
    }
    if name != "ms" {
        return format!("{name} {key}{flags}\r\n");
    }
    let value = if next(2) == 0 { next(3000).to_string() } else { "v".repeat(next(40)) };
    format!("ms {key} {}{flags}\r\n{value}\r\n", value.len())
}

#[test]
fn random_commands_are_answered_alike() {
    let Some((_child, mut stream)) = memcached() else { return };
    with_session(|service, session| {
        let mut next = support::numbers();
        let mut codes = std::collections::BTreeSet::new();
        let mut before = std::collections::VecDeque::new();
        for _ in 0..COMMANDS {
            let request = command(&mut next);
            let (own, wanted) = (session.ask(&request), stream.ask(&request));
            assert_eq!(without_seconds(&own), without_seconds(&wanted), "{request:?} after {before:#?}");
            codes.insert(wanted.get(..2).unwrap_or_default().to_owned());
            before.push_back(format!("{request:?}: {own:?}"));
            before.drain(..before.len().saturating_sub(60));
            if next(300) == 0 {
                for key in ["a", "b", "n", "Zm9v", "foo", "x"] {
                    assert_eq!(session.ask(&format!("delete {key}\r\n")), stream.ask(&format!("delete {key}\r\n")));
                }
            }
        }
        for code in ["HD", "EN", "VA", "NF", "NS", "EX", "CL", ""] {
            assert!(codes.contains(code), "{code} was not met");
        }
        assert!(service.store.items() <= 6);
    });
}

/// Without versions, and with seconds left in thousands: both clocks count in seconds of their own.
fn without_seconds(reply: &str) -> String {
    let rounded = |word: &str| match word.strip_prefix('t').and_then(|text| text.parse::<u64>().ok()) {
        Some(seconds) => format!("t{}", (seconds + 500) / 1000),
        None => word.to_owned(),
    };
    let Some((line, rest)) = reply.split_once("\r\n") else { return reply.to_owned() };
    let line: Vec<String> = without_versions(line).split(' ').map(rounded).collect();
    format!("{}\r\n{rest}", line.join(" "))
}

#[test]
fn hostile_values_are_bounded() {
    with_session(|_, session| {
        // A value that is too large is left out, and the old one goes.
        assert_eq!(session.ask("ms k 2\r\nhi\r\n"), "HD\r\n");
        let mut output = Vec::new();
        let line = format!("ms k {}\r\n", VALUE_MOST + 1);
        assert_eq!(session.serve(line.as_bytes(), &mut output), Next::Go);
        assert_eq!(session.serve(&vec![b'x'; VALUE_MOST + 1], &mut output), Next::Go);
        assert_eq!(session.serve(b"\r\nmg k\r\n", &mut output), Next::Go);
        assert_eq!(String::from_utf8_lossy(&output), "SERVER_ERROR object too large for cache\r\nEN\r\n");
        assert_eq!(session.kept(), 0);
        assert_eq!(session.ask("ms k 99999999999\r\n"), "CLIENT_ERROR bad command line format\r\n");
        // An item as `me` shows it.
        assert_eq!(session.ask("ms k 2 T100\r\nhi\r\n"), "HD\r\n");
        let told = session.ask("me k\r\n");
        assert!(told.starts_with("ME k exp=100 cas=") && told.contains(" fetch=no size="), "{told}");
    });
}
