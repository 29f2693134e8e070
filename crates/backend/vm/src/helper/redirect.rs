//! Where packets are sent.

use std::sync::atomic::Ordering;

use super::answer::{Answer, refuse, value};
use crate::errno::Errno;
use crate::map::Storage;
use crate::packet::Kind;
use crate::state::{Redirect, State};
use kiln_platform::MapType;

const XDP_ABORTED: u64 = 0;
const XDP_REDIRECT: u64 = 4;
const TC_ACT_SHOT: u64 = 2;
const TC_ACT_REDIRECT: u64 = 7;
const INGRESS: u64 = 1;

pub fn redirect(state: &mut State, [ifindex, flags, ..]: [u64; 5]) -> Answer {
    let (allowed, refused, accepted) = match state.packet.kind() {
        Kind::Xdp => (0, XDP_ABORTED, XDP_REDIRECT),
        _ => (INGRESS, TC_ACT_SHOT, TC_ACT_REDIRECT),
    };
    if flags & !allowed != 0 {
        return value(refused);
    }
    to_interface(state, ifindex, flags);
    value(accepted)
}

fn to_interface(state: &mut State, ifindex: u64, flags: u64) {
    state.output.redirect = Some(Redirect::Interface { ifindex: ifindex as u32, flags });
}

pub fn redirect_peer(state: &mut State, [ifindex, flags, ..]: [u64; 5]) -> Answer {
    if flags != 0 {
        return value(TC_ACT_SHOT);
    }
    to_interface(state, ifindex, flags);
    value(TC_ACT_REDIRECT)
}

pub fn redirect_neigh(state: &mut State, [ifindex, parameters, bytes, flags, _]: [u64; 5]) -> Answer {
    /// Bytes of `struct bpf_redir_neigh`.
    const PARAMETER_BYTES: u64 = 20;
    state.bytes(parameters, bytes)?;
    if (bytes != 0 && bytes < PARAMETER_BYTES) || flags != 0 {
        return value(TC_ACT_SHOT);
    }
    to_interface(state, ifindex, flags);
    value(TC_ACT_REDIRECT)
}

/// `bpf_redirect_map`: where the entry is missing, the lowest two bits of the flags are the answer.
pub fn redirect_map(state: &mut State, [handle, key, flags, ..]: [u64; 5]) -> Answer {
    const ACTIONS: u64 = 3;
    const BROADCAST: u64 = 1 << 3;
    const EXCLUDE_INGRESS: u64 = 1 << 4;
    let index = state.map_index(handle)?;
    let map = &state.maps[index];
    let to_devices = matches!(map.definition.map_type, MapType::Devmap | MapType::DevmapHash);
    let allowed = if to_devices { ACTIONS | BROADCAST | EXCLUDE_INGRESS } else { ACTIONS };
    if flags & !allowed != 0 {
        return value(XDP_ABORTED);
    }
    let key32 = key as u32;
    let found = match map.storage() {
        Storage::Slots { present, .. } => {
            present.get(key32 as usize).is_some_and(|present| present.load(Ordering::Acquire))
        }
        Storage::Hash(hash) => hash.find(&key32.to_ne_bytes()).is_some(),
        _ => false,
    };
    if !found && flags & BROADCAST == 0 {
        return value(flags & ACTIONS);
    }
    state.output.redirect = Some(Redirect::Map { map: index as u32, key, flags });
    value(XDP_REDIRECT)
}

pub fn clone_redirect(state: &mut State, [_, ifindex, flags, ..]: [u64; 5]) -> Answer {
    let ifindex = ifindex as u32;
    if flags & !INGRESS != 0 || state.surroundings.device(ifindex).is_none() {
        return refuse(Errno::EINVAL);
    }
    let bytes = state.packet.bytes(&state.memory).to_vec();
    // Bounded: a repeated run keeps the last copies only.
    const KEPT: usize = 64;
    if state.output.clones.len() < KEPT {
        state.output.clones.push((ifindex, bytes));
    }
    value(0)
}
