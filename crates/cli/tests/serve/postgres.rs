//! PostgreSQL's clients: psql, and messages of the protocol as bytes.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::service::{Service, Work};
use crate::{FORKS, GENEROUS};

/// A service with a door for these clients, and how to connect.
fn begin() -> Option<(Service, String)> {
    let service = Service::begin(&[&GENEROUS[..], &["--postgres", "127.0.0.1:0"]].concat())?;
    let url = service.line("PostgreSQL's clients: ");
    Some((service, url))
}

/// What psql answers to commands; `None` where it is not installed.
fn psql(url: &str, commands: &[&str]) -> Option<Output> {
    let mut psql = Command::new("psql");
    psql.args([url, "--no-psqlrc", "--tuples-only", "--no-align", "--set", "VERBOSITY=verbose"]);
    psql.args(commands.iter().flat_map(|command| ["--command", command]));
    match psql.output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: psql: {error}");
            None
        }
    }
}

/// Expressions of as many operators as a query may have are walked by recursion, in the service's threads, too.
#[test]
fn long_expressions_end_no_service() {
    let Some((mut service, url)) = begin() else { return };
    let sum = format!("SELECT 1{} FROM errno LIMIT 1", "+1".repeat(900));
    let joined = format!("SELECT count(*) FROM forks WHERE comm{} = 'a' WINDOW 100 MS", "||comm".repeat(900));
    if let Some(output) = psql(&url, &[&sum]) {
        assert_eq!(String::from_utf8_lossy(&output.stdout), "901\n", "{output:?}");
    }
    service.ask(&["install", "joined", &joined]);
    assert!(service.child.try_wait().expect("a process").is_none(), "the service runs");
    service.document(&["list"]);
}

#[test]
fn psql_asks_and_is_answered() {
    let Some((service, url)) = begin() else { return };
    let _work = Work::begin();
    for (commands, words) in [
        (&["SELECT 1 AS one, NULL, 'it''s' || '!', 2.5, 1 < 2"][..], "1||it's!|2.5|t\n"),
        (&["SELECT name FROM errno WHERE errno = 2"], "ENOENT\n"),
        (&["BEGIN", "SELECT 7", "COMMIT"], "BEGIN\n7\nCOMMIT\n"),
        (&["SHOW server_encoding; SET application_name = 'x'; SHOW application_name"], "UTF8\nSET\nx\n"),
        (&["SELECT version()"], "(Kiln "),
        (&["SELECT comm FROM forks LIMIT 0; SELECT 8"], "8\n"),
        (&["SELECT comm FROM forks WHERE comm LIKE '%a=1' LIMIT 2"], "<script>a=1\n<script>a=1\n"),
        (&["SET kiln.duration = '300ms'; SELECT count(*) > 0 FROM forks"], "SET\nt\n"),
        (
            &["SET kiln.duration = '400ms'; SELECT comm, count(*) > 0 FROM forks GROUP BY comm WINDOW 100 MS"],
            "<script>a=1|t\n",
        ),
        (&["\\dt"], "public|forks|table|kiln\n"),
        (&["\\d forks"], "child_pid|bigint|"),
        (&["\\d runq"], "ts|timestamp with time zone|"),
        (&["\\dn"], "public|kiln\n"),
        (&["\\l"], "kiln|kiln|UTF8"),
        (
            &["SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_name = 'dns'"],
            "dns\n",
        ),
        (
            &["SELECT data_type FROM information_schema.columns WHERE table_name = 'forks' AND column_name = 'comm'"],
            "text\n",
        ),
    ] {
        let Some(output) = psql(&url, commands) else { return };
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains(words), "{commands:?}: {shown}{}", String::from_utf8_lossy(&output.stderr));
    }
    for (command, words) in [
        ("SELECT nothing FROM forks", "ERROR:  42703: "),
        ("SELECT 1; SELECT nothing FROM forks", "LINE 1: SELECT 1; SELECT nothing"),
        ("SELECT pid FROM forkz", "ERROR:  42P01: there is no table `forkz`"),
        ("SELECT pid FROM forkz", "HINT:  did you mean `forks`?"),
        ("SELECT count(*) FROM forks", "SET kiln.duration"),
        ("SELECT CAST(18446744073709551615 AS u64)", "ERROR:  22003: "),
        ("EXPLAIN SELECT pid FROM forks", "ERROR:  0A000: "),
        ("SHOW nothing", "ERROR:  42704: "),
        ("INSERT INTO forks VALUES (1)", "ERROR:  42601: only SELECT"),
    ] {
        let Some(output) = psql(&url, &[command]) else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(words), "{command}: {said}");
    }
    let wrong = url.replace("kiln:", "kiln:0");
    let said = psql(&wrong, &["SELECT 1"]).map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(said.is_none_or(|said| said.contains("the password is wrong")));
    // Queries of clients are gone with their sessions.
    let begun = Instant::now();
    while service.document(&["list"])["queries"].as_array().is_some_and(|queries| !queries.is_empty()) {
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", service.document(&["list"]));
    }
}

