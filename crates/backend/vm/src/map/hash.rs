//! Hash maps: plain, least-recently-used, and both per CPU.
//!
//! ```text
//!   buckets           nodes, by slot (addresses never change)                  values, by slot
//!   | slot 3 | ---->  3: | next: slot 0 | hash | linked | key |                3: | value |
//!   | -      |        0: | next: -      | hash | linked | key |                0: | value |
//! ```
//!
//! Programs look up without a lock, as in the kernel. A bucket belongs to one of a few *stripes*, each with a sequence
//! number: odd while a writer changes one of the stripe's buckets, and incremented afterwards. A lookup that sees a
//! change begins again. So it never misses an existing element, nor finds a key that is half replaced.
//!
//! As in the kernel, replacing a key's value (unless per CPU) moves it to another slot: a pointer that a program got
//! before keeps pointing at the old value. A few slots more than `max_entries` make room for that.
//!
//! A slot that is freed while a program runs may be reused at once (as in the kernel's preallocated maps) or, with
//! `BPF_F_NO_PREALLOC`, when all runs of that time have ended ([`crate::grace`]). In both cases its memory stays the
//! map's.
//!
//! Least-recently-used maps evict the oldest entry that was not used since it was last considered (second chance).
//! The kernel's choice is an approximation too, and may differ.

use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::definition::UpdateFlag;
use super::recency::Recency;
use super::slots::{Slots, waiting_room};
use super::values::{Layout, Values};
use crate::block::Block;
use crate::errno::Errno;
use crate::grace::Grace;
use crate::memory::Places;

/// A hash map of any of the four kinds, or a hash of maps.
#[derive(Debug)]
pub struct Hash {
    key_size: usize,
    max_entries: u32,
    hasher: RandomState,
    /// A slot's number plus one for each bucket, a power of two of them; 0 is none.
    buckets: Block,
    bucket_mask: u32,
    nodes: Block,
    /// 32-bit words of a node.
    node_words: usize,
    stripes: Box<[Stripe]>,
    slots: Mutex<Slots>,
    replace_in_place: bool,
    freed_slots_wait: bool,
    pub(crate) values: Values,
    recency: Option<Mutex<Recency>>,
}

/// What a new hash map is like.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'s> {
    /// Bytes in a key.
    pub key_size: u32,
    /// Entries at most.
    pub max_entries: u32,
    /// Evicts instead of refusing.
    pub least_recently_used: bool,
    /// One value per CPU.
    pub per_cpu: bool,
    /// `BPF_F_NO_PREALLOC`: freed slots wait for these runs.
    pub grace: Option<&'s Arc<Grace>>,
    /// The values.
    pub values: Layout<'s>,
}

/// Buckets that change one at a time.
#[derive(Debug, Default)]
struct Stripe {
    /// Odd while a writer is at work.
    sequence: AtomicU32,
    /// A free slot, plus one, for the next replacement; written by the stripe's writer only.
    spare: AtomicU32,
}

/// Stripes at most.
const STRIPES: u32 = 256;

/// The right to change a stripe's buckets.
struct Writer<'h> {
    stripe: &'h Stripe,
    before: u32,
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.stripe.sequence.store(self.before.wrapping_add(2), Ordering::Release);
    }
}

/// A key with its hash.
#[derive(Clone, Copy)]
struct Key<'k> {
    bytes: &'k [u8],
    hash: u32,
    /// Its first four bytes.
    first: u32,
}

impl Key<'_> {
    /// Four bytes of the key, zeros behind its end.
    #[inline(always)]
    fn half(&self, index: usize) -> u32 {
        half(self.bytes, index)
    }
}

/// Four bytes, zeros behind the end.
#[inline(always)]
fn half(bytes: &[u8], index: usize) -> u32 {
    let rest = bytes.get(4 * index..).unwrap_or_default();
    match *rest {
        [] => 0,
        [a, b, c, d, ..] => u32::from_ne_bytes([a, b, c, d]),
        [a, b, c] => u32::from_ne_bytes([a, b, c, 0]),
        [a, b] => u32::from_ne_bytes([a, b, 0, 0]),
        [a] => u32::from_ne_bytes([a, 0, 0, 0]),
    }
}

/// Eight bytes, zeros behind the end.
#[inline(always)]
fn word(bytes: &[u8], index: usize) -> u64 {
    let low = half(bytes, 2 * index);
    u64::from(low) | u64::from(half(bytes, 2 * index + 1)) << 32
}

