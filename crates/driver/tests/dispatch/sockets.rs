//! Sockets as executors: each packet arrives where the policy's expression says, computed in user space.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use kiln_driver::Error;
use kiln_driver::dispatch::sockets::Sockets;
use kiln_driver::dispatch::{self, Executors, Hook, Loaded, Transport, XdpMode};
use kiln_driver::packets::Random;
use kiln_linux::OwnNetwork;
use kiln_plan::dispatch::{Policy, packet};
use rustix::net::{AddressFamily, SocketType};

use super::{Peer, command};

const ROUND_ROBIN: &str = include_str!("../../../../examples/dispatch/round_robin.kiln");
const KEY_AFFINITY: &str = include_str!("../../../../examples/dispatch/key_affinity.kiln");
const CLIENT_AFFINITY: &str = include_str!("../../../../examples/dispatch/client_affinity.kiln");

const REUSEPORT: [&str; 11] = [
    ROUND_ROBIN,
    KEY_AFFINITY,
    CLIENT_AFFINITY,
    "schedule(packet): hash(udp.header) % executors",
    "schedule(packet): hash(ip.source, ip.destination, packet.source_port, packet.destination_port) % executors",
    "schedule(packet): (packet.header >> 16 & 65535) / 32",
    "schedule(packet): ip.version - 4",
    "schedule(packet): CASE ip.protocol WHEN 17 THEN packet.count / 8 ELSE 99 END",
    "schedule(packet): (packet.payload[0] ^ packet.payload[15]) >> 62",
    "schedule(packet): (ip.source & 1) + (ip.destination & 1) * 2",
    "schedule(packet): CASE WHEN udp.payload[2] > 7 THEN 1 WHEN udp.payload[1] > 7 THEN udp.source_port % 9 ELSE 2 END",
];

const LOOKUP: [&str; 6] = [
    ROUND_ROBIN,
    CLIENT_AFFINITY,
    "schedule(packet): hash(ip.source, ip.destination, packet.source_port, packet.destination_port) % executors",
    "schedule(packet): CASE WHEN ip.version = 6 AND ip.protocol = 17 THEN packet.count % 2 ELSE 3 END",
    "schedule(packet): (ip.source & 1) + (ip.destination & 1) * 2 + ip.version - 4",
    "schedule(packet): hash(CASE WHEN udp.source_port < 32768 THEN hash(udp.source_port) ELSE udp.destination_port END) % 5",
];

const PORT: u16 = 9000;
const EXECUTORS: u32 = 4;

/// A namespace of this thread with a loopback interface that is up; `None` without the right to make one.
fn own_network() -> Option<OwnNetwork> {
    let ready = kiln_driver::require_kernel().map_err(|error| error.to_string()).and_then(|()| {
        let network = OwnNetwork::enter().map_err(|error| error.to_string())?;
        command("ip", &["link", "set", "lo", "up"])?;
        command("ip", &["addr", "add", "198.51.100.1/24", "dev", "lo"])?;
        // Frames are put in that no route leads back to.
        for interface in ["all", "lo"] {
            let _ = std::fs::write(format!("/proc/sys/net/ipv4/conf/{interface}/rp_filter"), "0");
        }
        Ok(network)
    });
    ready.map_err(|reason| println!("skipped: {reason}")).ok()
}

/// A socket bound with `SO_REUSEPORT`.
fn bound(kind: SocketType, address: SocketAddr) -> OwnedFd {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket(family, kind, None).expect("a socket is opened");
    rustix::net::sockopt::set_socket_reuseport(&socket, true).expect("the port may be shared");
    // A process that another test starts has the sockets of this one until it runs its own program, also closed ones.
    let end = Instant::now() + Duration::from_secs(10);
    while let Err(error) = rustix::net::bind(&socket, &address) {
        assert!(error == rustix::io::Errno::ADDRINUSE && Instant::now() < end, "{address}: {error}");
        std::thread::sleep(Duration::from_millis(10));
    }
    if kind == SocketType::STREAM {
        rustix::net::listen(&socket, 64).expect("it listens");
    }
    rustix::io::ioctl_fionbio(&socket, true).expect("it does not wait");
    socket
}

fn udp(address: SocketAddr) -> UdpSocket {
    UdpSocket::from(bound(SocketType::DGRAM, address))
}

/// Any address, of either version.
fn any(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)
}

