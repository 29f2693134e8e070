//! The store, from user space: the hash table that the extension (`apps/kv/bpf/store.h`) works on at the same time.
//!
//! ```text
//!   state -> buckets[hash & mask] -> item -> item     a lock per bucket, which programs take too
//!                                    text: "key flags bytes\r\n<value>\r\n"
//! ```
//!
//! An item is filled before it is linked into its bucket and freed after it was unlinked, so that nothing under a lock allocates in
//! the heap. A text that needs as large a block as the old one is written over it under the lock ([`Store::put`]): most writes
//! then neither allocate nor free. Any other new text is linked if the version is still the one that was read.
//!
//! Each function leaves the table whole wherever its process is killed: it links with one store, and an item that is being written
//! over has a hash that nobody looks for. A lock that a dead process left is freed by whoever meets it.

mod change;
mod dump;
mod evict;
mod hash;
mod journal;
pub mod layout;
mod objects;
mod put;
mod read;
mod scan;
mod table;
mod text;
mod values;

pub use change::{Change, Full};
pub(crate) use hash::hash;
pub use layout::mark;
pub use objects::Refused;
pub use read::{Found, Item};

pub use crate::clock::now;

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use kiln_heap::Memory;
use kiln_heap::allocator::Allocator;
use kiln_heap::own::{OwnHeap, STATE_BYTES};
use kiln_heap::supply::{self, NoMemory};
use layout::{bucket, state};
use values::Objects;

use crate::journal::Journal;

/// A heap that threads share.
pub type Heap<'h> = dyn Memory + Sync + 'h;

/// The longest key of memcached's protocol.
pub const KEY_MOST: usize = 250;
/// The longest value: an item is one block of the allocator.
pub const VALUE_MOST: usize = (1 << 20) - 512;

/// How to make a store.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Buckets, a power of two.
    pub buckets: usize,
    /// Bytes of all items, from which on items are evicted.
    pub most_bytes: u64,
    /// Where the extension serves, if there is one.
    pub served: Option<SocketAddrV4>,
}

/// On what condition a value is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// Always.
    Any,
    /// If the key is new.
    Absent,
    /// If the key is known.
    Present,
    /// If the key's version is this.
    Version(u64),
}

/// What became of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is stored.
    Stored,
    /// There is no such key.
    NotFound,
    /// There is one already, or its version is another.
    Exists,
    /// There is no memory for it, even without all others.
    NoMemory,
}

/// What programs have done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Requests for a value.
    pub gets: u64,
    /// Of these, those that found one.
    pub hits: u64,
    /// Values stored.
    pub sets: u64,
    /// Requests left to user space.
    pub passed: u64,
}

/// A store in a heap.
pub struct Store<'h> {
    heap: &'h Heap<'h>,
    /// Where the heap begins and how large it is, as pointers in it say it.
    base: u64,
    heap_bytes: usize,
    state: usize,
    buckets: usize,
    mask: u64,
    seed: u64,
    most_bytes: u64,
    /// The bucket that eviction looks at next.
    hand: AtomicUsize,
    /// The bucket in which expired items are looked for next.
    swept: AtomicUsize,
    /// The piece of memory that eviction empties next.
    emptied: AtomicUsize,
    evicted: AtomicU64,
    /// Values that are not in the heap.
    objects: Objects,
    /// Where changes are recorded, if there is a log.
    journal: OnceLock<Arc<Journal>>,
    /// Whether the log is being read.
    is_loading: AtomicBool,
}

thread_local! {
    static THREAD: u32 = rustix::thread::gettid().as_raw_nonzero().get() as u32;
}

/// A heap of this process for a store of so many bytes of items.
pub fn own_heap(settings: &Settings) -> OwnHeap {
    // Items take up to half as much again: sizes of blocks are an eighth apart, and slabs have a rest.
    let items = settings.most_bytes as usize / 2 * 3 + (4 << 20);
    let heap = OwnHeap::with_allocator(OWN_VARIABLE_BYTES + settings.buckets * bucket::ALL + items);
    heap.store(STATE_BYTES, layout::MAGIC);
    heap
}

