//! The log: what is read again is what was there, also by Redis, whatever was done and however it ended.

mod support;

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use kiln_kv::log::{Log, LogError, Opened, REWRITE_BYTES, Settings as LogSettings, Sync};
use kiln_kv::protocol::{Service, Session as Memcached};
use kiln_kv::redis::Session;
use kiln_kv::store::{OWN_VARIABLE_BYTES, Settings, Store, own_heap};
use support::redis::{request, told};
use support::{numbers, peer};

const SETTINGS: Settings = Settings { buckets: 1 << 8, most_bytes: 16 << 20, served: None };

fn log_settings(directory: &Path) -> LogSettings {
    LogSettings { directory: directory.to_owned(), sync: Sync::No, repair: false, rewrite_bytes: REWRITE_BYTES }
}

/// Has a store with a log; what the log said, and what `work` gave.
fn with_log<T>(
    settings: &LogSettings,
    store: &Settings,
    work: impl FnOnce(&Service<'_>) -> T,
) -> Result<(Opened, T), LogError> {
    let heap = own_heap(store);
    let service = Service::new(Store::create(&heap, OWN_VARIABLE_BYTES, store).expect("a store"));
    let log = Log::open(settings, &service)?;
    let opened = log.opened.clone();
    log.serve(&service, || work(&service)).map(|done| (opened, done))
}

fn ask(service: &Service<'_>, line: &str) -> String {
    let mut output = Vec::new();
    Session::new(service).serve(&request(line), &mut output);
    String::from_utf8_lossy(&output).into_owned()
}

/// The bulk strings of an array that has nothing else.
fn strings(reply: &str) -> Vec<String> {
    reply.split("\r\n").skip(1).filter(|line| !line.starts_with('$') && !line.is_empty()).map(str::to_owned).collect()
}

/// All keys with their values and times, as a server tells them.
fn everything(mut ask: impl FnMut(&str) -> String) -> Vec<String> {
    let mut keys = strings(&ask("KEYS *"));
    keys.sort();
    let mut told = Vec::new();
    for key in keys {
        let value = match &*ask(&format!("TYPE {key}")) {
            "+string\r\n" => ask(&format!("GET {key}")),
            "+hash\r\n" => {
                let all = strings(&ask(&format!("HGETALL {key}")));
                let mut pairs: Vec<_> = all.chunks(2).map(<[String]>::to_vec).collect();
                pairs.sort();
                format!("{pairs:?}")
            }
            _ => ask(&format!("ZRANGE {key} 0 -1 WITHSCORES")),
        };
        told.push(format!("{key} {value} {}", ask(&format!("PEXPIRETIME {key}"))));
    }
    told
}

fn random_command(next: &mut impl FnMut(usize) -> usize) -> String {
    let (key, field, number) = (format!("k{}", next(24)), format!("f{}", next(40)), next(1000));
    match next(22) {
        0 | 1 => format!("SET {key} v{number}"),
        2 => format!("SET {key} {}", "x".repeat(number * 3)),
        3 => format!("SET {key} short PX {}", 1 + next(10)),
        4 => format!("SET {key} long EX {}", 1000 + number),
        5 => format!("INCRBY {key} {number}"),
        6 => format!("APPEND {key} {number}"),
        7 => format!("DEL {key}"),
        8..=11 => format!("HSET {key} {field} {number} {field}b {number}"),
        12 => format!("HDEL {key} {field} {field}b"),
        13 => format!("HINCRBYFLOAT {key} {field} 1.25"),
        14..=16 => format!("ZADD {key} {number}.5 {field} {} m{number}", next(5)),
        17 => format!("ZINCRBY {key} {number} {field}"),
        18 => format!("ZPOPMIN {key} 2"),
        19 => format!("PEXPIRE {key} {}", if number < 500 { 1 + next(10) } else { 1_000_000 }),
        20 => format!("PERSIST {key}"),
        _ => format!("ZREMRANGEBYRANK {key} 0 {}", next(3)),
    }
}

/// Random commands of several threads on few keys, while the log is rewritten again and again.
fn disturb(service: &Service<'_>, threads: u64, commands: usize) {
    let journal = service.store.journal().expect("a log");
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut next = numbers();
                (0..100 * thread).for_each(|_| _ = next(2));
                for number in 0..commands {
                    ask(service, &random_command(&mut next));
                    if number % 997 == 0 {
                        journal.ask_for_rewrite();
                    }
                    if thread == 0 && number == commands / 2 {
                        ask(service, "FLUSHALL");
                    }
                }
                // Until a rewrite has been among the commands.
                let begun = Instant::now();
                while journal.files.rewrites.load(Relaxed) < 2 && begun.elapsed() < Duration::from_secs(10) {
                    journal.ask_for_rewrite();
                    ask(service, &random_command(&mut next));
                }
            });
        }
    });
    // What is short has ended.
    std::thread::sleep(Duration::from_millis(30));
}

