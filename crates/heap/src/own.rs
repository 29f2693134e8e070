//! A heap of this process alone, for user space that works on the structures of `bpf/include/kiln` without an extension.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Memory;
use crate::supply::{self, NoMemory};

/// Where pointers begin. No such memory is mapped: they are only compared and subtracted.
const ADDRESS: u64 = 1 << 32;
/// CPUs that have slabs of their own.
const CPUS: u64 = 16;
/// Bytes of the allocator's state, in whole pages.
pub const STATE_BYTES: usize = (supply::CPU + CPUS as usize * supply::CPU_BYTES).next_multiple_of(4096);

/// A heap of this process. All of its memory is there from the beginning.
pub struct OwnHeap {
    words: Vec<AtomicU64>,
}

impl OwnHeap {
    /// Makes a heap of `bytes` bytes, at most 4 GiB.
    pub fn new(bytes: usize) -> OwnHeap {
        let words = (bytes as u64).min(1 << 32) / 8;
        OwnHeap { words: std::iter::repeat_with(|| AtomicU64::new(0)).take(words as usize).collect() }
    }

    /// Makes a heap with the state of an allocator at its beginning, for [`crate::supply::supply`]. Variables of the caller's are
    /// behind [`STATE_BYTES`].
    pub fn with_allocator(bytes: usize) -> OwnHeap {
        let heap = OwnHeap::new(bytes);
        for (at, value) in [(0, supply::MAGIC), (supply::CPUS, CPUS)] {
            heap.store(at, value);
        }
        heap
    }

    fn at(&self, offset: usize) -> Option<&AtomicU64> {
        self.words.get(offset / 8).filter(|_| offset % 8 == 0)
    }
}

impl Memory for OwnHeap {
    fn address(&self) -> u64 {
        ADDRESS
    }

    fn bytes(&self) -> usize {
        8 * self.words.len()
    }

    fn load(&self, offset: usize) -> Option<u64> {
        Some(self.at(offset)?.load(Ordering::Acquire))
    }

    fn store(&self, offset: usize, value: u64) -> Option<()> {
        self.at(offset)?.store(value, Ordering::Release);
        Some(())
    }

    fn compare_exchange(&self, offset: usize, expected: u64, new: u64) -> Option<u64> {
        let done = self.at(offset)?.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst);
        Some(done.unwrap_or_else(|old| old))
    }

    fn populate(&self, _offset: usize, _bytes: usize) -> Result<(), NoMemory> {
        Ok(())
    }
}
