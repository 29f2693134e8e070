//! Room for new items: CLOCK over the buckets. An item that was used since the hand was there gets another chance.

use std::sync::atomic::Ordering;

use super::layout::{bucket, item, state};
use super::{Locked, Store};

/// Of the most bytes, how many sixteenths are in use after [`Store::make_room_ahead`].
const AHEAD: u64 = 15;

impl Store<'_> {
    /// Memory for an item, for which others go if there is no other room.
    pub(super) fn allocate(&self, bytes: usize) -> Option<usize> {
        // Nobody goes for what has no room even alone.
        let allocator = self.allocator().filter(|_| bytes as u64 <= self.most_bytes)?;
        // Each bucket is met three times at most: what was used, what was used meanwhile, and the rest.
        for _ in 0..3 * (self.mask + 1) {
            if self.bytes() + bytes as u64 <= self.most_bytes
                && let Some(at) = allocator.allocate(bytes)
            {
                return Some(at);
            }
            self.sweep();
        }
        None
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
        for at in 0..=self.mask as usize {
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
    fn sweep_bucket(&self, number: usize, goes: impl Fn(usize) -> bool) -> u64 {
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
