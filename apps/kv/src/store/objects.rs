//! Keys whose values are objects ([`crate::object`]): their items are in the table as all others, and say which object it is.
//!
//! ```text
//!   bucket -> item: key, OBJECT | kind | number -> objects[number]: a lock, and the object until its item is freed
//! ```
//!
//! An object has a lock of its own, which nobody takes who holds a bucket's: a long answer stops nobody but those who want
//! the same object. Whoever holds it may take a bucket's for a moment, to record a change. Whoever holds it may find that the object is gone, because its key was removed in between: then there is a new
//! item by now, or none. Who takes the last element out marks it as gone first, and then removes the item.

use std::sync::{Arc, Mutex};

use super::layout::{item, state};
use super::put::New;
use super::values::{Held, NUMBERS, Shared, held, value_of};
use super::{Condition, Outcome, Store, text};
use crate::object::{Edit, Kind, Typed};

/// How often a key is looked for again, because its object was gone. Each time, somebody has removed one.
const TRIES: usize = 100_000;

/// Why an object is neither read nor changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The key's value is of another type.
    OtherType,
    /// There is no memory for what is to be added, even without all others.
    NoMemory,
}

impl Store<'_> {
    /// What a key's value is; `None` if there is no such key.
    pub fn kind(&self, key: &[u8]) -> Option<Kind> {
        self.read(key, None, |item| item.kind())
    }

    /// A key's object, and the number in its item.
    fn object(&self, key: &[u8], kind: Kind) -> Result<Option<(u64, Shared)>, Refused> {
        let found = self.read(key, None, |item| {
            let number = item.object_number();
            (item.kind(), number, if item.kind() == kind { self.objects.get(number) } else { None })
        });
        match found {
            None => Ok(None),
            Some((found, ..)) if found != kind => Err(Refused::OtherType),
            // An item without an object is about to go: as if it had gone.
            Some((_, number, object)) => Ok(object.map(|object| (number, object))),
        }
    }

    /// What `read` makes of a key's object; `None` if there is no such key. It must not ask the store.
    ///
    /// # Errors
    /// [`Refused::OtherType`] if the value is of another type.
    pub fn inspect<T: Typed, R>(&self, key: &[u8], read: impl FnOnce(&T) -> R) -> Result<Option<R>, Refused> {
        for _ in 0..TRIES {
            let Some((_, object)) = self.object(key, T::KIND)? else { return Ok(None) };
            let mut held = held(&object);
            if let Some(object) = held.object.as_mut().and_then(T::of) {
                return Ok(Some(read(object)));
            }
            drop(held);
            std::thread::yield_now();
        }
        Ok(None)
    }

    /// Changes a key's object; what `change` gave. `None` if there is no such key. It must not ask the store. An object that has no
    /// elements afterwards is removed with its key.
    ///
    /// # Errors
    /// [`Refused::OtherType`] if the value is of another type.
    pub fn alter<T: Typed, R>(
        &self,
        key: &[u8],
        change: impl FnOnce(&mut Edit<'_, T>) -> R,
    ) -> Result<Option<R>, Refused> {
        for _ in 0..TRIES {
            let Some((number, object)) = self.object(key, T::KIND)? else { return Ok(None) };
            let mut held = held(&object);
            let Some(typed) = held.object.as_mut().and_then(T::of) else {
                drop(held);
                std::thread::yield_now();
                continue;
            };
            let mut changes = self.changes(key);
            let result = change(&mut Edit::new(typed, changes.as_mut()));
            let (is_empty, bytes) = (typed.is_empty(), typed.bytes());
            self.add(state::BYTES, bytes.wrapping_sub(held.bytes));
            held.bytes = bytes;
            if is_empty {
                held.object = None;
                drop(held);
                self.remove_object(key, number, &object);
            } else if let Some(changes) = changes {
                self.note_changed(key, number, &object, &changes.finish());
            }
            return Ok(Some(result));
        }
        Ok(None)
    }

    /// Changes a key's object, or a new one if there is none; what `change` gave. About `more_bytes` bytes are going to be added, for
    /// which others are evicted. If somebody else adds the key in between, `change` is asked again. A new object that stays without
    /// elements is not stored.
    ///
    /// # Errors
    /// Returns why it was not changed.
    pub fn extend<T: Typed, R>(
        &self,
        key: &[u8],
        more_bytes: u64,
        mut change: impl FnMut(&mut Edit<'_, T>) -> R,
    ) -> Result<R, Refused> {
        for _ in 0..TRIES {
            if !self.make_room(more_bytes) {
                return Err(Refused::NoMemory);
            }
            if let Some(result) = self.alter(key, &mut change)? {
                return Ok(result);
            }
            let mut new = T::default();
            let mut changes = self.changes(key);
            let result = change(&mut Edit::new(&mut new, changes.as_mut()));
            if new.is_empty() {
                return Ok(result);
            }
            let bytes = new.bytes();
            let held = Held { object: Some(new.into_object()), bytes };
            match self.put_object(key, T::KIND, held, &changes.map(|changes| changes.finish()).unwrap_or_default()) {
                Outcome::Stored => return Ok(result),
                Outcome::NoMemory => return Err(Refused::NoMemory),
                Outcome::Exists | Outcome::NotFound => {}
            }
        }
        Err(Refused::NoMemory)
    }

    /// Stores the item of a new object, if its key is new.
    fn put_object(&self, key: &[u8], kind: Kind, held: Held, records: &[u8]) -> Outcome {
        let bytes = held.bytes;
        let Some(number) = self.objects.add(Arc::new(Mutex::new(held))) else { return Outcome::NoMemory };
        // Counted before anybody can count it out.
        self.add(state::BYTES, bytes);
        let outcome = text::with(key, 0, b"", |text| {
            let value = value_of(kind, number);
            let new = New { key, hash: self.hash_of(key), expires: 0, value, text, object: Some(records) };
            self.put_new(&new, Condition::Absent, None)
        });
        if outcome != Outcome::Stored {
            self.forget_object(number);
        }
        outcome
    }

    /// Removes a key whose object this is. Its number may be another one's by now.
    fn remove_object(&self, key: &[u8], number: u64, object: &Shared) {
        let hash = self.hash_of(key);
        let locked = self.lock_of(hash);
        let place = self.find(&locked, hash, key);
        if place.at.is_some_and(|at| self.is_of(at, number, object)) {
            self.remove_at(locked, place);
        }
    }

    /// Whether an item's value is this object.
    fn is_of(&self, at: usize, number: u64, object: &Shared) -> bool {
        let value = self.load(at + item::VALUE);
        let is_numbered = value & item::OBJECT != 0 && value & NUMBERS == number;
        is_numbered && self.objects.get(number).is_some_and(|found| Arc::ptr_eq(&found, object))
    }

    /// Records changes of a key's object, whose lock is held, unless the key has another value by now.
    fn note_changed(&self, key: &[u8], number: u64, object: &Shared, records: &[u8]) {
        if records.is_empty() {
            return;
        }
        let hash = self.hash_of(key);
        let locked = self.lock_of(hash);
        if self.find(&locked, hash, key).at.is_some_and(|at| self.is_of(at, number, object)) {
            self.note(|to| to.extend_from_slice(records));
        }
    }
}
