//! Queues, stacks and Bloom filters: maps without keys.

use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hasher};

use super::UpdateFlag;
use crate::errno::Errno;

/// A queue or a stack of values of one size.
#[derive(Debug)]
pub struct Queue {
    value_size: usize,
    max_entries: usize,
    last_in_first_out: bool,
    values: std::collections::VecDeque<Box<[u8]>>,
}

impl Queue {
    /// An empty queue, or stack.
    pub fn new(value_size: u32, max_entries: u32, last_in_first_out: bool) -> Queue {
        let (value_size, max_entries) = (value_size as usize, max_entries as usize);
        Queue { value_size, max_entries, last_in_first_out, values: std::collections::VecDeque::new() }
    }

    /// Adds a value; with [`UpdateFlag::Exist`] the oldest makes room where it is full.
    ///
    /// # Errors
    /// `E2BIG` when full, `EINVAL` for [`UpdateFlag::NoExist`].
    pub fn push(&mut self, value: &[u8], flag: UpdateFlag) -> Result<(), Errno> {
        if flag == UpdateFlag::NoExist || value.len() != self.value_size {
            return Err(Errno::EINVAL);
        }
        if self.values.len() >= self.max_entries {
            if flag != UpdateFlag::Exist {
                return Err(Errno::E2BIG);
            }
            self.values.pop_front();
        }
        self.values.push_back(value.into());
        Ok(())
    }

    /// The value that the next pop gives.
    pub fn peek(&self) -> Option<&[u8]> {
        let value = if self.last_in_first_out { self.values.back() } else { self.values.front() };
        value.map(|value| &value[..])
    }

    /// Drops the value that [`Queue::peek`] gives.
    pub fn pop(&mut self) {
        if self.last_in_first_out {
            self.values.pop_back()
        } else {
            self.values.pop_front()
        };
    }

    /// All values, oldest first.
    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        self.values.iter().map(|value| &value[..])
    }
}

/// A Bloom filter: says of a value that it was surely not pushed, or perhaps was.
#[derive(Debug)]
pub struct Bloom {
    bits: Vec<u64>,
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
    pub fn new(max_entries: u32, map_extra: u64) -> Bloom {
        let hashes = match (map_extra & 0xf) as u32 {
            0 => DEFAULT_HASHES,
            given => given,
        };
        let bits = u64::from(max_entries) * u64::from(hashes) * 7 / 5;
        let bits = bits.clamp(64, MAX_BITS).next_power_of_two();
        Bloom { bits: vec![0; (bits / 64) as usize], mask: bits - 1, hashes, hasher: RandomState::default() }
    }

    fn places(&self, value: &[u8]) -> impl Iterator<Item = u64> + use<> {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(value);
        let hash = hasher.finish();
        let (step, mask) = ((hash >> 32) | 1, self.mask);
        (0..u64::from(self.hashes)).map(move |round| hash.wrapping_add(step.wrapping_mul(round)) & mask)
    }

    /// Adds a value.
    pub fn push(&mut self, value: &[u8]) {
        for place in self.places(value) {
            self.bits[(place / 64) as usize] |= 1 << (place % 64);
        }
    }

    /// Whether it may have been added.
    pub fn contains(&self, value: &[u8]) -> bool {
        self.places(value).all(|place| self.bits[(place / 64) as usize] >> (place % 64) & 1 != 0)
    }
}
