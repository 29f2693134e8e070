//! Dispatch policies: the program in the kernel sends each packet where the policy's expression says, computed in user
//! space.

mod sockets;

use std::cell::Cell;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kiln_driver::dispatch::{self, Dispatched, XdpMode};
use kiln_driver::packets::{self, Random};

const POLICIES: [&str; 12] = [
    "schedule(packet): packet.count % executors",
    "schedule(packet): hash(udp.header) % executors",
    "schedule(packet): hash(udp.payload[0]) % executors",
    "schedule(packet): hash(ip.source, ip.destination, packet.source_port, packet.destination_port) % executors",
    "schedule(packet): CASE WHEN tcp.destination_port = 80 THEN 0 WHEN tcp.payload[1] > 7 THEN 1 ELSE 2 END",
    "schedule(packet): packet.bytes / 64",
    "schedule(packet): ip.version - 4",
    "schedule(packet): CASE ip.protocol WHEN 17 THEN 0 WHEN 6 THEN 1 ELSE 99 END",
    "schedule(packet): (packet.payload[0] ^ packet.payload[15]) >> 62",
    "schedule(packet): (ip.source & 1) + (ip.destination & 1) * 2",
    "schedule(packet): CASE WHEN ip.version = 6 AND NOT ip.protocol BETWEEN 1 AND 16 THEN packet.count % 2 ELSE 3 END",
    "schedule(packet): hash(CASE WHEN udp.source_port < 32768 THEN hash(udp.source_port) ELSE udp.destination_port END) % 3",
];

/// Packets whose lengths, fragments and options vary more than those of ordinary traffic.
fn frames(seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    let mut frames = packets::corpus(seed, 400);
    for frame in frames.iter_mut().filter(|frame| frame.len() > 54) {
        match random.below(6) {
            0 => frame[14] = 0x40 | random.below(16) as u8,
            1 => frame[20] = random.below(64) as u8,
            2 => frame[46] = (random.below(16) as u8) << 4,
            3 => frame.truncate(14 + random.below(60) as usize),
            _ => {}
        }
    }
    frames
}

#[test]
fn the_kernel_sends_packets_where_the_policy_says() {
    if let Err(reason) = kiln_driver::require_kernel() {
        return println!("skipped: {reason}");
    }
    let mut decided = [0u64; 2];
    for policy in POLICIES {
        // All on processor 0: where a packet went is counted, and any machine has it.
        let plan = dispatch::plan(policy, &[0; 4]).unwrap_or_else(|error| panic!("{policy}: {error}"));
        let reference = plan.policy.clone();
        let loaded = dispatch::load(plan).unwrap_or_else(|error| panic!("{policy}: {error}"));
        let frames = frames(decided[0]);
        for frame in &frames {
            let input = kiln_linux::TestInput { packet: frame.clone(), ..kiln_linux::TestInput::default() };
            loaded.image.prog.test_run(&input).unwrap_or_else(|error| panic!("{policy}: {error}"));
        }
        let expected = dispatch::replay(&reference, &frames);
        assert_eq!(loaded.dispatched().expect("maps are read"), expected, "{policy}");
        decided[0] += expected.packets.iter().sum::<u64>();
        decided[1] += expected.left;
    }
    assert!(decided.iter().all(|count| *count > 500), "the packets are of one kind only: {decided:?}");
}

#[test]
fn conditions_again_and_again_do_not_tell_paths_apart() {
    let conditions = (0..12).map(|word| format!("CASE WHEN packet.payload[{word}] > {word} THEN 1 ELSE 0 END"));
    let conditions: Vec<String> = conditions.collect();
    let text = format!("schedule(packet): {}", [&conditions[..]; 4].concat().join(" + "));
    let plan = dispatch::plan(&text, &[0; 64]).unwrap_or_else(|error| panic!("{error}"));
    assert!(plan.program.processed < 100_000, "{}", plan.program.processed);
    match dispatch::load(plan) {
        Err(reason) if kiln_driver::require_kernel().is_err() => println!("skipped: {reason}"),
        loaded => drop(loaded.expect("it loads")),
    }
}

