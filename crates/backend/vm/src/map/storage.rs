//! The storage of a map, and the operations of programs on it.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use kiln_platform::MapType;
use kiln_program::FunctionId;

use super::definition::{Definition, LOCK, UpdateFlag, flag};
use super::handle::handle;
use super::hash::Hash;
use super::queue::{Bloom, Queue};
use super::ring::Ring;
use super::trie::Trie;
use super::values::Values;
use crate::arena::Arena;
use crate::errno::Errno;
use crate::memory::{Access, Memory};

/// A map.
#[derive(Debug)]
pub struct Map {
    /// What it is.
    pub definition: Definition,
    pub(super) storage: Storage,
    /// User space may not change it any more (`BPF_MAP_FREEZE`).
    pub(super) frozen: AtomicBool,
}

/// How a map keeps its entries.
#[derive(Debug)]
pub(crate) enum Storage {
    /// Every index has a value.
    Array(Values),
    Hash(Hash),
    Trie(Trie),
    /// Indices may be empty: targets of redirection, perf events, cgroups.
    Slots {
        values: Values,
        present: Box<[AtomicBool]>,
    },
    /// Functions by index, plus one; 0 is none.
    Programs(Box<[AtomicU32]>),
    /// Numbers of maps by index, plus one; 0 is none.
    MapArray(Box<[AtomicU32]>),
    /// Numbers of maps.
    MapHash(Hash),
    Queue(Queue),
    Bloom(Bloom),
    Ring(Ring),
    Arena(Arena),
    /// The VM lacks it: see [`crate::stand_in`].
    Absent,
}

/// What a slot of [`Storage::Programs`] says.
pub(crate) fn target(slot: &AtomicU32) -> Option<FunctionId> {
    slot.load(Ordering::Acquire).checked_sub(1).map(FunctionId)
}

impl Map {
    /// Forbids changes by user space, as `BPF_MAP_FREEZE` does, so that values that the verifier treated as constants
    /// do not change.
    pub fn freeze(&self) {
        self.frozen.store(true, Ordering::Release);
    }

