//! All keys as records, bucket by bucket, while others change them.

use super::journal::text_of;
use super::layout::{bucket, item};
use super::table::Locked;
use super::values::{NUMBERS, Shared, held};
use super::{Store, now};
use crate::journal::record::{self, Changes};
use crate::object::{Object, Typed as _};

/// Bits of the versions of a bucket within a millisecond.
const VERSION_BITS: u32 = 20;

/// A key whose value is an object, and when it ends.
struct Keyed {
    key: Vec<u8>,
    expires: u64,
    object: Shared,
}

impl Store<'_> {
    /// Has the versions of all buckets begin above all that an earlier process has given: clients may still have those.
    pub fn renew_versions(&self) {
        let version = now() << VERSION_BITS;
        for number in 0..=self.mask as usize {
            let locked = self.lock(self.buckets + number * bucket::ALL);
            self.heap.store(locked.at + bucket::VERSION, version);
        }
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
