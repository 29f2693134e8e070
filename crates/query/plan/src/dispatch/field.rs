//! What a policy can read of a packet.

/// Words of eight bytes of a payload that a policy can read.
pub const PAYLOAD_WORDS: u8 = 16;

/// A field of a packet; all are unsigned integers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Field {
    /// Bytes of the frame.
    Bytes,
    /// Packets that the policy decided before this one.
    Count,
    /// 4 or 6.
    Version,
    /// The protocol above IP.
    Protocol,
    /// The source address: 32 bits, or the last 64 of an IPv6 address.
    Source,
    /// The destination address, likewise.
    Destination,
    /// The source port.
    SourcePort,
    /// The destination port.
    DestinationPort,
    /// The first eight bytes of the header above IP: all of UDP's.
    Header,
    /// Eight bytes of what UDP or TCP carries, by their number from 0; 0 if the packet ends before them.
    Payload(u8),
}

/// Packets that a policy decides. Others are left to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Above {
    /// All of IP.
    Ip,
    /// UDP or TCP, not in fragments.
    Ports,
    /// UDP, not in fragments.
    Udp,
    /// TCP, not in fragments.
    Tcp,
}

impl Field {
    /// The fields without the payload, with their names and what they say.
    pub const NAMED: [(Field, &'static str, &'static str); 9] = [
        (Field::Bytes, "packet.bytes", "bytes of the frame (XDP only)"),
        (Field::Count, "packet.count", "packets that the policy decided before this one"),
        (Field::Version, "ip.version", "4 or 6"),
        (Field::Protocol, "ip.protocol", "17 for UDP, 6 for TCP"),
        (Field::Source, "ip.source", "the source address; the last 64 bits of an IPv6 address"),
        (Field::Destination, "ip.destination", "the destination address, likewise"),
        (Field::SourcePort, "packet.source_port", "the source port of UDP or TCP"),
        (Field::DestinationPort, "packet.destination_port", "the destination port of UDP or TCP"),
        (Field::Header, "packet.header", "the first eight bytes of the header of UDP or TCP (not at sk_lookup)"),
    ];

    /// All fields, in the order of a row.
    pub fn all() -> impl Iterator<Item = Field> {
        Field::NAMED.into_iter().map(|(field, ..)| field).chain((0..PAYLOAD_WORDS).map(Field::Payload))
    }

    /// The greatest number that it can be.
    pub const fn greatest(self) -> u64 {
        match self {
            Field::Bytes => u32::MAX as u64,
            // A packet a nanosecond takes three centuries to reach it.
            Field::Count => i64::MAX as u64,
            Field::Version | Field::Protocol => u8::MAX as u64,
            Field::SourcePort | Field::DestinationPort => u16::MAX as u64,
            Field::Source | Field::Destination | Field::Header | Field::Payload(_) => u64::MAX,
        }
    }

    /// Whether it is above IP.
    pub const fn is_above_ip(self) -> bool {
        matches!(self, Field::SourcePort | Field::DestinationPort | Field::Header | Field::Payload(_))
    }
}