#[test]
fn what_is_read_again_is_what_was_there() {
    const ROUNDS: usize = 3;
    let folder = tempfile::tempdir().expect("a folder");
    let settings = log_settings(folder.path());
    let mut before = Vec::new();
    for round in 0..ROUNDS {
        let work = |service: &Service<'_>| {
            assert_eq!(everything(|line| ask(service, line)), before, "round {round}");
            disturb(service, 4, 8_000);
            assert!(service.store.journal().expect("a log").files.rewrites.load(Relaxed) > 1);
            everything(|line| ask(service, line))
        };
        let (opened, all) = with_log(&settings, &SETTINGS, work).expect("opens");
        assert!(!all.is_empty() && opened.cut.is_none());
        before = all;
        redis_reads(folder.path(), &before);
    }
}

/// Redis reads the same from a copy of a directory, and its tool finds nothing wrong.
fn redis_reads(directory: &Path, wanted: &[String]) {
    let copy = tempfile::tempdir().expect("a folder");
    let to = copy.path().join("appendonlydir");
    fs::create_dir(&to).expect("a folder");
    for entry in fs::read_dir(directory.join("appendonlydir")).expect("is there") {
        let entry = entry.expect("is read");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("is copied");
    }
    match Command::new("redis-check-aof").arg(to.join("appendonly.aof.manifest")).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(_) => println!("skipped: redis-check-aof is not installed"),
    }
    let text = copy.path().to_str().expect("text");
    let Some((_child, port)) = peer("redis-server", &["--port", "PORT", "--dir", text, "--appendonly", "yes"]) else {
        return println!("skipped: redis-server is not installed");
    };
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it accepts");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time limit");
    let begun = Instant::now();
    while told(&mut stream, &request("PING")).starts_with("-LOADING") {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(everything(|line| told(&mut stream, &request(line))), wanted);
}

/// The last increment of a directory.
fn increment(directory: &Path) -> PathBuf {
    let folder = directory.join("appendonlydir");
    let text = fs::read_to_string(folder.join("appendonly.aof.manifest")).expect("is read");
    folder.join(text.lines().last().and_then(|line| line.split(' ').nth(1)).expect("a name"))
}

fn set_all(service: &Service<'_>, count: usize) {
    for number in 0..count {
        assert_eq!(ask(service, &format!("SET k{number} v{number}")), "+OK\r\n");
        // Each one is a block.
        std::thread::sleep(Duration::from_millis(3));
    }
}

#[test]
fn a_block_that_a_kill_has_cut_is_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = log_settings(folder.path());
    with_log(&settings, &SETTINGS, |service| set_all(service, 10)).expect("opens");
    let path = increment(folder.path());
    let whole = fs::read(&path).expect("is read");
    for cut in (1..80).step_by(6).chain([whole.len() - 1]) {
        fs::write(&path, &whole[..whole.len() - cut]).expect("is written");
        let count = |service: &Service<'_>| service.store.items();
        let (opened, items) = with_log(&settings, &SETTINGS, count).expect("opens");
        assert_eq!(items, opened.commands, "cut by {cut}");
        assert!(items < 10);
        // It goes on from there, and there is nothing to cut any more.
        let set = |service: &Service<'_>| ask(service, "SET more 1");
        let (opened, _) = with_log(&settings, &SETTINGS, set).expect("opens");
        assert_eq!(opened.cut, None);
        let (opened, more) = with_log(&settings, &SETTINGS, |service| ask(service, "GET more")).expect("opens");
        assert_eq!((opened.cut, &*more), (None, "$1\r\n1\r\n"));
    }
}

