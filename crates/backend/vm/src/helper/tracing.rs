//! Reading memory without knowing whether it is there, perf events, stacks.

use std::sync::atomic::Ordering;

use super::answer::{Answer, refuse, value};
use crate::errno::Errno;
use crate::map::Storage;
use crate::packet::Kind;
use crate::state::{PerfEvent, State};

/// `bpf_probe_read*`: only the program's own memory is there to be read; all else is `EFAULT`, and zeros.
pub fn probe_read(state: &mut State, [to, bytes, from, ..]: [u64; 5]) -> Answer {
    let length = u64::from(bytes as u32);
    state.check_writable(to, length)?;
    if state.memory.copy(from, to, length as usize).is_some() {
        return value(0);
    }
    state.clear(to, length)?;
    refuse(Errno::EFAULT)
}

/// `bpf_probe_read_str*`: up to and with the NUL, which is always written; returns the length with it.
pub fn probe_read_str(state: &mut State, [to, bytes, from, ..]: [u64; 5]) -> Answer {
    let length = u64::from(bytes as u32);
    state.check_writable(to, length)?;
    if length == 0 {
        return value(0);
    }
    let mut text = Vec::new();
    while (text.len() as u64) < length - 1 {
        match state.memory.bytes(from.wrapping_add(text.len() as u64), 1).and_then(|bytes| bytes.first().copied()) {
            Some(0) => break,
            Some(byte) => text.push(byte),
            None => {
                state.clear(to, length)?;
                return refuse(Errno::EFAULT);
            }
        }
    }
    text.push(0);
    state.write(to, &text)?;
    value(text.len() as u64)
}

/// The VM has no user memory to write to.
pub fn probe_write_user(_: &mut State, _: [u64; 5]) -> Answer {
    refuse(Errno::EPERM)
}

/// The slot of a perf event array that flags speak of: its index, or why there is none.
fn event_slot(state: &State, map: usize, flags: u64) -> Result<u32, Errno> {
    const INDEX: u64 = 0xffff_ffff;
    const CURRENT_CPU: u64 = INDEX;
    let index = match flags & INDEX {
        CURRENT_CPU => state.surroundings.cpu,
        index => index as u32,
    };
    let Storage::Slots { present, .. } = state.maps[map].storage() else { return Err(Errno::EINVAL) };
    match present.get(index as usize).map(|present| present.load(Ordering::Acquire)) {
        None => Err(Errno::E2BIG),
        Some(false) => Err(Errno::ENOENT),
        Some(true) if index != state.surroundings.cpu => Err(Errno::EOPNOTSUPP),
        Some(true) => Ok(index),
    }
}

/// Events kept of one run: a consumer that never comes must not fill the memory.
const MAX_EVENTS: usize = 65_536;

pub fn perf_event_output(state: &mut State, [_, map, flags, from, bytes]: [u64; 5]) -> Answer {
    const PACKET_SHIFT: u32 = 32;
    const PACKET_BYTES: u64 = 0xf_ffff;
    let map = state.map_index(map)?;
    let has_packet = state.packet.kind() != Kind::None;
    let known = if has_packet { PACKET_BYTES << PACKET_SHIFT | 0xffff_ffff } else { 0xffff_ffff };
    if flags & !known != 0 {
        return refuse(Errno::EINVAL);
    }
    let packet_bytes = (flags >> PACKET_SHIFT & PACKET_BYTES) as usize;
    if packet_bytes > state.packet.len() && has_packet {
        return refuse(Errno::EFAULT);
    }
    let mut record = state.bytes(from, bytes)?.into_owned();
    let cpu = match event_slot(state, map, flags) {
        Ok(cpu) => cpu,
        Err(errno) => return refuse(errno),
    };
    if has_packet {
        record.extend_from_slice(&state.packet.bytes(&state.memory)[..packet_bytes]);
    }
    if state.output.events.len() >= MAX_EVENTS {
        return refuse(Errno::ENOSPC);
    }
    state.output.events.push(PerfEvent { map: map as u32, cpu, bytes: record });
    value(0)
}

/// No event of the VM counts anything.
pub fn perf_event_read(state: &mut State, [map, flags, ..]: [u64; 5]) -> Answer {
    let map = state.map_index(map)?;
    match event_slot(state, map, flags) {
        Ok(_) => refuse(Errno::EINVAL),
        Err(errno) => refuse(errno),
    }
}

pub fn perf_event_read_value(state: &mut State, [map, flags, to, bytes, _]: [u64; 5]) -> Answer {
    state.clear(to, bytes)?;
    perf_event_read(state, [map, flags, 0, 0, 0])
}

pub fn perf_prog_read_value(state: &mut State, [_, to, bytes, ..]: [u64; 5]) -> Answer {
    state.clear(to, bytes)?;
    refuse(Errno::EINVAL)
}

/// There is no kernel or user stack to walk.
pub fn get_stackid(_: &mut State, _: [u64; 5]) -> Answer {
    refuse(Errno::EFAULT)
}

pub fn get_stack(state: &mut State, [_, to, bytes, ..]: [u64; 5]) -> Answer {
    state.clear(to, u64::from(bytes as u32))?;
    refuse(Errno::EFAULT)
}
