//! The hash table: locks of buckets, chains of items, and items that are written, linked and unlinked.

use std::time::Duration;

use kiln_heap::lock::{self, Holder, USER};

use super::layout::{bucket, item, state};
use super::{Condition, Heap, Outcome, Store, THREAD, hash, now, text};

/// How long a lock is waited for before its holder is looked at.
const PATIENCE: Duration = Duration::from_millis(2);
/// How often, before a lock that a program seems to hold is freed: no program holds one for so long.
const LOOKS: usize = 100;
/// Bytes of a block of the allocator that are not the item's.
const BLOCK_HEADER_BYTES: usize = 8;
/// Sizes of blocks are multiples of this.
const BLOCK_UNIT_BYTES: usize = 16;

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

/// What an item is to be.
#[derive(Clone, Copy)]
pub(super) struct New<'n> {
    pub key: &'n [u8],
    pub hash: u64,
    /// In milliseconds since 1970; 0: never.
    pub expires: u64,
    /// The value's bytes and marks, or which object it is, in 32 bits.
    pub value: u64,
    pub text: &'n [u8],
}

/// Units of the allocator that an item with a text of so many bytes takes.
fn units(text_bytes: usize) -> usize {
    (BLOCK_HEADER_BYTES + item::TEXT + text_bytes).div_ceil(BLOCK_UNIT_BYTES)
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
        let mut looks = 0;
        while let Err(holder) = lock::take(self.heap, word, thread, PATIENCE) {
            looks += 1;
            match holder {
                Holder::Thread(_) => drop(lock::free_of_the_dead(self.heap, word)),
                Holder::Program if looks >= LOOKS => drop(lock::release(self.heap, word)),
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
        expires != 0 && expires <= now()
    }

    /// Takes an item out of its bucket; it is freed when the lock is not held any more.
    pub(super) fn unlink(&self, link: usize, at: usize) {
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

    /// Why a condition refuses a change of what is there; `None` if it does not.
    fn refused(&self, condition: Condition, valid: Option<usize>) -> Option<Outcome> {
        match (condition, valid) {
            (Condition::Present | Condition::Version(_), None) => Some(Outcome::NotFound),
            (Condition::Absent, Some(_)) => Some(Outcome::Exists),
            (Condition::Version(version), Some(at)) if self.load(at + item::CAS) != version => Some(Outcome::Exists),
            _ => None,
        }
    }

    /// Writes all of an item except its place in a chain and its version. Its hash is last.
    fn write(&self, at: usize, new: &New<'_>) {
        let fields = [
            (item::EXPIRES, new.expires),
            (item::SIZES, new.key.len() as u64 | (new.text.len() as u64) << 32),
            (item::VALUE, new.value | 1 << 32),
        ];
        for (field, value) in fields {
            self.heap.store(at + field, value);
        }
        self.heap.write(at + item::TEXT, new.text);
        self.heap.store(at + item::HASH, new.hash);
    }

    /// Writes a new text over an item's, under its bucket's lock, if the item's block is as large as the text needs; whether it was.
    pub(super) fn overwrite(&self, locked: &Locked<'_>, at: usize, new: &New<'_>) -> bool {
        // Whoever writes over an object's item would lose the object.
        if self.load(at + item::VALUE) & item::OBJECT != 0 {
            return false;
        }
        let old_bytes = (self.load(at + item::SIZES) >> 32) as usize;
        let more = new.text.len().saturating_sub(old_bytes) as u64;
        if units(old_bytes) != units(new.text.len()) || (more > 0 && self.bytes() + more > self.most_bytes) {
            return false;
        }
        // Whoever is killed now leaves an item that nobody finds, until it is evicted.
        self.heap.store(at + item::HASH, !new.hash);
        self.heap.store(at + item::CAS, self.next_version(locked));
        self.write(at, new);
        if old_bytes != new.text.len() {
            self.add(state::BYTES, (new.text.len() as u64).wrapping_sub(old_bytes as u64));
        }
        true
    }

    /// Stores a value.
    pub fn put(&self, key: &[u8], flags: u32, expires: u64, value: &[u8], condition: Condition) -> Outcome {
        let hash = self.hash_of(key);
        text::with(key, flags, value, |text| {
            let new = New { key, hash, expires, value: value.len() as u64, text };
            // What never fits is refused first, whatever is there.
            if (item::TEXT + text.len()) as u64 > self.most_bytes {
                return self.put_new(&new, condition, None);
            }
            let locked = self.lock_of(hash);
            let place = self.find(&locked, hash, key);
            if let Some(refused) = self.refused(condition, place.at.filter(|at| !self.is_expired(*at))) {
                return refused;
            }
            if place.at.is_some_and(|at| self.overwrite(&locked, at, &new)) {
                return Outcome::Stored;
            }
            drop(locked);
            self.put_new(&new, condition, None)
        })
    }

    /// Stores an item in memory of its own. With the version of the bucket that is given, only if nothing in the bucket was stored since.
    pub(super) fn put_new(&self, new: &New<'_>, condition: Condition, version: Option<u64>) -> Outcome {
        let Some(at) = self.allocate(item::TEXT + new.text.len()) else {
            // What was there is not what the client believes to have stored, unless it had a condition for it.
            if condition == Condition::Any {
                self.delete(new.key);
            }
            return Outcome::NoMemory;
        };
        self.write(at, new);
        self.link(at, new, condition, version)
    }

    fn link(&self, at: usize, new: &New<'_>, condition: Condition, version: Option<u64>) -> Outcome {
        let locked = self.lock_of(new.hash);
        let Place { link, at: found } = self.find(&locked, new.hash, new.key);
        let is_late = version.is_some_and(|version| version != self.load(locked.at + bucket::VERSION));
        let refused = self.refused(condition, found.filter(|at| !self.is_expired(*at)));
        if let Some(refused) = refused.or(is_late.then_some(Outcome::Exists)) {
            drop(locked);
            self.free(at);
            return refused;
        }
        self.heap.store(at + item::CAS, self.next_version(&locked));
        self.heap.store(at + item::NEXT, found.map_or(0, |old| self.load(old + item::NEXT)));
        self.heap.store(link, self.base + at as u64);
        drop(locked);
        self.add(state::BYTES, (item::TEXT + new.text.len()) as u64);
        self.add(state::ITEMS, 1);
        if let Some(old) = found {
            self.gone(old);
        }
        Outcome::Stored
    }
}
