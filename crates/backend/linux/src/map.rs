//! Maps of the kernel, by descriptor.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

pub use crate::data::Walked;
use crate::error::{Error, check, libc_errno};

/// A map in the kernel. The kernel reads and writes keys and values by its own sizes, which cannot change:
///
/// ```compile_fail,E0616
/// fn grow(map: &mut kiln_linux::MapHandle) {
///     map.value_bytes = 8;
/// }
/// ```
#[derive(Debug)]
pub struct MapHandle {
    fd: OwnedFd,
    // The kernel reads and writes buffers of these sizes, so only the kernel's answer may set them.
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    max_entries: u32,
}

/// Per-CPU map types (`BPF_MAP_TYPE_PERCPU_HASH`, `_PERCPU_ARRAY`, `_LRU_PERCPU_HASH`, `_PERCPU_CGROUP_STORAGE`).
const PER_CPU: [u32; 4] = [5, 6, 10, 21];

impl MapHandle {
    pub(crate) fn new(fd: OwnedFd) -> Result<MapHandle, Error> {
        let mut info = libbpf_sys::bpf_map_info::default();
        let mut bytes = size_of_val(&info) as u32;
        // SAFETY: `info` and `bytes` are valid for writes of the sizes they state.
        let result = unsafe { libbpf_sys::bpf_map_get_info_by_fd(fd.as_raw_fd(), &mut info, &mut bytes) };
        check("reading a map's information", result)?;
        let value_bytes = if PER_CPU.contains(&info.type_) {
            // SAFETY: no arguments.
            let cpus = check("counting CPUs", unsafe { libbpf_sys::libbpf_num_possible_cpus() })?;
            info.value_size.next_multiple_of(8) * cpus as u32
        } else {
            info.value_size
        };
        Ok(MapHandle { fd, map_type: info.type_, key_bytes: info.key_size, value_bytes, max_entries: info.max_entries })
    }

    /// `BPF_MAP_TYPE_*`.
    pub fn map_type(&self) -> u32 {
        self.map_type
    }

    /// Bytes in a key.
    pub fn key_bytes(&self) -> u32 {
        self.key_bytes
    }

    /// Bytes in a value as user space sees it: for per-CPU maps, all CPUs' values, each rounded up to eight.
    pub fn value_bytes(&self) -> u32 {
        self.value_bytes
    }

    /// Entries at most.
    pub fn max_entries(&self) -> u32 {
        self.max_entries
    }

