//! Maps as user space sees them: bytes in, bytes out, with `bpf(2)`'s errors.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use kiln_program::FunctionId;

use super::definition::UpdateFlag;
use super::storage::{Map, Storage, index, slot};
use crate::errno::Errno;

/// Entries of a map: keys and values (for per-CPU maps, all CPUs' values one after the other), sorted by key.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Entries for a reader: those that say something.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Walked {
    /// Entries, as many as were wanted at most; of arrays those that are not zero.
    pub entries: Entries,
    /// How many there are.
    pub count: usize,
    /// Elements of an array that are zero.
    pub zeros: usize,
}

impl Map {
    /// The entries that say something, `limit` of them at most. Of arrays these are the elements that are not zero, by
    /// index; the others are only counted, because a large array is mostly zeros.
    pub fn walk(&self, limit: usize) -> Walked {
        let values = match &self.storage {
            Storage::Array(values) if self.definition.key_size == 4 => values,
            _ => {
                let mut entries = self.entries();
                let count = entries.len();
                entries.truncate(limit);
                return Walked { entries, count, zeros: 0 };
            }
        };
        let mut walked = Walked::default();
        for at in 0..self.definition.max_entries {
            let value = values.read_user(at, self.per_cpu());
            if value.iter().all(|byte| *byte == 0) {
                walked.zeros += 1;
                continue;
            }
            walked.count += 1;
            if walked.entries.len() < limit {
                walked.entries.push((at.to_ne_bytes().to_vec(), value));
            }
        }
        walked
    }

    fn per_cpu(&self) -> bool {
        self.definition.map_type.rules().per_cpu
    }

    fn check_key(&self, key: &[u8]) -> Result<(), Errno> {
        if key.len() == self.definition.key_size as usize { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// The value of a key; of a queue or stack (with an empty key), the next.
    ///
    /// # Errors
    /// `EINVAL` for a key of the wrong size, `EOPNOTSUPP` where the type has no lookup.
    pub fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        self.check_key(key)?;
        let per_cpu = self.per_cpu();
        let number = |slots: &[AtomicU32]| index(key, slots.len() as u32).map(|at| slots[at as usize].load(Acquire));
        let numbered = |found: Option<u32>| found?.checked_sub(1).map(|number| number.to_ne_bytes().to_vec());
        Ok(match &self.storage {
            Storage::Array(values) => {
                index(key, self.definition.max_entries.max(1)).map(|at| values.read_user(at, per_cpu))
            }
            Storage::Hash(hash) | Storage::MapHash(hash) => hash.read_user(key, per_cpu),
            Storage::Trie(trie) => trie.read_user(key),
            Storage::Slots { values, present } => index(key, present.len() as u32)
                .filter(|at| present[*at as usize].load(Acquire))
                .map(|at| values.read_user(at, per_cpu)),
            Storage::Programs(slots) | Storage::MapArray(slots) => numbered(number(slots)),
            Storage::Queue(queue) => queue.peek().map(<[u8]>::into_vec),
            Storage::Bloom(_) | Storage::Ring(_) | Storage::Arena(_) | Storage::Absent => {
                return Err(Errno::EOPNOTSUPP);
            }
        })
    }

    /// Sets the value of a key; pushes to a queue, stack or Bloom filter (with an empty key).
    ///
    /// # Errors
    /// As `bpf(2)`: `EINVAL` for wrong sizes, `E2BIG`, `EEXIST`, `ENOENT`, `ENOSPC`, `EOPNOTSUPP`.
    pub fn write(&self, key: &[u8], value: &[u8], flag: UpdateFlag) -> Result<(), Errno> {
        self.check_key(key)?;
        if matches!(self.storage, Storage::Queue(_) | Storage::Bloom(_)) {
            return if value.len() == self.value_size() { self.push_value(value, flag) } else { Err(Errno::EINVAL) };
        }
        let values = match self.storage {
            Storage::MapHash(_) => None,
            _ => self.values(),
        };
        let expected = values.map(|values| values.user_bytes(self.per_cpu())).ok_or(Errno::EOPNOTSUPP)?;
        if value.len() != expected {
            return Err(Errno::EINVAL);
        }
        self.write_value(key, flag as u64, |values, slot| values.write_user(slot, value))
    }

    /// Removes a key.
    ///
    /// # Errors
    /// As `bpf(2)`: `ENOENT`, `EINVAL`, `EOPNOTSUPP`.
    pub fn remove(&self, key: &[u8]) -> Result<(), Errno> {
        self.check_key(key)?;
        self.delete_key(key)
    }

    /// Sets an entry of a prog array.
    ///
    /// # Errors
    /// `EINVAL` where this is none, `E2BIG` outside.
    pub fn set_program(&self, at: u32, target: FunctionId) -> Result<(), Errno> {
        let Storage::Programs(targets) = &self.storage else { return Err(Errno::EINVAL) };
        slot(&at.to_ne_bytes(), targets)?.store(target.0 + 1, Release);
        Ok(())
    }

    /// Sets an entry of a map of maps to the map with this number.
    ///
    /// # Errors
    /// `EINVAL` where this is none, and the errors of an update.
    pub fn set_map(&self, key: &[u8], number: u32, flag: UpdateFlag) -> Result<(), Errno> {
        self.check_key(key)?;
        match &self.storage {
            Storage::MapArray(numbers) => slot(key, numbers)?.store(number + 1, Release),
            Storage::MapHash(hash) => hash.update(key, flag, |slot| hash.values.word(slot).store(number, Relaxed))?,
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    /// All entries, sorted by key. Queues and stacks number theirs from the oldest; ring buffers number the records
    /// that nobody has consumed; Bloom filters have none to show.
    pub fn entries(&self) -> Entries {
        let numbered = |values: Vec<Vec<u8>>| {
            values.into_iter().enumerate().map(|(at, value)| ((at as u32).to_ne_bytes().to_vec(), value)).collect()
        };
        let keyed = |keys: Vec<Vec<u8>>| {
            let value = |key: &Vec<u8>| self.read(key).ok().flatten();
            keys.into_iter().filter_map(|key| value(&key).map(|value| (key, value))).collect()
        };
        let indices = |count: usize| (0..count as u32).map(|at| at.to_ne_bytes().to_vec()).collect();
        let mut entries: Entries = match &self.storage {
            Storage::Array(values) if self.definition.key_size != 4 => {
                vec![(Vec::new(), values.read_user(0, self.per_cpu()))]
            }
            Storage::Array(_) => keyed(indices(self.definition.max_entries as usize)),
            Storage::Slots { present, .. } => keyed(indices(present.len())),
            Storage::Programs(slots) | Storage::MapArray(slots) => keyed(indices(slots.len())),
            Storage::Hash(hash) | Storage::MapHash(hash) => keyed(hash.keys()),
            Storage::Trie(trie) => trie.entries(),
            Storage::Queue(queue) => numbered(queue.values()),
            Storage::Ring(ring) => numbered(ring.peek()),
            Storage::Bloom(_) | Storage::Arena(_) | Storage::Absent => Vec::new(),
        };
        entries.sort();
        entries
    }

    /// Entries now; for arrays, all of them.
    pub fn len(&self) -> usize {
        match &self.storage {
            Storage::Hash(hash) | Storage::MapHash(hash) => hash.len(),
            Storage::Trie(trie) => trie.len(),
            Storage::Queue(queue) => queue.len(),
            _ => self.definition.max_entries as usize,
        }
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