/// A session by messages as bytes.
struct Raw(TcpStream);

/// A message: its kind, and its fields.
fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("it is short").to_be_bytes();
    [&[kind], &length[..], body].concat()
}

/// A client's last message: that it knows the password, for whoever knows what was said before.
fn proof(password: &str, asked: &str) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use hmac::Mac as _;
    use sha2::{Digest as _, Sha256};

    let code = |key: &[u8], message: &[u8]| -> [u8; 32] {
        let mut code = hmac::Hmac::<Sha256>::new_from_slice(key).expect("any key");
        code.update(message);
        code.finalize().into_bytes().into()
    };
    let part = |name: &str| asked.split(',').find_map(|part| part.strip_prefix(name)).expect(name);
    let mut last = STANDARD.decode(part("s=")).expect("a salt");
    last.extend(1u32.to_be_bytes());
    let mut salted = [0; 32];
    for _ in 0..part("i=").parse::<u32>().expect("a number") {
        last = code(password.as_bytes(), &last).to_vec();
        salted.iter_mut().zip(&last).for_each(|(byte, other)| *byte ^= other);
    }
    let key = code(&salted, b"Client Key");
    let without_proof = format!("c=biws,r={}", part("r="));
    let signature = code(&Sha256::digest(key), format!("n=,r=x,{asked},{without_proof}").as_bytes());
    let proof: [u8; 32] = std::array::from_fn(|at| key[at] ^ signature[at]);
    format!("{without_proof},p={}", STANDARD.encode(proof))
}

impl Raw {
    fn connect(url: &str) -> TcpStream {
        let address = url.rsplit_once('@').and_then(|(_, address)| address.strip_suffix("/kiln")).expect("an address");
        let stream = TcpStream::connect(address).expect("the door");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time");
        stream
    }

    /// A session that gave the password.
    fn begin(url: &str) -> Raw {
        let mut raw = Raw(Raw::connect(url));
        raw.log_in(url);
        raw
    }

    /// Gives the password; what a client needs to cancel what this session runs.
    fn log_in(&mut self, url: &str) -> Vec<u8> {
        self.send(&message(b'x', b"\0\x03\0\0user\0kiln\0\0")[1..]);
        let password = url.split([':', '@']).nth(2).expect("a password");
        assert!(self.next().1.ends_with(b"SCRAM-SHA-256\0\0"));
        self.send(&message(b'p', b"SCRAM-SHA-256\0\0\0\0\x09n,,n=,r=x"));
        let asked = String::from_utf8(self.next().1[4..].to_vec()).expect("it is text");
        self.send(&message(b'p', proof(password, &asked).as_bytes()));
        let all = self.until(b'Z');
        all.into_iter().find(|(kind, _)| *kind == b'K').expect("a key").1
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("it is sent");
    }

