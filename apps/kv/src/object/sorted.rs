//! A sorted set: members by score, and by bytes where scores are equal.
//!
//! ```text
//!   table: hash of a member -> number -> member, score         order: numbers by score and member, with ranks
//! ```

use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

use super::order::{Entry, Order};
use super::{ALLOCATION_BYTES, Kind, Object, TABLE_BYTES, Typed};
use crate::store::hash;

/// Members for which there is room, whether they are there or not.
const FEW: usize = 64;

#[derive(Default)]
struct Member {
    text: Box<[u8]>,
    score: f64,
}

/// Members with scores. No score is NaN.
pub struct SortedSet {
    members: Vec<Member>,
    /// Numbers of members that are free.
    free: Vec<u32>,
    order: Order,
    table: HashTable<u32>,
    /// What makes hashes of members that nobody else knows.
    seed: u64,
    /// Bytes of all members.
    text_bytes: usize,
}

impl Default for SortedSet {
    fn default() -> SortedSet {
        SortedSet {
            members: Vec::new(),
            free: Vec::new(),
            order: Order::default(),
            table: HashTable::new(),
            seed: RandomState::new().hash_one(0u64),
            text_bytes: 0,
        }
    }
}

/// What says whether an entry is before a score and member.
fn before(members: &[Member], score: f64, text: &[u8]) -> impl Fn(&Entry) -> bool {
    move |entry| entry.score < score || (entry.score == score && *members[entry.at as usize].text < *text)
}

impl SortedSet {
    /// About how many bytes a member of so many bytes takes.
    pub(super) const fn element_bytes(text_bytes: usize) -> u64 {
        size_of::<Member>() as u64 + Order::ENTRY_BYTES + ALLOCATION_BYTES + TABLE_BYTES + text_bytes as u64
    }

    fn place(&self, member: &[u8]) -> Option<u32> {
        self.place_of(hash(member, self.seed), member)
    }

    fn place_of(&self, hash: u64, member: &[u8]) -> Option<u32> {
        self.table.find(hash, |at| *self.members[*at as usize].text == *member).copied()
    }

    /// A member's score.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.place(member).map(|at| self.members[at as usize].score)
    }

    /// Sets a member's score, and returns the old one. Negative zero becomes zero.
    pub fn set(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let (score, hashed) = (score + 0.0, hash(member, self.seed));
        if let Some(at) = self.place_of(hashed, member) {
            let old = self.members[at as usize].score;
            if old != score {
                self.order.remove(at, before(&self.members, old, member));
                self.members[at as usize].score = score;
                self.order.insert(Entry { score, at }, before(&self.members, score, member));
            }
            return Some(old);
        }
        let new = Member { text: member.into(), score };
        let at = match self.free.pop() {
            Some(at) => {
                self.members[at as usize] = new;
                at
            }
            None => {
                self.members.push(new);
                self.members.len() as u32 - 1
            }
        };
        self.text_bytes += member.len();
        let SortedSet { table, members, seed, .. } = self;
        table.insert_unique(hashed, at, |at| hash(&members[*at as usize].text, *seed));
        self.order.insert(Entry { score, at }, before(&self.members, score, member));
        None
    }

    /// Removes a member, and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let at = self.place(member)?;
        let score = self.members[at as usize].score;
        self.order.remove(at, before(&self.members, score, member));
        if let Ok(place) = self.table.find_entry(hash(member, self.seed), |other| *other == at) {
            place.remove();
        }
        self.text_bytes -= member.len();
        self.members[at as usize] = Member::default();
        self.free.push(at);
        self.give_back();
        Some(score)
    }

    /// Gives memory back when most places are free.
    fn give_back(&mut self) {
        if self.members.len() > FEW && self.len() < self.members.len() / 4 {
            let old = std::mem::take(self);
            old.visit(0, usize::MAX, false, &mut |member, score| {
                self.set(member, score);
            });
        }
    }

    /// How many members are before the first one for which `is_before` says no. It has to say yes to those before that one, and no to
    /// those behind it.
    pub fn rank_where(&self, is_before: impl Fn(f64, &[u8]) -> bool) -> usize {
        self.order.rank_where(|entry| is_before(entry.score, &self.members[entry.at as usize].text))
    }

    /// A member's rank, from 0 on, and its score.
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(member)?;
        Some((self.order.rank_where(before(&self.members, score, member)), score))
    }

    /// Calls `met` for the members of ranks from `from` up to, and without, `to`, and in the other direction if `is_reverse`.
    pub fn visit(&self, from: usize, to: usize, is_reverse: bool, met: &mut impl FnMut(&[u8], f64)) {
        self.order.visit(from, to, is_reverse, &mut |entry| met(&self.members[entry.at as usize].text, entry.score));
    }
}

