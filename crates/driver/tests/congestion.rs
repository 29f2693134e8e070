//! Congestion control policies: they load, connections that choose them transfer, and reports say what they computed.

use std::cell::Cell;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use kiln_driver::congestion::{self, Registered};

const EXAMPLES: [&str; 2] =
    [include_str!("../../../examples/congestion/aimd.ccp"), include_str!("../../../examples/congestion/pulse.ccp")];

#[test]
fn every_policy_is_accepted() {
    if kiln_driver::input::running_kernel_types().is_none() {
        return println!("skipped: this kernel has no BTF");
    }
    let variables = "(def (Report (a 0) (b 1) (c 2) (d 3) (e 4) (f 5)) (g 6) (h 7) (i 8) (k +infinity))";
    // Lists as deep in each other as they may be.
    let mut deep = variables.to_owned();
    for name in ["a", "f", "k", "c"] {
        let nested = |leaf: &str| format!("{}{leaf}{}", "(+ 1 (max 3 ".repeat(12), "))".repeat(12));
        let signals = "(+ Ack.ecn_packets (+ Flow.rate_incoming (+ Flow.bytes_in_flight Flow.was_timeout)))";
        writeln!(deep, "(when (> {} Cwnd) (:= {name} {}) (report) (fallthrough))", nested("k"), nested(signals))
            .expect("text takes all");
    }
    // As many clauses as there may be, each of which may hold or not, with constants to tell paths apart.
    let mut wide = variables.to_owned();
    for clause in 0..64u8 {
        let [name, other] = [clause % 9, (7 * (clause % 9) + 3) % 9].map(|number| char::from(b'a' + number));
        writeln!(
            wide,
            "(when (|| (> {name} {clause}) (< Rate {other})) (:= {other} {clause}) (:= Micros 0) (fallthrough))"
        )
        .expect("text takes all");
    }
    for policy in EXAMPLES.into_iter().chain([&*deep, &*wide]) {
        let plan = congestion::plan(policy).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(plan.programs.len(), 5);
        if let Ok(()) = kiln_driver::require_kernel() {
            congestion::register(&plan, "kiln_accepted").unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

/// Registers a policy, and lets a connection choose it that transfers this many bytes.
fn transfer(policy: &str, name: &str, bytes: usize) -> Option<Vec<serde_json::Map<String, serde_json::Value>>> {
    if let Err(reason) = kiln_driver::require_kernel() {
        println!("skipped: {reason}");
        return None;
    }
    let network = kiln_linux::OwnNetwork::enter();
    if let Err(reason) = &network {
        println!("skipped: {reason}");
        return None;
    }
    let plan = congestion::plan(policy).unwrap_or_else(|error| panic!("{error}"));
    let mut registered: Registered = congestion::register(&plan, name).unwrap_or_else(|error| panic!("{error}"));
    // A process that this thread starts is in its namespace, and so is a thread.
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip is there");
    assert!(up.success(), "the namespace has no loopback interface");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let receiver = std::thread::spawn(move || {
        let mut received = Vec::new();
        listener.accept().and_then(|(mut stream, _)| stream.read_to_end(&mut received)).expect("it is received")
    });
    let mut stream = TcpStream::connect(address).expect("it connects");
    rustix::net::sockopt::set_tcp_congestion(&stream, name).expect("the connection takes the algorithm");
    stream.write_all(&vec![7; bytes]).expect("it is sent");
    drop(stream);
    assert_eq!(receiver.join().expect("the receiver ends"), bytes);
    let (mut reports, turns) = (Vec::new(), Cell::new(0));
    let stop = || turns.replace(turns.get() + 1) == 5;
    registered.run(None, &stop, &mut |report| reports.push(report)).expect("reports are read");
    Some(reports)
}

#[test]
fn reports_say_what_was_computed() {
    let policy =
        "(def (Report (less 9) (none 9) (low 9) (high 9) (chosen 9) (wrapped 9) (acked 0) (kept 5)) (secret 3))
        (when true
            (:= less (- 3 (+ secret 2)))
            (:= none (/ secret (- secret secret)))
            (:= low (min (* secret 4) (max 11 2)))
            (:= high (max (- 5 secret) (min 7 1)))
            (:= chosen (if (&& (== secret 3) (! (< secret 3))) (if (!= kept 5) 1 42) 2))
            (:= wrapped (+ +infinity secret))
            (:= acked (+ acked Ack.packets_acked))
            (report))
        (when true (:= kept 6))";
    let Some(reports) = transfer(policy, "kiln_reports", 1 << 20) else { return };
    let last = reports.last().expect("there are reports");
    for (name, expected) in
        [("less", 0u64), ("none", 0), ("low", 11), ("high", 2), ("chosen", 42), ("wrapped", 2), ("kept", 5)]
    {
        assert_eq!(last[name], expected, "{name}");
    }
    assert!(!last.contains_key("secret"));
    let acked = |report: &serde_json::Map<String, serde_json::Value>| report["acked"].as_u64().expect("a number");
    assert!(acked(last) >= 16, "{last:?}");
    assert!(reports.windows(2).all(|two| acked(&two[0]) <= acked(&two[1])), "a variable lost what it was");
}

#[test]
fn the_examples_transfer() {
    for (policy, name) in EXAMPLES.into_iter().zip(["kiln_aimd", "kiln_pulse"]) {
        transfer(policy, name, 1 << 22);
    }
}

#[test]
fn names_that_the_kernel_does_not_take_are_refused() {
    if kiln_driver::require_kernel().is_err() {
        return println!("skipped: bpf(2) is not allowed here");
    }
    let plan = congestion::plan(EXAMPLES[0]).expect("it is planned");
    for (name, wanted) in [("", "1 to 15"), ("a-b", "letters"), ("sixteen_letters_", "1 to 15"), ("reno", "already")] {
        let error = congestion::register(&plan, name).err().expect(name).to_string();
        assert!(error.contains(wanted), "{name}: {error}");
    }
}