/// Bytes of the variables in a heap of [`own_heap`].
pub const OWN_VARIABLE_BYTES: usize = STATE_BYTES + state::ALL.next_multiple_of(4096);

impl<'h> Store<'h> {
    /// Makes an empty store in a heap whose variables take `variable_bytes`, and gives the allocator all other memory. Programs serve
    /// from then on.
    ///
    /// # Errors
    /// Returns an error if the heap is too small, or not that of such an extension.
    pub fn create(heap: &'h Heap<'h>, variable_bytes: usize, settings: &Settings) -> Result<Store<'h>, NoMemory> {
        let damaged = |what: &str| NoMemory::Damaged(format!("the heap has no {what}"));
        let state = supply::variable(heap, layout::MAGIC).ok_or_else(|| damaged("store"))?;
        let allocator = supply::state(heap).ok_or_else(|| damaged("allocator"))?;
        let variables = variable_bytes.next_multiple_of(4096);
        let bytes = (settings.buckets.next_power_of_two() * bucket::ALL).next_multiple_of(4096);
        // Beside the variables, on the side of the rest.
        let at = if allocator < variables { Some(variables) } else { heap.bytes().checked_sub(variables + bytes) };
        let buckets = at.filter(|at| at + bytes <= heap.bytes()).ok_or(NoMemory::Full)?;
        heap.populate(buckets, bytes)?;
        if !supply::supply(heap, variables + bytes, heap.bytes())? {
            return Err(damaged("allocator"));
        }
        let mask = settings.buckets.next_power_of_two() as u64 - 1;
        let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), now());
        let store = Store {
            heap,
            base: heap.address(),
            heap_bytes: heap.bytes(),
            state,
            buckets,
            mask,
            seed,
            most_bytes: settings.most_bytes,
            hand: AtomicUsize::new(0),
            swept: AtomicUsize::new(0),
            emptied: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
            objects: Objects::default(),
            journal: OnceLock::new(),
            is_loading: AtomicBool::new(false),
        };
        store.tick();
        // The buckets' address is last: programs begin when it is there.
        let fields = [
            (state::MASK, mask),
            (state::SEED, seed),
            (state::MOST_BYTES, settings.most_bytes),
            (state::ADDRESS, settings.served.map_or(0, |at| u64::from(u32::from_ne_bytes(at.ip().octets())))),
            (state::PORT, u64::from(settings.served.map_or(0, |at| at.port().to_be()))),
            (state::BUCKETS, heap.address() + buckets as u64),
        ];
        for (at, value) in fields {
            heap.store(state + at, value);
        }
        Ok(store)
    }

    /// Tells programs what time it is; to be called several times a second.
    pub fn tick(&self) {
        self.heap.store(self.state + state::NOW, now());
    }

    fn field(&self, at: usize) -> u64 {
        self.heap.load(self.state + at).unwrap_or(0)
    }

    fn add(&self, at: usize, more: u64) {
        let at = self.state + at;
        let mut seen = self.heap.load(at).unwrap_or(0);
        while let Some(found) = self.heap.compare_exchange(at, seen, seen.wrapping_add(more)) {
            if found == seen {
                return;
            }
            seen = found;
        }
    }

    /// Items.
    pub fn items(&self) -> u64 {
        self.field(state::ITEMS)
    }

    /// Bytes of all items.
    pub fn bytes(&self) -> u64 {
        self.field(state::BYTES)
    }

    /// Bytes that items may have.
    pub fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Items that were evicted.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// What programs have done.
    pub fn counters(&self) -> Counters {
        let sum = |field: usize| {
            let of = |cpu: usize| self.field(state::CPU + cpu * state::CPU_BYTES + 8 * field);
            (0..state::CPUS).fold(0u64, |sum, cpu| sum.wrapping_add(of(cpu)))
        };
        Counters { gets: sum(0), hits: sum(1), sets: sum(2), passed: sum(3) }
    }

    fn allocator(&self) -> Option<Allocator<'h>> {
        Allocator::of(self.heap, THREAD.with(|thread| *thread) as usize)
    }
}
