//! Where map values live: one block per map, at addresses that never change, since programs hold pointers into it.
//!
//! ```text
//!   per-CPU map, 2 CPUs:   | value 0, cpu 0 | value 0, cpu 1 | value 1, cpu 0 | ...
//!                            \_ stride: the value size rounded up to 8
//! ```
//!
//! A `bpf_spin_lock` in a value is the lock of that value, wherever bytes are copied to: copying leaves it out.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::block::Block;
use crate::memory::{Access, Memory, Places};

/// The values of a map.
#[derive(Debug)]
pub struct Values {
    block: Block,
    bytes: u64,
    size: u32,
    stride: u64,
    cpus: u32,
    access: Access,
    /// Where the lock is, for `BPF_F_LOCK`.
    lock: Option<u32>,
    /// The parts of a value that are copied: all but its locks.
    parts: Vec<Range<usize>>,
}

/// Bytes of a `bpf_spin_lock`.
const LOCK_BYTES: u32 = 4;

/// What values are like.
#[derive(Clone, Copy, Debug)]
pub struct Layout<'l> {
    /// Bytes in a value.
    pub size: u32,
    /// CPUs that have a value each.
    pub cpus: u32,
    /// Whether programs may write.
    pub access: Access,
    /// Offsets of locks in a value, sorted.
    pub locks: &'l [u32],
}

impl Layout<'_> {
    /// Bytes from one value to the next.
    pub fn stride(&self) -> u64 {
        u64::from(self.size).next_multiple_of(8)
    }

    /// Bytes of an element: a value for each CPU.
    pub fn element_bytes(&self) -> u64 {
        self.stride() * u64::from(self.cpus)
    }
}

impl Values {
    /// Space for `count` values.
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn new(places: &mut Places, count: u64, layout: Layout<'_>) -> io::Result<Values> {
        let Layout { size, cpus, access, locks } = layout;
        let stride = layout.stride();
        let bytes = count.saturating_mul(layout.element_bytes());
        let block = Block::new(places, bytes)?;
        let mut parts = Vec::new();
        let mut at = 0;
        for lock in locks {
            parts.push(at..*lock as usize);
            at = (*lock + LOCK_BYTES) as usize;
        }
        parts.push(at..size as usize);
        parts.retain(|part| !part.is_empty());
        Ok(Values { block, bytes, size, stride, cpus, access, lock: locks.first().copied(), parts })
    }

    /// All addresses, and what programs may do there.
    pub fn window(&self) -> (Range<u64>, Access) {
        (self.block.address()..self.block.address() + self.bytes, self.access)
    }

    /// Bytes from one value to the next of the same CPU.
    pub fn element_stride(&self) -> u64 {
        self.stride * u64::from(self.cpus)
    }

    /// CPUs that have a value each.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Whether programs may write values.
    pub fn is_writable(&self) -> bool {
        self.access == Access::ReadWrite
    }

    /// Bytes that user space passes for one element: as the kernel, each CPU's value rounded up to 8 where there are
    /// several.
    pub fn user_bytes(&self, per_cpu: bool) -> usize {
        if per_cpu { (self.stride * u64::from(self.cpus)) as usize } else { self.size as usize }
    }

    #[inline]
    fn offset(&self, index: u32, cpu: u32) -> usize {
        // One value for all CPUs, or each its own.
        let cpu = if self.cpus == 1 { 0 } else { cpu };
        ((u64::from(index) * u64::from(self.cpus) + u64::from(cpu)) * self.stride) as usize
    }

    /// The address of a value.
    #[inline]
    pub fn address(&self, index: u32, cpu: u32) -> u64 {
        self.block.address() + self.offset(index, cpu) as u64
    }

    /// Writes a value that a program passes by address; `None` where that is not the program's memory.
    #[inline]
    pub fn copy_in(&self, memory: &Memory, index: u32, cpu: u32, from: u64) -> Option<()> {
        let at = self.offset(index, cpu);
        self.parts
            .iter()
            .try_for_each(|part| memory.copy_to(from + part.start as u64, &self.block, at + part.start, part.len()))
    }

    /// Writes a value.
    pub fn write(&self, index: u32, cpu: u32, bytes: &[u8]) {
        let at = self.offset(index, cpu);
        for part in &self.parts {
            let end = part.end.min(bytes.len());
            if part.start < end {
                self.block.write(at + part.start, &bytes[part.start..end]);
            }
        }
    }

    /// The first word of a value: an inner map's number.
    #[inline]
    pub fn word(&self, index: u32) -> &AtomicU32 {
        self.block.word32(self.offset(index, 0))
    }

    /// All CPUs' values as user space sees them; locks are zeros.
    pub fn read_user(&self, index: u32, per_cpu: bool) -> Vec<u8> {
        let mut bytes = vec![0; self.user_bytes(per_cpu)];
        for (cpu, value) in bytes.chunks_mut(self.stride as usize).enumerate() {
            let at = self.offset(index, cpu as u32);
            for part in &self.parts {
                self.block.read(at + part.start, &mut value[part.clone()]);
            }
        }
        bytes
    }

    /// Writes all CPUs' values from what user space passes; the length was checked.
    pub fn write_user(&self, index: u32, bytes: &[u8]) {
        for (cpu, value) in bytes.chunks(self.stride as usize).enumerate() {
            self.write(index, cpu as u32, value);
        }
    }

    /// Zeroes an element, on every CPU.
    pub fn clear(&self, index: u32) {
        self.block.clear(self.offset(index, 0), self.element_stride() as usize);
    }

    /// Whether nobody wrote between or behind the values.
    pub fn gaps_are_clean(&self) -> bool {
        let padding = (self.stride - u64::from(self.size)) as usize;
        let mut ends = (0..self.bytes / self.stride.max(1)).map(|at| ((at + 1) * self.stride) as usize);
        self.block.ends_clean() && (padding == 0 || ends.all(|end| self.block.is_zero(end - padding..end)))
    }

    /// Whether values have a lock.
    pub fn has_lock(&self) -> bool {
        self.lock.is_some()
    }

    /// Makes new what [`Values::copy_in`] leaves alone: an element begins unlocked.
    pub fn unlock_new(&self, index: u32) {
        if let Some(lock) = self.lock {
            self.block.word32(self.offset(index, 0) + lock as usize).store(0, Ordering::Relaxed);
        }
    }

    /// Holds a value's lock, as a program does with `bpf_spin_lock`; `None` for values without a lock.
    pub fn lock(&self, index: u32) -> Option<Locked<'_>> {
        let word = self.block.word32(self.offset(index, 0) + self.lock? as usize);
        acquire(word).then_some(Locked { word })
    }
}

/// A value's lock, held until this is dropped.
pub struct Locked<'v> {
    word: &'v AtomicU32,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.word.store(0, Ordering::Release);
    }
}

/// Rounds of spinning before the thread gives its CPU away, and rounds of giving away before a lock counts as lost.
const SPINS: u32 = 100;
const YIELDS: u32 = 1 << 20;

/// Takes a `bpf_spin_lock`; `false` where nobody gives it back: only an object's initial bytes can make such a lock.
pub(crate) fn acquire(word: &AtomicU32) -> bool {
    for round in 0..SPINS + YIELDS {
        if word.load(Ordering::Relaxed) == 0
            && word.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return true;
        }
        if round < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
    false
}
