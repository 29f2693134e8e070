//! Changes of a key that depend on what it is.

use super::layout::{bucket, item};
use super::{Condition, Found, Outcome, Store, hash};

/// How often a change is made again, because others have made one meanwhile. One of them has, each time.
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
        /// When it ends, in milliseconds since 1970; 0: never.
        expires: u64,
        /// The value.
        value: Vec<u8>,
    },
    /// It goes.
    Remove,
}

/// There is no memory for a value, even without all others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl Store<'_> {
    /// Changes a key to what `change` makes of its item, on the condition that nobody changes it meanwhile: else it is asked again.
    /// Returns what it gave beside the change.
    ///
    /// # Errors
    /// [`Full`] if there is no memory for the new value; then the key stays as it is.
    pub fn update<T>(&self, key: &[u8], change: impl Fn(Option<&Found>) -> (Change, T)) -> Result<T, Full> {
        for _ in 0..TRIES {
            let found = self.get(key, None);
            let condition = found.as_ref().map_or(Condition::Absent, |found| Condition::Version(found.version));
            let (change, result) = change(found.as_ref());
            let outcome = match change {
                Change::Keep => return Ok(result),
                Change::Remove => match &found {
                    Some(found) if !self.remove(key, Some(found.version)) => Outcome::Exists,
                    _ => return Ok(result),
                },
                Change::Put { flags, expires, value } => self.put(key, flags, expires, &value, condition),
            };
            match outcome {
                Outcome::Stored => return Ok(result),
                Outcome::NoMemory => return Err(Full),
                Outcome::Exists | Outcome::NotFound => {}
            }
        }
        Err(Full)
    }

    /// Removes a key; whether it was there.
    pub fn delete(&self, key: &[u8]) -> bool {
        self.remove(key, None)
    }

    /// Removes a key, if it has this version; whether it did.
    fn remove(&self, key: &[u8], version: Option<u64>) -> bool {
        let hash = hash::hash(key, self.seed);
        let locked = self.lock(self.bucket_of(hash));
        let (link, Some(at)) = self.find(&locked, hash, key) else { return false };
        let valid = !self.is_expired(at);
        if version.is_some_and(|version| self.heap.load(at + item::CAS) != Some(version)) {
            return false;
        }
        self.unlink(link, at);
        drop(locked);
        self.gone(at);
        valid
    }

    /// Sets when a key ends to what `change` makes of when it does; what that gave beside it. `None` if there is no such key.
    pub fn retime<T>(&self, key: &[u8], change: impl FnOnce(u64) -> (u64, T)) -> Option<T> {
        let hash = hash::hash(key, self.seed);
        let locked = self.lock(self.bucket_of(hash));
        let at = self.find(&locked, hash, key).1.filter(|at| !self.is_expired(*at))?;
        let old = self.heap.load(at + item::EXPIRES)?;
        let (new, result) = change(old);
        if new != old {
            // Whoever has read the old time does not write it again.
            let version = self.heap.load(locked.at + bucket::VERSION)? + 1;
            self.heap.store(locked.at + bucket::VERSION, version);
            self.heap.store(at + item::CAS, version);
            self.heap.store(at + item::EXPIRES, new);
        }
        Some(result)
    }
}
