//! The store's side of the log: what is recorded.
//!
//! Records are made while the lock of the key's bucket is held, so their order is that of the changes of each key. Whoever changes an
//! object takes that lock as well before it gives the object free, and records nothing if the key's object is another one by then.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::layout::{item, mark};
use super::{Store, text};
use crate::journal::Journal;
use crate::journal::record::{self, Changes, Text};

impl Store<'_> {
    /// Has all changes from now on be recorded. Only for a store that no program shares, and once.
    pub fn record_to(&self, journal: Arc<Journal>) {
        let _ = self.journal.set(journal);
    }

    /// The queue of records, if there is a log.
    pub fn journal(&self) -> Option<&Arc<Journal>> {
        self.journal.get()
    }

    /// Whether something may be changed now; waits for room in the log.
    ///
    /// # Errors
    /// Returns why the log cannot be written.
    pub fn admit(&self) -> Result<(), String> {
        self.journal.get().map_or(Ok(()), |journal| journal.admit())
    }

    /// While it is loaded, nothing ends: what a log says of a key that has ended is said before it was removed.
    pub fn load_with(&self, load: impl FnOnce()) {
        self.is_loading.store(true, Ordering::SeqCst);
        load();
        self.is_loading.store(false, Ordering::SeqCst);
    }

    pub(super) fn note(&self, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(journal) = self.journal.get() {
            journal.record(write);
        }
    }

    /// The word at an offset; 0 outside of the heap.
    fn word(&self, at: usize) -> u64 {
        self.heap.load(at).unwrap_or(0)
    }

    /// The key of an item.
    pub(super) fn key_of(&self, at: usize) -> Vec<u8> {
        let (mut key, sizes) = (Vec::new(), self.word(at + item::SIZES));
        self.heap.read(at + item::TEXT, (sizes as u32).min((sizes >> 32) as u32) as usize, &mut key);
        key
    }

    /// Records that an item is removed.
    pub(super) fn note_removed(&self, at: usize) {
        self.note(|to| record::remove(to, &self.key_of(at)));
    }

    /// Records when a key ends.
    pub(super) fn note_expires(&self, key: &[u8], expires: u64) {
        self.note(|to| record::expire(to, key, expires));
    }

    /// Records an item of a string as it is.
    pub(super) fn note_item(&self, at: usize) {
        self.note(|to| {
            let (text, key_bytes) = self.text_at(at);
            text_of(&text, key_bytes, self.word(at + item::VALUE), self.word(at + item::EXPIRES)).append(to);
        });
    }

    pub(super) fn text_at(&self, at: usize) -> (Vec<u8>, usize) {
        let (mut text, sizes) = (Vec::new(), self.word(at + item::SIZES));
        self.heap.read(at + item::TEXT, (sizes >> 32) as usize, &mut text);
        (text, sizes as u32 as usize)
    }

    /// A record of changes, if there is a log.
    pub(super) fn changes(&self, key: &[u8]) -> Option<Changes> {
        self.journal.get().map(|_| Changes::new(key))
    }
}

/// What a text says: `key flags bytes\r\n<value>\r\n`.
pub(super) fn text_of(text: &[u8], key_bytes: usize, value: u64, expires: u64) -> Text<'_> {
    let end = text.len().saturating_sub(2);
    let value_bytes = (value & item::VALUE_BYTES) as usize;
    Text {
        key: text.get(..key_bytes).unwrap_or_default(),
        value: text.get(end.saturating_sub(value_bytes)..end).unwrap_or_default(),
        flags: text::flags(text, key_bytes),
        // That somebody has asked for it is not worth a comment.
        marks: value as u32 & mark::ALL & !mark::FETCHED,
        expires,
    }
}
