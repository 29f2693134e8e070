//! The store, from user space: the hash table that the extension (`apps/kv/bpf/store.h`) works on at the same time.
//!
//! ```text
//!   state -> buckets[hash & mask] -> item -> item     a lock per bucket, which programs take too
//!                                    text: "key flags bytes\r\n<value>\r\n"
//! ```
//!
//! An item is filled before it is linked into its bucket and freed after it was unlinked, so that nothing under a lock allocates.
//! [`Store::put`] takes a [`Condition`], checked under the lock; whatever depends on an old value reads it, makes the new one and
//! puts it on the condition that the version is the one it has read. Each function leaves the table whole wherever its process is
//! killed: it links with one store. A lock that a dead process left is freed by whoever meets it.

mod change;
mod evict;
mod hash;
pub mod layout;
mod scan;

pub use change::{Change, Full};

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kiln_heap::allocator::Allocator;
use kiln_heap::lock::{self, Holder};
use kiln_heap::own::{OwnHeap, STATE_BYTES};
use kiln_heap::supply::{self, NoMemory};
use kiln_heap::{Memory, lock::release};
use layout::{bucket, item, state};

/// A heap that threads share.
pub type Heap<'h> = dyn Memory + Sync + 'h;

/// How long a lock is waited for before its holder is looked at.
const PATIENCE: Duration = Duration::from_millis(2);
/// How often, before a lock that a program seems to hold is freed: no program holds one for so long.
const LOOKS: usize = 100;
/// The longest key of memcached's protocol.
pub const KEY_MOST: usize = 250;
/// The longest value: an item is one block of the allocator.
pub const VALUE_MOST: usize = (1 << 20) - 1024;

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

/// A key's item, copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// `key flags bytes\r\n<value>\r\n`.
    pub text: Vec<u8>,
    /// The key's bytes.
    pub key_bytes: usize,
    /// The value's bytes.
    pub value_bytes: usize,
    /// The version.
    pub version: u64,
    /// When it ends, in milliseconds since 1970; 0: never.
    pub expires: u64,
}

impl Found {
    /// The value.
    pub fn value(&self) -> &[u8] {
        let end = self.text.len().saturating_sub(2);
        self.text.get(end.saturating_sub(self.value_bytes)..end).unwrap_or_default()
    }

    /// What the client said that the value is.
    pub fn flags(&self) -> u32 {
        let rest = self.text.get(self.key_bytes + 1..).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0u32, |number, digit| number.wrapping_mul(10).wrapping_add(u32::from(digit - b'0')))
    }
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
    state: usize,
    buckets: usize,
    mask: u64,
    seed: u64,
    most_bytes: u64,
    /// The bucket that eviction looks at next.
    hand: AtomicUsize,
    /// The piece of memory that eviction empties next.
    emptied: AtomicUsize,
    evicted: AtomicU64,
}

/// A bucket whose lock is held until this is dropped.
struct Locked<'s> {
    heap: &'s Heap<'s>,
    at: usize,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let _ = release(self.heap, self.at + bucket::LOCK);
    }
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

/// Milliseconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

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
            state,
            buckets,
            mask,
            seed,
            most_bytes: settings.most_bytes,
            hand: AtomicUsize::new(0),
            emptied: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
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

    fn bucket_of(&self, hash: u64) -> usize {
        self.buckets + (hash & self.mask) as usize * bucket::ALL
    }

    /// Takes a bucket's lock. A lock whose holder has died is freed.
    fn lock(&self, at: usize) -> Locked<'_> {
        let thread = THREAD.with(|thread| *thread);
        let mut looks = 0;
        while let Err(holder) = lock::take(self.heap, at + bucket::LOCK, thread, PATIENCE) {
            looks += 1;
            match holder {
                Holder::Thread(_) => drop(lock::free_of_the_dead(self.heap, at + bucket::LOCK)),
                Holder::Program if looks >= LOOKS => drop(release(self.heap, at + bucket::LOCK)),
                _ => {}
            }
        }
        Locked { heap: self.heap, at }
    }

    /// The offset of the word that leads to a key's item, and the item's own, under the bucket's lock.
    fn find(&self, locked: &Locked<'_>, hash: u64, key: &[u8]) -> (usize, Option<usize>) {
        let mut link = locked.at + bucket::FIRST;
        let mut own = Vec::new();
        loop {
            let address = self.heap.load(link).unwrap_or(0);
            let Some(at) = self.heap.offset(address).filter(|at| at % 8 == 0) else { return (link, None) };
            let load = |field: usize| self.heap.load(at + field).unwrap_or(0);
            if load(item::HASH) == hash && load(item::SIZES) as u32 as usize == key.len() {
                own.clear();
                let _ = self.heap.read(at + item::TEXT, key.len(), &mut own);
                if own == key {
                    return (link, Some(at));
                }
            }
            link = at + item::NEXT;
        }
    }

    fn is_expired(&self, at: usize) -> bool {
        let expires = self.heap.load(at + item::EXPIRES).unwrap_or(0);
        expires != 0 && expires <= now()
    }

    /// Takes an item out of its bucket; it is freed when the lock is not held any more.
    fn unlink(&self, link: usize, at: usize) {
        let next = self.heap.load(at + item::NEXT).unwrap_or(0);
        self.heap.store(link, next);
    }

    fn item_bytes(&self, at: usize) -> u64 {
        item::TEXT as u64 + (self.heap.load(at + item::SIZES).unwrap_or(0) >> 32)
    }

    fn free(&self, at: usize) {
        if let Some(allocator) = self.allocator() {
            allocator.free(at);
        }
    }

    /// Frees an item that was unlinked, and counts it out.
    fn gone(&self, at: usize) {
        self.add(state::ITEMS, u64::MAX);
        self.add(state::BYTES, self.item_bytes(at).wrapping_neg());
        self.free(at);
    }

    /// A key's item, copied. `expires` sets when it ends.
    pub fn get(&self, key: &[u8], expires: Option<u64>) -> Option<Found> {
        let hash = hash::hash(key, self.seed);
        let locked = self.lock(self.bucket_of(hash));
        let (link, found) = self.find(&locked, hash, key);
        let at = found?;
        if self.is_expired(at) {
            self.unlink(link, at);
            drop(locked);
            self.gone(at);
            return None;
        }
        if let Some(expires) = expires {
            self.heap.store(at + item::EXPIRES, expires);
        }
        let load = |field: usize| self.heap.load(at + field).unwrap_or(0);
        let (sizes, value) = (load(item::SIZES), load(item::VALUE));
        self.heap.store(at + item::VALUE, value & 0xffff_ffff | 1 << 32);
        let mut text = Vec::new();
        self.heap.read(at + item::TEXT, (sizes >> 32) as usize, &mut text)?;
        Some(Found {
            text,
            key_bytes: sizes as u32 as usize,
            value_bytes: value as u32 as usize,
            version: load(item::CAS),
            expires: load(item::EXPIRES),
        })
    }

    /// Stores a value.
    pub fn put(&self, key: &[u8], flags: u32, expires: u64, value: &[u8], condition: Condition) -> Outcome {
        let hash = hash::hash(key, self.seed);
        let mut text = key.to_vec();
        text.extend(format!(" {flags} {}\r\n", value.len()).bytes());
        text.extend(value);
        text.extend(b"\r\n");
        let Some(new) = self.allocate(item::TEXT + text.len()) else {
            // What was there is not what the client believes to have stored, unless it had a condition for it.
            if condition == Condition::Any {
                self.delete(key);
            }
            return Outcome::NoMemory;
        };
        let fields = [
            (item::HASH, hash),
            (item::EXPIRES, expires),
            (item::SIZES, key.len() as u64 | (text.len() as u64) << 32),
            (item::VALUE, value.len() as u64 | 1 << 32),
        ];
        for (at, value) in fields {
            self.heap.store(new + at, value);
        }
        self.heap.write(new + item::TEXT, &text);
        self.link(new, hash, key, condition)
    }

    fn link(&self, new: usize, hash: u64, key: &[u8], condition: Condition) -> Outcome {
        let locked = self.lock(self.bucket_of(hash));
        let (link, found) = self.find(&locked, hash, key);
        let load = |at: usize| self.heap.load(at).unwrap_or(0);
        let valid = found.filter(|at| !self.is_expired(*at));
        let refused = match (condition, valid) {
            (Condition::Present | Condition::Version(_), None) => Some(Outcome::NotFound),
            (Condition::Absent, Some(_)) => Some(Outcome::Exists),
            (Condition::Version(version), Some(at)) if load(at + item::CAS) != version => Some(Outcome::Exists),
            _ => None,
        };
        if let Some(refused) = refused {
            drop(locked);
            self.free(new);
            return refused;
        }
        let version = load(locked.at + bucket::VERSION) + 1;
        self.heap.store(locked.at + bucket::VERSION, version);
        self.heap.store(new + item::CAS, version);
        self.heap.store(new + item::NEXT, found.map_or(0, |at| load(at + item::NEXT)));
        self.heap.store(link, self.heap.address() + new as u64);
        let bytes = self.item_bytes(new);
        drop(locked);
        self.add(state::BYTES, bytes);
        self.add(state::ITEMS, 1);
        if let Some(old) = found {
            self.gone(old);
        }
        Outcome::Stored
    }
}
