//! The extension and the store on one heap: what one side stores, the other one finds. In test runs, without a network.

mod support;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kiln_driver::heap::KernelHeap;
use kiln_heap::{Memory, lock, supply};
use kiln_kv::protocol::{Service, Session};
use kiln_kv::server::{Protocol, Server};
use kiln_kv::store::layout::{MAGIC, bucket, state};
use kiln_kv::store::{Condition, OWN_VARIABLE_BYTES, Outcome, Settings, Store, now, own_heap};
use kiln_linux::{LoadedObject, ObjectFile, Prog, TestInput};
use support::linear::{Did, Recorder, check};

const PORT: u16 = 11211;
const SETTINGS: Settings = Settings {
    buckets: 1 << 12,
    most_bytes: 32 << 20,
    served: Some(SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), PORT)),
};
const XDP_PASS: u32 = 2;
const XDP_TX: u32 = 3;
/// What the kernel's verifier may process.
const MOST_PROCESSED: u32 = 200_000;
const HEADERS: usize = 50;

/// The extension in the kernel, and the bytes of its variables. Prints a skip if there is no kernel or no compiler to use.
fn loaded() -> Option<(LoadedObject, usize)> {
    if let Err(error) = kiln_linux::available() {
        println!("skipped: the kernel: {error}");
        return None;
    }
    if Command::new("clang-19").arg("--version").output().is_err() {
        println!("skipped: clang-19 is not installed");
        return None;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("memcached.o");
    let status = Command::new("clang-19")
        .args([
            "-target",
            "bpf",
            "-O2",
            "-g",
            "-Wall",
            "-Werror",
            "-mcpu=v4",
            "-mllvm",
            "-disable-loop-idiom-all",
            "-c",
        ])
        .args(["-DKV_HEAP_BYTES=(64u<<20)", "-I"])
        .arg(root.join("bpf/include"))
        .arg("-idirafter")
        .arg(format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH))
        .arg(root.join("apps/kv/bpf/memcached.bpf.c"))
        .arg("-o")
        .arg(&path)
        .status();
    assert!(status.expect("clang runs").success(), "clang refuses the extension");
    let elf = kiln_elf::read("memcached", &std::fs::read(&path).expect("an object")).expect("an object");
    let heap = elf.object.maps.iter().find(|map| map.name == "kiln_heap_map").expect("a heap");
    let variables = supply::variable_bytes(heap);
    let sandboxed = kiln_sandbox::sandbox(&elf.object, &kiln_sandbox::Options::default()).expect("is sandboxed");
    let bytes = elf.write(&sandboxed.object).expect("is written");
    let file = ObjectFile::open("memcached", &bytes).expect("libbpf reads it");
    Some((file.load().unwrap_or_else(|failure| panic!("the kernel: {failure}")), variables))
}