/// Words of a node: the next slot plus one, the hash, the state; behind them the key, zeros behind its end.
const NEXT: usize = 0;
const HASH: usize = 1;
const STATE: usize = 2;
const KEY: usize = 3;
/// In a node's state: it is in the table; it was looked up since it was last considered for eviction.
const LINKED: u32 = 1;
const USED: u32 = 2;

impl Hash {
    /// An empty map.
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn new(places: &mut Places, shape: Shape<'_>) -> io::Result<Hash> {
        let key_size = shape.key_size as usize;
        let buckets = shape.max_entries.checked_next_power_of_two().unwrap_or(1 << 31);
        let stripes = buckets.min(STRIPES);
        let waiting = shape.grace.map_or(0, |_| waiting_room(shape.values.element_bytes()));
        // One slot for an insertion that will evict, one spare for each stripe.
        let count = u64::from(shape.max_entries) + u64::from(stripes) + 1 + u64::from(waiting);
        let slots = u32::try_from(count).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let node_words = KEY + key_size.div_ceil(4);
        Ok(Hash {
            key_size,
            max_entries: shape.max_entries,
            hasher: RandomState::default(),
            buckets: Block::new(places, 4 * u64::from(buckets))?,
            bucket_mask: buckets - 1,
            nodes: Block::new(places, count * 4 * node_words as u64)?,
            node_words,
            stripes: (0..stripes).map(|_| Stripe::default()).collect(),
            slots: Mutex::new(Slots::new(slots, shape.grace.cloned())),
            replace_in_place: shape.per_cpu,
            freed_slots_wait: shape.grace.is_some(),
            values: Values::new(places, count, shape.values)?,
            recency: shape.least_recently_used.then(|| Mutex::new(Recency::default())),
        })
    }

