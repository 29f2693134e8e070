//! Socket buffers.

use super::answer::{Answer, done, refuse, value};
use crate::errno::Errno;
use crate::packet::field;
use crate::state::State;
use kiln_program::interpret::Fault;

pub fn load_bytes(state: &mut State, [_, offset, to, bytes, _]: [u64; 5]) -> Answer {
    let from = state.packet.range(offset as u32, bytes as u32);
    load(state, from, to, bytes as u32)
}

pub fn load_bytes_relative(state: &mut State, [_, offset, to, bytes, start]: [u64; 5]) -> Answer {
    let from = match start as u32 {
        0 => state.packet.relative_range(offset as u32, bytes as u32, false),
        1 => state.packet.relative_range(offset as u32, bytes as u32, true),
        _ => Err(Errno::EFAULT),
    };
    load(state, from, to, bytes as u32)
}

/// Copies out of the packet; where that fails, the target becomes zeros.
fn load(state: &mut State, from: Result<u64, Errno>, to: u64, bytes: u32) -> Answer {
    match from {
        Ok(from) => {
            // The MAC header may lie before the window that programs see.
            let source = state.packet.outside_window(&state.memory, from, bytes as usize).map(<[u8]>::to_vec);
            let source = source.ok_or(Fault::Memory { address: from, bytes: bytes.into() })?;
            state.write(to, &source)?;
            value(0)
        }
        Err(errno) => {
            state.clear(to, bytes.into())?;
            refuse(errno)
        }
    }
}

pub fn store_bytes(state: &mut State, [_, offset, from, bytes, flags]: [u64; 5]) -> Answer {
    const RECOMPUTE_CHECKSUM: u64 = 1;
    const INVALIDATE_HASH: u64 = 2;
    let bytes = bytes as u32;
    if flags & !(RECOMPUTE_CHECKSUM | INVALIDATE_HASH) != 0 {
        return refuse(Errno::EINVAL);
    }
    let to = match state.packet.range(offset as u32, bytes) {
        Ok(to) => to,
        Err(errno) => return refuse(errno),
    };
    state.copy(from, to, bytes.into())?;
    if flags & INVALIDATE_HASH != 0 {
        state.packet.set_hash(&mut state.memory, 0);
    }
    value(0)
}

/// All bytes are linear and writable already; only the length is checked.
pub fn pull_data(state: &mut State, [_, bytes, ..]: [u64; 5]) -> Answer {
    if bytes as u32 as usize > state.packet.len() { refuse(Errno::ENOMEM) } else { value(0) }
}

pub fn change_head(state: &mut State, [_, bytes, flags, ..]: [u64; 5]) -> Answer {
    if flags != 0 {
        return refuse(Errno::EINVAL);
    }
    done(state.packet.change_head(&mut state.memory, bytes as u32))
}

pub fn change_tail(state: &mut State, [_, length, flags, ..]: [u64; 5]) -> Answer {
    if flags != 0 {
        return refuse(Errno::EINVAL);
    }
    done(state.packet.change_tail(&mut state.memory, length as u32))
}

pub fn change_protocol(state: &mut State, [_, protocol, flags, ..]: [u64; 5]) -> Answer {
    if flags != 0 {
        return refuse(Errno::EINVAL);
    }
    done(state.packet.change_protocol(&mut state.memory, u16::from_be(protocol as u16)))
}

pub fn change_type(state: &mut State, [_, packet_type, ..]: [u64; 5]) -> Answer {
    const OTHER_HOST: u32 = 3;
    let now = state.packet.field(&state.memory, field::PKT_TYPE);
    if now > OTHER_HOST || packet_type as u32 > OTHER_HOST {
        return refuse(Errno::EINVAL);
    }
    state.packet.set_field(&mut state.memory, field::PKT_TYPE, packet_type as u32);
    value(0)
}

pub fn adjust_room(state: &mut State, [_, difference, mode, flags, _]: [u64; 5]) -> Answer {
    done(state.packet.adjust_room(&mut state.memory, difference as i32, mode as u32, flags))
}

pub fn vlan_push(state: &mut State, [_, protocol, tci, ..]: [u64; 5]) -> Answer {
    done(state.packet.vlan_push(&mut state.memory, u16::from_be(protocol as u16), tci as u16))
}

pub fn vlan_pop(state: &mut State, _: [u64; 5]) -> Answer {
    done(state.packet.vlan_pop(&mut state.memory))
}

pub fn get_hash_recalc(state: &mut State, _: [u64; 5]) -> Answer {
    value(state.packet.flow_hash(&mut state.memory).into())
}

pub fn set_hash(state: &mut State, [_, hash, ..]: [u64; 5]) -> Answer {
    state.packet.set_hash(&mut state.memory, hash as u32);
    value(0)
}

pub fn set_hash_invalid(state: &mut State, _: [u64; 5]) -> Answer {
    state.packet.set_hash(&mut state.memory, 0);
    value(0)
}

/// The buffer's socket has a cookie; there is one socket.
pub fn get_socket_cookie(_: &mut State, _: [u64; 5]) -> Answer {
    value(1)
}

pub fn get_socket_uid(state: &mut State, _: [u64; 5]) -> Answer {
    value(state.surroundings.task.user.into())
}

/// The buffer's socket is a full one.
pub fn sk_fullsock(_: &mut State, [socket, ..]: [u64; 5]) -> Answer {
    value(socket)
}

pub fn ecn_set_ce(state: &mut State, _: [u64; 5]) -> Answer {
    value(state.packet.set_congestion_experienced(&mut state.memory).into())
}