    /// The next message.
    fn next(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 5];
        self.0.read_exact(&mut head).expect("a message");
        let length = u32::from_be_bytes(head[1..].try_into().expect("four bytes"));
        let mut body = vec![0; length as usize - 4];
        self.0.read_exact(&mut body).expect("its body");
        (head[0], body)
    }

    /// The messages up to one of a kind.
    fn until(&mut self, kind: u8) -> Vec<(u8, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            all.push(self.next());
            if all.last().is_some_and(|(own, _)| *own == kind) {
                return all;
            }
        }
    }

    /// The kinds of the messages up to `ReadyForQuery`.
    fn kinds(&mut self) -> String {
        self.until(b'Z').into_iter().map(|(kind, _)| char::from(kind)).collect()
    }
}

#[test]
fn statements_are_prepared_with_parameters() {
    let Some((service, url)) = begin() else { return };
    let _work = Work::begin();
    let mut raw = Raw::begin(&url);
    // Types of parameters are found: a number and a text. The answer is in binary form.
    raw.send(&message(b'P', b"a\0SELECT errno, name FROM errno WHERE errno = $1 OR name = $2 ORDER BY errno\0\0\0"));
    raw.send(&message(b'D', b"Sa\0"));
    raw.send(&message(b'B', b"\0a\0\0\x02\0\x01\0\0\0\x02\0\0\0\x08\0\0\0\0\0\0\0\x02\0\0\0\x05EPERM\0\x01\0\x01"));
    raw.send(&message(b'E', b"\0\0\0\0\0"));
    raw.send(&message(b'S', b""));
    let all = raw.until(b'Z');
    let kinds: String = all.iter().map(|(kind, _)| char::from(*kind)).collect();
    assert_eq!(kinds, "1tT2DDCZ");
    assert_eq!(all[1].1, b"\0\x02\0\0\0\x14\0\0\0\x19");
    assert_eq!(all[4].1, b"\0\x02\0\0\0\x08\0\0\0\0\0\0\0\x01\0\0\0\x05EPERM");
    // A name is of one statement and of one portal until it is closed; what has no name is replaced.
    for (messages, kinds, code) in [
        (&[message(b'P', b"a\0SELECT 1\0\0\0")][..], "EZ", "42P05"),
        (&[message(b'P', b"\0SELECT 1\0\0\0"), message(b'P', b"\0SELECT 2\0\0\0")], "11Z", ""),
        (&[message(b'B', b"p\0\0\0\0\0\0\0\0"), message(b'B', b"p\0\0\0\0\0\0\0\0")], "2EZ", "42P03"),
        // Parameters begin with 1, and formats are text or binary, for none, all or each.
        (&[message(b'P', b"\0SELECT $0\0\0\0")], "EZ", "42P02"),
        (&[message(b'B', b"\0a\0\0\0\0\x02\0\0\0\x011\0\0\0\x01x\0\x01\0\x07")], "EZ", "22023"),
        (&[message(b'B', b"\0a\0\0\x01\0\x07\0\x02\0\0\0\x011\0\0\0\x01x\0\0")], "EZ", "22023"),
        (&[message(b'B', b"\0a\0\0\0\0\x02\0\0\0\x011\0\0\0\x01x\0\x03\0\0\0\0\0\0")], "EZ", "08P01"),
        (&[message(b'B', b"\0a\0\0\x03\0\0\0\0\0\0\0\x02\0\0\0\x011\0\0\0\x01x\0\0")], "EZ", "08P01"),
        (&[message(b'B', b"\0a\0\0\0\0\x02\0\0\0\x011\0\0\0\x01x\0\x02\0\0\0\x01")], "2Z", ""),
        (&[message(b'C', b"Sa\0"), message(b'P', b"a\0SELECT 1\0\0\0"), message(b'E', b"\0\0\0\0\0")], "31EZ", "34000"),
    ] {
        raw.send(&[messages.concat(), message(b'S', b"")].concat());
        let all = raw.until(b'Z');
        assert_eq!(all.iter().map(|(kind, _)| char::from(*kind)).collect::<String>(), kinds);
        let said = all.into_iter().filter(|(kind, _)| *kind == b'E').flat_map(|(_, body)| body).collect::<Vec<u8>>();
        assert!(said.escape_ascii().to_string().contains(code), "{}", said.escape_ascii());
    }
    raw.send(&message(b'Q', b"SELECT $1\0"));
    let all = raw.until(b'Z');
    assert!(all[0].1.escape_ascii().to_string().contains("C42P02"), "{}", all[0].1.escape_ascii());
    // Rows come in portions, and others may be asked for meanwhile; an error skips up to `Sync`.
    raw.send(&message(b'Q', b"BEGIN\0"));
    assert_eq!(raw.kinds(), "CZ");
    raw.send(&message(b'P', b"\0SELECT comm FROM forks\0\0\0"));
    raw.send(&message(b'B', b"live\0\0\0\0\0\0\0\0"));
    raw.send(&message(b'E', b"live\0\0\0\0\x02"));
    raw.send(&message(b'S', b""));
    assert_eq!(raw.kinds(), "12DDsZ");
    assert_eq!(service.document(&["list"])["queries"].as_array().map(Vec::len), Some(1));
    raw.send(&message(b'E', b"live\0\0\0\0\x01"));
    raw.send(&message(b'E', b"none\0\0\0\0\x01"));
    raw.send(&message(b'E', b"live\0\0\0\0\x01"));
    raw.send(&message(b'S', b""));
    assert_eq!(raw.kinds(), "DsEZ");
    raw.send(&message(b'Q', b"ROLLBACK\0"));
    assert_eq!(raw.kinds(), "CZ");
    assert_eq!(service.document(&["list"])["queries"].as_array().map(Vec::len), Some(0));
    // A query that waits ends with its connection.
    raw.send(&message(b'Q', b"SELECT comm FROM forks WHERE comm = 'nobody'\0"));
    assert_eq!(raw.next().0, b'T');
    drop(raw);
    let begun = Instant::now();
    while !service.programs().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30), "programs are still loaded");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// SQLite would take up to 10 s for each of these answers.
