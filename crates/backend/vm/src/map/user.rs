//! Maps as user space sees them: bytes in, bytes out, with `bpf(2)`'s errors.

use kiln_program::FunctionId;

use super::{Map, Storage, UpdateFlag, index, slot};
use crate::errno::Errno;
use crate::memory::Memory;

/// Entries of a map: keys and values (for per-CPU maps, all CPUs' values one after the other), sorted by key.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

impl Map {
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
    pub fn read(&self, memory: &Memory, key: &[u8]) -> Result<Option<Vec<u8>>, Errno> {
        self.check_key(key)?;
        let value = |values: &super::Values, slot| values.read_user(memory, slot, self.per_cpu());
        Ok(match &self.storage {
            Storage::Array(values) => index(key, self.definition.max_entries.max(1)).map(|at| value(values, at)),
            Storage::Hash(hash) => hash.find(key).map(|at| value(&hash.values, at)),
            Storage::MapHash(hash) => hash.find(key).map(|at| value(&hash.values, at)),
            Storage::Trie(trie) => trie.find_longest(key).map(|at| value(&trie.values, at)),
            Storage::Slots { values, present } => {
                index(key, present.len() as u32).filter(|at| present[*at as usize]).map(|at| value(values, at))
            }
            Storage::Programs(targets) => index(key, targets.len() as u32)
                .and_then(|at| targets[at as usize])
                .map(|target| target.0.to_ne_bytes().to_vec()),
            Storage::MapArray(handles) => index(key, handles.len() as u32)
                .map(|at| handles[at as usize])
                .filter(|handle| *handle != 0)
                .map(|handle| (handle as u32).to_ne_bytes().to_vec()),
            Storage::Queue(queue) => queue.peek().map(<[u8]>::to_vec),
            Storage::Bloom(_) | Storage::Ring(_) | Storage::Absent => return Err(Errno::EOPNOTSUPP),
        })
    }

    /// Sets the value of a key; pushes to a queue, stack or Bloom filter (with an empty key).
    ///
    /// # Errors
    /// As `bpf(2)`: `EINVAL` for wrong sizes, `E2BIG`, `EEXIST`, `ENOENT`, `ENOSPC`, `EOPNOTSUPP`.
    pub fn write(&mut self, memory: &mut Memory, key: &[u8], value: &[u8], flag: UpdateFlag) -> Result<(), Errno> {
        self.check_key(key)?;
        if matches!(self.storage, Storage::Queue(_) | Storage::Bloom(_)) {
            return if value.len() == self.value_size() { self.push_value(value, flag) } else { Err(Errno::EINVAL) };
        }
        let per_cpu = self.per_cpu();
        let expected = self.values().map(|values| values.user_bytes(per_cpu)).ok_or(Errno::EOPNOTSUPP)?;
        if value.len() != expected {
            return Err(Errno::EINVAL);
        }
        let (slot, values) = self.place(memory, key, flag)?;
        values.write_user(memory, slot, value);
        Ok(())
    }

    /// Removes a key.
    ///
    /// # Errors
    /// As `bpf(2)`: `ENOENT`, `EINVAL`, `EOPNOTSUPP`.
    pub fn remove(&mut self, key: &[u8]) -> Result<(), Errno> {
        self.check_key(key)?;
        self.delete_key(key)
    }

    /// Sets an entry of a prog array.
    ///
    /// # Errors
    /// `EINVAL` where this is none, `E2BIG` outside.
    pub fn set_program(&mut self, at: u32, target: Option<FunctionId>) -> Result<(), Errno> {
        let Storage::Programs(targets) = &mut self.storage else { return Err(Errno::EINVAL) };
        *slot(&at.to_ne_bytes(), targets)? = target;
        Ok(())
    }

    /// Sets an entry of a map of maps to the map with this handle.
    ///
    /// # Errors
    /// `EINVAL` where this is none, and the errors of an update.
    pub fn set_map(&mut self, memory: &mut Memory, key: &[u8], handle: u64, flag: UpdateFlag) -> Result<(), Errno> {
        self.check_key(key)?;
        match &mut self.storage {
            Storage::MapArray(handles) => *slot(key, handles)? = handle,
            Storage::MapHash(hash) => {
                let at = hash.prepare(memory, key, flag)?;
                hash.values.get_mut(memory, at, 0).copy_from_slice(&(handle as u32).to_ne_bytes());
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    /// All entries, sorted by key. Queues and stacks number theirs from the oldest; ring buffers number the records
    /// that nobody has consumed; Bloom filters have none to show.
    pub fn entries(&self, memory: &Memory) -> Entries {
        let numbered = |values: Vec<Vec<u8>>| {
            values.into_iter().enumerate().map(|(at, value)| ((at as u32).to_ne_bytes().to_vec(), value)).collect()
        };
        let keyed = |keys: Vec<Vec<u8>>| {
            let value = |key: &Vec<u8>| self.read(memory, key).ok().flatten();
            keys.into_iter().filter_map(|key| value(&key).map(|value| (key, value))).collect()
        };
        let indices = |count: usize| (0..count as u32).map(|at| at.to_ne_bytes().to_vec()).collect();
        let mut entries: Entries = match &self.storage {
            Storage::Array(values) if self.definition.key_size != 4 => {
                vec![(Vec::new(), values.read_user(memory, 0, self.per_cpu()))]
            }
            Storage::Array(_) => keyed(indices(self.definition.max_entries as usize)),
            Storage::Slots { present, .. } => keyed(indices(present.len())),
            Storage::Programs(targets) => keyed(indices(targets.len())),
            Storage::MapArray(handles) => keyed(indices(handles.len())),
            Storage::Hash(hash) | Storage::MapHash(hash) => {
                keyed(hash.entries().map(|(key, _)| key.to_vec()).collect())
            }
            Storage::Trie(trie) => {
                let value = |slot| trie.values.read_user(memory, slot, false);
                trie.entries().into_iter().map(|(key, slot)| (key, value(slot))).collect()
            }
            Storage::Queue(queue) => numbered(queue.values().map(<[u8]>::to_vec).collect()),
            Storage::Ring(ring) => numbered(ring.peek(memory)),
            Storage::Bloom(_) | Storage::Absent => Vec::new(),
        };
        entries.sort();
        entries
    }

    /// Entries now; for arrays, all of them.
    pub fn len(&self) -> usize {
        match &self.storage {
            Storage::Hash(hash) | Storage::MapHash(hash) => hash.len(),
            Storage::Trie(trie) => trie.len(),
            Storage::Queue(queue) => queue.values().count(),
            _ => self.definition.max_entries as usize,
        }
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
