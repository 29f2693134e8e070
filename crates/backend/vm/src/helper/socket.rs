//! Lookups of sockets, in the list of [`crate::state::Surroundings`].
//!
//! What is found is a `struct bpf_sock` in memory that programs may read, and a reference that they give back.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use kiln_program::interpret::Fault;

use super::answer::{Answer, value};
use crate::abi;
use crate::memory::{Access, Memory, Placement};
use crate::packet::socket;
use crate::state::{Socket, State};

/// `TCP_ESTABLISHED`, `TCP_CLOSE` and `TCP_LISTEN`: also UDP sockets have a state.
const ESTABLISHED: u32 = 1;
const CLOSED: u32 = 7;
const LISTENING: u32 = 10;
/// References that a run has at a time. The verifier bounds them, too.
const MOST_HELD: usize = 4096;

impl Socket {
    /// The fields that a program sees.
    pub(crate) fn fields(&self) -> [u8; socket::BYTES] {
        let mut fields = [0; socket::BYTES];
        let mut put = |at: usize, bytes: &[u8]| fields[at..at + bytes.len()].copy_from_slice(bytes);
        let is_tcp = i32::from(self.protocol) == abi::IPPROTO_TCP;
        let (family, kind) = match (self.local, is_tcp) {
            (SocketAddr::V4(_), true) => (abi::AF_INET, abi::SOCK_STREAM),
            (SocketAddr::V4(_), false) => (abi::AF_INET, abi::SOCK_DGRAM),
            (SocketAddr::V6(_), true) => (abi::AF_INET6, abi::SOCK_STREAM),
            (SocketAddr::V6(_), false) => (abi::AF_INET6, abi::SOCK_DGRAM),
        };
        let state = match self.remote {
            Some(_) => ESTABLISHED,
            None if is_tcp => LISTENING,
            None => CLOSED,
        };
        for (at, word) in [
            (socket::FAMILY, family as u32),
            (socket::KIND, kind as u32),
            (socket::PROTOCOL, self.protocol.into()),
            (socket::SRC_PORT, self.local.port().into()),
            (socket::STATE, state),
            (socket::RX_QUEUE, u32::MAX),
        ] {
            put(at, &word.to_ne_bytes());
        }
        let mut address = |ip4: usize, ip6: usize, address: IpAddr| match address {
            IpAddr::V4(address) => put(ip4, &address.octets()),
            IpAddr::V6(address) => put(ip6, &address.octets()),
        };
        address(socket::SRC_IP4, socket::SRC_IP6, self.local.ip());
        if let Some(remote) = self.remote {
            address(socket::DST_IP4, socket::DST_IP6, remote.ip());
            put(socket::DST_PORT, &remote.port().to_be_bytes());
        }
        fields
    }

    /// How well it takes what comes from one address to another: 0 not at all, most if it is connected to the sender.
    fn takes(&self, from: SocketAddr, to: SocketAddr) -> u32 {
        let own = self.local.ip();
        let any = own.is_unspecified() && own.is_ipv4() == to.is_ipv4();
        match self.remote {
            Some(remote) if remote == from && self.local == to => 3,
            None if self.local == to => 2,
            None if any && self.local.port() == to.port() => 1,
            _ => 0,
        }
    }
}

/// Puts sockets where programs may read them; the address of the first.
pub(crate) fn place(memory: &mut Memory, sockets: &[Socket]) -> io::Result<u64> {
    if sockets.is_empty() {
        return Ok(0);
    }
    let region = memory.allocate(sockets.len() * socket::BYTES, Placement::Anywhere, Access::Read)?;
    for (to, from) in memory.region_mut(region).chunks_exact_mut(socket::BYTES).zip(sockets) {
        to.copy_from_slice(&from.fields());
    }
    Ok(memory.start(region))
}

pub fn look_up_tcp(state: &mut State, arguments: [u64; 5]) -> Answer {
    look_up(state, abi::IPPROTO_TCP, arguments)
}

pub fn look_up_udp(state: &mut State, arguments: [u64; 5]) -> Answer {
    look_up(state, abi::IPPROTO_UDP, arguments)
}

/// The address of the socket that is found, or null: also for other network namespaces, and for flags.
fn look_up(state: &mut State, protocol: i32, [_, tuple, bytes, namespace, flags]: [u64; 5]) -> Answer {
    let addresses = addresses(state, tuple, u64::from(bytes as u32))?;
    let room = state.held.sockets.len() < MOST_HELD;
    let addresses = addresses.filter(|_| room && flags == 0 && (namespace as i32) < 0);
    let Some((from, to)) = addresses else { return value(0) };
    let sockets = state.surroundings.sockets.iter().enumerate();
    let taking = sockets.filter(|(_, socket)| i32::from(socket.protocol) == protocol && socket.takes(from, to) > 0);
    let Some((at, _)) = taking.max_by_key(|(_, socket)| socket.takes(from, to)) else { return value(0) };
    let found = state.sockets + (at * socket::BYTES) as u64;
    state.held.sockets.push(found);
    value(found)
}

/// The sender's and the receiver's address in a `struct bpf_sock_tuple`, whose size says the family.
fn addresses(state: &State, tuple: u64, bytes: u64) -> Result<Option<(SocketAddr, SocketAddr)>, Fault> {
    fn parts<const N: usize>(bytes: &[u8]) -> Option<([u8; N], [u8; N], u16, u16)> {
        let (source, rest) = bytes.split_first_chunk::<N>()?;
        let (target, rest) = rest.split_first_chunk::<N>()?;
        let (&source_port, rest) = rest.split_first_chunk::<2>()?;
        let (&target_port, _) = rest.split_first_chunk::<2>()?;
        Some((*source, *target, u16::from_be_bytes(source_port), u16::from_be_bytes(target_port)))
    }
    fn both<A: Into<IpAddr>>((source, target, from, to): (A, A, u16, u16)) -> (SocketAddr, SocketAddr) {
        (SocketAddr::new(source.into(), from), SocketAddr::new(target.into(), to))
    }
    const IPV4: u64 = 12;
    const IPV6: u64 = 36;
    Ok(match bytes {
        IPV4 => parts::<4>(&state.bytes(tuple, bytes)?)
            .map(|(source, target, from, to)| both((Ipv4Addr::from(source), Ipv4Addr::from(target), from, to))),
        IPV6 => parts::<16>(&state.bytes(tuple, bytes)?)
            .map(|(source, target, from, to)| both((Ipv6Addr::from(source), Ipv6Addr::from(target), from, to))),
        _ => None,
    })
}

/// Gives back the reference to a socket that was found.
pub fn release(state: &mut State, [socket, ..]: [u64; 5]) -> Answer {
    let held = state.held.sockets.iter().rposition(|held| *held == socket);
    state.held.sockets.swap_remove(held.ok_or(Fault::Memory { address: socket, bytes: 0 })?);
    value(0)
}