fn loaded(text: &str, at: Hook, wanted: &str) -> Loaded {
    let wanted = wanted.parse().expect("sockets are named");
    let sockets = Sockets::find(wanted, None).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(sockets.found.len(), EXECUTORS as usize);
    let plan =
        dispatch::plan_for(text, at, Executors::Sockets(sockets)).unwrap_or_else(|error| panic!("{text}: {error}"));
    dispatch::load(plan).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn ones_complement(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u32 = words.map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// A whole frame of UDP to [`PORT`], over either version of IP, and where it comes from.
fn frame(random: &mut Random) -> (Vec<u8>, SocketAddr) {
    let bytes = random.below(150) as usize;
    let mut payload = random.bytes(bytes);
    // Some words are small numbers, some keys come again.
    if random.below(2) == 0 {
        let key = random.below(8).to_be_bytes();
        payload.iter_mut().zip(key).for_each(|(place, byte)| *place = byte);
    }
    let port = 1024 + random.below(60_000) as u16;
    let length = (8 + payload.len()) as u16;
    let mut header = [port, PORT, length, 0].map(u16::to_be_bytes).concat();
    let mut frame = vec![0u8; 12];
    let source: IpAddr;
    if random.below(2) == 0 {
        let host = Ipv4Addr::new(203, 0, 113, 1 + random.below(200) as u8);
        let to = Ipv4Addr::new(198, 51, 100, 1);
        source = host.into();
        let mut ip = vec![0x45, 0];
        ip.extend((20 + length).to_be_bytes());
        ip.extend([0, 1, 0, 0, 64, 17, 0, 0]);
        ip.extend([host.octets(), to.octets()].concat());
        let checksum = ones_complement(&[&ip]);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        frame.extend([8, 0]);
        frame.extend(ip);
    } else {
        let host = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, random.next() as u16);
        source = host.into();
        let addresses = [host.octets(), Ipv6Addr::LOCALHOST.octets()].concat();
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(length.to_be_bytes());
        frame.extend([17, 64]);
        frame.extend(&addresses);
        let pseudo = [0, 17, length];
        let pseudo = pseudo.map(u16::to_be_bytes).concat();
        let checksum = match ones_complement(&[&addresses, &pseudo, &header, &payload]) {
            0 => u16::MAX,
            other => other,
        };
        header[6..8].copy_from_slice(&checksum.to_be_bytes());
    }
    frame.extend(header);
    frame.extend(payload);
    (frame, SocketAddr::new(source, port))
}

/// The socket that a datagram arrives at, and where it says that it comes from.
fn arrived(sockets: &[UdpSocket], patience: Duration) -> Option<(usize, SocketAddr)> {
    let begun = Instant::now();
    loop {
        let mut bytes = [0; 256];
        for (number, socket) in sockets.iter().enumerate() {
            match socket.recv_from(&mut bytes) {
                Ok((_, from)) => return Some((number, SocketAddr::new(from.ip().to_canonical(), from.port()))),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        if begun.elapsed() > patience {
            return None;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Sends frames under a policy, and compares where each arrives with what the policy says. Returns how many the policy
/// decided, and how many not.
fn compare(text: &str, at: Hook, wanted: &str, sockets: &[UdpSocket], seed: u64) -> [u64; 2] {
    let loaded = loaded(text, at, wanted);
    let policy: Policy = dispatch::policy(text, EXECUTORS, at).expect("it is read");
    // It leaves every frame, which the kernel then takes as received by the loopback interface.
    let door = dispatch::load(dispatch::plan("schedule(packet): 1", &[0]).expect("it is planned")).expect("it loads");
    let seen = std::cell::Cell::new([0; 2]);
    let all = || {
        let mut random = Random::new(seed);
        for count in 0..100 {
            let (frame, source) = frame(&mut random);
            door.image.prog.send_frames(&frame, 1).expect("the frame is put in");
            let row = packet::fields(&policy, &frame, count).expect("the frame is whole");
            let expected = policy.executor(&row);
            // Where the policy does not decide, a port without sockets of its own has nobody.
            let decided = expected.is_some();
            let is_heard = decided || matches!(at, Hook::Reuseport(_));
            let patience = Duration::from_millis(if is_heard { 5000 } else { 2 });
            let found = arrived(sockets, patience);
            assert_eq!(found.map(|(_, from)| from), is_heard.then_some(source), "{text}: frame {count}");
            if let (Some(executor), Some((socket, _))) = (expected, found) {
                assert_eq!(socket, executor as usize, "{text}: frame {count}");
            }
            let [decided_before, left] = seen.get();
            seen.set([decided_before + u64::from(decided), left + u64::from(!decided)]);
        }
        true
    };
    loaded.run_sockets(None, &all).unwrap_or_else(|error| panic!("{text}: {error}"));
    let counted = loaded.dispatched().expect("maps are read");
    assert_eq!([counted.packets.iter().sum(), counted.left], seen.get(), "{text}");
    seen.get()
}

fn total(counts: impl Iterator<Item = [u64; 2]>) -> [u64; 2] {
    counts.fold([0; 2], |[decided, left], one| [decided + one[0], left + one[1]])
}

#[test]
fn a_group_of_sockets_gets_packets_where_the_policy_says() {
    let Some(_network) = own_network() else { return };
    let sockets: Vec<UdpSocket> = (0..EXECUTORS).map(|_| udp(any(PORT))).collect();
    let at = Hook::Reuseport(Transport::Udp);
    let counts = REUSEPORT.iter().zip(1..).map(|(text, seed)| compare(text, at, "udp:9000", &sockets, seed));
    let [decided, left] = total(counts);
    assert!(decided > 500 && left > 50, "the policies are of one kind only: {decided}, {left}");
}

#[test]
fn any_sockets_get_the_packets_of_a_port() {
    let Some(_network) = own_network() else { return };
    // Sockets of other ports, which share none.
    let sockets: Vec<UdpSocket> = (1..=EXECUTORS as u16)
        .map(|number| {
            let socket = UdpSocket::bind(any(PORT + number)).expect("the port is free");
            socket.set_nonblocking(true).expect("it does not wait");
            socket
        })
        .collect();
    let at = Hook::Lookup { transport: Transport::Udp, ports: [PORT, PORT] };
    let counts = LOOKUP.iter().zip(1..).map(|(text, seed)| compare(text, at, "udp:9001-9004", &sockets, seed));
    let [decided, left] = total(counts);
    assert!(decided > 300 && left > 50, "the policies are of one kind only: {decided}, {left}");
    // The sockets' own ports are as they were.
    let client = UdpSocket::bind("198.51.100.1:0").expect("a port is free");
    client.send_to(b"own", "198.51.100.1:9003").expect("it is sent");
    assert_eq!(arrived(&sockets, Duration::from_secs(5)).map(|(socket, _)| socket), Some(2));
}

/// Connects under a policy of connections, and compares where each arrives with what the policy says.
fn connect(text: &str, at: Hook, wanted: &str, listeners: &[TcpListener]) {
    let loaded = loaded(text, at, wanted);
    let policy = dispatch::policy(text, EXECUTORS, at).expect("it is read");
    let all = || {
        for count in 0..40 {
            let stream = TcpStream::connect(("198.51.100.1", PORT)).expect("somebody listens");
            let from = stream.local_addr().expect("it has an address");
            let IpAddr::V4(host) = from.ip() else { panic!("{from} is no address of IPv4") };
            let mut frame = vec![0; 54];
            frame[12..15].copy_from_slice(&[8, 0, 0x45]);
            (frame[23], frame[46]) = (6, 0x50);
            frame[26..30].copy_from_slice(&host.octets());
            frame[30..34].copy_from_slice(&[198, 51, 100, 1]);
            frame[34..38].copy_from_slice(&[from.port(), PORT].map(u16::to_be_bytes).concat());
            let row = packet::fields(&policy, &frame, count).expect("the frame is whole");
            let expected = policy.executor(&row).expect("the policy decides");
            let accepted =
                |(number, listener): (usize, &TcpListener)| listener.accept().ok().map(|(_, from)| (number, from));
            let begun = Instant::now();
            let found = loop {
                let found = listeners.iter().enumerate().find_map(accepted);
                if found.is_some() || begun.elapsed() > Duration::from_secs(5) {
                    break found;
                }
                std::thread::sleep(Duration::from_micros(200));
            };
            assert_eq!(
                found.map(|(number, from)| (number as u32, from.port())),
                Some((expected, from.port())),
                "{text}"
            );
        }
        true
    };
    loaded.run_sockets(None, &all).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(loaded.dispatched().expect("maps are read").packets.iter().sum::<u64>(), 40);
}

#[test]
fn connections_arrive_where_the_policy_says() {
    let Some(_network) = own_network() else { return };
    let port_affinity = "schedule(packet): hash(ip.source, tcp.source_port) % executors";
    let shared = |_| TcpListener::from(bound(SocketType::STREAM, "198.51.100.1:9000".parse().expect("an address")));
    let listeners: Vec<TcpListener> = (0..EXECUTORS).map(shared).collect();
    for text in [ROUND_ROBIN, CLIENT_AFFINITY, port_affinity] {
        connect(text, Hook::Reuseport(Transport::Tcp), "tcp:198.51.100.1:9000", &listeners);
        // The same listeners, which share their port, as any sockets.
        let at = Hook::Lookup { transport: Transport::Tcp, ports: [PORT, PORT] };
        connect(text, at, "tcp:9000", &listeners);
    }
}

#[test]
fn packets_of_a_veth_pass_all_three_hooks() {
    let Some(_network) = own_network() else { return };
    command("ip", &["addr", "flush", "dev", "lo"]).expect("the address is free for the pair");
    let peer = match Peer::new() {
        Ok(peer) => peer,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let sockets: Vec<UdpSocket> =
        (0..EXECUTORS).map(|_| udp("198.51.100.1:9000".parse().expect("an address"))).collect();
    let udp = Transport::Udp;
    for at in [Hook::Reuseport(udp), Hook::Lookup { transport: udp, ports: [PORT, PORT] }] {
        let in_front = dispatch::load(dispatch::plan(ROUND_ROBIN, &[0, 0]).expect("it is planned")).expect("it loads");
        let behind = loaded(ROUND_ROBIN, at, "udp:9000");
        let send = || {
            let script = "for i in $(seq 40); do echo $i >/dev/udp/198.51.100.1/9000; done";
            peer.run(&["bash", "-c", script]).expect("packets go out");
            let mut counts = BTreeMap::new();
            for _ in 0..40 {
                let (socket, _) = arrived(&sockets, Duration::from_secs(5)).expect("no packet is lost");
                *counts.entry(socket).or_insert(0) += 1;
            }
            assert_eq!(counts, BTreeMap::from([(0, 10), (1, 10), (2, 10), (3, 10)]), "{at:?}");
            true
        };
        let both = || behind.run_sockets(None, &send).map(|_| true).unwrap_or_else(|error| panic!("{error}"));
        in_front.run("own", XdpMode::Default, None, &both).expect("it runs");
        assert!(in_front.dispatched().expect("maps are read").packets.iter().sum::<u64>() >= 40);
    }
}

#[test]
fn what_is_no_executor_is_named() {
    let Some(_network) = own_network() else { return };
    let find = |wanted: &str, pid| Sockets::find(wanted.parse().expect("sockets are named"), pid);
    let message = |result: Result<_, Error>| result.map(|_: Sockets| ()).expect_err("it is an error").to_string();
    assert!(message(find("udp:9000", None)).contains("ss -lnup"));
    assert!(message(find("tcp:9000", None)).contains("ss -lntp"));
    assert!(message(find("udp:9000", Some(u32::MAX))).contains("no process 4294967295"));

    let alone = UdpSocket::bind("198.51.100.1:9000").expect("the port is free");
    let at = Hook::Reuseport(Transport::Udp);
    let refused = |wanted: &str| {
        let sockets = find(wanted, None).expect("sockets are found");
        let plan = dispatch::plan_for(ROUND_ROBIN, at, Executors::Sockets(sockets)).expect("it is planned");
        dispatch::load(plan).map(|_| ()).expect_err("it is an error").to_string()
    };
    let said = refused("udp:9000");
    assert!(said.contains("was not bound with SO_REUSEPORT"), "{said}");
    drop(alone);
    let [_one, _other, _third] =
        ["198.51.100.1:9000", "198.51.100.1:9000", "127.0.0.1:9000"].map(|at| udp(at.parse().expect("an address")));
    let said = refused("udp:9000");
    assert!(said.contains("two groups"), "{said}");
    // One policy for a group at a time.
    let sockets = find("udp:198.51.100.1:9000", None).expect("sockets are found");
    let first =
        dispatch::load(dispatch::plan_for(ROUND_ROBIN, at, Executors::Sockets(sockets)).expect("it is planned"));
    let first = first.expect("it loads");
    let said = refused("udp:198.51.100.1:9000");
    assert!(said.contains("of another policy"), "{said}");
    drop(first);
    // Sockets that are closed end the run.
    let sockets = find("udp:127.0.0.1:9000", None).expect("sockets are found");
    let plan = dispatch::plan_for(ROUND_ROBIN, at, Executors::Sockets(sockets)).expect("it is planned");
    let loaded = dispatch::load(plan).expect("it loads");
    drop(_third);
    let ended = loaded.run_sockets(Some(Duration::from_secs(60)), &|| false);
    assert!(ended.is_err() || ended.is_ok_and(|elapsed| elapsed < Duration::from_secs(30)));
}
