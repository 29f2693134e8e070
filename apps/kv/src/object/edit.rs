//! An object that is being changed, with a record of the changes if there is a log.

use std::ops::Deref;

use super::{Fields, SortedSet};
use crate::journal::record::{self, Changes};

/// An object that is being changed. It reads as the object itself.
pub struct Edit<'e, T> {
    object: &'e mut T,
    changes: Option<&'e mut Changes>,
}

impl<'e, T> Edit<'e, T> {
    /// Changes an object, and records the changes if asked for.
    pub fn new(object: &'e mut T, changes: Option<&'e mut Changes>) -> Edit<'e, T> {
        Edit { object, changes }
    }

    fn note(&mut self, name: &'static [u8], words: &[&[u8]]) {
        if let Some(changes) = &mut self.changes {
            changes.add(name, words);
        }
    }
}

impl<T> Deref for Edit<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.object
    }
}

impl Edit<'_, Fields> {
    /// As [`Fields::set`].
    pub fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        self.note(b"HSET", &[field, value]);
        self.object.set(field, value)
    }

    /// As [`Fields::remove`].
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let was_there = self.object.remove(field);
        if was_there {
            self.note(b"HDEL", &[field]);
        }
        was_there
    }
}

impl Edit<'_, SortedSet> {
    /// As [`SortedSet::set`].
    pub fn set(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let old = self.object.set(member, score);
        if self.changes.is_some() && old != Some(score) {
            self.note(b"ZADD", &[&record::score(score), member]);
        }
        old
    }

    /// As [`SortedSet::remove`].
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let old = self.object.remove(member);
        if old.is_some() {
            self.note(b"ZREM", &[member]);
        }
        old
    }
}
