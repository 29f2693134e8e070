//! TCP sockets: their states, connections and retransmits.

use super::build::{
    argument, column, compares, derived, in_interrupts, member, only_at, pair, single, typed, unlisted,
};
use crate::expr::{BinaryOp, Expr};
use crate::table::{Column, Counts, Hook, Read, Scalar, Scan, Side, Source, Table};
use crate::value::DataType;

/// A member of what a socket is part of.
fn behind(index: u8, structure: &str, member: &str) -> Read {
    Read::Behind {
        from: Box::new(argument(index, Scalar::unsigned(8))),
        path: vec![vec![(structure.to_owned(), member.to_owned())]],
    }
}

/// Columns of a socket, which is an argument of its tracepoint: its family, and the addresses and ports of both ends.
///
/// [`with_addresses`] makes columns for people of them.
fn socket(index: u8) -> Vec<Column> {
    let read = |name: &str| member(index, &[("sock_common", name)]);
    let half = |name: &str, skip: u8| Read::Part { index, member: ("sock_common".to_owned(), name.to_owned()), skip };
    let unlisted = |name: &str, what: Read, about: &str| unlisted(name, Side::Exit, what, about);
    vec![
        column("family", DataType::Uint, Side::Exit, read("skc_family"), "2: IPv4; 10: IPv6"),
        // `skc_num` is 0 once the port is given back, before a socket is closed.
        unlisted("sport_be", behind(index, "inet_sock", "inet_sport"), "the local port, in network order"),
        unlisted("dport_be", read("skc_dport"), "the remote port, in network order"),
        unlisted("saddr_be", read("skc_rcv_saddr"), "the local IPv4 address, in network order"),
        unlisted("daddr_be", read("skc_daddr"), "the remote IPv4 address, in network order"),
        unlisted(
            "saddr6_high",
            half("skc_v6_rcv_saddr", 0),
            "the first half of the local IPv6 address, in network order",
        ),
        unlisted("saddr6_low", half("skc_v6_rcv_saddr", 8), "the second half of the local IPv6 address"),
        unlisted("daddr6_high", half("skc_v6_daddr", 0), "the first half of the remote IPv6 address, in network order"),
        unlisted("daddr6_low", half("skc_v6_daddr", 8), "the second half of the remote IPv6 address"),
    ]
}

/// A table of a socket's events, with its addresses as text.
fn of_socket(name: &str, about: &str, hook: Hook, index: u8, own: Vec<Column>) -> Table {
    with_addresses(single(name, about, hook, socket(index).into_iter().chain(own).collect()))
}

/// Adds the addresses of a socket as text, and its ports.
fn with_addresses(mut table: Table) -> Table {
    let at = |name: &str| table.column(name).expect("every socket has it");
    let address = |side: &str| Source::Address {
        family: at("family"),
        v4: at(&format!("{side}_be")),
        v6: [at(&format!("{side}6_high")), at(&format!("{side}6_low"))],
    };
    let (saddr, daddr) = (address("saddr"), address("daddr"));
    let [sport, dport] = ["sport_be", "dport_be"].map(|name| Source::Port(at(name)));
    table.columns.extend([
        derived("sport", DataType::Uint, sport, "the local port"),
        derived("saddr", DataType::Text, saddr, "the local address"),
        derived("daddr", DataType::Text, daddr, "the remote address"),
        derived("dport", DataType::Uint, dport, "the remote port"),
    ]);
    table
}

/// States of TCP sockets (`include/net/tcp_states.h`).
const ESTABLISHED: u64 = 1;
const SYN_SENT: u64 = 2;
const SYN_RECEIVED: u64 = 3;
const CLOSED: u64 = 7;
const LISTENING: u64 = 10;
/// `IPPROTO_TCP`.
const TCP: u64 = 6;

/// The states that a socket leaves and enters.
fn states() -> Vec<Column> {
    vec![
        column("old", DataType::Int, Side::Exit, argument(1, Scalar::signed(4)), "the state it leaves"),
        column("new", DataType::Int, Side::Exit, argument(2, Scalar::signed(4)), "the state it enters"),
    ]
}

pub(super) fn tcp_states() -> Table {
    let about = "a socket goes from one state to another; pid and comm are by chance";
    in_interrupts(of_socket("tcp_states", about, typed("inet_sock_set_state"), 0, states()))
}

