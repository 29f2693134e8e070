//! The hash table: locks of buckets, chains of items, and items that are written, linked and unlinked.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kiln_heap::lock::{self, Holder, USER};

use super::layout::{bucket, item, state};
use super::values::{NUMBERS, held};
use super::{Heap, Store, THREAD, hash, now};

/// How long a lock is waited for before its holder is looked at.
const PATIENCE: Duration = Duration::from_millis(2);
/// How long, before a lock is freed that a program or another process holds: nobody who means well holds one for so long.
const KEPT: Duration = Duration::from_millis(200);

/// A bucket whose lock is held until this is dropped.
pub(super) struct Locked<'s> {
    heap: &'s Heap<'s>,
    /// Where the bucket is.
    pub at: usize,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Nobody writes the upper half of the word, so there is nothing in it to keep.
        self.heap.store(self.at + bucket::LOCK, 0);
    }
}

/// Where a key is in its bucket.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The offset of the word that leads to the key's item, or of the last word of the chain.
    pub link: usize,
    /// The offset of the item, if there is one, expired or not.
    pub at: Option<usize>,
}

/// Whether a thread is of this process: it goes on with what the lock protects, however late.
fn is_own(thread: u32) -> bool {
    std::path::Path::new(&format!("/proc/self/task/{thread}")).exists()
}

impl Store<'_> {
    pub(super) fn hash_of(&self, key: &[u8]) -> u64 {
        hash::hash(key, self.seed)
    }

    /// The word at an offset; 0 outside of the heap.
    pub(super) fn load(&self, at: usize) -> u64 {
        self.heap.load(at).unwrap_or(0)
    }

    /// The offset of an item by its address; `None` for what is no item's.
    pub(super) fn offset(&self, address: u64) -> Option<usize> {
        let offset = usize::try_from(address.checked_sub(self.base)?).ok()?;
        (offset < self.heap_bytes && offset % 8 == 0).then_some(offset)
    }

    fn bucket_of(&self, hash: u64) -> usize {
        self.buckets + (hash & self.mask) as usize * bucket::ALL
    }

    pub(super) fn lock_of(&self, hash: u64) -> Locked<'_> {
        self.lock(self.bucket_of(hash))
    }

    /// Takes a bucket's lock. A lock whose holder has died is freed.
    pub(super) fn lock(&self, at: usize) -> Locked<'_> {
        let thread = THREAD.with(|thread| *thread);
        let word = at + bucket::LOCK;
        // Most locks are free: then it takes no time to ask for the time.
        if self.heap.compare_exchange(word, 0, u64::from(USER | thread)) != Some(0) {
            self.wait(word, thread);
        }
        Locked { heap: self.heap, at }
    }

    #[cold]
    fn wait(&self, word: usize, thread: u32) {
        let begun = Instant::now();
        while let Err(holder) = lock::take(self.heap, word, thread, PATIENCE) {
            match holder {
                Holder::Thread(_) if lock::free_of_the_dead(self.heap, word) == Some(true) => {}
                Holder::Thread(thread) if is_own(thread) => {}
                _ if begun.elapsed() >= KEPT => drop(lock::release(self.heap, word)),
                _ => {}
            }
        }
    }

    /// Where a key is, under its bucket's lock.
    pub(super) fn find(&self, locked: &Locked<'_>, hash: u64, key: &[u8]) -> Place {
        let mut link = locked.at + bucket::FIRST;
        loop {
            let Some(at) = self.offset(self.load(link)) else { return Place { link, at: None } };
            if self.load(at + item::HASH) == hash
                && self.load(at + item::SIZES) as u32 as usize == key.len()
                && self.has_key(at, key)
            {
                return Place { link, at: Some(at) };
            }
            link = at + item::NEXT;
        }
    }

    /// Whether an item's text begins with a key.
    fn has_key(&self, at: usize, key: &[u8]) -> bool {
        let (words, rest) = key.as_chunks::<8>();
        let place = |number: usize| at + item::TEXT + 8 * number;
        let are_equal =
            words.iter().enumerate().all(|(number, word)| self.load(place(number)) == u64::from_le_bytes(*word));
        are_equal && (rest.is_empty() || self.load(place(words.len())).to_le_bytes().starts_with(rest))
    }

    pub(super) fn is_expired(&self, at: usize) -> bool {
        let expires = self.load(at + item::EXPIRES);
        expires != 0 && expires <= now() && !self.is_loading.load(Ordering::Relaxed)
    }

    /// Takes an item out of its bucket; it is freed when the lock is not held any more.
    pub(super) fn unlink(&self, link: usize, at: usize) {
        self.note_removed(at);
        self.heap.store(link, self.load(at + item::NEXT));
    }

    /// Bytes of an item: header and text.
    pub(super) fn item_bytes(&self, at: usize) -> u64 {
        item::TEXT as u64 + (self.load(at + item::SIZES) >> 32)
    }

    pub(super) fn free(&self, at: usize) {
        if let Some(allocator) = self.allocator() {
            allocator.free(at);
        }
    }

    /// Frees an item that was unlinked, and counts it out.
    pub(super) fn gone(&self, at: usize) {
        self.add(state::ITEMS, u64::MAX);
        self.add(state::BYTES, self.item_bytes(at).wrapping_neg());
        self.forget_value(at);
        self.free(at);
    }

    /// Makes the version of the next change of a bucket.
    pub(super) fn next_version(&self, locked: &Locked<'_>) -> u64 {
        let version = self.load(locked.at + bucket::VERSION) + 1;
        self.heap.store(locked.at + bucket::VERSION, version);
        version
    }

    /// Removes the item at a place, if there is one, and frees the lock.
    pub(super) fn remove_at(&self, locked: Locked<'_>, place: Place) {
        if let Some(at) = place.at {
            self.unlink(place.link, at);
            drop(locked);
            self.gone(at);
        }
    }

    /// Removes a key; whether it was there.
    pub fn delete(&self, key: &[u8]) -> bool {
        let hash = self.hash_of(key);
        let locked = self.lock_of(hash);
        let place = self.find(&locked, hash, key);
        let was_there = place.at.is_some_and(|at| !self.is_expired(at));
        self.remove_at(locked, place);
        was_there
    }

    /// Takes an object out of the table, and counts it out.
    pub(super) fn forget_object(&self, number: u64) {
        let Some(object) = self.objects.take(number) else { return };
        let gone = std::mem::take(&mut *held(&object));
        self.add(state::BYTES, gone.bytes.wrapping_neg());
    }

    /// Frees what an item that was unlinked has outside of the heap.
    fn forget_value(&self, at: usize) {
        let value = self.load(at + item::VALUE);
        if value & item::OBJECT != 0 {
            self.forget_object(value & NUMBERS);
        }
    }
}
