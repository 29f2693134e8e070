//! All keys, part by part.

use super::Store;
use super::layout::{bucket, item};
use super::table::Locked;
use super::values::kind_of;
use crate::object::Kind;

/// Buckets that one part may look at: a store of 64 MiB has as many.
const BUCKETS_MOST: usize = 1 << 18;

impl Store<'_> {
    /// At least `count` keys with their kinds from a place on, unless there are fewer, and the next place; 0 is the first one, and what follows the
    /// last one. A key that is there all the time is met once. What is expired there is removed if `removes`.
    pub fn scan(&self, place: u64, count: usize, removes: bool) -> (u64, Vec<(Vec<u8>, Kind)>) {
        let (mut met, mut number) = (Vec::new(), usize::try_from(place).unwrap_or(usize::MAX));
        for _ in 0..BUCKETS_MOST {
            if number as u64 > self.mask {
                return (0, met);
            }
            if removes {
                self.sweep_bucket(number, |at| self.is_expired(at));
            }
            let at = self.buckets + number * bucket::ALL;
            if self.heap.load(at + bucket::FIRST).unwrap_or(0) != 0 {
                self.scan_bucket(&self.lock(at), &mut met);
            }
            number += 1;
            if met.len() >= count {
                break;
            }
        }
        (if number as u64 > self.mask { 0 } else { number as u64 }, met)
    }

    fn scan_bucket(&self, locked: &Locked<'_>, met: &mut Vec<(Vec<u8>, Kind)>) {
        let mut link = locked.at + bucket::FIRST;
        while let Some(at) = self.heap.load(link).and_then(|address| self.heap.offset(address)) {
            link = at + item::NEXT;
            let sizes = self.heap.load(at + item::SIZES).unwrap_or(0);
            // The text begins with the key.
            let (mut key, bytes) = (Vec::new(), (sizes as u32).min((sizes >> 32) as u32) as usize);
            if !self.is_expired(at) && self.heap.read(at + item::TEXT, bytes, &mut key).is_some() {
                met.push((key, kind_of(self.load(at + item::VALUE))));
            }
        }
    }
}