#[test]
fn damage_is_refused_with_its_place_and_cut_when_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = log_settings(folder.path());
    with_log(&settings, &SETTINGS, |service| set_all(service, 10)).expect("opens");
    let path = increment(folder.path());
    let whole = fs::read(&path).expect("is read");
    let begins: Vec<usize> = (0..whole.len()).filter(|at| whole[*at..].starts_with(b"#KILN:")).collect();
    for at in (0..whole.len()).step_by(29) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&path, &damaged).expect("is written");
        let refused = with_log(&settings, &SETTINGS, |_| ()).expect_err("is damaged");
        let LogError::Damaged { path: named, offset, .. } = &refused else { panic!("{refused}") };
        let block = begins.iter().rfind(|begin| **begin <= at).copied();
        assert!(*named == path && Some(*offset as usize) == block, "{at}: {refused}");
        assert!(refused.to_string().contains("--repair"), "{refused}");
        let repaired = LogSettings { repair: true, ..settings.clone() };
        let count = |service: &Service<'_>| service.store.items();
        let (opened, items) = with_log(&repaired, &SETTINGS, count).expect("is repaired");
        assert_eq!(opened.cut.map(|(_, offset, _)| offset), Some(*offset));
        assert_eq!(items, opened.commands);
        let kept = fs::read(path.with_extension("aof.damaged")).expect("the damaged file is kept");
        assert_eq!(kept, damaged);
        assert_eq!(with_log(&settings, &SETTINGS, count).expect("opens").1, items);
    }
    // A block that is missing.
    let second = whole[1..].windows(6).position(|bytes| bytes == b"#KILN:").expect("a block") + 1;
    fs::write(&path, &whole[second..]).expect("is written");
    let refused = with_log(&settings, &SETTINGS, |_| ()).expect_err("is damaged").to_string();
    assert!(refused.contains("block 0 is missing"), "{refused}");
}

#[test]
fn what_random_bytes_say_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = log_settings(folder.path());
    with_log(&settings, &SETTINGS, |service| set_all(service, 3)).expect("opens");
    let path = increment(folder.path());
    let (whole, mut next) = (fs::read(&path).expect("is read"), numbers());
    for _ in 0..300 {
        let mut damaged = whole.clone();
        for _ in 0..=next(4) {
            let (at, many) = (next(damaged.len()), next(20));
            let end = (at + many).min(damaged.len());
            match next(3) {
                0 => damaged[at] = next(256) as u8,
                1 => drop(damaged.drain(at..end)),
                _ => drop(damaged.splice(at..at, b"*3\r\n$99999999\r\n#M:x\r\n".iter().copied())),
            }
            if damaged.is_empty() {
                break;
            }
        }
        fs::write(&path, &damaged).expect("is written");
        // Nothing but what was there is there, if anything.
        if let Ok((_, all)) = with_log(&settings, &SETTINGS, |service| everything(|line| ask(service, line))) {
            let is_known = |told: &String| (0..3).any(|at| told.starts_with(&format!("k{at} $2\r\nv{at}\r\n")));
            assert!(all.iter().all(is_known), "{all:?}");
        }
    }
}

#[test]
fn a_log_that_redis_has_written_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().to_str().expect("text");
    let arguments = ["--port", "PORT", "--dir", text, "--appendonly", "yes", "--aof-use-rdb-preamble", "no"];
    let Some((child, port)) = peer("redis-server", &[&arguments[..], &["--save", ""]].concat()) else {
        return println!("skipped: redis-server is not installed");
    };
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it accepts");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time limit");
    let mut next = numbers();
    for _ in 0..4000 {
        told(&mut stream, &request(&random_command(&mut next)));
    }
    std::thread::sleep(Duration::from_millis(30));
    let wanted = everything(|line| told(&mut stream, &request(line)));
    told(&mut stream, &request("CONFIG SET appendfsync always"));
    told(&mut stream, &request("SET last 1"));
    drop((stream, child));
    let work = |service: &Service<'_>| {
        assert_eq!(ask(service, "DEL last"), ":1\r\n");
        everything(|line| ask(service, line))
    };
    let (_, all) = with_log(&log_settings(folder.path()), &SETTINGS, work).expect("opens");
    assert_eq!(all, wanted);
}

/// As Redis does it: what is behind `MULTI` counts with its `EXEC` only.
#[test]
fn a_transaction_that_a_kill_has_cut_is_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = log_settings(folder.path());
    let log = folder.path().join("appendonlydir");
    fs::create_dir(&log).expect("a folder");
    fs::write(log.join("appendonly.aof.manifest"), "file a seq 1 type i\n").expect("is written");
    let file = |lines: &[&str]| -> Vec<u8> { lines.iter().flat_map(|line| request(line)).collect() };
    let whole = ["SET a 1", "MULTI", "SET b 1", "SET c 1", "EXEC", "MULTI", "SET d 1"];
    fs::write(log.join("a"), file(&whole)).expect("is written");
    let keys = |service: &Service<'_>| ask(service, "EXISTS a b c d");
    let (opened, there) = with_log(&settings, &SETTINGS, keys).expect("opens");
    assert_eq!(there, ":3\r\n");
    let cut = opened.cut.expect("it is cut");
    assert_eq!(cut.1, file(&whole[..5]).len() as u64, "{}", cut.2);
}

