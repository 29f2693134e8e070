//! Hash maps: plain, least-recently-used, and both per CPU.
//!
//! ```text
//!   index: hash of key -> slot        keys: | key of slot 0 | key of slot 1 | ...
//!                                   values: | value of slot 0 | ...          (addresses never change)
//! ```
//!
//! As in the kernel, replacing a key's value (unless per CPU) moves it to another slot: a pointer that a program got
//! before keeps pointing at the old value. One slot more than `max_entries` makes room for that.
//!
//! A slot that is freed while a program runs may be used again at once (the kernel's preallocated maps do that too)
//! or, with `BPF_F_NO_PREALLOC`, when the run has ended. Its memory stays the map's either way.
//!
//! Least-recently-used maps evict the oldest entry that was not used since it was last considered (second chance).
//! The kernel's choice is an approximation too, and may differ.

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};

use super::UpdateFlag;
use super::values::Values;
use crate::errno::Errno;
use crate::memory::Memory;

const NONE: u32 = u32::MAX;

/// A hash map of any of the four kinds, or a hash of maps.
#[derive(Debug)]
pub struct Hash {
    key_size: usize,
    max_entries: u32,
    index: HashTable<Entry>,
    hasher: RandomState,
    keys: Vec<u8>,
    /// Slots that were used before and are free again.
    free: Vec<u32>,
    /// The lowest slot never used.
    fresh: u32,
    /// Freed during this run, free when it ends.
    retired: Vec<u32>,
    defer: bool,
    replace_in_place: bool,
    pub(crate) values: Values,
    recency: Option<Recency>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    slot: u32,
}

/// What a new hash map is like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes in a key.
    pub key_size: u32,
    /// Entries at most.
    pub max_entries: u32,
    /// Evicts instead of refusing.
    pub least_recently_used: bool,
    /// One value per CPU.
    pub per_cpu: bool,
    /// `BPF_F_NO_PREALLOC`.
    pub no_preallocation: bool,
}

impl Hash {
    /// An empty map whose values are in `values`, which holds one more than `max_entries`.
    pub fn new(shape: Shape, values: Values) -> Hash {
        let slots = shape.max_entries as usize + 1;
        Hash {
            key_size: shape.key_size as usize,
            max_entries: shape.max_entries,
            index: HashTable::new(),
            hasher: RandomState::default(),
            keys: vec![0; slots * shape.key_size as usize],
            free: Vec::new(),
            fresh: 0,
            retired: Vec::new(),
            defer: shape.no_preallocation,
            replace_in_place: shape.per_cpu,
            values,
            recency: shape.least_recently_used.then(Recency::default),
        }
    }

    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        hash_key(&self.hasher, key)
    }

    #[inline]
    fn key(&self, slot: u32) -> &[u8] {
        &self.keys[slot as usize * self.key_size..][..self.key_size]
    }

    /// The slot of a key.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Option<u32> {
        let hash = self.hash(key);
        self.find_hashed(hash, key)
    }

    #[inline]
    fn find_hashed(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let found = self.index.find(hash, |entry| entry.hash == hash as u32 && same(self.key(entry.slot), key));
        found.map(|entry| entry.slot)
    }

    /// The slot of a key that a program looks up; counts as a use.
    #[inline]
    pub fn look_up(&mut self, key: &[u8]) -> Option<u32> {
        let slot = self.find(key)?;
        if let Some(recency) = &mut self.recency {
            recency.used[slot as usize] = true;
        }
        Some(slot)
    }

    /// Entries now.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Keys and their slots, in no order.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], u32)> {
        self.index.iter().map(|entry| (self.key(entry.slot), entry.slot))
    }

    /// Slots in use, in their order, from `first` on.
    pub fn next_slot(&self, first: u32) -> Option<(&[u8], u32)> {
        (first..self.fresh).find_map(|slot| {
            let key = self.key(slot);
            (self.find(key) == Some(slot)).then_some((key, slot))
        })
    }

    /// The slot where the value of `key` is to be written, after the flags were obeyed. A new slot is zero.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT` by the flag; `E2BIG` when full.
    pub fn prepare(&mut self, memory: &mut Memory, key: &[u8], flag: UpdateFlag) -> Result<u32, Errno> {
        let hash = self.hash(key);
        let old = self.find_hashed(hash, key);
        match (flag, old) {
            (UpdateFlag::NoExist, Some(_)) => return Err(Errno::EEXIST),
            (UpdateFlag::Exist, None) => return Err(Errno::ENOENT),
            _ => {}
        }
        if let Some(old) = old {
            return Ok(self.replace(hash, key, old));
        }
        if self.index.len() >= self.max_entries as usize {
            let victim = self.recency.as_mut().and_then(Recency::victim).ok_or(Errno::E2BIG)?;
            self.remove_slot(victim);
        }
        let slot = self.take_slot().ok_or(Errno::ENOMEM)?;
        self.keys[slot as usize * self.key_size..][..self.key_size].copy_from_slice(key);
        self.insert(hash, slot);
        if self.replace_in_place {
            self.values.clear(memory, slot);
        }
        Ok(slot)
    }

    /// Gives a key that exists a new slot.
    fn replace(&mut self, hash: u64, key: &[u8], old: u32) -> u32 {
        if self.replace_in_place {
            return old;
        }
        let Some(slot) = self.take_slot() else { return old };
        self.keys[slot as usize * self.key_size..][..self.key_size].copy_from_slice(key);
        let keys = &self.keys;
        let size = self.key_size;
        let same_slot = |entry: &Entry| entry.slot == old && same(&keys[old as usize * size..][..size], key);
        if let Some(entry) = self.index.find_mut(hash, same_slot) {
            entry.slot = slot;
        }
        if let Some(recency) = &mut self.recency {
            recency.unlink(old);
            recency.push(slot);
        }
        self.release(old);
        slot
    }

    fn insert(&mut self, hash: u64, slot: u32) {
        let (keys, size, hasher) = (&self.keys, self.key_size, &self.hasher);
        self.index.insert_unique(hash, Entry { hash: hash as u32, slot }, |entry| {
            hash_key(hasher, &keys[entry.slot as usize * size..][..size])
        });
        if let Some(recency) = &mut self.recency {
            recency.push(slot);
        }
    }

    /// Removes a key; its slot is free again.
    ///
    /// # Errors
    /// `ENOENT`.
    pub fn remove(&mut self, key: &[u8]) -> Result<u32, Errno> {
        let slot = self.find(key).ok_or(Errno::ENOENT)?;
        self.remove_slot(slot);
        Ok(slot)
    }

    fn remove_slot(&mut self, slot: u32) {
        let hash = self.hash(self.key(slot));
        if let Ok(found) = self.index.find_entry(hash, |entry| entry.slot == slot) {
            found.remove();
        }
        if let Some(recency) = &mut self.recency {
            recency.unlink(slot);
        }
        self.release(slot);
    }

    fn release(&mut self, slot: u32) {
        if self.defer { self.retired.push(slot) } else { self.free.push(slot) }
    }

    fn take_slot(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        if self.fresh <= self.max_entries {
            let slot = self.fresh;
            self.fresh += 1;
            return Some(slot);
        }
        // Rather reuse early than fail: the memory is the map's either way.
        self.retired.pop()
    }

    /// A run has ended: no program holds pointers to removed values any more.
    pub fn end_of_run(&mut self) {
        self.free.append(&mut self.retired);
    }
}