#[test]
fn a_query_is_cancelled_while_its_answer_is_computed() {
    const PRODUCT: &str = "SELECT count(*) FROM errno a, errno b, errno c, errno d, errno e";
    let Some((service, url)) = begin() else { return };
    let _work = Work::begin();
    let of_events = format!("SELECT count(*), ({PRODUCT}) FROM forks WINDOW 100 MS");
    for sql in [PRODUCT, &of_events] {
        let mut raw = Raw(Raw::connect(&url));
        let key = raw.log_in(&url);
        raw.send(&message(b'Q', format!("{sql}\0").as_bytes()));
        std::thread::sleep(Duration::from_secs(1));
        let cancelled = Instant::now();
        Raw(Raw::connect(&url)).send(&message(b'x', &[&b"\x04\xd2\x16\x2e"[..], &key].concat())[1..]);
        let (_, body) = raw.until(b'E').pop().expect("a message");
        assert!(body.escape_ascii().to_string().contains("C57014"), "{}", body.escape_ascii());
        raw.until(b'Z');
        assert!(cancelled.elapsed() < Duration::from_secs(3), "{sql}: {:?}", cancelled.elapsed());
    }
    assert_eq!(service.document(&["list"])["queries"].as_array().map(Vec::len), Some(0));
}

#[test]
fn data_of_a_copy_that_nobody_asked_for_is_left_out() {
    let Some((_service, url)) = begin() else { return };
    let mut raw = Raw::begin(&url);
    let copied = [message(b'd', b"x"), message(b'c', b""), message(b'f', b"why\0")].concat();
    raw.send(&[copied, message(b'Q', b"SELECT 1\0")].concat());
    assert_eq!(raw.next().0, b'T');
}

