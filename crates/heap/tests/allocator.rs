//! The allocator of user space on a heap of its own: memory moves between sizes, threads keep apart, whoever is ended in between loses
//! little, and nothing that a program may have written makes it panic or run on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kiln_heap::Memory;
use kiln_heap::allocator::{Allocator, MOST_BYTES};
use kiln_heap::own::{OwnHeap, STATE_BYTES};
use kiln_heap::supply::{self, NoMemory};

const SLAB_BYTES: u64 = 16 << 10;

fn heap(bytes: usize) -> OwnHeap {
    let heap = OwnHeap::with_allocator(STATE_BYTES + bytes);
    assert_eq!(supply::supply(&heap, STATE_BYTES, bytes), Ok(true));
    heap
}

fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random >> 11
}

/// Everything of one size.
fn fill(allocator: &Allocator<'_>, bytes: usize) -> Vec<usize> {
    std::iter::from_fn(|| allocator.allocate(bytes)).collect()
}

/// Bytes that are neither allocated nor free.
fn lost(heap: &OwnHeap) -> u64 {
    let accounts = supply::accounts(heap).expect("an allocator");
    let used = accounts.supplied_bytes - accounts.fresh_bytes;
    used - accounts.allocated_bytes - supply::free_bytes(heap).expect("a sound table")
}

#[test]
fn an_empty_heap_serves_any_size() {
    let heap = heap(8 << 20);
    let allocator = Allocator::of(&heap, 0).expect("an allocator");
    for bytes in [120, 1000, 120, 6000, 20_000, 1, 300_000, MOST_BYTES, 64, MOST_BYTES] {
        let all = fill(&allocator, bytes);
        // Of each region of 1 MiB, all but what is smaller than a block.
        let least = if bytes > 8184 { 6 << 20 } else { 15 << 19 };
        assert!(all.len() * (bytes + 8).next_multiple_of(16) * 4 / 3 >= least, "{} of {bytes} bytes", all.len());
        assert!(all.iter().all(|at| allocator.free(*at)));
        assert_eq!(lost(&heap), 0);
    }
    assert_eq!((allocator.allocate(MOST_BYTES + 1), allocator.allocate(usize::MAX)), (None, None));
    assert_eq!(supply::accounts(&heap).map(|accounts| accounts.bad_frees), Some(0));
}

#[test]
fn wrong_frees_change_nothing() {
    let heap = heap(1 << 20);
    let allocator = Allocator::of(&heap, 0).expect("an allocator");
    let (small, large) = (allocator.allocate(40).expect("memory"), allocator.allocate(40_000).expect("memory"));
    let wrong = [0, 8, small + 8, small + 16, small + 48, large + 8, large + 16384, heap.bytes(), usize::MAX - 7];
    assert!(wrong.iter().all(|at| !allocator.free(*at)));
    assert!(allocator.free(small) && !allocator.free(small) && allocator.free(large) && !allocator.free(large));
    assert_eq!(supply::accounts(&heap).map(|accounts| accounts.bad_frees), Some(wrong.len() as u64 + 2));
    assert_eq!(lost(&heap), 0);
}

/// Random allocations, each filled with a word that is its own, and frees.
fn work(heap: &(dyn Memory + Sync), cpu: usize, steps: usize) {
    let Some(allocator) = Allocator::of(heap, cpu) else { return };
    let mut random = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(cpu as u64 + 1);
    let mut held = BTreeMap::new();
    for step in 0..steps {
        let slot = next(&mut random) % 200;
        let Some((at, words, own)) = held.remove(&slot) else {
            let words = 1 + next(&mut random) % [30, 30, 130, 1500][step % 4];
            let Some(at) = allocator.allocate(8 * words as usize) else { continue };
            let own = (cpu as u64) << 32 | step as u64;
            for word in [0, words - 1] {
                heap.store(at + 8 * word as usize, own);
            }
            held.insert(slot, (at, words, own));
            continue;
        };
        let is_own = |word: u64| heap.load(at + 8 * word as usize).is_none_or(|found| found == own);
        assert!(is_own(0) && is_own(words - 1), "a block has two owners");
        allocator.free(at);
    }
    assert!(held.values().all(|(at, ..)| allocator.free(*at)));
}

#[test]
fn threads_keep_apart() {
    // Little memory, so that slabs change class all the time and some allocations fail.
    let heap = heap(1 << 20);
    std::thread::scope(|scope| {
        for cpu in 0..4 {
            let heap = &heap;
            scope.spawn(move || work(heap, cpu % 3, 30_000));
        }
    });
    let accounts = supply::accounts(&heap).expect("an allocator");
    assert_eq!((accounts.allocated_bytes, accounts.bad_frees, lost(&heap)), (0, 0, 0), "{accounts:?}");
    assert_eq!(supply::free_bytes(&heap).map(|bytes| bytes % SLAB_BYTES), Some(0));
}

