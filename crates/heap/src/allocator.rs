//! `kiln_malloc` and `kiln_free` (`bpf/include/kiln/malloc.h`) for user space: the same lists, used by programs at the same time.
//!
//! ```text
//!   free list of this CPU's number -> memory never used before -> free lists of the other CPUs -> None
//! ```

use crate::Memory;
use crate::supply::{
    self, ALLOCATED, BAD_FREES, CLASSES, CPU, CPU_BYTES, CPUS, FAILURES, FREED, FRESH, LIMIT, LOW, START,
};

/// The block's `state` while it is allocated and while it is free, plus its class.
const IS_ALLOCATED: u32 = 0x6b69_6c00;
const IS_FREE: u32 = 0x6672_6500;
/// A block's header.
const HEADER_BYTES: usize = 8;
/// The most bytes of an allocation.
pub const MOST_BYTES: usize = (1 << 20) - 1;

/// The allocator of a heap.
#[derive(Clone, Copy)]
pub struct Allocator<'h> {
    heap: &'h (dyn Memory + Sync + 'h),
    state: usize,
    /// The number of the CPU whose lists are tried first. Any will do.
    cpu: usize,
}

/// The smallest class of blocks with `bytes` bytes, header included.
fn class_of(bytes: usize) -> Option<usize> {
    (0..CLASSES).find(|class| supply::class_bytes(*class) >= bytes as u64)
}

impl<'h> Allocator<'h> {
    /// The allocator of a heap; `None` if it has none, or no memory yet.
    pub fn of(heap: &'h (dyn Memory + Sync + 'h), cpu: usize) -> Option<Allocator<'h>> {
        let state = supply::state(heap)?;
        let cpus = usize::try_from(heap.load(state + CPUS)?).ok().filter(|cpus| (1..=128).contains(cpus))?;
        (heap.load(state + START)? != 0).then_some(Allocator { heap, state, cpu: cpu % cpus })
    }

    fn add(&self, at: usize, more: u64) -> Option<()> {
        let mut seen = self.heap.load(at)?;
        loop {
            let found = self.heap.compare_exchange(at, seen, seen.wrapping_add(more))?;
            if found == seen {
                return Some(());
            }
            seen = found;
        }
    }

    fn list(&self, cpu: usize, class: usize) -> usize {
        self.state + CPU + cpu * CPU_BYTES + 8 * class
    }

    /// A free list's first block, taken out.
    fn pop(&self, list: usize) -> Option<usize> {
        let base = self.heap.load(self.state + START)? & !LOW;
        let mut head = self.heap.load(list)?;
        while head & LOW != 0 {
            let block = self.heap.offset(base | head & LOW)?;
            let next = self.heap.load(block)? >> 32;
            let seen = self.heap.compare_exchange(list, head, ((head >> 32) + 1) << 32 | next)?;
            if seen == head {
                return Some(block);
            }
            head = seen;
        }
        None
    }

    /// Memory that was never used.
    fn fresh(&self, bytes: u64) -> Option<usize> {
        let place = self.state + FRESH;
        let mut at = self.heap.load(place)?;
        while at != 0 && at.checked_add(bytes)? <= self.heap.load(self.state + LIMIT)? {
            let seen = self.heap.compare_exchange(place, at, at + bytes)?;
            if seen == at {
                return self.heap.offset(at);
            }
            at = seen;
        }
        None
    }

    /// Allocates memory, aligned to 8 bytes and not cleared: its offset. `None` if there is none, or above [`MOST_BYTES`].
    pub fn allocate(&self, bytes: usize) -> Option<usize> {
        let class = class_of(bytes.checked_add(HEADER_BYTES)?).filter(|_| bytes <= MOST_BYTES)?;
        let cpus = self.heap.load(self.state + CPUS)?.min(128) as usize;
        let own = self.list(self.cpu, class);
        let others = || (0..cpus).find_map(|cpu| self.pop(self.list(cpu, class)));
        let counters = self.state + CPU + self.cpu * CPU_BYTES;
        let block = self.pop(own).or_else(|| self.fresh(supply::class_bytes(class))).or_else(others);
        let Some(block) = block else {
            self.add(counters + FAILURES, 1)?;
            return None;
        };
        self.heap.store(block, u64::from(IS_ALLOCATED | class as u32))?;
        self.add(counters + ALLOCATED, supply::class_bytes(class))?;
        Some(block + HEADER_BYTES)
    }

    /// Frees what [`Allocator::allocate`] or a program's `kiln_malloc` gave; whether it was allocated.
    pub fn free(&self, memory: usize) -> bool {
        self.try_free(memory).unwrap_or_else(|| {
            let _ = self.add(self.state + BAD_FREES, 1);
            false
        })
    }

    fn try_free(&self, memory: usize) -> Option<bool> {
        let block = memory.checked_sub(HEADER_BYTES).filter(|at| at % 8 == 0)?;
        let address = self.heap.address() + block as u64;
        let known = self.heap.load(self.state + START)?..self.heap.load(self.state + FRESH)?;
        let word = self.heap.load(block).filter(|_| known.contains(&address))?;
        let class = ((word as u32) ^ IS_ALLOCATED) as usize;
        if class >= CLASSES {
            return None;
        }
        if self.heap.compare_exchange(block, word, u64::from(IS_FREE | class as u32))? != word {
            return None;
        }
        self.add(self.state + CPU + self.cpu * CPU_BYTES + FREED, supply::class_bytes(class))?;
        let list = self.list(self.cpu, class);
        let mut head = self.heap.load(list)?;
        loop {
            self.heap.store(block, (head & LOW) << 32 | u64::from(IS_FREE | class as u32))?;
            let seen = self.heap.compare_exchange(list, head, ((head >> 32) + 1) << 32 | address & LOW)?;
            if seen == head {
                return Some(true);
            }
            head = seen;
        }
    }
}
