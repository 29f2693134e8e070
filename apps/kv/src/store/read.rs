//! Items that are read: under the lock of their bucket, or copied.

use super::layout::{item, mark};
use super::values::kind_of;
use super::{Store, text};
use crate::object::Kind;

/// A key's item, copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// `key flags bytes\r\n<value>\r\n`.
    pub text: Vec<u8>,
    /// The key's bytes.
    pub key_bytes: usize,
    /// The value's bytes.
    pub value_bytes: usize,
    /// The version.
    pub version: u64,
    /// When it ends, in milliseconds of the store's clock; 0: never.
    pub expires: u64,
    /// What the value is; of an object, there are no bytes.
    pub kind: Kind,
    /// Bits of [`mark`].
    pub marks: u32,
}

impl Found {
    /// The value.
    pub fn value(&self) -> &[u8] {
        let end = self.text.len().saturating_sub(2);
        self.text.get(end.saturating_sub(self.value_bytes)..end).unwrap_or_default()
    }

    /// What the client said that the value is.
    pub fn flags(&self) -> u32 {
        text::flags(&self.text, self.key_bytes)
    }
}

/// A key's item in its place, while its bucket's lock is held.
pub struct Item<'i> {
    store: &'i Store<'i>,
    at: usize,
    /// The key's bytes.
    pub key_bytes: usize,
    /// The value's bytes.
    pub value_bytes: usize,
    text_bytes: usize,
    /// The value's bytes, or which object it is.
    value: u64,
}

impl Item<'_> {
    /// When it ends, in milliseconds of the store's clock; 0: never.
    pub fn expires(&self) -> u64 {
        self.store.load(self.at + item::EXPIRES)
    }

    /// Its version.
    pub fn version(&self) -> u64 {
        self.store.load(self.at + item::CAS)
    }

    /// What the value is; of an object, there are no bytes.
    pub fn kind(&self) -> Kind {
        kind_of(self.value)
    }

    /// The number of the object that is the value.
    pub(super) fn object_number(&self) -> u64 {
        self.value & (item::SORTED - 1)
    }

    /// Appends the text from a place on.
    fn append_from(&self, from: usize, to: &mut Vec<u8>) {
        // Words are read from their beginning.
        let (begin, before) = (from & !7, to.len());
        self.store.heap.read(self.at + item::TEXT + begin, self.text_bytes.saturating_sub(begin), to);
        to.drain(before..(before + from - begin).min(to.len()));
    }

    /// Appends the whole text, `key flags bytes\r\n<value>\r\n`.
    pub fn append_text(&self, to: &mut Vec<u8>) {
        self.append_from(0, to);
    }

    /// Appends the value and the end of line behind it.
    pub fn append_value_line(&self, to: &mut Vec<u8>) {
        self.append_from(self.text_bytes.saturating_sub(self.value_bytes + 2), to);
    }
}

impl Store<'_> {
    /// An item that is found and valid, marked as used.
    pub(super) fn item(&self, at: usize) -> Item<'_> {
        let (sizes, value) = (self.load(at + item::SIZES), self.load(at + item::VALUE));
        // A cache line that is not written stays with all processors.
        if value >> 32 != 1 {
            self.heap.store(at + item::VALUE, value & 0xffff_ffff | 1 << 32);
        }
        Item {
            store: self,
            at,
            key_bytes: sizes as u32 as usize,
            value_bytes: if value & item::OBJECT == 0 { (value & item::VALUE_BYTES) as usize } else { 0 },
            value: value & 0xffff_ffff,
            text_bytes: (sizes >> 32) as usize,
        }
    }

    /// A copy of an item, under its bucket's lock.
    pub(super) fn copy(&self, at: usize) -> Found {
        let item = self.item(at);
        let mut text = Vec::new();
        item.append_text(&mut text);
        Found {
            text,
            key_bytes: item.key_bytes,
            value_bytes: item.value_bytes,
            version: item.version(),
            expires: item.expires(),
            kind: item.kind(),
            marks: if item.kind() == Kind::String { item.value as u32 & mark::ALL } else { 0 },
        }
    }

    /// What `read` makes of a key's item while its bucket is locked: it should be quick, and must not ask the store. `expires` sets
    /// when the item ends. `None` if there is no such key.
    pub fn read<T>(&self, key: &[u8], expires: Option<u64>, read: impl FnOnce(&Item<'_>) -> T) -> Option<T> {
        let hash = self.hash_of(key);
        let locked = self.lock_of(hash);
        let place = self.find(&locked, hash, key);
        let at = place.at?;
        if self.is_expired(at) {
            self.unlink(place.link, at);
            drop(locked);
            self.gone(at);
            return None;
        }
        if let Some(expires) = expires {
            if expires != self.load(at + item::EXPIRES) {
                self.note_expires(key, expires);
            }
            self.heap.store(at + item::EXPIRES, expires);
        }
        let value = self.load(at + item::VALUE);
        if value & (item::OBJECT | u64::from(mark::FETCHED)) == 0 {
            self.heap.store(at + item::VALUE, value | u64::from(mark::FETCHED));
        }
        Some(read(&self.item(at)))
    }

    /// A key's item, copied. `expires` sets when it ends.
    pub fn get(&self, key: &[u8], expires: Option<u64>) -> Option<Found> {
        self.read(key, expires, |item| self.copy(item.at))
    }
}
