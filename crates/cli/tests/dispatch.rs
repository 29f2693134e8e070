//! `kiln dispatch` on the sockets of a running process, this one: nothing is left behind however it ends.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType};

const EXECUTORS: usize = 4;
const CHOSEN: usize = 2;

/// Sockets that share a port, and the port.
fn group() -> (Vec<UdpSocket>, u16) {
    let mut port = 0;
    let socket = |_| {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).expect("a socket");
        rustix::net::sockopt::set_socket_reuseport(&socket, true).expect("the port may be shared");
        rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port))).expect("the port is free");
        let socket = UdpSocket::from(socket);
        port = socket.local_addr().expect("it is bound").port();
        socket.set_nonblocking(true).expect("it does not wait");
        socket
    };
    let sockets = (0..EXECUTORS).map(socket).collect();
    (sockets, port)
}

/// The sockets that get one of 40 packets, each from another source.
fn heard(sockets: &[UdpSocket], port: u16) -> BTreeSet<usize> {
    for _ in 0..40 {
        let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        client.send_to(b"hello", (Ipv4Addr::LOCALHOST, port)).expect("it is sent");
    }
    // The loopback interface delivers before `send_to` returns, or soon after.
    std::thread::sleep(Duration::from_millis(20));
    let gets = |socket: &UdpSocket| std::iter::from_fn(|| socket.recv(&mut [0; 16]).ok()).count() > 0;
    sockets.iter().enumerate().filter(|(_, socket)| gets(socket)).map(|(number, _)| number).collect()
}

fn is_heard(sockets: &[UdpSocket], port: u16, mut wanted: impl FnMut(&BTreeSet<usize>) -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        if wanted(&heard(sockets, port)) {
            return true;
        }
    }
    false
}

/// A policy that gives every packet to one socket of this process; `None` where none can be loaded.
fn start(sockets: &[UdpSocket], port: u16) -> Option<Child> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.args(["dispatch", &format!("schedule(packet): {CHOSEN} + 0 * packet.count"), "--executors", "4"]);
    command.args(["--sockets", &format!("udp:{port}"), "--pid", &std::process::id().to_string()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kiln starts");
    let is_attached = is_heard(sockets, port, |heard| {
        *heard == BTreeSet::from([CHOSEN]) || child.try_wait().is_ok_and(|status| status.is_some())
    });
    assert!(is_attached, "the policy has no effect");
    if child.try_wait().expect("its state is known").is_none() {
        return Some(child);
    }
    let said = child.wait_with_output().expect("it has ended");
    assert_eq!(said.status.code(), Some(3), "{said:?}");
    println!("skipped: {}", String::from_utf8_lossy(&said.stderr));
    None
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", child.id())]).status().expect("sh");
    assert!(sent.success(), "the command has ended already");
}

#[test]
fn ctrl_c_says_where_packets_went_and_leaves_nothing() {
    let (sockets, port) = group();
    let Some(child) = start(&sockets, port) else { return };
    signal(&child, "INT");
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!(status.code(), Some(0), "{stderr}");
    let all = stdout.lines().find(|line| line.contains("100.0 %")).unwrap_or_else(|| panic!("{stdout}"));
    assert!(all.trim_start().starts_with('2') && all.contains(&format!("127.0.0.1:{port}")), "{stdout}");
    assert!(stderr.contains("packets dispatched"), "{stderr}");
    assert!(heard(&sockets, port).len() > 1, "the policy is still attached");
}

#[test]
fn a_killed_command_leaves_nothing() {
    let (sockets, port) = group();
    let Some(mut child) = start(&sockets, port) else { return };
    signal(&child, "KILL");
    child.wait().expect("it has ended");
    assert!(is_heard(&sockets, port, |heard| heard.len() > 1), "the policy is still attached");
}

#[test]
fn what_cannot_be_dispatched_is_said() {
    let said = |arguments: &[&str], code: i32| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_kiln")).arg("dispatch").args(arguments).output().expect("kiln runs");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(if code == 0 { &output.stdout } else { &output.stderr }).into_owned()
    };
    let (_sockets, port) = group();
    let (own, sockets) = (std::process::id().to_string(), format!("udp:{port}"));
    let turns = "schedule(packet): packet.count % N";
    for (arguments, code, wanted) in [
        (
            &[turns, "--sockets", &sockets, "--pid", &own, "--executors", "3"][..],
            2,
            "3 executors are wanted, and 4 sockets",
        ),
        (&[turns, "--sockets", &format!("tcp:{port}"), "--pid", &own], 2, "no socket listens on tcp:"),
        (&[turns, "--sockets", &sockets, "--pid", "4294967295"], 2, "there is no process 4294967295"),
        (&[turns, "--sockets", "udp:0"], 2, "no port such as"),
        (&[turns, "--sockets", &sockets, "--interface", "lo"], 2, "cannot be used with"),
        (&[turns, "--sockets", &sockets, "--ports", "80", "--hook", "sk_reuseport"], 2, "--ports"),
        (&["schedule(packet): packet.bytes / 9", "--sockets", &sockets], 2, "^^^^^^^^^^^^"),
        (
            &["schedule(packet): udp.payload[0] % N", "--hook", "sk_lookup", "--executors", "2"],
            2,
            "sk_lookup cannot say",
        ),
        (&["schedule(packet): tcp.payload[0] % N", "--hook", "sk_reuseport", "--executors", "2"], 2, "carries nothing"),
        (
            &["schedule(packet): hash(tcp.source_port) % N", "--hook", "sk_lookup", "--executors", "2"],
            0,
            "accepted: sk_lookup",
        ),
        (
            &["schedule(packet): hash(udp.payload[7]) % N", "--hook", "sk_reuseport", "--executors", "2"],
            0,
            "sk_reuseport",
        ),
    ] {
        let text = said(arguments, code);
        assert!(text.contains(wanted), "{arguments:?}: {text}");
    }
}
