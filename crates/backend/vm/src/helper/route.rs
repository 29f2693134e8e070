//! Routes and MTUs, from the tables in [`crate::state::Surroundings`].

use super::answer::{Answer, refuse, value};
use crate::abi;
use crate::errno::Errno;
use crate::packet::{ETHERNET_BYTES, Kind};
use crate::state::{Route, State};

/// Bytes of `struct bpf_fib_lookup`, and offsets in it.
mod fib {
    pub const BYTES: u64 = 64;
    pub const LENGTH: usize = 6;
    pub const IFINDEX: usize = 8;
    pub const METRIC: usize = 12;
    pub const DESTINATION: usize = 32;
    pub const VLAN: usize = 48;
    pub const SOURCE_MAC: usize = 52;
    pub const DESTINATION_MAC: usize = 58;
}

/// `BPF_FIB_LKUP_RET_*`.
const SUCCESS: u64 = 0;
const NOT_FORWARDED: u64 = 4;
const FORWARDING_DISABLED: u64 = 5;
const NO_NEIGHBOUR: u64 = 7;
const FRAGMENTATION_NEEDED: u64 = 8;
const KNOWN_FLAGS: u64 = 0x3f;
const SKIP_NEIGHBOUR: u64 = 4;

pub fn fib_lookup(state: &mut State, [_, parameters, bytes, flags, _]: [u64; 5]) -> Answer {
    let flags = u64::from(flags as u32);
    if (bytes as i32) < fib::BYTES as i32 || flags & !KNOWN_FLAGS != 0 {
        return refuse(Errno::EINVAL);
    }
    let mut fields: [u8; fib::BYTES as usize] = match state.bytes(parameters, fib::BYTES)?[..].try_into() {
        Ok(fields) => fields,
        Err(_) => return refuse(Errno::EINVAL),
    };
    let ipv6 = match i32::from(fields[0]) {
        abi::AF_INET => false,
        abi::AF_INET6 => true,
        _ => return refuse(Errno::EAFNOSUPPORT),
    };
    let ifindex = u32::from_ne_bytes(fields[fib::IFINDEX..fib::IFINDEX + 4].try_into().unwrap_or_default());
    if state.surroundings.device(ifindex).is_none() {
        return refuse(Errno::ENODEV);
    }
    if state.surroundings.routes.is_empty() {
        return value(FORWARDING_DISABLED);
    }
    let destination = &fields[fib::DESTINATION..fib::DESTINATION + 16];
    let Some(route) = longest_match(&state.surroundings.routes, destination, ipv6) else {
        return value(NOT_FORWARDED);
    };
    let Some(device) = state.surroundings.device(route.ifindex).copied() else { return value(NOT_FORWARDED) };
    let length = u16::from_ne_bytes([fields[fib::LENGTH], fields[fib::LENGTH + 1]]);
    let mtu = device.mtu.min(0xffff) as u16;
    let verdict = if u32::from(length) > device.mtu {
        fields[fib::LENGTH..fib::LENGTH + 2].copy_from_slice(&mtu.to_ne_bytes());
        FRAGMENTATION_NEEDED
    } else {
        fields[fib::LENGTH..fib::LENGTH + 2].copy_from_slice(&mtu.to_ne_bytes());
        fields[fib::METRIC..fib::METRIC + 4].fill(0);
        if route.gateway != [0; 16] {
            let length = if ipv6 { 16 } else { 4 };
            fields[fib::DESTINATION..fib::DESTINATION + length].copy_from_slice(&route.gateway[..length]);
        }
        fields[fib::IFINDEX..fib::IFINDEX + 4].copy_from_slice(&route.ifindex.to_ne_bytes());
        resolve(&mut fields, &route, device.address, flags)
    };
    state.write(parameters, &fields)?;
    value(verdict)
}

fn resolve(fields: &mut [u8], route: &Route, source: [u8; 6], flags: u64) -> u64 {
    if flags & SKIP_NEIGHBOUR != 0 {
        return SUCCESS;
    }
    let Some(neighbour) = route.neighbour else { return NO_NEIGHBOUR };
    fields[fib::VLAN..fib::SOURCE_MAC].fill(0);
    fields[fib::SOURCE_MAC..fib::DESTINATION_MAC].copy_from_slice(&source);
    fields[fib::DESTINATION_MAC..fib::DESTINATION_MAC + 6].copy_from_slice(&neighbour);
    SUCCESS
}

fn longest_match(routes: &[Route], destination: &[u8], ipv6: bool) -> Option<Route> {
    let covers = |route: &&Route| {
        let bits = u32::from(route.prefix_bits);
        route.ipv6 == ipv6
            && (0..bits.min(128)).all(|bit| {
                let at = |bytes: &[u8]| bytes[bit as usize / 8] >> (7 - bit % 8) & 1;
                at(&route.destination) == at(destination)
            })
    };
    routes.iter().filter(covers).max_by_key(|route| route.prefix_bits).copied()
}

/// `bpf_check_mtu`: 0 when the packet (changed by `difference` bytes) fits the device, 1 when it is too long.
pub fn check_mtu(state: &mut State, [_, ifindex, length_at, difference, flags]: [u64; 5]) -> Answer {
    const CHECK_SEGMENTS: u64 = 1;
    let given = u32::from_ne_bytes(state.bytes(length_at, 4)?[..].try_into().unwrap_or_default());
    let difference = difference as i32;
    let allowed = if state.packet.kind() == Kind::Xdp { 0 } else { CHECK_SEGMENTS };
    if flags & !allowed != 0 || (flags != 0 && (difference != 0 || given != 0)) {
        return refuse(Errno::EINVAL);
    }
    let ifindex = if ifindex as u32 == 0 { 1 } else { ifindex as u32 };
    let Some(device) = state.surroundings.device(ifindex) else { return refuse(Errno::ENODEV) };
    let mtu = device.mtu;
    let most = i64::from(mtu) + ETHERNET_BYTES as i64;
    let length = match given {
        0 => state.packet.len() as i64,
        given => i64::from(given) + ETHERNET_BYTES as i64,
    };
    state.write(length_at, &mtu.to_ne_bytes())?;
    value(u64::from(length + i64::from(difference) > most))
}
