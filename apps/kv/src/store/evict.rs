//! Room for new items: CLOCK over the buckets. An item that was used since the hand was there gets another chance.
//!
//! Items that CLOCK evicts are anywhere in memory. An item of another size needs memory that is free in one piece, which may be none
//! until nearly all items are gone. So now and then everything goes that is in one piece of memory of the new item's size.

use std::sync::atomic::Ordering;

use kiln_heap::allocator::Allocator;

use super::Store;
use super::layout::{bucket, item, state};
use super::table::Locked;

/// After how many buckets without success a piece of memory is emptied.
const BUCKETS_BETWEEN: u64 = 8;
/// Of how many pieces of memory the one with the fewest bytes of items is emptied.
const PIECES: usize = 16;
/// In how many buckets expired items are looked for at a time: a millisecond or two.
const SWEPT_MOST: usize = 1 << 15;
/// Of the most bytes, how many sixteenths are in use after [`Store::make_room_ahead`].
const AHEAD: u64 = 15;

impl Store<'_> {
    /// Memory for an item, for which others go if there is no other room.
    pub(super) fn allocate(&self, bytes: usize) -> Option<usize> {
        // Nobody goes for what has no room even alone.
        let allocator = self.allocator().filter(|_| bytes as u64 <= self.most_bytes)?;
        // Each bucket is met three times at most: what was used, what was used meanwhile, and the rest.
        for turn in 1..=3 * (self.mask + 1).max(BUCKETS_BETWEEN) {
            if self.bytes() + bytes as u64 <= self.most_bytes {
                if let Some(at) = allocator.allocate(bytes) {
                    return Some(at);
                }
                if turn % BUCKETS_BETWEEN == 0 {
                    self.empty(&allocator, bytes);
                }
            }
            self.sweep();
        }
        None
    }

    /// Evicts items until there is room for so many bytes more, of objects; whether there is.
    pub(super) fn make_room(&self, bytes: u64) -> bool {
        if bytes > self.most_bytes {
            return false;
        }
        for _ in 0..3 * (self.mask + 1) {
            if self.bytes() + bytes <= self.most_bytes {
                return true;
            }
            self.sweep();
        }
        self.bytes() + bytes <= self.most_bytes
    }

    /// Removes the items in a piece of memory that an item of `bytes` bytes fits into: of the next pieces, the one where they are fewest.
    fn empty(&self, allocator: &Allocator<'_>, bytes: usize) {
        let first = self.emptied.fetch_add(PIECES, Ordering::Relaxed);
        let pieces = (first..first.saturating_add(PIECES)).map(|number| allocator.in_the_way(bytes, number));
        let least = pieces
            .filter(|piece| !piece.is_empty())
            .min_by_key(|piece| piece.iter().map(|at| self.item_bytes(*at)).sum::<u64>());
        let gone = least.into_iter().flatten().filter(|at| self.evict(*at)).count();
        self.evicted.fetch_add(gone as u64, Ordering::Relaxed);
    }

    /// Removes the item at an offset; whether there is one. Blocks of items that are not in the table yet, or not any more, stay.
    fn evict(&self, at: usize) -> bool {
        let hash = self.heap.load(at + item::HASH).unwrap_or(0);
        let number = (hash & self.mask) as usize;
        self.sweep_bucket(number, |other| other == at) > 0
    }

    /// Evicts items while there is little room, so that programs find some, if there are programs.
    pub fn make_room_ahead(&self) {
        if self.field(state::PORT) == 0 {
            return;
        }
        let enough = self.most_bytes / 16 * AHEAD;
        for _ in 0..3 * (self.mask + 1) {
            if self.bytes() <= enough {
                return;
            }
            self.sweep();
        }
    }

    /// Removes every item.
    pub fn clear(&self) {
        for at in 0..=self.mask as usize {
            self.sweep_bucket(at, |_| true);
        }
    }

    /// Removes what is expired.
    pub fn remove_expired(&self) {
        self.remove_expired_of(self.buckets());
    }

    /// Removes what is expired in the next `1 / parts` of all buckets, but in [`SWEPT_MOST`] of them at most.
    pub fn remove_expired_part(&self, parts: usize) {
        self.remove_expired_of((self.buckets() / parts + 1).min(SWEPT_MOST));
    }

    fn remove_expired_of(&self, count: usize) {
        let from = self.swept.fetch_add(count, Ordering::Relaxed);
        for at in (0..count).map(|step| from.wrapping_add(step) & self.mask as usize) {
            let first = self.heap.load(self.buckets + at * bucket::ALL + bucket::FIRST);
            if first != Some(0) {
                self.sweep_bucket(at, |at| self.is_expired(at));
            }
        }
    }

    /// Moves the hand over a bucket.
    fn sweep(&self) {
        let at = self.hand.fetch_add(1, Ordering::Relaxed) & self.mask as usize;
        let evicted = self.sweep_bucket(at, |at| {
            let value = self.heap.load(at + item::VALUE).unwrap_or(0);
            let used = value >> 32 != 0;
            self.heap.store(at + item::VALUE, value & 0xffff_ffff);
            !used || self.is_expired(at)
        });
        self.evicted.fetch_add(evicted, Ordering::Relaxed);
    }

    /// Removes the items of a bucket that are to go; how many.
    pub(super) fn sweep_bucket(&self, number: usize, goes: impl Fn(usize) -> bool) -> u64 {
        let place = self.buckets + number * bucket::ALL;
        if self.heap.load(place + bucket::FIRST).unwrap_or(0) == 0 {
            return 0;
        }
        let locked: Locked<'_> = self.lock(place);
        let mut link = locked.at + bucket::FIRST;
        let mut gone = Vec::new();
        while let Some(at) = self.heap.load(link).and_then(|address| self.heap.offset(address)) {
            if goes(at) {
                self.unlink(link, at);
                gone.push(at);
            } else {
                link = at + item::NEXT;
            }
        }
        drop(locked);
        gone.iter().for_each(|at| self.gone(*at));
        gone.len() as u64
    }
}