impl Typed for SortedSet {
    const KIND: Kind = Kind::Sorted;

    fn of(object: &mut Object) -> Option<&mut SortedSet> {
        match object {
            Object::Sorted(set) => Some(set),
            Object::Hash(_) => None,
        }
    }

    fn into_object(self) -> Object {
        Object::Sorted(self)
    }

    fn len(&self) -> usize {
        self.table.len()
    }

    fn bytes(&self) -> u64 {
        let fixed = self.members.capacity() * size_of::<Member>() + self.free.capacity() * size_of::<u32>();
        let members = ALLOCATION_BYTES * self.len() as u64 + self.text_bytes as u64;
        let table = self.table.capacity() as u64 * TABLE_BYTES;
        (size_of::<SortedSet>() + fixed) as u64 + self.order.bytes() + table + members
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{SortedSet, Typed as _};

    fn all(set: &SortedSet, from: usize, to: usize, is_reverse: bool) -> Vec<(Vec<u8>, f64)> {
        let mut met = Vec::new();
        set.visit(from, to, is_reverse, &mut |member, score| met.push((member.to_vec(), score)));
        met
    }

    #[test]
    fn it_does_as_a_sorted_list_does() {
        let (mut state, mut set, mut model) = (0x2545_f491_4f6c_dd1du64, SortedSet::default(), HashMap::new());
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % below
        };
        for round in 0..20_000 {
            let member = next(300).to_string().into_bytes();
            if next(10) < 3 {
                assert_eq!(set.remove(&member), model.remove(&member));
            } else {
                let score = next(40) as f64 / 4.0 - 5.0;
                assert_eq!(set.set(&member, score), model.insert(member, score));
            }
            if round % 50 == 0 {
                let mut sorted: Vec<_> = model.iter().map(|(member, score)| (member.clone(), *score)).collect();
                sorted.sort_by(|one, other| one.1.total_cmp(&other.1).then_with(|| one.0.cmp(&other.0)));
                assert_eq!(all(&set, 0, usize::MAX, false), sorted);
                for (rank, (member, score)) in sorted.iter().enumerate() {
                    assert_eq!(set.rank(member), Some((rank, *score)));
                }
                let (from, to) = (next(320), next(320));
                let part: Vec<_> = sorted.iter().take(to).skip(from).cloned().collect();
                assert_eq!(all(&set, from, to, false), part);
                assert_eq!(all(&set, from, to, true), part.into_iter().rev().collect::<Vec<_>>());
                assert_eq!(set.rank_where(|score, _| score < 1.0), sorted.iter().filter(|it| it.1 < 1.0).count());
            }
        }
        assert_eq!((set.len(), set.text_bytes), (model.len(), model.keys().map(Vec::len).sum()));
        model.keys().for_each(|member| assert!(set.remove(member).is_some()));
        assert!(set.is_empty() && set.text_bytes == 0 && set.members.len() <= super::FEW);
        assert_eq!(all(&set, 0, usize::MAX, false), []);
    }
}
