//! Queues, stacks and Bloom filters: maps without keys.

use foldhash::fast::RandomState;
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::definition::UpdateFlag;
use crate::block::Block;
use crate::errno::Errno;
use crate::memory::Places;

/// A queue or a stack of values of one size.
#[derive(Debug)]
pub struct Queue {
    value_size: usize,
    max_entries: usize,
    last_in_first_out: bool,
    values: Mutex<VecDeque<Box<[u8]>>>,
}

impl Queue {
    /// An empty queue, or stack.
    pub fn new(value_size: u32, max_entries: u32, last_in_first_out: bool) -> Queue {
        let (value_size, max_entries) = (value_size as usize, max_entries as usize);
        Queue { value_size, max_entries, last_in_first_out, values: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Box<[u8]>>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a value; with [`UpdateFlag::Exist`] the oldest makes room where it is full.
    ///
    /// # Errors
    /// `E2BIG` when full, `EINVAL` for [`UpdateFlag::NoExist`].
    pub fn push(&self, value: &[u8], flag: UpdateFlag) -> Result<(), Errno> {
        if flag == UpdateFlag::NoExist || value.len() != self.value_size {
            return Err(Errno::EINVAL);
        }
        let mut values = self.lock();
        if values.len() >= self.max_entries {
            if flag != UpdateFlag::Exist {
                return Err(Errno::E2BIG);
            }
            values.pop_front();
        }
        values.push_back(value.into());
        Ok(())
    }

    /// The value that the next pop gives.
    pub fn peek(&self) -> Option<Box<[u8]>> {
        let values = self.lock();
        if self.last_in_first_out { values.back() } else { values.front() }.cloned()
    }

    /// Takes a value.
    pub fn pop(&self) -> Option<Box<[u8]>> {
        let mut values = self.lock();
        if self.last_in_first_out { values.pop_back() } else { values.pop_front() }
    }

    /// All values, oldest first.
    pub fn values(&self) -> Vec<Vec<u8>> {
        self.lock().iter().map(|value| value.to_vec()).collect()
    }

    /// Values now.
    pub fn len(&self) -> usize {
        self.lock().len()
    }
}

/// A Bloom filter: says of a value that it was surely not pushed, or perhaps was.
#[derive(Debug)]
pub struct Bloom {
    bits: Block,
    mask: u64,
    hashes: u32,
    hasher: RandomState,
}

/// Hash functions where `map_extra` does not say (kernel `kernel/bpf/bloom_filter.c`).
const DEFAULT_HASHES: u32 = 5;
/// Bits at most: a 32-bit hash reaches no further.
const MAX_BITS: u64 = 1 << 32;

impl Bloom {
    /// An empty filter for about `max_entries` values: hashes / ln 2 bits each, rounded up to a power of two.
    ///
    /// # Errors
    /// What the operating system reports.
    pub fn new(places: &mut Places, max_entries: u32, map_extra: u64) -> io::Result<Bloom> {
        let hashes = match (map_extra & 0xf) as u32 {
            0 => DEFAULT_HASHES,
            given => given,
        };
        let bits = u64::from(max_entries) * u64::from(hashes) * 7 / 5;
        let bits = bits.clamp(64, MAX_BITS).next_power_of_two();
        let (mask, hasher) = (bits - 1, RandomState::default());
        Ok(Bloom { bits: Block::new(places, bits / 8)?, mask, hashes, hasher })
    }

    fn places(&self, value: &[u8]) -> impl Iterator<Item = u64> + use<> {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(value);
        let hash = hasher.finish();
        let (step, mask) = ((hash >> 32) | 1, self.mask);
        (0..u64::from(self.hashes)).map(move |round| hash.wrapping_add(step.wrapping_mul(round)) & mask)
    }

    /// Adds a value.
    pub fn push(&self, value: &[u8]) {
        for place in self.places(value) {
            self.bits.word64((place / 64) as usize * 8).fetch_or(1 << (place % 64), Ordering::Relaxed);
        }
    }

    /// Whether it may have been added.
    pub fn contains(&self, value: &[u8]) -> bool {
        let word = |place: u64| self.bits.word64((place / 64) as usize * 8).load(Ordering::Relaxed);
        self.places(value).all(|place| word(place) >> (place % 64) & 1 != 0)
    }
}
