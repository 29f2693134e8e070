//! Keys whose values are objects ([`crate::object`]): their items are in the table as all others, and say which object it is.
//!
//! ```text
//!   bucket -> item: key, OBJECT | kind | number -> objects[number]: a lock, and the object until its item is freed
//! ```
//!
//! An object has a lock of its own, which is not held together with that of a bucket: a long answer stops nobody but those who want
//! the same object. Whoever holds it may find that the object is gone, because its key was removed in between: then there is a new
//! item by now, or none. Who takes the last element out marks it as gone first, and then removes the item.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::layout::{item, state};
use super::table::New;
use super::{Condition, Outcome, Store, text};
use crate::object::{Kind, Object, Typed};

/// How often a key is looked for again, because its object was gone. Each time, somebody has removed one.
const TRIES: usize = 100_000;
/// The most objects: their numbers have as many bits.
const NUMBERS: u64 = item::SORTED - 1;

/// Why an object is neither read nor changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The key's value is of another type.
    OtherType,
    /// There is no memory for what is to be added, even without all others.
    NoMemory,
}

/// An object and what is counted for it; without an object when its key is gone.
#[derive(Default)]
struct Held {
    object: Option<Object>,
    bytes: u64,
}

type Shared = Arc<Mutex<Held>>;

/// All objects of a store, by number.
#[derive(Default)]
pub(super) struct Objects {
    places: RwLock<Places>,
}

#[derive(Default)]
struct Places {
    objects: Vec<Option<Shared>>,
    free: Vec<u32>,
}

fn held(shared: &Shared) -> MutexGuard<'_, Held> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Objects {
    fn get(&self, number: u64) -> Option<Shared> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        places.objects.get(number as usize)?.clone()
    }

    /// Adds an object; `None` if there are as many as there are numbers.
    fn add(&self, object: Shared) -> Option<u64> {
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = places.free.pop() {
            places.objects[number as usize] = Some(object);
            return Some(u64::from(number));
        }
        let number = places.objects.len() as u64;
        if number > NUMBERS {
            return None;
        }
        places.objects.push(Some(object));
        Some(number)
    }

    fn take(&self, number: u64) -> Option<Shared> {
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let object = places.objects.get_mut(number as usize)?.take()?;
        places.free.push(number as u32);
        Some(object)
    }
}

/// What an item's word `VALUE` says that the value is.
pub(super) fn kind_of(value: u64) -> Kind {
    match (value & item::OBJECT != 0, value & item::SORTED != 0) {
        (false, _) => Kind::String,
        (true, false) => Kind::Hash,
        (true, true) => Kind::Sorted,
    }
}

/// The word `VALUE` of an object's item, as far as it is the value.
fn value_of(kind: Kind, number: u64) -> u64 {
    item::OBJECT | if kind == Kind::Sorted { item::SORTED } else { 0 } | number
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
    pub fn alter<T: Typed, R>(&self, key: &[u8], change: impl FnOnce(&mut T) -> R) -> Result<Option<R>, Refused> {
        for _ in 0..TRIES {
            let Some((number, object)) = self.object(key, T::KIND)? else { return Ok(None) };
            let mut held = held(&object);
            let Some(object) = held.object.as_mut().and_then(T::of) else {
                drop(held);
                std::thread::yield_now();
                continue;
            };
            let result = change(object);
            let (is_empty, bytes) = (object.is_empty(), object.bytes());
            self.add(state::BYTES, bytes.wrapping_sub(held.bytes));
            held.bytes = bytes;
            if is_empty {
                held.object = None;
                drop(held);
                self.remove_object(key, number);
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
        mut change: impl FnMut(&mut T) -> R,
    ) -> Result<R, Refused> {
        for _ in 0..TRIES {
            if !self.make_room(more_bytes) {
                return Err(Refused::NoMemory);
            }
            if let Some(result) = self.alter(key, &mut change)? {
                return Ok(result);
            }
            let mut new = T::default();
            let result = change(&mut new);
            if new.is_empty() {
                return Ok(result);
            }
            let bytes = new.bytes();
            let held = Held { object: Some(new.into_object()), bytes };
            match self.put_object(key, T::KIND, held) {
                Outcome::Stored => return Ok(result),
                Outcome::NoMemory => return Err(Refused::NoMemory),
                Outcome::Exists | Outcome::NotFound => {}
            }
        }
        Err(Refused::NoMemory)
    }

    /// Stores the item of a new object, if its key is new.
    fn put_object(&self, key: &[u8], kind: Kind, held: Held) -> Outcome {
        let bytes = held.bytes;
        let Some(number) = self.objects.add(Arc::new(Mutex::new(held))) else { return Outcome::NoMemory };
        // Counted before anybody can count it out.
        self.add(state::BYTES, bytes);
        let outcome = text::with(key, 0, b"", |text| {
            let value = value_of(kind, number);
            self.put_new(&New { key, hash: self.hash_of(key), expires: 0, value, text }, Condition::Absent, None)
        });
        if outcome != Outcome::Stored {
            self.forget_object(number);
        }
        outcome
    }

    /// Takes an object out of the table, and counts it out.
    fn forget_object(&self, number: u64) {
        let Some(object) = self.objects.take(number) else { return };
        let gone = std::mem::take(&mut *held(&object));
        self.add(state::BYTES, gone.bytes.wrapping_neg());
    }

    /// Frees what an item that was unlinked has outside of the heap.
    pub(super) fn forget_value(&self, at: usize) {
        let value = self.load(at + item::VALUE);
        if value & item::OBJECT != 0 {
            self.forget_object(value & NUMBERS);
        }
    }

    /// Removes a key whose object has this number.
    fn remove_object(&self, key: &[u8], number: u64) {
        let hash = self.hash_of(key);
        let locked = self.lock_of(hash);
        let place = self.find(&locked, hash, key);
        let is_own = |at: usize| {
            let value = self.load(at + item::VALUE);
            value & item::OBJECT != 0 && value & NUMBERS == number
        };
        if place.at.is_some_and(is_own) {
            self.remove_at(locked, place);
        }
    }
}
