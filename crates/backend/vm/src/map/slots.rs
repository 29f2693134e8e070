//! Which slots of a map are free.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::grace::Grace;

/// Slots beside `max_entries` for values of `bytes` bytes that wait for a run to end. They are address space: pages that
/// no value was written to cost nothing.
pub(crate) fn waiting_room(bytes: u64) -> u32 {
    const MOST: u64 = 1 << 16;
    const LEAST: u64 = 64;
    const MOST_BYTES: u64 = 16 << 20;
    (MOST_BYTES / bytes.max(1)).clamp(LEAST, MOST) as u32
}

/// The free slots of a map.
#[derive(Debug)]
pub(crate) struct Slots {
    /// Slots there are.
    count: u32,
    /// Entries now.
    used: u32,
    /// Slots that were used before and are free again.
    free: Vec<u32>,
    /// The lowest slot never used.
    fresh: u32,
    /// Freed slots with their stamps, free when the runs of that time have ended.
    retired: VecDeque<(u32, u64)>,
    grace: Option<Arc<Grace>>,
}

impl Slots {
    /// All free. With `grace`, freed slots wait for the runs that may hold pointers to them.
    pub fn new(count: u32, grace: Option<Arc<Grace>>) -> Slots {
        Slots { count, used: 0, free: Vec::new(), fresh: 0, retired: VecDeque::new(), grace }
    }

    /// Entries now.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// The lowest slot never used.
    pub fn fresh(&self) -> u32 {
        self.fresh
    }

    /// A slot for one entry more; `None` where there are `most` already.
    pub fn take(&mut self, most: u32) -> Option<u32> {
        if self.used >= most {
            return None;
        }
        let slot = self.take_more()?;
        self.used += 1;
        Some(slot)
    }

    /// A slot that replaces another one.
    pub fn take_more(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        if let Some(grace) = self.grace.as_ref().filter(|_| !self.retired.is_empty()) {
            let oldest = grace.oldest();
            while let Some((slot, _)) = self.retired.front().copied().filter(|(_, stamp)| *stamp < oldest) {
                self.retired.pop_front();
                self.free.push(slot);
            }
            if let Some(slot) = self.free.pop() {
                return Some(slot);
            }
        }
        if self.fresh < self.count {
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        // Rather reuse early than fail: the memory is the map's either way.
        Some(self.retired.pop_front()?.0)
    }

    /// Gives back the slot of an entry that is gone.
    pub fn release(&mut self, slot: u32) {
        self.used -= 1;
        self.retire(slot);
    }

    /// Gives back a slot whose entry has another one now.
    pub fn retire(&mut self, slot: u32) {
        match &self.grace {
            Some(grace) => self.retired.push_back((slot, grace.stamp())),
            None => self.free.push(slot),
        }
    }
}