/// A datagram with a request.
fn request(text: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x08, 0x00];
    let udp_bytes = (16 + text.len()) as u16;
    packet.extend([0x45, 0]);
    packet.extend((20 + udp_bytes).to_be_bytes());
    packet.extend([0x12, 0x34, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = checksum(&packet[14..34]);
    packet[24..26].copy_from_slice(&sum.to_be_bytes());
    packet.extend(40000u16.to_be_bytes());
    packet.extend(PORT.to_be_bytes());
    packet.extend(udp_bytes.to_be_bytes());
    packet.extend([0xab, 0xcd]);
    packet.extend([0x55, 0xaa, 0, 0, 0, 1, 0, 0]);
    packet.extend(text);
    packet
}

fn checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn run(loaded: &LoadedObject, packet: &[u8]) -> (u32, Vec<u8>) {
    let input = TestInput { packet: packet.to_vec(), ..TestInput::default() };
    let output = loaded.program("kv_memcached").expect("loaded").test_run(&input).expect("runs");
    (output.value, output.packet)
}

/// The text of an answer whose headers are right.
fn answer(loaded: &LoadedObject, text: &[u8]) -> Vec<u8> {
    let sent = request(text);
    let (value, packet) = run(loaded, &sent);
    assert_eq!(value, XDP_TX, "{}", String::from_utf8_lossy(text));
    text_of_reply(&sent, &packet).to_vec()
}

/// The text of the reply to a packet. Its headers are right.
fn text_of_reply<'p>(sent: &[u8], packet: &'p [u8]) -> &'p [u8] {
    assert_eq!((&packet[..6], &packet[6..12]), (&sent[6..12], &sent[..6]), "Ethernet addresses");
    assert_eq!((&packet[26..30], &packet[30..34]), (&sent[30..34], &sent[26..30]), "IP addresses");
    assert_eq!((&packet[34..36], &packet[36..38]), (&sent[36..38], &sent[34..36]), "ports");
    assert_eq!(u16::from_be_bytes([packet[16], packet[17]]) as usize, packet.len() - 14, "IP length");
    assert_eq!(u16::from_be_bytes([packet[38], packet[39]]) as usize, packet.len() - 34, "UDP length");
    assert_eq!(checksum(&packet[14..34]), checksum(&sent[14..34]), "IP checksum, as right as it was");
    assert_eq!((&packet[12..15], &packet[18..22]), (&sent[12..15], &sent[18..22]), "the rest of the headers");
    assert_eq!((packet[15], &packet[22..24]), (0, &[64, 17][..]), "type of service, time to live");
    assert_eq!(
        (&packet[40..48], &packet[48..50]),
        (&[&[0, 0], &sent[42..48]].concat()[..], &[0, 0][..]),
        "checksum, frame"
    );
    &packet[HEADERS..]
}

