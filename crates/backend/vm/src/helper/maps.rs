//! Map helpers.

use kiln_program::interpret::Fault;

use super::answer::{Answer, done, refuse, value};
use crate::errno::Errno;
use crate::map::{Map, Storage, acquire, target};
use crate::state::{Callback, Reply, Stack, State};

/// Tail calls in one run (kernel `MAX_TAIL_CALL_CNT`).
const MAX_TAIL_CALLS: u32 = kiln_platform::limits::MAX_TAIL_CALLS;

fn outside(address: u64) -> Fault {
    Fault::Memory { address, bytes: 0 }
}

#[inline]
pub fn look_up(state: &mut State, [map, key, ..]: [u64; 5]) -> Answer {
    let cpu = state.surroundings.cpu;
    let (map, memory) = state.map_and_memory(map)?;
    value(map.look_up(memory, key, cpu).ok_or_else(|| outside(key))?)
}

pub fn look_up_per_cpu(state: &mut State, [map, key, cpu, ..]: [u64; 5]) -> Answer {
    let (map, memory) = state.map_and_memory(map)?;
    value(map.look_up_on(memory, key, cpu as u32).ok_or_else(|| outside(key))?)
}

#[inline]
pub fn update(state: &mut State, [map, key, from, flags, _]: [u64; 5]) -> Answer {
    let cpu = state.surroundings.cpu;
    let (map, memory) = state.map_and_memory(map)?;
    done(map.update(memory, key, from, flags, cpu).ok_or_else(|| outside(key))?)
}

#[inline]
pub fn delete(state: &mut State, [map, key, ..]: [u64; 5]) -> Answer {
    let (map, memory) = state.map_and_memory(map)?;
    done(map.delete(memory, key).ok_or_else(|| outside(key))?)
}

pub fn push(state: &mut State, [map, from, flags, ..]: [u64; 5]) -> Answer {
    let (map, memory) = state.map_and_memory(map)?;
    done(map.push(memory, from, flags).ok_or_else(|| outside(from))?)
}

pub fn pop(state: &mut State, [map, to, ..]: [u64; 5]) -> Answer {
    let (map, memory) = state.map_and_memory(map)?;
    done(map.take(memory, to, true).ok_or_else(|| outside(to))?)
}

pub fn peek(state: &mut State, [map, to, ..]: [u64; 5]) -> Answer {
    let (map, memory) = state.map_and_memory(map)?;
    done(map.take(memory, to, false).ok_or_else(|| outside(to))?)
}

/// The VM is one cgroup, so there is one storage.
pub fn get_local_storage(state: &mut State, [map, ..]: [u64; 5]) -> Answer {
    let cpu = state.surroundings.cpu;
    let (map, _) = state.map_and_memory(map)?;
    match map.storage() {
        Storage::Array(values) => value(values.address(0, cpu)),
        _ => Err(Fault::Unsupported("local storage of this map".to_owned())),
    }
}

pub fn tail_call(state: &mut State, [_, map, index, ..]: [u64; 5]) -> Answer {
    let (map, _) = state.map_and_memory(map)?;
    let Storage::Programs(targets) = map.storage() else { return refuse(Errno::EINVAL) };
    let target = targets.get(index as u32 as usize).and_then(target);
    if state.tail_calls >= MAX_TAIL_CALLS {
        return refuse(Errno::ENOENT);
    }
    let loaded = |target: &kiln_program::FunctionId| {
        // Verified for another context, it would take this one for that.
        let suits = |entry: &crate::state::Entry| entry.loaded && entry.program_type == state.running;
        state.entries.get(target.index()).is_some_and(suits)
    };
    match target.filter(loaded) {
        Some(target) => {
            state.tail_calls += 1;
            Ok(Reply::TailCall(target))
        }
        None => refuse(Errno::ENOENT),
    }
}

/// One element of a walk: its key's bytes, its value's address, and where the walk goes on.
fn element(map: &Map, from: u32, cpu: u32) -> Option<(Vec<u8>, u64, u32)> {
    match map.storage() {
        Storage::Array(values) if from < map.definition.max_entries => {
            Some((from.to_ne_bytes().to_vec(), values.address(from, cpu), from + 1))
        }
        Storage::Hash(hash) => {
            let (key, slot) = hash.next_slot(from)?;
            Some((key, hash.values.address(slot, cpu), slot + 1))
        }
        _ => None,
    }
}

/// Takes the lock of a map's value, which one CPU at a time may hold.
pub fn spin_lock(state: &mut State, [lock, ..]: [u64; 5]) -> Answer {
    let word = state.memory.shared_word(lock).ok_or_else(|| outside(lock))?;
    // A program holds one lock. Only one that the verifier rejects takes another, and would wait for itself.
    if state.held.lock != 0 || !acquire(word) {
        return Err(Fault::Unsupported("a lock that nobody gives back".to_owned()));
    }
    state.held.lock = lock;
    value(0)
}

/// Gives a lock back.
pub fn spin_unlock(state: &mut State, [lock, ..]: [u64; 5]) -> Answer {
    if state.held.lock != lock {
        return Err(outside(lock));
    }
    state.release_lock();
    value(0)
}

/// Calls back with (map, key, value, context) for each element until the callback says 1; returns how many it saw.
pub fn for_each(state: &mut State, [map, function, context, flags, _]: [u64; 5]) -> Answer {
    let index = state.map_index(map)?;
    if flags != 0 {
        return refuse(Errno::EINVAL);
    }
    if !matches!(state.maps[index].storage(), Storage::Array(_) | Storage::Hash(_)) {
        return refuse(Errno::EINVAL);
    }
    let mut walk = match state.callbacks.pop_if(|callback| callback.result.is_some()) {
        Some(callback) => callback,
        None => Callback { rounds: 0, position: 0, result: None },
    };
    if walk.result.take().is_some_and(|result| result != 0) {
        return value(walk.rounds);
    }
    let cpu = state.surroundings.cpu;
    let Some((key, address, next)) = element(&state.maps[index], walk.position, cpu) else {
        return value(walk.rounds);
    };
    walk.position = next;
    walk.rounds += 1;
    // Nested walks each have a place for their key.
    let stack = state.stack().map_err(|_| Fault::Unsupported("a callback without memory for its key".to_owned()))?;
    let place = stack.keys + (Stack::KEY_BYTES * state.callbacks.len()) as u64;
    state.write(place, &key)?;
    state.callbacks.push(walk);
    Ok(Reply::Call { function, arguments: [map, place, address, context, 0] })
}
