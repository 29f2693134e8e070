//! Congestion control policies: they load, connections that choose them transfer, and reports say what they computed.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread::JoinHandle;

use kiln_driver::congestion::{self, CONNECTIONS, Counts, Plan, Registered, Report};

const EXAMPLES: [&str; 3] = [
    include_str!("../../../examples/congestion/aimd.ccp"),
    include_str!("../../../examples/congestion/pulse.ccp"),
    include_str!("../../../examples/congestion/cubic.ccp"),
];

fn plan(policy: &str) -> Plan {
    congestion::plan(policy, CONNECTIONS).unwrap_or_else(|error| panic!("{error}"))
}

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
    // A part in user space that sets all there is, and clauses at reports that are too large for the kernel.
    let mut user = format!("{variables} (user");
    (0..16).for_each(|number| write!(user, " (u{number} {number})").expect("text takes all"));
    user += ")";
    let steps = |more: &str| {
        let kernel = ["Cwnd", "Rate", "Micros", "a", "b", "c", "d", "e", "f", "g", "h", "i", "k"];
        kernel.into_iter().map(|name| format!("(:= {name} (max {name} {more}))")).collect::<String>()
    };
    for report in 0..64u8 {
        write!(user, "(when (> a {report}) (:= b Flow.srtt_us) (report) (fallthrough))").expect("text takes all");
    }
    write!(user, "(on-report (< k 9) (:= a b) (fallthrough))").expect("text takes all");
    write!(user, "(on-report (< k 8) {} (fallthrough))", steps("(+ a (min b c))")).expect("text takes all");
    write!(user, "(on-report true {})", steps("(sqrt (+ u3 User.silent_us))")).expect("text takes all");
    let wanted = [(5, 0), (5, 0), (6, 0), (5, 0), (5, 0), (6, 1)];
    for (policy, wanted) in EXAMPLES.into_iter().chain([&*deep, &*wide, &*user]).zip(wanted) {
        let plan = plan(policy);
        assert_eq!((plan.programs.len(), plan.generated.in_kernel), wanted, "{policy}");
        if let Ok(()) = kiln_driver::require_kernel() {
            congestion::register(&plan, "kiln_accepted").unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

/// A network of its own with a loopback interface, where policies can be registered.
fn network() -> Option<kiln_linux::OwnNetwork> {
    if let Err(reason) = kiln_driver::require_kernel() {
        println!("skipped: {reason}");
        return None;
    }
    match kiln_linux::OwnNetwork::enter() {
        Err(reason) => {
            println!("skipped: {reason}");
            None
        }
        Ok(network) => {
            // A process that this thread starts is in its namespace, and so is a thread.
            let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip is there");
            assert!(up.success(), "the namespace has no loopback interface");
            Some(network)
        }
    }
}

/// Connections that choose a policy, all at a time, and transfer this many bytes each.
fn connect(name: &str, connections: usize, bytes: usize) -> JoinHandle<u16> {
    let name = name.to_owned();
    std::thread::spawn(move || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let receiver = std::thread::spawn(move || {
            let streams: Vec<_> = listener.incoming().take(connections).collect();
            let read = |stream: std::io::Result<TcpStream>| {
                std::thread::spawn(|| stream.and_then(|mut stream| stream.read_to_end(&mut Vec::new())))
            };
            let readers: Vec<_> = streams.into_iter().map(read).collect();
            readers.into_iter().map(|reader| reader.join().expect("it ends").expect("it is received")).sum::<usize>()
        });
        let mut streams: Vec<_> = (0..connections)
            .map(|_| {
                let stream = TcpStream::connect(address).expect("it connects");
                rustix::net::sockopt::set_tcp_congestion(&stream, &name).expect("the connection takes the algorithm");
                stream
            })
            .collect();
        streams.iter_mut().for_each(|stream| stream.write_all(&vec![7; bytes]).expect("it is sent"));
        drop(streams);
        assert_eq!(receiver.join().expect("the receiver ends"), connections * bytes);
        address.port()
    })
}

/// The reports of connections, and the port that they are to.
fn gather(registered: &mut Registered<'_>, sender: JoinHandle<u16>) -> (Vec<Report>, Counts, u16) {
    let (mut reports, turns) = (Vec::new(), Cell::new(0));
    let stop = || sender.is_finished() && turns.replace(turns.get() + 1) == 5;
    let counts = registered.run(None, &stop, &mut |report| reports.push(report)).expect("reports are read");
    (reports, counts, sender.join().expect("it is sent"))
}

/// Registers a policy, and lets a connection choose it that transfers this many bytes.
fn transfer(plan: &Plan, name: &str, bytes: usize) -> Option<(Vec<Report>, Counts, u16)> {
    let _network = network()?;
    let mut registered = congestion::register(plan, name).unwrap_or_else(|error| panic!("{error}"));
    Some(gather(&mut registered, connect(name, 1, bytes)))
}

fn value(report: &Report, name: &str) -> u64 {
    report.values[name].as_u64().expect("a number")
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
    let Some((reports, counts, port)) = transfer(&plan(policy), "kiln_reports", 1 << 20) else { return };
    let last = reports.last().expect("there are reports");
    for (name, expected) in
        [("less", 0u64), ("none", 0), ("low", 11), ("high", 2), ("chosen", 42), ("wrapped", 2), ("kept", 5)]
    {
        assert_eq!(value(last, name), expected, "{name}");
    }
    assert!(!last.values.contains_key("secret"));
    assert!(value(last, "acked") >= 16, "{last:?}");
    let is_kept = |two: &[Report]| value(&two[0], "acked") <= value(&two[1], "acked");
    assert!(reports.windows(2).all(is_kept), "a variable lost what it was");
    assert_eq!((last.connection, last.remote), (1, ([127, 0, 0, 1], port).into()));
    assert!(last.local.ip().is_loopback() && last.local.port() > 0 && last.local != last.remote, "{last:?}");
    let expected = Counts { connections: 1, reports: reports.len() as u64, ..Counts::default() };
    assert_eq!(counts, expected);
}

#[test]
fn user_space_computes_what_the_kernel_cannot() {
    let policy = "(def (Report (n 0) (of 0) (root 0) (all 0)))
        (user (sum 0.5))
        (when true (:= n (+ n 1)) (report))
        (on-report (== n 0) (:= root 1))
        (on-report (> (sqrt n) 0)
            (:= sum (+ sum (sqrt n)))
            (:= of n)
            (:= root (* 1000 (power n 0.5)))
            (:= all (* 1000.0 sum))
            (:= sum (/ sum 0)))";
    let plan = plan(policy);
    let runs: Vec<bool> = plan.placements().into_iter().map(|placement| placement.in_kernel).collect();
    assert_eq!(runs, [true, false]);
    let Some((reports, counts, _)) = transfer(&plan, "kiln_user", 16 << 20) else { return };
    assert_eq!((counts.answered, counts.lost), (counts.reports, 0));
    let answered: Vec<_> = reports.iter().filter(|report| value(report, "of") > 0).collect();
    assert!(answered.len() > 1, "{reports:?}");
    for report in answered {
        let of = value(report, "of");
        let sum = (1..=of).map(|number| (number as f64).sqrt()).fold(0.5, |sum, root| sum + root);
        assert!(of < value(report, "n"), "an answer is to a report before it: {report:?}");
        assert_eq!(value(report, "root"), (1000.0 * (of as f64).sqrt()).round() as u64, "{report:?}");
        assert_eq!(value(report, "all"), (1000.0 * sum).round() as u64, "{report:?}");
    }
}

#[test]
fn clauses_at_reports_set_the_same_in_the_kernel_and_in_user_space() {
    let policy = "(def (Report (n 0) (of 0) (least 0) (above 0) (none 7)))
        (when true (:= n (+ n 1)) (report))
        (on-report (> n 2)
            (:= of n)
            (:= least (min 40 (+ n 3)))
            (:= above (if (&& (> n 20) (! (== n 30))) (- n 20) (- 20 30)))
            (:= none (/ n (- n n))))";
    let planned = plan(policy);
    let Some(types) = kiln_driver::input::running_kernel_types() else {
        return println!("skipped: this kernel has no BTF");
    };
    for in_kernel in [1, 0] {
        let policy = planned.policy.clone();
        let generated =
            kiln_plan::congestion::generate(&policy, &types, in_kernel, CONNECTIONS).expect("it is written");
        let plan = Plan { policy, generated, programs: Vec::new() };
        let Some((reports, counts, _)) = transfer(&plan, "kiln_placed", 16 << 20) else { return };
        assert_eq!(counts.answered > 0, in_kernel == 0);
        let answered: Vec<_> = reports.iter().filter(|report| value(report, "of") > 0).collect();
        assert!(answered.len() > 1, "{reports:?}");
        for report in answered {
            let of = value(report, "of");
            let above = if of > 20 && of != 30 { of - 20 } else { 0 };
            let values = ["least", "above", "none"].map(|name| value(report, name));
            assert_eq!(values, [40.min(of + 3), above, 0], "{in_kernel} in the kernel: {report:?}");
        }
    }
}

#[test]
fn connections_without_room_run_in_the_kernel_only() {
    let policy = "(def (Report (n 0) (alone 0)))
        (when true (:= n (+ n 1)) (:= alone (if (== User.silent_us +infinity) 1 0)) (report))
        (on-report true (:= Cwnd (* 20.5 Flow.mss)))";
    let plan = congestion::plan(policy, 2).unwrap_or_else(|error| panic!("{error}"));
    let Some(_network) = network() else { return };
    let mut registered = congestion::register(&plan, "kiln_room").unwrap_or_else(|error| panic!("{error}"));
    // A connection gives its place back. One that ends before user space has answered it was alone until its end, so
    // one transfer only bounds how many were answered; over all of them both places were used.
    let mut answered = 0;
    for (connections, without_room) in [(4, 2), (2, 2), (3, 3)] {
        let sender = connect("kiln_room", connections, 8 << 20);
        let (reports, counts, _) = gather(&mut registered, sender);
        assert_eq!((counts.without_room, counts.lost), (without_room, 0));
        let last: BTreeMap<u64, u64> = reports.iter().map(|one| (one.connection, value(one, "alone"))).collect();
        assert_eq!(last.len(), connections, "{last:?}");
        let now = last.values().filter(|alone| **alone == 0).count();
        assert!(now <= 2, "{last:?}");
        answered += now;
    }
    assert!(answered >= 2, "user space answered {answered} of the six connections that had room");
}

#[test]
fn the_examples_transfer() {
    for (policy, name) in EXAMPLES.into_iter().zip(["kiln_aimd", "kiln_pulse", "kiln_cubic"]) {
        transfer(&plan(policy), name, 1 << 22);
    }
}

#[test]
fn names_that_the_kernel_does_not_take_are_refused() {
    if kiln_driver::require_kernel().is_err() {
        return println!("skipped: bpf(2) is not allowed here");
    }
    let plan = plan(EXAMPLES[0]);
    for (name, wanted) in [("", "1 to 15"), ("a-b", "letters"), ("sixteen_letters_", "1 to 15"), ("reno", "already")] {
        let error = congestion::register(&plan, name).err().expect(name).to_string();
        assert!(error.contains(wanted), "{name}: {error}");
    }
}
