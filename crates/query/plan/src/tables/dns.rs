//! `dns`: names that are asked for over UDP, with the answers.

use super::build::{column, derived, member, only_at, pair, unlisted};
use crate::execute::dns::Part;
use crate::table::{Column, Direction, Hook, Read, Scan, Side, Source, Table};
use crate::value::DataType;

/// The port of servers for names.
const PORT: u16 = 53;
/// `ETH_P_IP` in network order, and the families of addresses.
const IPV4: i32 = 0x0800_u16.to_be() as i32;
const AF_INET: i32 = 2;
const AF_INET6: i32 = 10;

/// A question leaves this machine, and its answer arrives. Both are seen at devices, the loopback device too.
pub(super) fn dns() -> Table {
    let hook =
        |tracepoint: &str, direction| Hook::Datagram { tracepoint: tracepoint.to_owned(), direction, port: PORT };
    let scan = Scan::Pair {
        enter: hook("net_dev_queue", Direction::To),
        exit: hook("netif_receive_skb", Direction::From),
        keys: [Read::Conversation, Read::Conversation],
        // A question may have no answer, and a device may hand it to another one.
        counts: [None, None],
        endless: true,
    };
    let header = |offset, bytes| Read::Header { offset, bytes };
    let family = Read::Choice {
        by: Box::new(member(0, &[("sk_buff", "protocol")])),
        equals: IPV4,
        then: Box::new(Read::Constant(AF_INET.into())),
        otherwise: Box::new(Read::Constant(AF_INET6.into())),
    };
    let about = "the answer's first 128 bytes, a character for each";
    let message = unlisted("message", Side::Exit, Read::Payload, about);
    let own = vec![
        column("family", DataType::Uint, Side::Enter, family, "2: IPv4; 10: IPv6"),
        column("id", DataType::Uint, Side::Exit, header(Read::CARRIED, 2), "the message's number, in network order"),
        unlisted("sport_be", Side::Enter, header(Read::SOURCE_PORT, 2), "the asker's port, in network order"),
        unlisted("server_be", Side::Enter, header(16, 4), "the server's IPv4 address, in network order"),
        unlisted("server6_high", Side::Enter, header(24, 8), "the first half of the server's IPv6 address"),
        unlisted("server6_low", Side::Enter, header(32, 8), "the second half of the server's IPv6 address"),
        Column { data_type: DataType::Text, ..message },
    ];
    let about = "a name is asked for over UDP, and the answer arrives";
    let mut table = pair("dns", about, scan, "latency_ns", own);
    // The answer arrives in an interrupt.
    only_at(Side::Enter, &mut table, &["pid", "tid"]);
    let at = |name: &str| table.column(name).expect("the table has it");
    let message = at("message");
    let server =
        Source::Address { family: at("family"), v4: at("server_be"), v6: [at("server6_high"), at("server6_low")] };
    let sport = Source::Port(at("sport_be"));
    for (name, data_type, source, about) in [
        ("server", DataType::Text, server, "who is asked"),
        ("sport", DataType::Uint, sport, "the asker's port"),
        ("name", DataType::Text, Source::Dns(Part::Name, message), "the name; null if it has more than 110 bytes"),
        ("type", DataType::Text, Source::Dns(Part::Type, message), "what is asked for: A, AAAA, TYPE65280"),
        ("rcode", DataType::Text, Source::Dns(Part::Code, message), "NOERROR, NXDOMAIN, SERVFAIL, ..."),
        ("answers", DataType::Uint, Source::Dns(Part::Answers, message), "how many records answer it"),
    ] {
        table.columns.push(derived(name, data_type, source, about));
    }
    table
}