/// The table of state changes with these conditions. Mostly an interrupt makes them, so the columns of a thread say nothing.
fn tcp_changes(name: &str, about: &str, own: Vec<Column>, only: &[(&str, BinaryOp, u64)]) -> Table {
    let own = states().into_iter().chain(own).collect();
    let mut table = of_socket(name, about, typed("inet_sock_set_state"), 0, own);
    let conditions: Vec<Expr> = only.iter().map(|(column, op, value)| compares(&table, column, *op, *value)).collect();
    table.only = Expr::all(conditions);
    in_interrupts(table)
}

pub(super) fn tcp_accepts() -> Table {
    let only = [("old", BinaryOp::Equal, SYN_RECEIVED), ("new", BinaryOp::Equal, ESTABLISHED)];
    tcp_changes(
        "tcp_accepts",
        "a connection from elsewhere is established; pid and comm are by chance",
        Vec::new(),
        &only,
    )
}

/// What a connection carried, and its round trip; see [`with_round_trip`].
fn carried() -> Vec<Column> {
    let counted = |name: &str| behind(0, "tcp_sock", name);
    let count = |name: &str, of: &str, about: &str| column(name, DataType::Uint, Side::Exit, counted(of), about);
    vec![
        count("bytes_sent", "bytes_sent", "how much was sent, what was sent again counted again"),
        count("bytes_received", "bytes_received", "how much was received; the end counts as a byte"),
        count("retransmits", "total_retrans", "segments that were sent again"),
        unlisted("rtt_eighths", Side::Exit, counted("srtt_us"), "the smoothed round trip, in eighths of a microsecond"),
    ]
}

/// Adds the round trip in microseconds.
fn with_round_trip(mut table: Table) -> Table {
    let eighths = table.column("rtt_eighths").expect("it is there");
    let about = "the smoothed round trip, in microseconds";
    table.columns.push(derived("rtt_us", DataType::Uint, Source::Eighth(eighths), about));
    table
}

pub(super) fn tcp_closes() -> Table {
    let protocol = member(0, &[("sock", "sk_protocol")]);
    let own = [unlisted("protocol", Side::Exit, protocol, "6: TCP")].into_iter().chain(carried()).collect();
    let only =
        [("new", BinaryOp::Equal, CLOSED), ("old", BinaryOp::NotEqual, LISTENING), ("protocol", BinaryOp::Equal, TCP)];
    with_round_trip(tcp_changes("tcp_closes", "a connection ends or fails; pid and comm are by chance", own, &only))
}

/// A change of a socket's state that begins rows, and the one that ends them: to one of these states; to any without them.
fn changes(begins: &[u64], ends: &[u64]) -> Scan {
    let change = || typed("inet_sock_set_state");
    let key = || argument(0, Scalar::unsigned(8));
    let counts = [begins, ends].map(|states| {
        let values: Vec<i32> = states.iter().filter_map(|state| i32::try_from(*state).ok()).collect();
        (!values.is_empty()).then(|| Counts { what: argument(2, Scalar::signed(4)), values, are: true })
    });
    Scan::Pair { enter: change(), exit: change(), keys: [key(), key()], counts, endless: false }
}

/// Connections that this machine asks for: from the state `SYN_SENT`, which the thread enters that connects, to the next one.
pub(super) fn tcp_connects() -> Table {
    let state = argument(2, Scalar::signed(4));
    let state = column("state", DataType::Int, Side::Exit, state, "1: it is established; 7: it failed");
    let own = socket(0).into_iter().chain([state]).collect();
    let about = "a connection is asked for, and is established or fails";
    let mut table = with_addresses(pair("tcp_connects", about, changes(&[SYN_SENT], &[]), "latency_ns", own));
    // The end happens in an interrupt.
    only_at(Side::Enter, &mut table, &["pid", "tid"]);
    table
}

/// Whole connections: from where they are asked for, here or elsewhere, to where they are closed.
pub(super) fn tcp_connections() -> Table {
    let state = argument(2, Scalar::signed(4));
    let began =
        column("began", DataType::Int, Side::Enter, state, "2: this machine asked for it; 3: it came from elsewhere");
    let own = socket(0).into_iter().chain([began]).chain(carried()).collect();
    let about =
        "a connection that began while the query ran ends; pid and comm are by chance where it came from elsewhere";
    let scan = changes(&[SYN_SENT, SYN_RECEIVED], &[CLOSED]);
    let mut table = with_round_trip(with_addresses(pair("tcp_connections", about, scan, "duration_ns", own)));
    only_at(Side::Enter, &mut table, &["pid", "tid"]);
    in_interrupts(table)
}

pub(super) fn tcp_retransmits() -> Table {
    let about = "a TCP segment is sent again; pid and comm are by chance";
    in_interrupts(of_socket("tcp_retransmits", about, typed("tcp_retransmit_skb"), 0, Vec::new()))
}
