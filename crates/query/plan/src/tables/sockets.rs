//! TCP sockets: their states, connections and retransmits.

use super::build::{
    argument, column, compares, derived, in_interrupts, member, only_at, pair, single, typed, unlisted,
};
use crate::expr::{BinaryOp, Expr};
use crate::table::{Column, Endless, Hook, Read, Scalar, Scan, Side, Source, Table};
use crate::value::DataType;

/// Columns of a socket, which is an argument of its tracepoint: its family, and the addresses and ports of both ends.
fn socket(index: u8) -> Vec<Column> {
    let read = |name: &str| member(index, &[("sock_common", name)]);
    let half = |name: &str, skip: u8| Read::Part { index, member: ("sock_common".to_owned(), name.to_owned()), skip };
    let unlisted = |name: &str, what: Read, about: &str| unlisted(name, Side::Exit, what, about);
    vec![
        column("family", DataType::Uint, Side::Exit, read("skc_family"), "2: IPv4; 10: IPv6"),
        column("sport", DataType::Uint, Side::Exit, read("skc_num"), "the local port"),
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

/// Adds the addresses of a socket as text, and its remote port.
fn with_addresses(mut table: Table) -> Table {
    let at = |name: &str| table.column(name).expect("every socket has it");
    let address = |side: &str| Source::Address {
        family: at("family"),
        v4: at(&format!("{side}_be")),
        v6: [at(&format!("{side}6_high")), at(&format!("{side}6_low"))],
    };
    let (saddr, daddr, dport) = (address("saddr"), address("daddr"), Source::Port(at("dport_be")));
    table.columns.extend([
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

pub(super) fn tcp_closes() -> Table {
    let protocol = member(0, &[("sock", "sk_protocol")]);
    let counted = |name: &str| Read::Behind {
        from: Box::new(argument(0, Scalar::unsigned(8))),
        path: vec![vec![("tcp_sock".to_owned(), name.to_owned())]],
    };
    let count = |name: &str, of: &str, about: &str| column(name, DataType::Uint, Side::Exit, counted(of), about);
    let own = vec![
        unlisted("protocol", Side::Exit, protocol, "6: TCP"),
        count("bytes_sent", "bytes_sent", "how much was sent, what was sent again counted again"),
        count("bytes_received", "bytes_received", "how much was received; the end counts as a byte"),
        count("retransmits", "total_retrans", "segments that were sent again"),
        unlisted("rtt_eighths", Side::Exit, counted("srtt_us"), "the smoothed round trip, in eighths of a microsecond"),
    ];
    let only =
        [("new", BinaryOp::Equal, CLOSED), ("old", BinaryOp::NotEqual, LISTENING), ("protocol", BinaryOp::Equal, TCP)];
    let mut table = tcp_changes("tcp_closes", "a connection ends or fails; pid and comm are by chance", own, &only);
    let eighths = table.column("rtt_eighths").expect("it is there");
    let about = "the smoothed round trip, in microseconds";
    table.columns.push(derived("rtt_us", DataType::Uint, Source::Eighth(eighths), about));
    table
}

/// Connections that this machine asks for: from the state `SYN_SENT`, which the thread enters that connects, to the next one.
pub(super) fn tcp_connects() -> Table {
    let change = || typed("inet_sock_set_state");
    let key = || argument(0, Scalar::unsigned(8));
    let scan = Scan::Pair { enter: change(), exit: change(), keys: [key(), key()], endless: Endless::None };
    let asked = argument(2, Scalar::signed(4));
    let began = column("began", DataType::Int, Side::Enter, asked, "the state at the beginning");
    let mut own = socket(0);
    own.push(Column { listed: false, ..began });
    own.push(column(
        "state",
        DataType::Int,
        Side::Exit,
        argument(2, Scalar::signed(4)),
        "1: it is established; 7: it failed",
    ));
    let about = "a connection is asked for, and is established or fails";
    let mut table = with_addresses(pair("tcp_connects", about, scan, "latency_ns", own));
    // The end happens in an interrupt.
    only_at(Side::Enter, &mut table, &["pid", "tid"]);
    table.only = Some(compares(&table, "began", BinaryOp::Equal, SYN_SENT));
    table
}

pub(super) fn tcp_retransmits() -> Table {
    let about = "a TCP segment is sent again; pid and comm are by chance";
    in_interrupts(of_socket("tcp_retransmits", about, typed("tcp_retransmit_skb"), 0, Vec::new()))
}