    #[inline]
    fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        let mut state = self.hasher.build_hasher();
        if bytes.len() <= 16 {
            state.write_u64(word(bytes, 0));
            state.write_u64(word(bytes, 1));
        } else {
            state.write(bytes);
        }
        Key { bytes, hash: state.finish() as u32, first: half(bytes, 0) }
    }

    #[inline]
    fn node(&self, slot: u32, field: usize) -> &AtomicU32 {
        &self.words(slot)[field]
    }

    #[inline]
    fn words(&self, slot: u32) -> &[AtomicU32] {
        self.nodes.words(slot as usize * self.node_words, self.node_words)
    }

    #[inline]
    fn bucket(&self, hash: u32) -> &AtomicU32 {
        self.buckets.word32(4 * (hash & self.bucket_mask) as usize)
    }

    #[inline]
    fn stripe(&self, hash: u32) -> &Stripe {
        &self.stripes[(hash & self.bucket_mask) as usize & (self.stripes.len() - 1)]
    }

    /// Whether a node holds this key.
    #[inline(always)]
    fn holds(node: &[AtomicU32], key: &Key<'_>) -> bool {
        let [_, hash, _, first, rest @ ..] = node else { return false };
        hash.load(Ordering::Relaxed) == key.hash
            && first.load(Ordering::Relaxed) == key.first
            && rest.iter().zip(1..).all(|(word, index)| word.load(Ordering::Relaxed) == key.half(index))
    }

    /// The slot of a key, in a bucket that may be changing, and the link that leads to it.
    #[inline(always)]
    fn search(&self, key: &Key<'_>) -> Option<(u32, &AtomicU32)> {
        let mut link = self.bucket(key.hash);
        // A walk that a concurrent writer disturbs ends, and is repeated.
        for _ in 0..=self.max_entries {
            let slot = link.load(Ordering::Acquire).checked_sub(1)?;
            let node = self.words(slot);
            if Hash::holds(node, key) {
                return Some((slot, link));
            }
            link = &node[NEXT];
        }
        None
    }

    /// Reads what belongs to a key, in a moment in which its bucket does not change.
    #[inline]
    fn with<T>(&self, key: &Key<'_>, read: impl Fn(u32) -> T) -> Option<T> {
        let sequence = &self.stripe(key.hash).sequence;
        let mut rounds = 0;
        loop {
            let before = sequence.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                let found = self.search(key).map(|(slot, _)| read(slot));
                fence(Ordering::Acquire);
                if sequence.load(Ordering::Relaxed) == before {
                    return found;
                }
            }
            pause(&mut rounds);
        }
    }

    /// Begins to change the bucket of a hash.
    #[inline]
    fn write(&self, hash: u32) -> Writer<'_> {
        let stripe = self.stripe(hash);
        let mut rounds = 0;
        loop {
            let before = stripe.sequence.load(Ordering::Relaxed);
            let odd = before | 1;
            if before != odd
                && stripe.sequence.compare_exchange(before, odd, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                fence(Ordering::Release);
                return Writer { stripe, before };
            }
            pause(&mut rounds);
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recency(&self) -> Option<MutexGuard<'_, Recency>> {
        self.recency.as_ref().map(|recency| recency.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The slot of a key.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<u32> {
        self.with(&self.key(key), |slot| slot)
    }

    /// The first word of a key's value, for maps of maps.
    pub fn find_word(&self, key: &[u8]) -> Option<u32> {
        self.with(&self.key(key), |slot| self.values.word(slot).load(Ordering::Relaxed))
    }

    /// All CPUs' values of a key, as user space sees them.
    pub fn read_user(&self, key: &[u8], per_cpu: bool) -> Option<Vec<u8>> {
        let key = self.key(key);
        let _writer = self.write(key.hash);
        self.search(&key).map(|(slot, _)| self.values.read_user(slot, per_cpu))
    }

    /// The slot of a key that a program looks up; counts as a use.
    #[inline]
    pub fn look_up(&self, key: &[u8]) -> Option<u32> {
        let slot = self.find(key)?;
        if self.recency.is_some() {
            let state = self.node(slot, STATE);
            if state.load(Ordering::Relaxed) == LINKED {
                // The mark is lost if another thread unlinks the slot at the same time; that is harmless.
                let _ = state.compare_exchange(LINKED, LINKED | USED, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        Some(slot)
    }

    /// Whether nobody wrote where no value, key or link is.
    pub fn gaps_are_clean(&self) -> bool {
        self.values.gaps_are_clean() && self.nodes.ends_clean() && self.buckets.ends_clean()
    }

    /// Entries now.
    pub fn len(&self) -> usize {
        self.slots().used() as usize
    }

    /// Keys, in no order.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        let mut from = 0;
        while let Some((key, slot)) = self.next_slot(from) {
            keys.push(key);
            from = slot + 1;
        }
        keys
    }

    /// The first slot in use from `from` on, and its key.
    pub fn next_slot(&self, from: u32) -> Option<(Vec<u8>, u32)> {
        let end = self.slots().fresh();
        (from..end).find_map(|slot| {
            if self.node(slot, STATE).load(Ordering::Acquire) & LINKED == 0 {
                return None;
            }
            let mut key = vec![0; self.key_size];
            self.nodes.read(4 * (slot as usize * self.node_words + KEY), &mut key);
            (self.find(&key) == Some(slot)).then_some((key, slot))
        })
    }

    /// Sets the value of a key: `write` fills a slot, which is this key's own or not to be found by anybody yet.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT` by the flag; `E2BIG` when full.
    #[inline]
    pub fn update(&self, bytes: &[u8], flag: UpdateFlag, write: impl Fn(u32)) -> Result<(), Errno> {
        /// Rounds of making room that other threads may take away.
        const ROUNDS: u32 = 1000;
        let key = self.key(bytes);
        for _ in 0..ROUNDS {
            {
                let writer = self.write(key.hash);
                let found = self.search(&key);
                match (flag, found) {
                    (UpdateFlag::NoExist, Some(_)) => return Err(Errno::EEXIST),
                    (UpdateFlag::Exist, None) => return Err(Errno::ENOENT),
                    (_, Some((old, link))) => {
                        self.replace(&writer, &key, old, link, &write);
                        return Ok(());
                    }
                    _ => {}
                }
                let taken = self.slots().take(self.max_entries);
                if let Some(slot) = taken {
                    self.insert(&key, slot, &write);
                    return Ok(());
                }
            }
            self.evict()?;
        }
        Err(Errno::ENOMEM)
    }

    /// Sets the value of a key that exists where it is, under the value's lock; `false` where there is no such key.
    pub fn update_locked(&self, bytes: &[u8], write: impl Fn(u32)) -> bool {
        let key = self.key(bytes);
        let _writer = self.write(key.hash);
        let Some((slot, _)) = self.search(&key) else { return false };
        let _locked = self.values.lock(slot);
        write(slot);
        true
    }

    fn store_key(&self, slot: u32, key: &Key<'_>) {
        let node = self.words(slot);
        node[HASH].store(key.hash, Ordering::Relaxed);
        for (word, index) in node[KEY..].iter().zip(0..) {
            word.store(key.half(index), Ordering::Relaxed);
        }
    }

    fn insert(&self, key: &Key<'_>, slot: u32, write: &impl Fn(u32)) {
        self.store_key(slot, key);
        if self.replace_in_place {
            self.values.clear(slot);
        }
        self.values.unlock_new(slot);
        write(slot);
        let bucket = self.bucket(key.hash);
        self.node(slot, NEXT).store(bucket.load(Ordering::Relaxed), Ordering::Relaxed);
        self.node(slot, STATE).store(LINKED, Ordering::Relaxed);
        bucket.store(slot + 1, Ordering::Release);
        if let Some(mut recency) = self.recency() {
            recency.push(slot);
        }
    }

    /// Gives a key that exists a new slot with a new value.
    fn replace(&self, writer: &Writer<'_>, key: &Key<'_>, old: u32, link: &AtomicU32, write: &impl Fn(u32)) {
        let spare = &writer.stripe.spare;
        let taken = match spare.swap(0, Ordering::Relaxed).checked_sub(1) {
            Some(slot) => Some(slot),
            None if self.replace_in_place => None,
            None => self.slots().take_more(),
        };
        let Some(slot) = taken else { return write(old) };
        self.store_key(slot, key);
        self.values.unlock_new(slot);
        write(slot);
        self.node(slot, NEXT).store(self.node(old, NEXT).load(Ordering::Relaxed), Ordering::Relaxed);
        self.node(slot, STATE).store(LINKED, Ordering::Relaxed);
        link.store(slot + 1, Ordering::Release);
        self.node(old, STATE).store(0, Ordering::Relaxed);
        if let Some(mut recency) = self.recency() {
            recency.unlink(old);
            recency.push(slot);
        }
        if self.freed_slots_wait {
            self.slots().retire(old);
        } else {
            spare.store(old + 1, Ordering::Relaxed);
        }
    }

    /// Removes a key.
    ///
    /// # Errors
    /// `ENOENT`.
    pub fn remove(&self, bytes: &[u8]) -> Result<(), Errno> {
        let key = self.key(bytes);
        let _writer = self.write(key.hash);
        let (slot, link) = self.search(&key).ok_or(Errno::ENOENT)?;
        self.unlink(slot, link);
        Ok(())
    }

    /// Takes a slot out of its bucket, whose writer the caller is.
    fn unlink(&self, slot: u32, link: &AtomicU32) {
        link.store(self.node(slot, NEXT).load(Ordering::Relaxed), Ordering::Release);
        self.node(slot, STATE).store(0, Ordering::Relaxed);
        if let Some(mut recency) = self.recency() {
            recency.unlink(slot);
        }
        self.slots().release(slot);
    }

    /// Makes room.
    ///
    /// # Errors
    /// `E2BIG` for a map that does not evict.
    fn evict(&self) -> Result<(), Errno> {
        let was_used = |slot: u32| {
            let state = self.node(slot, STATE);
            state.compare_exchange(LINKED | USED, LINKED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        let Some(mut recency) = self.recency() else { return Err(Errno::E2BIG) };
        let Some(victim) = recency.take_victim(was_used) else { return Ok(()) };
        drop(recency);
        // Another thread may have removed or replaced it, or reused its slot for another key. Then the loop tries
        // again, or takes another victim.
        let hash = self.node(victim, HASH).load(Ordering::Relaxed);
        let _writer = self.write(hash);
        let mut link = self.bucket(hash);
        while let Some(slot) = link.load(Ordering::Relaxed).checked_sub(1) {
            if slot == victim {
                self.unlink(slot, link);
                return Ok(());
            }
            link = self.node(slot, NEXT);
        }
        Ok(())
    }
}

/// Waits a little, longer each time.
#[cold]
fn pause(rounds: &mut u32) {
    *rounds += 1;
    if *rounds < 64 { std::hint::spin_loop() } else { std::thread::yield_now() }
}