    /// Whether user space may change it.
    ///
    /// # Errors
    /// `EPERM` once it is frozen.
    pub fn check_not_frozen(&self) -> Result<(), Errno> {
        if self.frozen.load(Ordering::Acquire) { Err(Errno::EPERM) } else { Ok(()) }
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    pub(super) fn values(&self) -> Option<&Values> {
        match &self.storage {
            Storage::Array(values) | Storage::Slots { values, .. } => Some(values),
            Storage::Hash(hash) | Storage::MapHash(hash) => Some(&hash.values),
            Storage::Trie(trie) => Some(&trie.values),
            _ => None,
        }
    }

    /// The addresses that programs may get of it, and what they may do there.
    pub(crate) fn window(&self) -> Option<(Range<u64>, Access)> {
        match &self.storage {
            // What helpers keep there is no program's.
            Storage::MapHash(_) => None,
            Storage::Ring(ring) => Some((ring.addresses(), Access::ReadWrite)),
            Storage::Arena(arena) => Some((arena.window()?, Access::ReadWrite)),
            _ => self.values().map(Values::window),
        }
    }

    /// Whether nobody wrote where the map keeps nothing.
    pub(crate) fn gaps_are_clean(&self) -> bool {
        match &self.storage {
            Storage::Hash(hash) | Storage::MapHash(hash) => hash.gaps_are_clean(),
            Storage::Ring(ring) => ring.ends_clean(),
            _ => self.values().is_none_or(Values::gaps_are_clean),
        }
    }

    /// Whether removed elements stay as long as a run may access them.
    pub(crate) fn waits_for_runs(&self) -> bool {
        match self.storage {
            Storage::Hash(_) => self.definition.flags & flag::NO_PREALLOC != 0,
            Storage::Trie(_) => true,
            _ => false,
        }
    }

    /// For maps that programs may index without asking (plain arrays): the first value's address and the bytes from
    /// one value to the next.
    pub fn direct_values(&self) -> Option<(u64, u64)> {
        match &self.storage {
            Storage::Array(values) if !self.definition.map_type.rules().per_cpu => {
                Some((values.address(0, 0), values.element_stride()))
            }
            _ => None,
        }
    }

    /// Bytes in a value.
    #[inline]
    pub fn value_size(&self) -> usize {
        self.definition.value_size as usize
    }

    /// What `bpf_map_lookup_elem` returns: a value's address, an inner map's handle, or 0.
    #[inline]
    pub fn look_up(&self, memory: &Memory, key: u64, cpu: u32) -> Option<u64> {
        match memory.in_frames(key, self.definition.key_size as usize) {
            Some(key) => Some(self.look_up_key(key, cpu)),
            None => self.look_up_elsewhere(memory, key, cpu),
        }
    }

    #[cold]
    fn look_up_elsewhere(&self, memory: &Memory, key: u64, cpu: u32) -> Option<u64> {
        let key = memory.bytes(key, self.definition.key_size as usize)?;
        Some(self.look_up_key(&key, cpu))
    }

    #[inline(always)]
    fn look_up_key(&self, bytes: &[u8], cpu: u32) -> u64 {
        match &self.storage {
            Storage::Array(values) => {
                index(bytes, self.definition.max_entries).map_or(0, |index| values.address(index, cpu))
            }
            Storage::Hash(hash) => hash.look_up(bytes).map_or(0, |slot| hash.values.address(slot, cpu)),
            Storage::Trie(trie) => trie.find_longest(bytes).map_or(0, |slot| trie.values.address(slot, 0)),
            Storage::Slots { values, present } => match index(bytes, present.len() as u32) {
                Some(index) if present[index as usize].load(Ordering::Acquire) => values.address(index, 0),
                _ => 0,
            },
            Storage::MapArray(numbers) => {
                let number = index(bytes, numbers.len() as u32).map(|index| &numbers[index as usize]);
                number.and_then(|number| number.load(Ordering::Acquire).checked_sub(1)).map_or(0, handle)
            }
            Storage::MapHash(hash) => hash.find_word(bytes).map_or(0, handle),
            Storage::Programs(_)
            | Storage::Queue(_)
            | Storage::Bloom(_)
            | Storage::Ring(_)
            | Storage::Arena(_)
            | Storage::Absent => 0,
        }
    }

    /// What `bpf_map_lookup_percpu_elem` returns.
    pub fn look_up_on(&self, memory: &Memory, key: u64, cpu: u32) -> Option<u64> {
        match self.values() {
            Some(values) if cpu < values.cpus() => self.look_up(memory, key, cpu),
            _ => Some(0),
        }
    }

    /// `bpf_map_update_elem`. `Some(Err(..))` is the kernel's refusal; `None` is memory that is not the program's.
    #[inline]
    pub fn update(&self, memory: &Memory, key: u64, value: u64, flags: u64, cpu: u32) -> Option<Result<(), Errno>> {
        let key = memory.bytes(key, self.definition.key_size as usize)?;
        if !memory.is_open(value, self.definition.value_size as usize, false) {
            return None;
        }
        if self.values().is_some_and(|values| !values.is_writable()) {
            return Some(Err(Errno::EPERM));
        }
        let copy = |values: &Values, slot| {
            // The source was found open above, so this copies.
            let _ = values.copy_in(memory, slot, cpu, value);
        };
        Some(self.write_value(&key, flags, copy))
    }

    /// Writes a value, wherever the key's is to be, with the flags of an update.
    #[inline]
    pub(super) fn write_value(&self, key: &[u8], flags: u64, write: impl Fn(&Values, u32)) -> Result<(), Errno> {
        let flag = UpdateFlag::from_bits(flags & !LOCK)?;
        let locked = flags & LOCK != 0;
        let lacks_lock = locked && !self.values().is_some_and(Values::has_lock);
        // Arrays look at the index and the other flags first.
        if lacks_lock && !matches!(self.storage, Storage::Array(_)) {
            return Err(Errno::EINVAL);
        }
        match &self.storage {
            Storage::Array(values) => {
                let index = index(key, self.definition.max_entries).ok_or(Errno::E2BIG)?;
                if flag == UpdateFlag::NoExist {
                    return Err(Errno::EEXIST);
                }
                if lacks_lock {
                    return Err(Errno::EINVAL);
                }
                let _lock = if locked { values.lock(index) } else { None };
                write(values, index);
                Ok(())
            }
            Storage::Hash(hash) => {
                let fill = |slot| write(&hash.values, slot);
                let exists = locked && flag != UpdateFlag::NoExist && hash.update_locked(key, fill);
                if exists { Ok(()) } else { hash.update(key, flag, fill) }
            }
            Storage::Trie(trie) => trie.update(key, flag, |slot| write(&trie.values, slot)),
            Storage::Slots { values, present } => {
                let index = index(key, present.len() as u32).ok_or(Errno::E2BIG)?;
                if flag == UpdateFlag::NoExist {
                    return Err(Errno::EEXIST);
                }
                write(values, index);
                present[index as usize].store(true, Ordering::Release);
                Ok(())
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// `bpf_map_delete_elem`. `None` is memory that is not the program's.
    pub fn delete(&self, memory: &Memory, key: u64) -> Option<Result<(), Errno>> {
        let key = memory.bytes(key, self.definition.key_size as usize)?;
        if self.values().is_some_and(|values| !values.is_writable()) {
            return Some(Err(Errno::EPERM));
        }
        Some(self.delete_key(&key))
    }

    pub(super) fn delete_key(&self, key: &[u8]) -> Result<(), Errno> {
        match &self.storage {
            Storage::Array(_) => Err(Errno::EINVAL),
            Storage::Hash(hash) | Storage::MapHash(hash) => hash.remove(key),
            Storage::Trie(trie) => trie.remove(key),
            Storage::Slots { present, .. } => {
                let was_present = slot(key, present)?.swap(false, Ordering::AcqRel);
                let perf = self.definition.map_type == MapType::PerfEventArray;
                if perf && !was_present { Err(Errno::ENOENT) } else { Ok(()) }
            }
            Storage::Programs(numbers) | Storage::MapArray(numbers) => {
                match slot(key, numbers)?.swap(0, Ordering::AcqRel) {
                    0 => Err(Errno::ENOENT),
                    _ => Ok(()),
                }
            }
            Storage::Queue(_) => Err(Errno::EINVAL),
            Storage::Bloom(_) | Storage::Ring(_) | Storage::Arena(_) | Storage::Absent => Err(Errno::EOPNOTSUPP),
        }
    }

    /// `bpf_map_push_elem`.
    pub fn push(&self, memory: &Memory, value: u64, flags: u64) -> Option<Result<(), Errno>> {
        let value = memory.bytes(value, self.value_size())?;
        Some(UpdateFlag::from_bits(flags).and_then(|flag| self.push_value(&value, flag)))
    }

    pub(super) fn push_value(&self, value: &[u8], flag: UpdateFlag) -> Result<(), Errno> {
        match &self.storage {
            Storage::Queue(queue) => queue.push(value, flag),
            Storage::Bloom(bloom) if flag == UpdateFlag::Any => {
                bloom.push(value);
                Ok(())
            }
            Storage::Bloom(_) => Err(Errno::EINVAL),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// `bpf_map_pop_elem` and `bpf_map_peek_elem`.
    pub fn take(&self, memory: &mut Memory, value: u64, remove: bool) -> Option<Result<(), Errno>> {
        let size = self.value_size();
        if !memory.is_open(value, size, true) {
            return None;
        }
        Some(match &self.storage {
            Storage::Queue(queue) => match if remove { queue.pop() } else { queue.peek() } {
                Some(bytes) => {
                    memory.write(value, &bytes)?;
                    Ok(())
                }
                None => {
                    memory.clear(value, size)?;
                    Err(Errno::ENOENT)
                }
            },
            Storage::Bloom(bloom) if !remove => {
                let asked = memory.bytes(value, size)?;
                if bloom.contains(&asked) { Ok(()) } else { Err(Errno::ENOENT) }
            }
            _ => Err(Errno::EOPNOTSUPP),
        })
    }
}

/// The index that a four-byte key is, where it is below `count`.
#[inline]
pub(super) fn index(key: &[u8], count: u32) -> Option<u32> {
    let index = u32::from_ne_bytes(key.try_into().ok()?);
    (index < count).then_some(index)
}

pub(super) fn slot<'s, T>(key: &[u8], slots: &'s [T]) -> Result<&'s T, Errno> {
    let index = u32::from_ne_bytes(key.try_into().map_err(|_| Errno::EINVAL)?);
    slots.get(index as usize).ok_or(Errno::E2BIG)
}
