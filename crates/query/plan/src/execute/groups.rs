//! The groups of a window, and the memory that all of them may take.
//!
//! ```text
//!   keys of a row --hash--> number of its group --> its keys, its aggregates: parts of two long vectors
//! ```
//!
//! A group that is there already needs no allocation.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::accumulate::Accumulator;
use super::sketch::{Distinct, EXACT};
use crate::expr::Expr;
use crate::query::Query;
use crate::value::Value;

/// Memory that groups may still take.
#[derive(Clone, Debug)]
pub struct Room {
    /// Groups of all open windows.
    pub groups: usize,
    /// Bytes of their keys and aggregates.
    pub bytes: usize,
    /// Values that an aggregate did not take, because it would have grown.
    pub lost_values: u64,
}

impl Room {
    /// Room for anything.
    pub const fn endless() -> Room {
        Room { groups: usize::MAX, bytes: usize::MAX, lost_values: 0 }
    }

    /// Takes bytes; returns whether there were as many.
    pub fn take(&mut self, bytes: usize) -> bool {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }

    /// Takes bytes for a value; counts it as lost if there are too few. Returns whether there were enough.
    pub fn take_for_value(&mut self, bytes: usize) -> bool {
        let fits = self.take(bytes);
        self.lost_values += u64::from(!fits);
        fits
    }

    /// Takes a group with so many bytes; returns whether there was room.
    pub fn take_group(&mut self, bytes: usize) -> bool {
        let fits = self.groups > 0 && self.take(bytes);
        self.groups -= usize::from(fits);
        fits
    }

    /// Takes back the room of groups that ended.
    pub fn give_back(&mut self, groups: usize, bytes: usize) {
        self.groups = self.groups.saturating_add(groups);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Bytes of a new group with these keys and so many aggregates.
pub fn bytes_of(keys: &[Value], aggregates: usize) -> usize {
    // Vectors and tables grow to twice what they hold; a table has four bytes and a tag for each group.
    2 * (size_of_val(keys) + aggregates * size_of::<Accumulator>() + 5)
        + keys.iter().map(Value::text_bytes).sum::<usize>()
}

/// The groups of one window.
#[derive(Debug, Default)]
pub struct Window {
    numbers: HashTable<u32>,
    /// The keys of each group, one group after the other.
    keys: Vec<Value>,
    /// The aggregates of each group.
    accumulators: Vec<Accumulator>,
    /// Bytes that were taken for them.
    bytes: usize,
}

impl Window {
    /// How many groups.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Bytes that were taken for its groups.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Passes the aggregates of a group on, which is made if there is none and room for it; returns whether there is one.
    pub fn with_group(
        &mut self,
        hasher: &RandomState,
        keys: &[Value],
        new: impl ExactSizeIterator<Item = Accumulator>,
        room: &mut Room,
        add: impl FnOnce(&mut [Accumulator], &mut Room),
    ) -> bool {
        let Window { numbers, keys: all, accumulators, bytes } = self;
        let [width, aggregates, next] = [keys.len(), new.len(), numbers.len()];
        let of = |number: u32| &all[number as usize * width..][..width];
        let before = room.bytes;
        let entry =
            numbers.entry(hasher.hash_one(keys), |number| of(*number) == keys, |number| hasher.hash_one(of(*number)));
        let number = match entry {
            Entry::Occupied(number) => *number.get(),
            Entry::Vacant(place) => {
                if next >= u32::MAX as usize || !room.take_group(bytes_of(keys, aggregates)) {
                    return false;
                }
                let number = next as u32;
                place.insert(number);
                all.extend_from_slice(keys);
                accumulators.extend(new);
                number
            }
        };
        add(&mut accumulators[number as usize * aggregates..][..aggregates], room);
        // An aggregate may have given bytes back.
        *bytes = bytes.wrapping_add(before).wrapping_sub(room.bytes);
        true
    }

    /// The keys of each group with its aggregates.
    pub fn into_groups(self, width: usize) -> impl Iterator<Item = (Vec<Value>, Vec<Accumulator>)> {
        let groups = self.numbers.len();
        let aggregates = self.accumulators.len().checked_div(groups).unwrap_or_default();
        let (mut keys, mut accumulators) = (self.keys.into_iter(), self.accumulators.into_iter());
        (0..groups)
            .map(move |_| (keys.by_ref().take(width).collect(), accumulators.by_ref().take(aggregates).collect()))
    }
}

/// The groups that found no room.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The keys of the first one.
    pub first: Vec<Value>,
    differ: Distinct,
}

impl Refused {
    /// Notes a group.
    pub fn note(refused: &mut Option<Refused>, keys: &[Value]) {
        let new = || Refused { first: keys.to_vec(), differ: Distinct::default() };
        refused.get_or_insert_with(new).differ.add_all_if(keys, || true);
    }

    /// Notes the groups that were refused elsewhere, later than those here.
    pub fn note_all(refused: &mut Option<Refused>, others: Option<Refused>) {
        match (refused, others) {
            (_, None) => {}
            (Some(refused), Some(others)) => refused.differ.merge(&others.differ),
            (refused, others) => *refused = others,
        }
    }

    /// About how many groups: exact up to [`EXACT`].
    pub fn count(&self) -> u64 {
        self.differ.count()
    }

    /// A sentence that says how many, and which was the first, whose keys have the names of the query's outputs.
    pub fn sentence(&self, query: &Query) -> String {
        let output = |key: usize| query.outputs.iter().find(|output| output.expr == Expr::Column(key));
        let named = |(key, value): (usize, &Value)| match output(key) {
            Some(output) => format!("{}={value}", output.name),
            None => value.to_string(),
        };
        let first: Vec<String> = self.first.iter().enumerate().map(named).collect();
        let count = self.count();
        let about = if count > EXACT as u64 { "about " } else { "" };
        format!("{about}{count} groups found no room in user space; the first was {}", first.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{Aggregate, AggregateFunction};
    use crate::value::DataType;

    #[test]
    fn groups_are_kept_by_their_keys_and_take_what_is_counted() {
        let hasher = RandomState::new();
        let aggregate = Aggregate { function: AggregateFunction::Count, of: None, distinct: false };
        let mut room = Room { groups: 1000, bytes: 1 << 20, lost_values: 0 };
        let mut window = Window::default();
        for at in 0..6000_u64 {
            let keys = [Value::Uint(at % 1500), Value::text(&format!("process {}", at % 1500))];
            let new = std::iter::once(Accumulator::new(&aggregate, &[DataType::Uint]));
            let is_there = window.with_group(&hasher, &keys, new, &mut room, |own, room| {
                own[0].add_within(&Value::Bool(true), room);
            });
            assert_eq!(is_there, at % 1500 < 1000, "{at}");
        }
        assert_eq!((window.len(), room.groups, room.bytes + window.bytes()), (1000, 0, 1 << 20));
        room.give_back(window.len(), window.bytes());
        assert_eq!((room.groups, room.bytes), (1000, 1 << 20));
        for (keys, accumulators) in window.into_groups(2) {
            assert_eq!(keys[1], Value::text(&format!("process {}", keys[0])));
            assert_eq!(accumulators[0].value(), Value::Uint(4));
        }
    }
}