/// A request with other bytes in its IP header, or the UDP header's source port.
fn request_with(text: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut packet = request(text);
    packet[at..at + bytes.len()].copy_from_slice(bytes);
    packet[24..26].fill(0);
    let sum = checksum(&packet[14..34]);
    packet[24..26].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn set(key: &str, value: &[u8]) -> Vec<u8> {
    [format!("set {key} 7 0 {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

fn value_of(key: &str, value: &[u8]) -> Vec<u8> {
    [format!("VALUE {key} 7 {}\r\n", value.len()).as_bytes(), value, b"\r\nEND\r\n"].concat()
}

#[test]
fn it_verifies_within_its_bar() {
    let Some((loaded, _)) = loaded() else { return };
    let processed = loaded.program("kv_memcached").expect("loaded").info().expect("its numbers").verified_insns;
    println!("{processed} processed instructions, {MOST_PROCESSED} allowed");
    assert!((1000..=MOST_PROCESSED).contains(&processed), "{processed}");
}

#[test]
fn both_sides_find_what_the_other_stores() {
    let Some((loaded, variables)) = loaded() else { return };
    let heap = KernelHeap(loaded.heap("kiln_heap_map").expect("a heap"));
    assert_eq!(run(&loaded, &request(b"get k\r\n")).0, XDP_PASS, "before there is a store");
    let store = Store::create(&heap, variables, &SETTINGS).expect("a store");
    assert_eq!(answer(&loaded, b"get missing\r\n"), b"END\r\n");
    let wrong = [
        (0, 0xff),
        (6, 1),
        (13, 6),
        (14, 0x46),
        (17, 0),
        (20, 0x20),
        (23, 6),
        (26, 127),
        (26, 255),
        (33, 3),
        (37, 1),
        (45, 1),
        (47, 2),
        (39, 255),
        // 2048 bytes more than there are.
        (38, 8),
    ];
    for (at, byte) in wrong {
        let mut packet = request(b"get missing\r\n");
        packet[at] = byte;
        assert_eq!(run(&loaded, &packet), (XDP_PASS, packet.clone()), "byte {at} is {byte}");
    }
    // From the server's own address or port, or from none: an answer would go to a server.
    for (at, bytes) in [(26, &[10, 0, 0, 2][..]), (34, &PORT.to_be_bytes()), (34, &[0, 0])] {
        let packet = request_with(b"get missing\r\n", at, bytes);
        assert_eq!(run(&loaded, &packet), (XDP_PASS, packet.clone()), "{bytes:?} at {at}");
    }
    // A request that came far, through a crowded network: its answer begins anew.
    for (at, byte) in [(15, 3), (22, 1), (22, 255)] {
        let packet = request_with(b"get missing\r\n", at, &[byte]);
        let (value, reply) = run(&loaded, &packet);
        assert_eq!((value, text_of_reply(&packet, &reply)), (XDP_TX, &b"END\r\n"[..]), "byte {at} is {byte}");
    }
    for (at, bytes) in [0usize, 1, 7, 8, 100, 128, 1000, 1300].into_iter().enumerate() {
        let value: Vec<u8> = (0..bytes).map(|at| (at * 7) as u8).collect();
        let key = format!("key{}{at}", "x".repeat(at * 30));
        assert_eq!(answer(&loaded, &set(&key, &value)), b"STORED\r\n");
        let found = store.get(key.as_bytes(), None).expect("user space finds it");
        assert_eq!((found.value(), found.flags(), found.version), (&value[..], 7, 1), "{key}");
        if bytes + key.len() < 200 {
            assert_eq!(answer(&loaded, format!("get {key}\r\n").as_bytes()), value_of(&key, &value), "{key}");
        }
        let other = [&value[..bytes / 2], b"!"].concat();
        assert_eq!(store.put(key.as_bytes(), 7, 0, &other, Condition::Version(1)), Outcome::Stored);
        if other.len() + key.len() < 200 {
            assert_eq!(answer(&loaded, format!("get {key}\r\n").as_bytes()), value_of(&key, &other), "{key}");
        }
        assert_eq!(answer(&loaded, &set(&key, &value)), b"STORED\r\n");
        assert_eq!(store.get(key.as_bytes(), None).expect("is there").version, 3, "{key}");
    }
    assert_eq!(store.items(), 8);
    assert!(store.delete(b"key0"));
    assert_eq!(answer(&loaded, b"get key0\r\n"), b"END\r\n");
    // What ends by time, and what does not fit.
    assert_eq!(store.put(b"old", 0, 1, b"gone", Condition::Any), Outcome::Stored);
    assert_eq!(answer(&loaded, b"get old\r\n"), b"END\r\n");
    assert_eq!(answer(&loaded, b"set soon 0 60 1\r\nx\r\n"), b"STORED\r\n");
    let expires = store.get(b"soon", None).expect("is there").expires;
    assert!(expires > now() + 50_000 && expires <= now() + 60_000, "{expires}");
    let counters = store.counters();
    assert_eq!((counters.sets, counters.hits > 5), (17, true), "{counters:?}");
    store.clear();
    assert_eq!((store.items(), store.bytes()), (0, 0));
    let accounts = supply::accounts(&heap).expect("an allocator");
    assert_eq!((accounts.allocated_bytes, accounts.bad_frees), (0, 0), "{accounts:?}");
}

#[test]
fn what_is_no_string_is_left_to_user_space() {
    use kiln_kv::object::{Edit, SortedSet};
    let Some((loaded, variables)) = loaded() else { return };
    let heap = KernelHeap(loaded.heap("kiln_heap_map").expect("a heap"));
    let store = Store::create(&heap, variables, &SETTINGS).expect("a store");
    assert_eq!(store.extend(b"z", 100, |set: &mut Edit<'_, SortedSet>| set.set(b"m", 1.5)), Ok(None));
    let before = (store.items(), store.bytes());
    let passed = |text: &[u8]| {
        let packet = request(text);
        assert_eq!(run(&loaded, &packet), (XDP_PASS, packet.clone()), "{}", String::from_utf8_lossy(text));
    };
    passed(b"get z\r\n");
    // One has the size of the item's own text, the other one needs an item of its own.
    passed(b"set z 0 0 0\r\n\r\n");
    passed(&set("z", &[b'x'; 100]));
    assert_eq!(store.inspect(b"z", |set: &SortedSet| set.score(b"m")), Ok(Some(Some(1.5))));
    assert_eq!((store.items(), store.bytes()), before);
    // User space replaces it; from then on it is a string for both.
    assert_eq!(store.put(b"z", 7, 0, b"text", Condition::Any), Outcome::Stored);
    assert_eq!(answer(&loaded, b"get z\r\n"), value_of("z", b"text"));
    store.clear();
    assert_eq!((store.items(), store.bytes()), (0, 0));
    let accounts = supply::accounts(&heap).expect("an allocator");
    assert_eq!((accounts.allocated_bytes, accounts.bad_frees), (0, 0), "{accounts:?}");
}

/// The text of a packet, if its headers are those of a request to the server: what the program looks at, plainly.
fn text_of_request(packet: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let ours = packet.len() >= HEADERS + 7
        && (packet[0] | packet[6]) & 1 == 0
        && (word(12), packet[14], packet[23]) == (0x0800, 0x45, 17)
        && word(20) & 0x3fff == 0
        && !matches!(packet[26], 0 | 127 | 224..)
        && packet[30..34] == [10, 0, 0, 2]
        && (word(36), word(44), word(46)) == (PORT, 0, 1);
    let bytes = ours.then(|| usize::from(word(38))).filter(|bytes| bytes + 20 == usize::from(word(16)))?;
    packet.get(HEADERS..34 + bytes)
}

/// A command of the text protocol, often a wrong one.
fn command(below: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
    let long = ["x".repeat(249), "x".repeat(250), "x".repeat(251)];
    let keys: [&str; 10] = ["k", "k", "key", "ключ", "a\0b", "-", "noreply", &long[0], &long[1], &long[2]];
    let mut one = |of: &[&str]| of[below(of.len())].to_owned();
    let (key, end) =
        (one(&keys), one(&["\r\n", "\r\n", "\r\n", "\r\n", "\n", " \r\n", "", " noreply\r\n", "\r\nget k\r\n"]));
    let number = one(&["0", "1", "7", "18446744073709551615", "4294967296", "x", "+5", "-1"]);
    let flags =
        one(&["0", "0", "0", "0", "7", "7", "7", "4294967295", "4294967296", "007", "+1", "-1", "x", "\t3", ""]);
    // No item expires while the test runs, which the two stores would see at different times: later, or at once.
    let seconds = one(&[
        "0",
        "0",
        "0",
        "0",
        "0",
        "0",
        "1000000",
        "2592000",
        "2592001",
        "-1",
        "00",
        "0500000",
        "99999999999",
        "999999999999999999",
        "9999999999999999999",
    ]);
    let verb =
        one(&["set", "set", "set", "set", "set", "set", "set", "add", "replace", "append", "prepend", "SET", "set "]);
    match below(16) {
        0..=4 => format!("get {key}{end}").into_bytes(),
        5 => format!("get {key} k{end}").into_bytes(),
        6 => format!("delete {key}{end}").into_bytes(),
        7 => format!("{} {key} {number}{end}", ["incr", "decr", "touch", "gat"][below(4)]).into_bytes(),
        8 => (0..below(60)).map(|_| b"get sk0 1\r\n\0"[below(12)]).collect(),
        _ => {
            let bytes: usize = [0, 1, 2, 5, 5, 5, 20, 20, 100, 700, 1200][below(11)];
            let value: Vec<u8> = (0..bytes)
                .map(|_| [b'0' + below(10) as u8, b'\r', b'\n', below(256) as u8][below(20).min(3)])
                .collect();
            let told = match below(12) {
                0 => format!("0{bytes}"),
                1 => (bytes + 1).to_string(),
                2 => bytes.wrapping_sub(1).to_string(),
                _ => bytes.to_string(),
            };
            let (after, end) = (
                ["\r\n", " noreply\r\n", "\n", " \r\n"][below(24).saturating_sub(20)],
                if below(9) == 0 { end } else { "\r\n".to_owned() },
            );
            [format!("{verb} {key} {flags} {seconds} {told}{after}").as_bytes(), &value, end.as_bytes()].concat()
        }
    }
}

#[test]
fn both_paths_answer_alike() {
    let rounds = support::rounds(30_000);
    let Some((loaded, variables)) = loaded() else { return };
    let heap = KernelHeap(loaded.heap("kiln_heap_map").expect("a heap"));
    let shared = Service::new(Store::create(&heap, variables, &SETTINGS).expect("a store"));
    let own = own_heap(&SETTINGS);
    let alone = Service::new(Store::create(&own, OWN_VARIABLE_BYTES, &SETTINGS).expect("a store"));
    let slowly = |service: &Service<'_>, text: &[u8]| {
        let mut output = Vec::new();
        Session::new(service).serve(text, &mut output);
        output
    };
    let mut below = support::numbers();
    let (mut served, mut strange, mut memory) = (0, 0, support::Memory::default());
    for round in 0..rounds {
        let mut packet = request(&command(&mut below));
        match below(10) {
            0 => packet[below(HEADERS)] = below(256) as u8,
            1 => packet[below(HEADERS)] ^= 1 << below(8),
            2 => packet.truncate(14.max(packet.len() - below(packet.len().min(80)))),
            3 => packet.resize(packet.len().max(60) + below(20), 0),
            _ => {}
        }
        let text = text_of_request(&packet);
        let (value, reply) = run(&loaded, &packet);
        let shown = || format!("round {round}: {:?}", String::from_utf8_lossy(&packet[HEADERS.min(packet.len())..]));
        let Some(text) = text else {
            strange += 1;
            assert_eq!((value, &reply), (XDP_PASS, &packet), "{}", shown());
            continue;
        };
        let wanted = slowly(&alone, text);
        let told = match value {
            XDP_TX => {
                served += 1;
                text_of_reply(&packet, &reply).to_vec()
            }
            _ => {
                assert_eq!((value, &reply), (XDP_PASS, &packet), "{}", shown());
                slowly(&shared, text)
            }
        };
        assert_eq!(String::from_utf8_lossy(&told), String::from_utf8_lossy(&wanted), "{}", shown());
        assert_eq!(told, wanted);
        if round % 64 == 0 {
            // Only user space removes what a request finds expired.
            let counts = [&shared.store, &alone.store].map(|store| {
                store.remove_expired();
                (store.items(), store.bytes())
            });
            assert_eq!(counts[0], counts[1], "{}", shown());
        }
        if round % 10_000 == 9999 {
            memory.look();
        }
    }
    println!("{served} of {rounds} were served by the program, {strange} had other headers");
    assert!(served > rounds / 25 && strange > rounds / 20, "{served}, {strange}");
    shared.store.clear();
    let accounts = supply::accounts(&heap).expect("an allocator");
    assert_eq!((accounts.allocated_bytes, accounts.bad_frees), (0, 0), "{accounts:?}");
}

/// The value of a reply to `get`, if it has one.
fn value(reply: &[u8]) -> Option<&[u8]> {
    let rest = reply.strip_prefix(b"VALUE ")?.strip_suffix(b"\r\nEND\r\n")?;
    let head = rest.windows(2).position(|pair| pair == b"\r\n")?;
    Some(&rest[head + 2..])
}

#[test]
fn both_sides_at_once_mix_nothing_and_lose_nothing() {
    const ROUNDS: usize = 40_000;
    const KEYS: usize = 2;
    let Some((loaded, variables)) = loaded() else { return };
    let heap = KernelHeap(loaded.heap("kiln_heap_map").expect("a heap"));
    let store = Store::create(&heap, variables, &SETTINGS).expect("a store");
    let program = loaded.program("kv_memcached").expect("loaded");
    // A value is one byte, repeated: a mixture of two would show.
    let is_whole = |value: &[u8]| value.iter().all(|byte| *byte == value[0]);
    let sizes = [700, 1300, 1000, 1290];
    let served = std::thread::scope(|scope| {
        let in_xdp = |seed: usize| {
            let (program, sizes) = (&program, &sizes);
            move || {
                let mut served = 0;
                for round in 0..ROUNDS {
                    let key = format!("key{}", round * seed % KEYS);
                    let fill = vec![b'a' + (round % 26) as u8; sizes[round / 3 % 4]];
                    let text = if round % 2 == 0 { set(&key, &fill) } else { format!("get {key}\r\n").into_bytes() };
                    let input = TestInput { packet: request(&text), ..TestInput::default() };
                    let output = program.test_run(&input).expect("runs");
                    if output.value == XDP_TX {
                        served += 1;
                        let reply = &output.packet[HEADERS..];
                        let told = value(reply);
                        assert!(told.is_none_or(is_whole), "{:?}", String::from_utf8_lossy(reply));
                        assert!(told.is_some() || reply == b"END\r\n" || reply == b"STORED\r\n");
                    } else {
                        assert_eq!(output.value, XDP_PASS, "round {round}");
                    }
                }
                served
            }
        };
        let programs = [scope.spawn(in_xdp(3)), scope.spawn(in_xdp(7))];
        for round in 0..ROUNDS {
            let key = format!("key{}", round % KEYS);
            match round % 4 {
                0 => {
                    let fill = vec![b'A' + (round % 26) as u8; sizes[round / 4 % 4]];
                    assert_eq!(store.put(key.as_bytes(), 1, 0, &fill, Condition::Any), Outcome::Stored);
                }
                1 if round % 40 == 1 => drop(store.delete(key.as_bytes())),
                _ => assert!(store.get(key.as_bytes(), None).is_none_or(|found| is_whole(found.value()))),
            }
        }
        programs.map(|program| program.join().expect("it ends")).iter().sum::<usize>()
    });
    println!("{served} of {} requests were served by the program", 2 * ROUNDS);
    assert!(served > ROUNDS, "{served}");
    assert!(store.items() <= KEYS as u64, "{}", store.items());
    let bytes: usize =
        (0..KEYS).filter_map(|at| store.get(format!("key{at}").as_bytes(), None)).map(|it| 48 + it.text.len()).sum();
    assert_eq!(store.bytes(), bytes as u64);
    store.clear();
    assert_eq!((store.items(), store.bytes()), (0, 0));
    let accounts = supply::accounts(&heap).expect("an allocator");
    assert_eq!((accounts.allocated_bytes, accounts.bad_frees), (0, 0), "{accounts:?}");
}

/// A client of the program in XDP: what the program passes on, the server's session answers.
fn through_xdp(program: &Prog, session: &mut Session<'_, '_>, text: &[u8], served: &mut usize) -> Vec<u8> {
    let input = TestInput { packet: request(text), ..TestInput::default() };
    let done = program.test_run(&input).expect("runs");
    if done.value == XDP_TX {
        *served += 1;
        return done.packet[HEADERS..].to_vec();
    }
    let mut output = Vec::new();
    session.serve(text, &mut output);
    output
}

/// A client behind a socket.
fn through_tcp(stream: &mut TcpStream, text: &[u8]) -> Vec<u8> {
    stream.write_all(&[text, b"mn\r\n"].concat()).expect("it reads");
    let (mut reply, mut part) = (Vec::new(), [0; 4096]);
    while !reply.ends_with(b"MN\r\n") {
        let bytes = stream.read(&mut part).expect("it answers");
        assert!(bytes > 0, "closed");
        reply.extend(&part[..bytes]);
    }
    reply.truncate(reply.len() - 4);
    reply
}

/// Does one random operation. Only the server removes and adds.
fn operation(
    next: &mut impl FnMut(usize) -> usize,
    key: usize,
    new: u64,
    is_all: bool,
    mut ask: impl FnMut(&[u8]) -> Vec<u8>,
) -> Did {
    let seen = |reply: &[u8]| -> Option<u64> {
        let text = std::str::from_utf8(value(reply)?).expect("text");
        Some(text.trim_end_matches('x').parse().expect("a value that somebody has stored"))
    };
    let padding = [0, 5, 700, 1290, 1500][next(5)];
    let (name, text) = (format!("k{key}"), format!("{new}{}", "x".repeat(padding)));
    let change = set(&name, text.as_bytes());
    match next(if is_all { 12 } else { 10 }) {
        0..6 => Did::Read(seen(&ask(format!("get {name}\r\n").as_bytes()))),
        6..10 => {
            assert_eq!(ask(&change), b"STORED\r\n");
            Did::Write(new)
        }
        10 => Did::Remove(ask(format!("delete {name}\r\n").as_bytes()) == b"DELETED\r\n"),
        _ => Did::Add(new, ask(&[b"add".as_slice(), &change[3..]].concat()) == b"STORED\r\n"),
    }
}

/// Two clients of the program and two behind sockets do so many operations each, at once.
fn linear(count: usize) {
    const KEYS: usize = 3;
    let Some((loaded, variables)) = loaded() else { return };
    let heap = KernelHeap(loaded.heap("kiln_heap_map").expect("a heap"));
    let service = Service::new(Store::create(&heap, variables, &SETTINGS).expect("a store"));
    let program = loaded.program("kv_memcached").expect("loaded");
    let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into(), Protocol::Memcached, false).expect("it binds");
    server.listen().expect("it listens");
    let (address, stop, clock) = (server.address().expect("an address"), AtomicBool::new(false), Instant::now());
    let (operations, served) = std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&service, 2, &stop));
        let client = |number: usize| {
            let (program, service) = (&program, &service);
            move || {
                let (mut recorder, mut next, mut served) = (Recorder::new(clock, number), support::numbers(), 0);
                (0..number).for_each(|_| {
                    next(2);
                });
                let mut stream = TcpStream::connect(address).expect("it accepts");
                stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
                let mut session = Session::new(service);
                for turn in 0..count {
                    let (key, new) = (next(KEYS), (number * count + turn + 1) as u64);
                    let is_tcp = number % 2 == 0;
                    recorder.record(key, || {
                        operation(&mut next, key, new, is_tcp, |text| match is_tcp {
                            true => through_tcp(&mut stream, text),
                            false => through_xdp(program, &mut session, text, &mut served),
                        })
                    });
                }
                (recorder.operations, served)
            }
        };
        let clients: Vec<_> = (0..4).map(|number| scope.spawn(client(number))).collect();
        let done: Vec<_> = clients.into_iter().map(|client| client.join().expect("it ends")).collect();
        stop.store(true, Ordering::SeqCst);
        serving.join().expect("it ends").expect("it served");
        let served = done.iter().map(|(_, served)| served).sum::<usize>();
        (done.into_iter().flat_map(|(operations, _)| operations).collect::<Vec<_>>(), served)
    });
    println!("{} operations, of which the program has served {served}", operations.len());
    assert!(served > count, "{served}");
    check(&operations).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn both_paths_at_once_show_one_order() {
    linear(10_000);
}

#[test]
#[ignore = "minutes: make test-long"]
fn millions_of_operations_on_both_paths_have_one_order() {
    linear(500_000);
}

#[test]
fn a_lock_of_the_dead_stops_nobody() {
    let Some((loaded, variables)) = loaded() else { return };
    let heap = KernelHeap(loaded.heap("kiln_heap_map").expect("a heap"));
    let store = Store::create(&heap, variables, &SETTINGS).expect("a store");
    assert_eq!(answer(&loaded, &set("k", b"old")), b"STORED\r\n");
    // All locks are held by a process that has ended.
    let mut child = Command::new("true").spawn().expect("it starts");
    child.wait().expect("it ends");
    let state = supply::variable(&heap, MAGIC).expect("a state");
    let first = heap.load(state + state::BUCKETS).expect("buckets");
    let first = heap.offset(first).expect("in the heap");
    for number in 0..SETTINGS.buckets {
        let at = first + number * bucket::ALL + bucket::LOCK;
        lock::take(&heap, at, child.id(), Duration::ZERO).expect("it is free");
    }
    let begun = Instant::now();
    for text in [&b"get k\r\n"[..], &set("k", b"new")] {
        let packet = request(text);
        assert_eq!(run(&loaded, &packet), (XDP_PASS, packet.clone()), "the program leaves it to user space");
    }
    assert_eq!(store.get(b"k", None).expect("is there").value(), b"old");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(answer(&loaded, &set("k", b"new")), b"STORED\r\n", "user space has freed the lock");
}