#[test]
fn affinity_and_round_robin_are_told_apart() {
    // Sixteen keys, each a hundred times.
    let frame = |key: u64| {
        let mut bytes = vec![0u8; 60];
        bytes[12..14].copy_from_slice(&[8, 0]);
        (bytes[14], bytes[23]) = (0x45, 17);
        bytes[42..50].copy_from_slice(&key.to_be_bytes());
        bytes
    };
    let frames: Vec<Vec<u8>> = (0..1600).map(|at| frame(at % 16)).collect();
    let of = |text: &str| {
        dispatch::replay(&dispatch::policy(text, 4, dispatch::in_front_of(&[])).expect("it is read"), &frames)
    };
    let turns = of(include_str!("../../../../examples/dispatch/round_robin.kiln"));
    assert_eq!(turns, Dispatched { packets: vec![400; 4], left: 0 });
    // All packets of a key go to one executor.
    let keys = of(include_str!("../../../../examples/dispatch/key_affinity.kiln"));
    assert!(keys.packets.iter().all(|packets| packets % 100 == 0) && keys.left == 0, "{keys:?}");
    assert!(keys.packets.iter().filter(|packets| **packets > 0).count() > 2, "{keys:?}");
}

/// A namespace joined by a veth pair to the one that this thread is in; both ends go with the namespaces.
struct Peer(String);

impl Peer {
    fn new() -> Result<Peer, String> {
        // Tests of one process run side by side.
        static PEERS: AtomicU32 = AtomicU32::new(0);
        let number = PEERS.fetch_add(1, Ordering::Relaxed);
        let peer = Peer(format!("kiln-dispatch-{}-{number}", std::process::id()));
        command("ip", &["netns", "add", &peer.0])?;
        let own = "02:00:00:00:00:01";
        command("ip", &["link", "add", "own", "address", own, "type", "veth", "peer", "peer", "netns", &peer.0])?;
        command("ip", &["link", "set", "own", "up"])?;
        command("ip", &["addr", "add", "198.51.100.1/24", "dev", "own"])?;
        command("ip", &["-n", &peer.0, "link", "set", "peer", "up"])?;
        command("ip", &["-n", &peer.0, "addr", "add", "198.51.100.2/24", "dev", "peer"])?;
        command("ip", &["-n", &peer.0, "neigh", "add", "198.51.100.1", "lladdr", own, "dev", "peer"])?;
        // A packet that moves to another processor forgets that its checksum is still to be computed.
        peer.run(&["ethtool", "-K", "peer", "tx", "off"])?;
        Ok(peer)
    }

    fn run(&self, arguments: &[&str]) -> Result<(), String> {
        command("ip", &[&["netns", "exec", &self.0], arguments].concat())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = command("ip", &["netns", "delete", &self.0]);
    }
}

fn command(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    let reason = || format!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    if output.status.success() { Ok(()) } else { Err(reason()) }
}

#[test]
fn packets_of_a_veth_arrive_by_way_of_their_executor() {
    if let Err(reason) = kiln_driver::require_kernel() {
        return println!("skipped: {reason}");
    }
    let _network = match kiln_linux::OwnNetwork::enter() {
        Ok(network) => network,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let peer = match Peer::new() {
        Ok(peer) => peer,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let text = "schedule(packet): CASE WHEN udp.destination_port = 9999 THEN packet.count % executors ELSE 9 END";
    let loaded = dispatch::load(dispatch::plan(text, &[0, 0]).expect("it is planned")).expect("it loads");
    let socket = std::net::UdpSocket::bind("198.51.100.1:9999").expect("the address is ours");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout is set");
    let (sent, received) = (Cell::new(false), Cell::new(0));
    let stop = || {
        // The program is attached when this is asked for the first time.
        if !sent.replace(true) {
            let script = "for i in $(seq 50); do echo $i >/dev/udp/198.51.100.1/9999; done";
            peer.run(&["bash", "-c", script]).expect("packets go out");
        }
        let mut bytes = [0; 64];
        while received.get() < 50 && socket.recv(&mut bytes).is_ok() {
            received.set(received.get() + 1);
        }
        true
    };
    loaded.run("own", XdpMode::Default, None, &stop).expect("it runs");
    assert_eq!(received.get(), 50, "packets are lost on the way");
    assert_eq!(loaded.dispatched().expect("maps are read").packets, [25, 25]);
    assert!(loaded.run("nowhere", XdpMode::Default, None, &|| true).is_err());
}
