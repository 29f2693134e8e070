//! Changes of a key that depend on what it is.

use super::layout::{bucket, item, mark};
use super::put::New;
use super::table::Locked;
use super::{Condition, Found, Outcome, Store, text};

/// How often a change is made again because others have made one in between. One of them has, each time.
const TRIES: usize = 10_000;

/// What is to become of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// It stays as it is.
    Keep,
    /// It gets this value.
    Put {
        /// What the value is.
        flags: u32,
        /// When it ends, in milliseconds of the store's clock; 0: never.
        expires: u64,
        /// Bits of [`mark`].
        marks: u32,
        /// The value.
        value: Vec<u8>,
    },
    /// Its value stays.
    Mark {
        /// When it ends, in milliseconds of the store's clock; 0: never.
        expires: u64,
        /// Bits of [`mark`].
        marks: u32,
        /// Whether that makes another version.
        is_new_version: bool,
    },
    /// It goes.
    Remove,
}

/// There is no memory for a value, even without all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl Store<'_> {
    /// Changes a key to what `change` makes of its item, and returns what it gave beside the change. `change` runs while the key's
    /// bucket is locked: it must not ask the store. If the new value needs other memory and somebody changes the key while there is
    /// no lock, it is asked again.
    ///
    /// # Errors
    /// [`Full`] if there is no memory for the new value; then the key stays as it is.
    pub fn update<T>(&self, key: &[u8], mut change: impl FnMut(Option<&Found>) -> (Change, T)) -> Result<T, Full> {
        self.update_versioned(key, |found, _| change(found))
    }

    /// As [`Store::update`]; `change` also gets the version that the item is going to have if it is put or marked as a new one.
    ///
    /// # Errors
    /// [`Full`] if there is no memory for the new value; then the key stays as it is.
    pub fn update_versioned<T>(
        &self,
        key: &[u8],
        mut change: impl FnMut(Option<&Found>, u64) -> (Change, T),
    ) -> Result<T, Full> {
        let hash = self.hash_of(key);
        for _ in 0..TRIES {
            let locked = self.lock_of(hash);
            let place = self.find(&locked, hash, key);
            let found = place.at.filter(|at| !self.is_expired(*at)).map(|at| self.copy(at));
            let before = self.load(locked.at + bucket::VERSION);
            let (change, result) = change(found.as_ref(), before + 1);
            let (flags, expires, marks, value) = match change {
                Change::Keep => return Ok(result),
                Change::Remove => {
                    self.remove_at(locked, place);
                    return Ok(result);
                }
                Change::Mark { expires, marks, is_new_version } => {
                    if let Some(at) = place.at.filter(|_| found.is_some()) {
                        self.mark(&locked, at, expires, marks, is_new_version);
                    }
                    return Ok(result);
                }
                Change::Put { flags, expires, marks, value } => (flags, expires, marks, value),
            };
            let condition = found.as_ref().map_or(Condition::Absent, |found| Condition::Version(found.version));
            let outcome = text::with(key, flags, &value, |text| {
                let new = New { key, hash, expires, value: value.len() as u64 | u64::from(marks), text, object: None };
                if place.at.is_some_and(|at| self.overwrite(&locked, at, &new)) {
                    return Outcome::Stored;
                }
                drop(locked);
                self.put_new(&new, condition, Some(before))
            });
            match outcome {
                Outcome::Stored => return Ok(result),
                Outcome::NoMemory => return Err(Full),
                Outcome::Exists | Outcome::NotFound => {}
            }
        }
        Err(Full)
    }

    /// Changes what there is beside a value, unless it is an object.
    fn mark(&self, locked: &Locked<'_>, at: usize, expires: u64, marks: u32, is_new_version: bool) {
        let value = self.load(at + item::VALUE);
        if value & item::OBJECT != 0 {
            return;
        }
        if is_new_version {
            self.heap.store(at + item::CAS, self.next_version(locked));
        }
        let is_recorded =
            expires != self.load(at + item::EXPIRES) || (value as u32 ^ marks) & mark::ALL & !mark::FETCHED != 0;
        self.heap.store(at + item::EXPIRES, expires);
        self.heap.store(at + item::VALUE, value & !u64::from(mark::ALL) | u64::from(marks & mark::ALL));
        if is_recorded {
            self.note_item(at);
        }
    }

    /// Sets when a key ends to what `change` makes of when it does; what that gave beside it. `None` if there is no such key. A key whose
    /// time is over, before or after it, is removed.
    pub fn retime<T>(&self, key: &[u8], change: impl FnOnce(u64) -> (u64, T)) -> Option<T> {
        let hash = self.hash_of(key);
        let locked = self.lock_of(hash);
        let place = self.find(&locked, hash, key);
        let at = place.at?;
        if self.is_expired(at) {
            self.remove_at(locked, place);
            return None;
        }
        let old = self.heap.load(at + item::EXPIRES)?;
        let (new, result) = change(old);
        if new != old {
            // Whoever has read the old time does not write it again.
            self.heap.store(at + item::CAS, self.next_version(&locked));
            self.heap.store(at + item::EXPIRES, new);
            self.note_expires(key, new);
        }
        if self.is_expired(at) {
            self.remove_at(locked, place);
        }
        Some(result)
    }
}
