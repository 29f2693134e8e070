//! A hash: fields with values, in the order in which they came.
//!
//! ```text
//!   table: hash of a field -> number        entries: [ field, value ] [ field, value ] ...
//! ```
//!
//! A small hash keeps its order when a field is removed, as in Redis; in a larger one the last field moves to the free place.

use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

use super::{ALLOCATION_BYTES, Kind, Object, TABLE_BYTES, Typed};

/// Fields of a small hash: Redis' `hash-max-listpack-entries`.
pub const SMALL: usize = 128;

struct Entry {
    field: Box<[u8]>,
    value: Box<[u8]>,
}

/// Fields with values.
#[derive(Default)]
pub struct Fields {
    /// The numbers of entries, by their fields' hashes.
    table: HashTable<u32>,
    entries: Vec<Entry>,
    hasher: RandomState,
    /// Bytes of all fields and values.
    text_bytes: usize,
}

impl Fields {
    /// About how many bytes a field and its value take, which have so many bytes together.
    pub(super) const fn element_bytes(text_bytes: usize) -> u64 {
        size_of::<Entry>() as u64 + 2 * ALLOCATION_BYTES + TABLE_BYTES + text_bytes as u64
    }

    fn number(&self, field: &[u8]) -> Option<usize> {
        let hash = self.hasher.hash_one(field);
        let number = self.table.find(hash, |number| *self.entries[*number as usize].field == *field)?;
        Some(*number as usize)
    }

    /// A field's value.
    pub fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.number(field).map(|number| &*self.entries[number].value)
    }

    /// Sets a field; whether it is new.
    pub fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        self.text_bytes += value.len();
        if let Some(number) = self.number(field) {
            let old = std::mem::replace(&mut self.entries[number].value, value.into());
            self.text_bytes -= old.len();
            return false;
        }
        self.text_bytes += field.len();
        let Fields { table, entries, hasher, .. } = self;
        let rehash = |number: &u32| hasher.hash_one(&*entries[*number as usize].field);
        table.insert_unique(hasher.hash_one(field), entries.len() as u32, rehash);
        entries.push(Entry { field: field.into(), value: value.into() });
        true
    }

    /// Removes a field; whether it was there.
    pub fn remove(&mut self, field: &[u8]) -> bool {
        let Some(number) = self.number(field) else { return false };
        self.forget(field, number);
        let entry = if self.len() <= SMALL {
            self.table.iter_mut().filter(|other| **other as usize > number).for_each(|other| *other -= 1);
            self.entries.remove(number)
        } else {
            let last = self.len() - 1;
            if number != last {
                let hash = self.hasher.hash_one(&*self.entries[last].field);
                if let Some(place) = self.table.find_mut(hash, |other| *other as usize == last) {
                    *place = number as u32;
                }
            }
            self.entries.swap_remove(number)
        };
        self.text_bytes -= entry.field.len() + entry.value.len();
        self.give_back();
        true
    }

    /// Takes a number out of the table.
    fn forget(&mut self, field: &[u8], number: usize) {
        if let Ok(place) = self.table.find_entry(self.hasher.hash_one(field), |other| *other as usize == number) {
            place.remove();
        }
    }

    /// Gives memory back when most of it is free.
    fn give_back(&mut self) {
        if self.entries.capacity() > 64 && self.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to(self.len() * 2);
            let Fields { table, entries, hasher, .. } = self;
            table.shrink_to(2 * entries.len(), |number| hasher.hash_one(&*entries[*number as usize].field));
        }
    }

    /// All fields with their values, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.entries.iter().map(|entry| (&*entry.field, &*entry.value))
    }

    /// At least `count` fields, unless fewer are left, and the next cursor; 0 is the first one, and what follows the last one. A field
    /// that is there all the time is met at least once: a scan goes down, and a field moves only to a lower place.
    pub fn scan(&self, cursor: u64, count: usize) -> (u64, impl Iterator<Item = (&[u8], &[u8])>) {
        let end = match usize::try_from(cursor) {
            Ok(0) | Err(_) => self.len(),
            Ok(cursor) => cursor.min(self.len()),
        };
        let begin = if self.len() <= SMALL { 0 } else { end.saturating_sub(count) };
        let end = if self.len() <= SMALL { self.len() } else { end };
        (begin as u64, self.iter().skip(begin).take(end - begin))
    }
}

impl Typed for Fields {
    const KIND: Kind = Kind::Hash;

    fn of(object: &mut Object) -> Option<&mut Fields> {
        match object {
            Object::Hash(fields) => Some(fields),
            Object::Sorted(_) => None,
        }
    }

    fn into_object(self) -> Object {
        Object::Hash(self)
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn bytes(&self) -> u64 {
        let (entries, table) =
            (self.entries.capacity() * size_of::<Entry>(), self.table.capacity() as u64 * TABLE_BYTES);
        let texts = 2 * ALLOCATION_BYTES * self.len() as u64 + self.text_bytes as u64;
        (size_of::<Fields>() + entries) as u64 + table + texts
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{Fields, Typed as _};

    /// Numbers that look random (xorshift).
    fn numbers() -> impl FnMut(usize) -> usize {
        let mut state = 0x2545_f491_4f6c_dd1du64;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % below
        }
    }

    #[test]
    fn it_does_as_a_map_does() {
        let (mut next, mut fields, mut model) = (numbers(), Fields::default(), HashMap::new());
        for round in 0..60_000 {
            // It grows beyond the small size, and then shrinks to nothing.
            let (field, is_removed) = (next(400).to_string(), next(10) < if round < 40_000 { 3 } else { 8 });
            if is_removed {
                assert_eq!(fields.remove(field.as_bytes()), model.remove(&field).is_some());
            } else {
                let value = "v".repeat(next(20));
                assert_eq!(fields.set(field.as_bytes(), value.as_bytes()), !model.contains_key(&field));
                model.insert(field, value);
            }
            assert_eq!(fields.len(), model.len());
            let field = next(400).to_string();
            assert_eq!(fields.get(field.as_bytes()), model.get(&field).map(String::as_bytes));
        }
        let text: usize = model.iter().map(|(field, value)| field.len() + value.len()).sum();
        assert_eq!(fields.text_bytes, text);
        assert_eq!(fields.iter().count(), model.len());
        model.keys().for_each(|field| assert!(fields.remove(field.as_bytes())));
        assert!(fields.is_empty() && fields.table.is_empty() && fields.text_bytes == 0 && fields.bytes() < 16 << 10);
    }

    #[test]
    fn a_scan_meets_what_stays_whatever_else_goes() {
        let (mut next, mut fields) = (numbers(), Fields::default());
        (0..2000).for_each(|number: usize| assert!(fields.set(number.to_string().as_bytes(), b"")));
        let (mut met, mut cursor) = (std::collections::HashSet::new(), 0);
        loop {
            let (after, part) = fields.scan(cursor, 10);
            met.extend(part.map(|(field, _)| String::from_utf8(field.to_vec()).expect("text")));
            cursor = after;
            if cursor == 0 {
                break;
            }
            // Odd ones go, at any place.
            for _ in 0..6 {
                fields.remove((2 * next(1000) + 1).to_string().as_bytes());
            }
        }
        assert!((0..1000).all(|half| met.contains(&(2 * half).to_string())));
    }
}