    /// The descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn check_size(&self, what: &str, bytes: usize, expected: u32) -> Result<(), Error> {
        if bytes == expected as usize {
            return Ok(());
        }
        Err(Error::InvalidInput(format!("a {what} of {bytes} bytes where the map has {expected}")))
    }

    /// The value of a key; `None` when there is none.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a key of the wrong size, else [`Error::Os`].
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.check_size("key", key.len(), self.key_bytes)?;
        let mut value = vec![0u8; self.value_bytes as usize];
        // SAFETY: key and value have the sizes the kernel reads and writes for this map.
        let result = unsafe {
            libbpf_sys::bpf_map_lookup_elem(self.fd.as_raw_fd(), key.as_ptr().cast(), value.as_mut_ptr().cast())
        };
        if result == -libc_errno::ENOENT {
            return Ok(None);
        }
        check("reading a map element", result)?;
        Ok(Some(value))
    }

    /// Sets the value of a key; `flags` is `BPF_ANY` (0), `BPF_NOEXIST` (1) or `BPF_EXIST` (2). Stacks and queues have
    /// empty keys, and take the value as their next one.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for sizes that do not fit, else [`Error::Os`].
    pub fn update(&self, key: &[u8], value: &[u8], flags: u64) -> Result<(), Error> {
        self.check_size("key", key.len(), self.key_bytes)?;
        self.check_size("value", value.len(), self.value_bytes)?;
        let key = if key.is_empty() { std::ptr::null() } else { key.as_ptr().cast() };
        // SAFETY: key and value have the sizes the kernel reads for this map; without a key there is no address.
        let result = unsafe { libbpf_sys::bpf_map_update_elem(self.fd.as_raw_fd(), key, value.as_ptr().cast(), flags) };
        check("updating a map element", result).map(drop)
    }

    /// Deletes a key; `false` when there was none.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a key of the wrong size, else [`Error::Os`].
    pub fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.check_size("key", key.len(), self.key_bytes)?;
        // SAFETY: the key has the size the kernel reads for this map.
        let result = unsafe { libbpf_sys::bpf_map_delete_elem(self.fd.as_raw_fd(), key.as_ptr().cast()) };
        if result == -libc_errno::ENOENT {
            return Ok(false);
        }
        check("deleting a map element", result).map(|_| true)
    }

    /// Keys and values, at most `limit` of them, sorted by key.
    ///
    /// # Errors
    /// [`Error::Os`], for map types that cannot be walked too.
    pub fn entries(&self, limit: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Error> {
        let mut entries = Vec::new();
        let mut key: Option<Vec<u8>> = None;
        while entries.len() < limit {
            let mut next = vec![0u8; self.key_bytes as usize];
            let previous = key.as_ref().map_or(std::ptr::null(), |key| key.as_ptr().cast());
            // SAFETY: `previous` is null or a key, `next` has room for one.
            let result =
                unsafe { libbpf_sys::bpf_map_get_next_key(self.fd.as_raw_fd(), previous, next.as_mut_ptr().cast()) };
            if result == -libc_errno::ENOENT {
                break;
            }
            check("walking a map", result)?;
            if let Some(value) = self.lookup(&next)? {
                entries.push((next.clone(), value));
            }
            key = Some(next);
        }
        entries.sort();
        Ok(entries)
    }

    /// The entries that say something, `limit` of them at most: of arrays the elements that are not zero, by index, read
    /// many at a time.
    ///
    /// # Errors
    /// As [`MapHandle::entries`].
    pub fn walk(&self, limit: usize) -> Result<Walked, Error> {
        const ARRAYS: [u32; 2] = [2, 6];
        const BATCH_BYTES: u32 = 1 << 20;
        let whole = || {
            let entries = self.entries(limit)?;
            Ok(Walked { count: entries.len(), entries, zeros: 0 })
        };
        if !ARRAYS.contains(&self.map_type) || self.key_bytes != 4 || self.value_bytes == 0 {
            return whole();
        }
        let batch = (BATCH_BYTES / self.value_bytes).clamp(1, self.max_entries.max(1));
        let mut keys = vec![0u8; 4 * batch as usize];
        let mut values = vec![0u8; self.value_bytes as usize * batch as usize];
        let (mut walked, mut position) = (Walked::default(), None::<u32>);
        loop {
            let (mut count, mut next) = (batch, 0u32);
            let previous = position.as_mut().map_or(std::ptr::null_mut(), |at| std::ptr::from_mut(at).cast());
            // SAFETY: `keys` and `values` have room for `count` elements of the kernel's sizes; the positions are null or
            // four bytes, as an array's keys.
            let result = unsafe {
                libbpf_sys::bpf_map_lookup_batch(
                    self.fd.as_raw_fd(),
                    previous,
                    std::ptr::from_mut(&mut next).cast(),
                    keys.as_mut_ptr().cast(),
                    values.as_mut_ptr().cast(),
                    &mut count,
                    std::ptr::null(),
                )
            };
            if result != 0 && result != -libc_errno::ENOENT {
                // A kernel without batches for this type.
                return if position.is_none() { whole() } else { check("walking a map", result).map(|_| walked) };
            }
            let found = keys.chunks(4).zip(values.chunks(self.value_bytes as usize)).take(count as usize);
            for (key, value) in found {
                if value.iter().all(|byte| *byte == 0) {
                    walked.zeros += 1;
                    continue;
                }
                walked.count += 1;
                if walked.entries.len() < limit {
                    walked.entries.push((key.to_vec(), value.to_vec()));
                }
            }
            if result != 0 || count == 0 {
                return Ok(walked);
            }
            position = Some(next);
        }
    }

    /// Puts a loaded program into a prog array.
    ///
    /// # Errors
    /// As [`MapHandle::update`].
    pub fn set_program(&self, key: &[u8], program: &crate::Prog) -> Result<(), Error> {
        self.update(key, &program.fd().as_raw_fd().to_ne_bytes(), 0)
    }

    /// Puts a map into a map of maps.
    ///
    /// # Errors
    /// As [`MapHandle::update`].
    pub fn set_inner_map(&self, key: &[u8], inner: &MapHandle) -> Result<(), Error> {
        self.update(key, &inner.fd().as_raw_fd().to_ne_bytes(), 0)
    }

    /// Forbids further writes from user space (`BPF_MAP_FREEZE`).
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn freeze(&self) -> Result<(), Error> {
        // SAFETY: only the descriptor is passed.
        check("freezing a map", unsafe { libbpf_sys::bpf_map_freeze(self.fd.as_raw_fd()) }).map(drop)
    }
}
