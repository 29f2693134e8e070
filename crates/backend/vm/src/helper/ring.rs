//! Ring buffer helpers.

use super::answer::{Answer, done, refuse, value};
use crate::errno::Errno;
use crate::map::{Ring, Storage};
use crate::memory::Memory;
use crate::state::State;
use kiln_program::interpret::Fault;

fn ring(state: &mut State, handle: u64) -> Result<(&Ring, &Memory), Fault> {
    let (map, memory) = state.map_and_memory(handle)?;
    match map.storage() {
        Storage::Ring(ring) => Ok((ring, memory)),
        _ => Err(Fault::Memory { address: handle, bytes: 0 }),
    }
}

/// Wakeup flags are accepted and mean nothing: nobody sleeps on the ring.
const WAKEUP_FLAGS: u64 = 3;

pub fn output(state: &mut State, [map, from, bytes, flags, _]: [u64; 5]) -> Answer {
    if flags & !WAKEUP_FLAGS != 0 {
        return refuse(Errno::EINVAL);
    }
    let (ring, memory) = ring(state, map)?;
    match ring.output(memory, from, bytes) {
        Err(Errno::EFAULT) => Err(Fault::Memory { address: from, bytes }),
        // The kernel answers so whatever the reason.
        Err(_) => refuse(Errno::EAGAIN),
        Ok(()) => value(0),
    }
}

pub fn reserve(state: &mut State, [map, bytes, flags, ..]: [u64; 5]) -> Answer {
    value(if flags == 0 { take(state, map, bytes)? } else { 0 })
}

/// Reserves a record for this run; its address, or 0.
pub(super) fn take(state: &mut State, map: u64, bytes: u64) -> Result<u64, Fault> {
    let (ring, _) = ring(state, map)?;
    let record = ring.reserve(bytes).unwrap_or(0);
    if record != 0 {
        state.held.records.push(record);
    }
    Ok(record)
}

pub fn submit(state: &mut State, [record, ..]: [u64; 5]) -> Answer {
    commit(state, record, false)
}

pub fn discard(state: &mut State, [record, ..]: [u64; 5]) -> Answer {
    commit(state, record, true)
}

/// Hands over or drops a record of this run.
pub(super) fn commit(state: &mut State, record: u64, discard: bool) -> Answer {
    // Only this run's records: with any other address, a program would hand over what another CPU is filling.
    let own = state.held.records.iter().rposition(|reserved| *reserved == record);
    let own = own.ok_or(Fault::Memory { address: record, bytes: 0 })?;
    state.held.records.swap_remove(own);
    let mut rings = state.maps.iter().filter_map(|map| match map.storage() {
        Storage::Ring(ring) => Some(ring),
        _ => None,
    });
    match rings.find(|ring| ring.contains(record)) {
        Some(ring) => done(ring.commit(record, discard)),
        None => Err(Fault::Memory { address: record, bytes: 0 }),
    }
}

pub fn query(state: &mut State, [map, flag, ..]: [u64; 5]) -> Answer {
    let (ring, _) = ring(state, map)?;
    value(ring.query(flag))
}