/// A key of up to 16 bytes as two numbers, which overlap where it is shorter.
#[inline(always)]
fn words(key: &[u8]) -> Option<(u64, u64)> {
    if let (8..=16, Some(first), Some(last)) = (key.len(), key.first_chunk::<8>(), key.last_chunk::<8>()) {
        return Some((u64::from_ne_bytes(*first), u64::from_ne_bytes(*last)));
    }
    if let (4..8, Some(first), Some(last)) = (key.len(), key.first_chunk::<4>(), key.last_chunk::<4>()) {
        return Some((u32::from_ne_bytes(*first).into(), u32::from_ne_bytes(*last).into()));
    }
    None
}

#[inline(always)]
fn hash_key(hasher: &RandomState, key: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    match words(key) {
        Some((first, last)) => {
            state.write_u64(first);
            state.write_u64(last);
        }
        None => state.write(key),
    }
    state.finish()
}

/// Whether two keys of one map are the same.
#[inline(always)]
fn same(one: &[u8], other: &[u8]) -> bool {
    match (words(one), words(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

/// Slots from the most to the least recently inserted or spared, as a doubly linked list.
#[derive(Debug)]
struct Recency {
    links: Vec<(u32, u32)>,
    used: Vec<bool>,
    newest: u32,
    oldest: u32,
}

impl Default for Recency {
    fn default() -> Recency {
        Recency { links: Vec::new(), used: Vec::new(), newest: NONE, oldest: NONE }
    }
}

impl Recency {
    fn push(&mut self, slot: u32) {
        let at = slot as usize;
        if at >= self.links.len() {
            self.links.resize(at + 1, (NONE, NONE));
            self.used.resize(at + 1, false);
        }
        self.used[at] = false;
        self.links[at] = (NONE, self.newest);
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.links[newest as usize].0 = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let (newer, older) = self.links[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].1 = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].0 = newer,
        }
    }

    /// The oldest slot that was not used since it was last looked at here.
    fn victim(&mut self) -> Option<u32> {
        // Each step clears one mark, so this ends within two rounds.
        while self.oldest != NONE {
            let slot = self.oldest;
            if !self.used[slot as usize] {
                return Some(slot);
            }
            self.unlink(slot);
            self.push(slot);
        }
        None
    }
}