#[test]
fn flags_marks_and_versions_of_memcached_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = log_settings(folder.path());
    let ask = |service: &Service<'_>, text: &str| {
        let mut output = Vec::new();
        Memcached::new(service).serve(text.as_bytes(), &mut output);
        String::from_utf8_lossy(&output).into_owned()
    };
    let version = |service: &Service<'_>| -> u64 {
        let told = ask(service, "mg k c\r\n");
        told.trim().strip_prefix("HD c").and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{told}"))
    };
    let work = |service: &Service<'_>| {
        assert_eq!(
            ask(service, "set k 77 0 1\r\nx\r\nset s 3 0 1\r\ny\r\nmd s I T30\r\n"),
            "STORED\r\nSTORED\r\nHD\r\n"
        );
        version(service)
    };
    let (_, old) = with_log(&settings, &SETTINGS, work).expect("opens");
    for _ in 0..2 {
        let again = |service: &Service<'_>| {
            assert_eq!(ask(service, "get k\r\n"), "VALUE k 77 1\r\nx\r\nEND\r\n");
            assert!(
                ask(service, "mg s f v\r\n").starts_with("VA 1 f3 W X\r\ny")
                    || ask(service, "mg s f\r\n").contains("X")
            );
            // A version that a client has from an earlier process is none of the new one's.
            assert!(version(service) > old);
            assert_eq!(ask(service, &format!("cas k 0 0 1 {old}\r\nz\r\n")), "EXISTS\r\n");
        };
        with_log(&settings, &SETTINGS, again).expect("opens");
        let rewrite = |service: &Service<'_>| {
            let journal = service.store.journal().expect("a log");
            journal.ask_for_rewrite();
            let begun = Instant::now();
            while journal.files.rewrites.load(Relaxed) == 0 {
                assert!(begun.elapsed() < Duration::from_secs(10));
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        with_log(&settings, &SETTINGS, rewrite).expect("opens");
    }
}

#[test]
fn less_memory_than_before_is_no_ghost() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = log_settings(folder.path());
    let fill = |service: &Service<'_>| {
        for number in 0..3000 {
            ask(service, &format!("HSET k{number} a {}", "x".repeat(3000)));
        }
    };
    with_log(&settings, &SETTINGS, fill).expect("opens");
    let less = Settings { most_bytes: 4 << 20, ..SETTINGS };
    let touch = |service: &Service<'_>| {
        assert!(service.store.evicted() > 0 && service.store.bytes() <= 4 << 20);
        (0..3000).for_each(|number| drop(ask(service, &format!("HSET k{number} b 1"))));
        everything(|line| ask(service, line))
    };
    let (_, before) = with_log(&settings, &less, touch).expect("opens");
    let (_, after) = with_log(&settings, &SETTINGS, |service| everything(|line| ask(service, line))).expect("opens");
    assert!(before == after, "{} and {} keys", before.len(), after.len());
}

#[test]
fn other_files_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = log_settings(folder.path());
    let held = with_log(&settings, &SETTINGS, |_| {
        with_log(&settings, &SETTINGS, |_| ()).expect_err("it is in use").to_string()
    });
    assert!(held.expect("opens").1.contains("in use by another server"));
    let file = folder.path().join("file");
    fs::write(&file, "").expect("is written");
    let refused = with_log(&log_settings(&file), &SETTINGS, |_| ()).expect_err("no folder");
    assert!(matches!(refused, LogError::Io { .. }), "{refused}");
    let manifest = folder.path().join("appendonlydir/appendonly.aof.manifest");
    let mut all = OpenOptions::new().append(true).open(&manifest).expect("is there");
    all.write_all(b"file ../../etc/passwd seq 9 type i\n").expect("is written");
    let refused = with_log(&settings, &SETTINGS, |_| ()).expect_err("is damaged").to_string();
    assert!(refused.contains("no manifest"), "{refused}");
    fs::write(&manifest, "file b seq 1 type b\n").expect("is written");
    fs::write(folder.path().join("appendonlydir/b"), "REDIS0010").expect("is written");
    let refused = with_log(&settings, &SETTINGS, |_| ()).expect_err("is another format").to_string();
    assert!(refused.contains("aof-use-rdb-preamble no"), "{refused}");
    fs::remove_file(folder.path().join("appendonlydir/b")).expect("is there");
    let made = Command::new("mkfifo").arg(folder.path().join("appendonlydir/b")).status();
    assert!(made.expect("mkfifo runs").success());
    let refused = with_log(&settings, &SETTINGS, |_| ()).expect_err("is a pipe").to_string();
    assert!(refused.contains("this is no file"), "{refused}");
}