#[test]
fn sessions_are_told_that_the_service_ends() {
    let Some((mut service, url)) = begin() else { return };
    let mut idle = Raw::begin(&url);
    let mut waits = Raw::begin(&url);
    waits.send(&message(b'Q', b"SELECT comm FROM forks WHERE comm = 'nobody'\0"));
    assert_eq!(waits.next().0, b'T');
    assert_eq!(service.signal("-TERM").0, Some(0));
    for raw in [&mut idle, &mut waits] {
        let (kind, body) = raw.next();
        assert!(kind == b'E' && body.escape_ascii().to_string().contains("C57P01"), "{}", body.escape_ascii());
    }
}

#[test]
fn hostile_clients_keep_nobody_away() {
    let Some((service, url)) = begin() else { return };
    let startup = message(b'x', b"\0\x03\0\0user\0kiln\0\0")[1..].to_vec();
    let mut idle: Vec<TcpStream> = (0..200).map(|_| Raw::connect(&url)).collect();
    for (at, stream) in idle.iter_mut().enumerate() {
        // Some of these connections have been closed already.
        let _ = match at % 4 {
            0 => stream.write_all(&startup),
            1 => stream.write_all(&startup[..5]),
            2 => stream.write_all(&[0xff; 64]),
            _ => Ok(()),
        };
    }
    for bytes in [
        &[0u8, 0, 0, 4][..],
        &[0xff; 8],
        &[0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0],
        b"\0\0\0\x08\x04\xd2\x16\x2e",
        b"\0\0\0\x09\0\x03\0\0u",
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut stream = Raw::connect(&url);
        stream.write_all(bytes).expect("it is sent");
        let mut answer = Vec::new();
        // It is closed, with or without a reason.
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer[0] == b'E', "{}", answer.escape_ascii());
    }
    // Proofs of the password that are malformed.
    for bytes in [
        message(b'p', b"SCRAM-SHA-256\0\xff\xff\xff\xff"),
        message(b'p', b"SCRAM-SHA-256\0\0\0\0\xffn,,n=,r=x"),
        message(b'p', b"SCRAM-SHA-256\0"),
        message(b'p', b""),
        message(b'Q', b"SELECT 1\0"),
    ] {
        let mut stream = Raw::connect(&url);
        stream.write_all(&[&startup[..], &bytes].concat()).expect("it is sent");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.windows(4).any(|some| some == b"TDCZ"), "{}", answer.escape_ascii());
        assert!(answer.escape_ascii().to_string().contains("the password is wrong"), "{}", answer.escape_ascii());
    }
    // Messages that are malformed or too long end a session, and no other one.
    let mut other = Raw::begin(&url);
    for bytes in [
        message(b'P', b"a\0SELECT 1\0\xff\xff"),
        message(b'B', b"\0\0\0\0\xff\xff"),
        message(b'?', b""),
        vec![b'Q', 0x7f, 0xff, 0xff, 0xff],
        vec![b'Q', 0, 0, 0, 3],
    ] {
        let mut raw = Raw::begin(&url);
        raw.send(&bytes);
        let mut answer = Vec::new();
        let _ = raw.0.read_to_end(&mut answer);
        let answer = answer.escape_ascii().to_string();
        assert!(answer.starts_with('E') && answer.contains("SFATAL\\x00") && answer.contains("C08P01"), "{answer}");
    }
    let query = format!("{FORKS} LIMIT {}\0", "9".repeat(70_000));
    other.send(&message(b'Q', query.as_bytes()));
    assert_eq!(other.kinds(), "EZ");
    other.send(&message(b'Q', b"SELECT 1\0"));
    assert_eq!(other.kinds(), "TDCZ");
    service.document(&["list"]);
}
