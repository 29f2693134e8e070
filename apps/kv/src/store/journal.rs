//! The store's side of the log: what is recorded, and all keys as records.
//!
//! Records are made while the lock of the key's bucket is held, so their order is that of the changes of each key. Whoever changes an
//! object takes that lock as well before it gives the object free, and records nothing if the key's object is another one by then.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::layout::{bucket, item, mark};
use super::put::New;
use super::table::Locked;
use super::values::{NUMBERS, Shared, held};
use super::{Store, now, text};
use crate::journal::Journal;
use crate::journal::record::{self, Changes, Text};
use crate::object::Object;

/// Bits of the versions of a bucket within a millisecond.
const VERSION_BITS: u32 = 20;

/// A key whose value is an object, and when it ends.
struct Keyed {
    key: Vec<u8>,
    expires: u64,
    object: Shared,
}

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

    /// Has the versions of all buckets begin above all that an earlier process has given: clients may still have those.
    pub fn renew_versions(&self) {
        let version = now() << VERSION_BITS;
        for number in 0..=self.mask as usize {
            let locked = self.lock(self.buckets + number * bucket::ALL);
            self.heap.store(locked.at + bucket::VERSION, version);
        }
    }

    pub(super) fn note(&self, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(journal) = self.journal.get() {
            journal.record(write);
        }
    }

    /// The key of an item.
    fn key_of(&self, at: usize) -> Vec<u8> {
        let (mut key, sizes) = (Vec::new(), self.load(at + item::SIZES));
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

    /// Records what an item is from now on.
    pub(super) fn note_new(&self, new: &New<'_>, is_replaced: bool) {
        self.note(|to| match new.object {
            Some(object) => {
                if is_replaced {
                    record::remove(to, new.key);
                }
                to.extend_from_slice(object);
            }
            None => text_of(new.text, new.key.len(), new.value, new.expires).append(to),
        });
    }

    /// Records an item of a string as it is.
    pub(super) fn note_item(&self, at: usize) {
        self.note(|to| {
            let (text, key_bytes) = self.text_at(at);
            text_of(&text, key_bytes, self.load(at + item::VALUE), self.load(at + item::EXPIRES)).append(to);
        });
    }

    fn text_at(&self, at: usize) -> (Vec<u8>, usize) {
        let (mut text, sizes) = (Vec::new(), self.load(at + item::SIZES));
        self.heap.read(at + item::TEXT, (sizes >> 32) as usize, &mut text);
        (text, sizes as u32 as usize)
    }

    /// A record of changes, if there is a log.
    pub(super) fn changes(&self, key: &[u8]) -> Option<Changes> {
        self.journal.get().map(|_| Changes::new(key))
    }

    /// Buckets.
    pub fn buckets(&self) -> usize {
        self.mask as usize + 1
    }

    /// Appends records of all that is in a bucket. What changes meanwhile is recorded after it.
    pub fn dump(&self, number: usize, to: &mut Vec<u8>) {
        let place = self.buckets + number * bucket::ALL;
        if self.heap.load(place + bucket::FIRST).unwrap_or(0) == 0 {
            return;
        }
        let locked = self.lock(place);
        let objects = self.dump_strings(&locked, to);
        drop(locked);
        objects.iter().for_each(|keyed| dump_object(keyed, to));
    }

    /// Appends records of the strings in a bucket, and returns its objects.
    fn dump_strings(&self, locked: &Locked<'_>, to: &mut Vec<u8>) -> Vec<Keyed> {
        let (mut link, mut objects) = (locked.at + bucket::FIRST, Vec::new());
        while let Some(at) = self.offset(self.load(link)) {
            link = at + item::NEXT;
            let (value, expires) = (self.load(at + item::VALUE), self.load(at + item::EXPIRES));
            if self.is_expired(at) {
                continue;
            }
            if value & item::OBJECT == 0 {
                let (text, key_bytes) = self.text_at(at);
                text_of(&text, key_bytes, value, expires).append(to);
            } else if let Some(object) = self.objects.get(value & NUMBERS) {
                objects.push(Keyed { key: self.key_of(at), expires, object });
            }
        }
        objects
    }
}

/// What a text says: `key flags bytes\r\n<value>\r\n`.
fn text_of(text: &[u8], key_bytes: usize, value: u64, expires: u64) -> Text<'_> {
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

fn dump_object(keyed: &Keyed, to: &mut Vec<u8>) {
    let Keyed { key, expires, object } = keyed;
    let mut changes = Changes::new(key);
    match &held(object).object {
        None => return,
        Some(Object::Hash(fields)) => fields.iter().for_each(|(field, value)| changes.add(b"HSET", &[field, value])),
        Some(Object::Sorted(set)) => set.visit(0, set.len(), false, &mut |member, score| {
            changes.add(b"ZADD", &[&record::score(score), member]);
        }),
    }
    to.append(&mut changes.finish());
    if *expires != 0 {
        record::expire(to, key, *expires);
    }
}
