//! Items that are written: over the old one, or in memory of their own that is linked.

use super::journal::text_of;
use super::layout::{bucket, item, state};
use super::table::{Locked, Place};
use super::{Condition, Outcome, Store, text};
use crate::journal::record;

/// Bytes of a block of the allocator that are not the item's.
const BLOCK_HEADER_BYTES: usize = 8;
/// Sizes of blocks are multiples of this.
const BLOCK_UNIT_BYTES: usize = 16;

/// What an item is to be.
#[derive(Clone, Copy)]
pub(super) struct New<'n> {
    pub key: &'n [u8],
    pub hash: u64,
    /// In milliseconds of the store's clock; 0: never.
    pub expires: u64,
    /// The value's bytes and marks, or which object it is, in 32 bits.
    pub value: u64,
    pub text: &'n [u8],
    /// The records of an object, which are its text in the log.
    pub object: Option<&'n [u8]>,
}

impl New<'_> {
    /// Appends what the item is from now on.
    fn record(&self, is_replaced: bool, to: &mut Vec<u8>) {
        let Some(object) = self.object else {
            return text_of(self.text, self.key.len(), self.value, self.expires).append(to);
        };
        if is_replaced {
            record::remove(to, self.key);
        }
        to.extend_from_slice(object);
    }
}

/// Units of the allocator that an item with a text of so many bytes takes.
fn units(text_bytes: usize) -> usize {
    (BLOCK_HEADER_BYTES + item::TEXT + text_bytes).div_ceil(BLOCK_UNIT_BYTES)
}

impl Store<'_> {
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
        self.note(|to| new.record(true, to));
        if old_bytes != new.text.len() {
            self.add(state::BYTES, (new.text.len() as u64).wrapping_sub(old_bytes as u64));
        }
        true
    }

    /// Stores a value.
    pub fn put(&self, key: &[u8], flags: u32, expires: u64, value: &[u8], condition: Condition) -> Outcome {
        let hash = self.hash_of(key);
        text::with(key, flags, value, |text| {
            let new = New { key, hash, expires, value: value.len() as u64, text, object: None };
            // What never fits is refused first, whatever is there.
            if (item::TEXT + text.len()) as u64 > self.most_bytes {
                return self.put_new(&new, condition, None);
            }
            let locked = self.lock_of(hash);
            let place = self.find(&locked, hash, key);
            let is_over = place.at.is_some_and(|at| self.is_expired(at));
            if let Some(refused) = self.refused(condition, place.at.filter(|_| !is_over)) {
                if is_over {
                    self.remove_at(locked, place);
                }
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
        self.note(|to| new.record(found.is_some(), to));
        drop(locked);
        self.add(state::BYTES, (item::TEXT + new.text.len()) as u64);
        self.add(state::ITEMS, 1);
        if let Some(old) = found {
            self.gone(old);
        }
        Outcome::Stored
    }
}