/// A heap whose process is ended after so many accesses.
struct Mortal<'h> {
    heap: &'h OwnHeap,
    left: AtomicUsize,
}

impl Mortal<'_> {
    fn alive(&self) -> Option<()> {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).ok().map(drop)
    }
}

impl Memory for Mortal<'_> {
    fn address(&self) -> u64 {
        self.heap.address()
    }
    fn bytes(&self) -> usize {
        self.heap.bytes()
    }
    fn load(&self, offset: usize) -> Option<u64> {
        self.alive().and_then(|()| self.heap.load(offset))
    }
    fn store(&self, offset: usize, value: u64) -> Option<()> {
        self.alive().and_then(|()| self.heap.store(offset, value))
    }
    fn compare_exchange(&self, offset: usize, expected: u64, new: u64) -> Option<u64> {
        self.alive().and_then(|()| self.heap.compare_exchange(offset, expected, new))
    }
    fn populate(&self, offset: usize, bytes: usize) -> Result<(), NoMemory> {
        self.heap.populate(offset, bytes)
    }
}

#[test]
fn whoever_is_ended_loses_what_it_moved() {
    for left in 0..600 {
        let heap = heap(512 << 10);
        // What it still held is not its loss: it is allocated.
        let mortal = Mortal { heap: &heap, left: AtomicUsize::new(left) };
        if let Some(allocator) = Allocator::of(&mortal, 1) {
            let sizes = [40, 40, 3000, 40_000, 3000, 8000, 8000, 3000, 40, 8000, 100];
            let given: Vec<usize> = sizes.iter().map_while(|bytes| allocator.allocate(*bytes)).collect();
            for at in &given {
                allocator.free(*at);
            }
        }
        let accounts = supply::accounts(&heap).expect("an allocator");
        let used = accounts.supplied_bytes - accounts.fresh_bytes;
        let free = supply::free_bytes(&heap).expect("a sound table");
        let held = accounts.allocated_bytes;
        // Counters may be behind by the block, and the run of three slabs may be nobody's.
        let missing = used.abs_diff(free + held);
        assert!(missing <= 3 * SLAB_BYTES, "ended after {left} accesses: {missing} bytes are missing");
        let allocator = Allocator::of(&heap, 0).expect("an allocator");
        let (first, second) = (fill(&allocator, 1000), allocator.allocate(1));
        let slabs = (heap.bytes() - STATE_BYTES) as u64 / SLAB_BYTES - 1;
        // Each of the sizes may have left a slab that keeps its class.
        assert!(first.len() as u64 >= (slabs - 8) * 15, "ended after {left} accesses: {} blocks", first.len());
        assert!(first.into_iter().chain(second).all(|at| allocator.free(at)), "ended after {left} accesses");
    }
}

#[test]
fn whatever_the_state_says_is_checked() {
    let mut random = 88_172_645_463_325_252;
    for round in 0..300 {
        let heap = heap(256 << 10);
        work(&heap, 0, 100);
        let address = heap.address();
        for _ in 0..1 + round % 40 {
            // A word of the state, of the table or of memory; wild, plausible or nearly right.
            let areas = [520, 1500, 4096, STATE_BYTES + 1200, heap.bytes()];
            let at = (8 + next(&mut random) as usize % areas[round % 5]).min(heap.bytes() - 8) & !7;
            let old = heap.load(at).unwrap_or(0);
            let value = match next(&mut random) % 4 {
                0 => next(&mut random) << 11 ^ next(&mut random),
                1 => address + next(&mut random) % heap.bytes() as u64,
                2 => old ^ 1 << (next(&mut random) % 64),
                _ => u64::MAX,
            };
            heap.store(at, value);
        }
        let _ = supply::free_bytes(&heap);
        let Some(allocator) = Allocator::of(&heap, 2) else { continue };
        for bytes in [8, 100, 3000, 20_000, 200_000] {
            let given: Vec<usize> = (0..50).map_while(|_| allocator.allocate(bytes)).collect();
            assert!(given.iter().all(|at| *at < heap.bytes()), "round {round}");
            for at in &given {
                allocator.free(*at);
            }
        }
        for at in (0..heap.bytes()).step_by(4096 + 8) {
            allocator.free(at);
        }
        let _ = supply::supply(&heap, STATE_BYTES, 1 << 20);
    }
}
