//! Reports of connections, as the ring buffer hands them over.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::policy::{Identity, MAX_VARIABLES, Place, Policy};
use super::program::{Generated, SLOT_BITS};
use crate::value::Value;

/// `AF_INET6`.
const IPV6: u64 = 10;

/// What a connection reports.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The connection's identity, which answers name.
    pub id: u64,
    /// Its end here.
    pub local: SocketAddr,
    /// Its other end.
    pub remote: SocketAddr,
    /// Whether the clauses that run in user space are to be looked at.
    pub is_wanted: bool,
    /// A value for each column in the kernel; null where the policy does not read it.
    pub row: Vec<Value>,
}

impl Report {
    /// The connection's number: the policy's connections are counted from 1.
    pub fn connection(&self) -> u64 {
        self.id >> SLOT_BITS
    }

    /// The connection's place in the map of answers.
    pub fn slot(&self) -> u32 {
        (self.id & ((1 << SLOT_BITS) - 1)) as u32
    }

    /// The reported variables.
    pub fn reported<'p>(&self, policy: &'p Policy) -> impl Iterator<Item = (&'p str, u64)> + use<'p, '_> {
        let reported = policy.variables.iter().enumerate().filter(|(_, variable)| variable.is_reported);
        reported.map(|(number, variable)| {
            let value = self.row.get(Place::Variable(number).column()).and_then(Value::bits);
            (variable.name.as_str(), value.unwrap_or_default())
        })
    }
}

impl Generated {
    /// Reads a record of the ring buffer; `None` if it is too short.
    pub fn report(&self, bytes: &[u8]) -> Option<Report> {
        let at = |offset: u16| {
            let place = usize::from(offset);
            Some(u64::from_le_bytes(bytes.get(place..place + 8)?.try_into().ok()?))
        };
        let identity = |word: Identity| at(self.record.slot(Some(word.column()))?.offset);
        let mut row = vec![Value::Null; Place::Variable(MAX_VARIABLES).column()];
        for slot in &self.record.slots {
            if let Some(place) = slot.column.and_then(|column| row.get_mut(column)) {
                *place = Value::Uint(at(slot.offset)?);
            }
        }
        let ports = identity(Identity::Ports)?;
        let address = |first: Identity, second: Identity, port: u16| {
            let [first, second] = [identity(first)?.to_le_bytes(), identity(second)?.to_le_bytes()];
            let address = if ports >> 32 == IPV6 {
                let mut all = [0; 16];
                all[..8].copy_from_slice(&first);
                all[8..].copy_from_slice(&second);
                IpAddr::V6(Ipv6Addr::from(all)).to_canonical()
            } else {
                IpAddr::V4(Ipv4Addr::from([first[0], first[1], first[2], first[3]]))
            };
            Some(SocketAddr::new(address, port))
        };
        Some(Report {
            id: identity(Identity::Id)?,
            local: address(Identity::Local, Identity::LocalEnd, ports as u16)?,
            remote: address(Identity::Remote, Identity::RemoteEnd, u16::from_be((ports >> 16) as u16))?,
            is_wanted: identity(Identity::Wanted)? != 0,
            row,
        })
    }
}
