//! The objects of a store, by number, and how an item says which one is its value.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::layout::item;
use crate::object::{Kind, Object};

/// The most objects: their numbers have as many bits.
pub const NUMBERS: u64 = item::SORTED - 1;

/// An object and what is counted for it; without an object when its key is gone.
#[derive(Default)]
pub struct Held {
    /// The object.
    pub object: Option<Object>,
    /// Bytes that are counted for it.
    pub bytes: u64,
}

/// An object that several threads may use.
pub type Shared = Arc<Mutex<Held>>;

/// All objects of a store, by number.
#[derive(Default)]
pub struct Objects {
    places: RwLock<Places>,
}

#[derive(Default)]
struct Places {
    objects: Vec<Option<Shared>>,
    free: Vec<u32>,
}

/// Locks an object.
pub fn held(shared: &Shared) -> MutexGuard<'_, Held> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Objects {
    /// An object by its number.
    pub fn get(&self, number: u64) -> Option<Shared> {
        let places = self.places.read().unwrap_or_else(PoisonError::into_inner);
        places.objects.get(number as usize)?.clone()
    }

    /// Adds an object; `None` if there are as many as there are numbers.
    pub fn add(&self, object: Shared) -> Option<u64> {
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

    /// Takes an object out; its number is free from then on.
    pub fn take(&self, number: u64) -> Option<Shared> {
        let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let object = places.objects.get_mut(number as usize)?.take()?;
        places.free.push(number as u32);
        Some(object)
    }
}

/// What an item's word `VALUE` says that the value is.
pub fn kind_of(value: u64) -> Kind {
    match (value & item::OBJECT != 0, value & item::SORTED != 0) {
        (false, _) => Kind::String,
        (true, false) => Kind::Hash,
        (true, true) => Kind::Sorted,
    }
}

/// The word `VALUE` of an object's item, as far as it is the value.
pub fn value_of(kind: Kind, number: u64) -> u64 {
    item::OBJECT | if kind == Kind::Sorted { item::SORTED } else { 0 } | number
}
