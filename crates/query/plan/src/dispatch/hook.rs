//! Where a policy runs, and which fields it can read there.

use kiln_platform::ProgramType;

use super::{Above, Field};

/// What sockets speak.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Transport {
    /// Datagrams: each is dispatched.
    Udp,
    /// Connections: their first packet is dispatched, and the others follow it.
    Tcp,
}

impl Transport {
    /// Its name in a policy.
    pub const fn name(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        }
    }

    /// Its number in an IP header.
    pub const fn number(self) -> u8 {
        match self {
            Transport::Udp => super::packet::UDP,
            Transport::Tcp => super::packet::TCP,
        }
    }

    /// The packets that it carries.
    pub const fn above(self) -> Above {
        match self {
            Transport::Udp => Above::Udp,
            Transport::Tcp => Above::Tcp,
        }
    }
}

/// Where a policy runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hook {
    /// In the driver, before the network stack: executors are processors below this number.
    Xdp {
        /// One more than the greatest number of a processor.
        processors: u32,
    },
    /// Where the kernel chooses a socket of those that share an address and port: executors are these sockets.
    Reuseport(Transport),
    /// Where the kernel looks for the socket of a port: executors are any sockets.
    Lookup {
        /// What the sockets speak.
        transport: Transport,
        /// The first and last port whose packets are dispatched.
        ports: [u16; 2],
    },
}

impl Hook {
    /// The kernel's name of its programs, which is their section, too.
    pub const fn name(self) -> &'static str {
        match self {
            Hook::Xdp { .. } => "xdp",
            Hook::Reuseport(_) => "sk_reuseport",
            Hook::Lookup { .. } => "sk_lookup",
        }
    }

    /// The type of its programs.
    pub const fn program_type(self) -> ProgramType {
        match self {
            Hook::Xdp { .. } => ProgramType::Xdp,
            Hook::Reuseport(_) => ProgramType::SkReuseport,
            Hook::Lookup { .. } => ProgramType::SkLookup,
        }
    }

    /// What all packets that come here are carried by, if that is known.
    pub const fn transport(self) -> Option<Transport> {
        match self {
            Hook::Xdp { .. } => None,
            Hook::Reuseport(transport) | Hook::Lookup { transport, .. } => Some(transport),
        }
    }

    /// Why a field cannot be read here; `None` if it can.
    pub fn lacks(self, field: Field) -> Option<&'static str> {
        match (self, field) {
            (Hook::Reuseport(_), Field::Bytes) => Some(
                "sockets get packets without frames; `udp.header >> 16 & 65535` is the length that UDP's header states",
            ),
            (Hook::Reuseport(Transport::Tcp), Field::Payload(_)) => {
                Some("a connection is dispatched by its first packet, which carries nothing")
            }
            (Hook::Lookup { .. }, Field::Bytes | Field::Header | Field::Payload(_)) => {
                Some("a lookup knows addresses and ports, not the packet; sk_reuseport has more")
            }
            _ => None,
        }
    }
}
