//! A sorted set: members by score, and by bytes where scores are equal.
//!
//! ```text
//!   table: hash of a member -> node         tree of nodes: left < node < right, priorities fall, sizes give ranks
//! ```
//!
//! The tree is a treap: a search tree by score and member, a heap by random priorities. So its depth is that of a tree of random
//! insertions, whatever clients insert: finding, ranking and changing take time in proportion to the logarithm of its size.

use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

use super::{ALLOCATION_BYTES, TABLE_BYTES};

/// No node.
const NONE: u32 = u32::MAX;

/// Nodes that are kept, free or not.
const FEW: usize = 64;

struct Node {
    member: Box<[u8]>,
    score: f64,
    left: u32,
    right: u32,
    /// Nodes of this subtree; 0 for a free node.
    size: u32,
    priority: u32,
}

/// Members with scores. No score is NaN.
pub struct SortedSet {
    nodes: Vec<Node>,
    /// Nodes that are free.
    free: Vec<u32>,
    root: u32,
    table: HashTable<u32>,
    hasher: RandomState,
    random: u64,
    /// Bytes of all members.
    text_bytes: usize,
}

impl Default for SortedSet {
    fn default() -> SortedSet {
        let hasher = RandomState::new();
        let random = hasher.hash_one(0u64) | 1;
        SortedSet {
            nodes: Vec::new(),
            free: Vec::new(),
            root: NONE,
            table: HashTable::new(),
            hasher,
            random,
            text_bytes: 0,
        }
    }
}

impl SortedSet {
    /// About how many bytes a member of so many bytes takes.
    pub(super) const fn element_bytes(text_bytes: usize) -> u64 {
        size_of::<Node>() as u64 + ALLOCATION_BYTES + TABLE_BYTES + text_bytes as u64
    }

    /// Members.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> u64 {
        let (nodes, table) = (self.nodes.capacity() * size_of::<Node>(), self.table.capacity() as u64 * TABLE_BYTES);
        let members = ALLOCATION_BYTES * self.len() as u64 + self.text_bytes as u64;
        (size_of::<SortedSet>() + nodes + self.free.capacity() * size_of::<u32>()) as u64 + table + members
    }

    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    fn size(&self, at: u32) -> usize {
        if at == NONE { 0 } else { self.node(at).size as usize }
    }

    /// Counts a node's subtree again.
    fn count(&mut self, at: u32) {
        let size = 1 + self.size(self.node(at).left) + self.size(self.node(at).right);
        self.nodes[at as usize].size = size as u32;
    }

    /// Whether a node is before a score and member.
    fn is_before(&self, at: u32, score: f64, member: &[u8]) -> bool {
        let node = self.node(at);
        node.score < score || (node.score == score && *node.member < *member)
    }

    fn place(&self, member: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(member);
        self.table.find(hash, |at| *self.node(*at).member == *member).copied()
    }

    /// A member's score.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.place(member).map(|at| self.node(at).score)
    }

    /// Divides a subtree: what is before a score and member, and the rest.
    fn split(&mut self, at: u32, score: f64, member: &[u8]) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        if self.is_before(at, score, member) {
            let (before, rest) = self.split(self.node(at).right, score, member);
            self.nodes[at as usize].right = before;
            self.count(at);
            (at, rest)
        } else {
            let (before, rest) = self.split(self.node(at).left, score, member);
            self.nodes[at as usize].left = rest;
            self.count(at);
            (before, at)
        }
    }

    /// Joins subtrees, of which the first one is before the other one.
    fn join(&mut self, before: u32, after: u32) -> u32 {
        if before == NONE || after == NONE {
            return if before == NONE { after } else { before };
        }
        if self.node(before).priority > self.node(after).priority {
            let right = self.join(self.node(before).right, after);
            self.nodes[before as usize].right = right;
            self.count(before);
            before
        } else {
            let left = self.join(before, self.node(after).left);
            self.nodes[after as usize].left = left;
            self.count(after);
            after
        }
    }

    /// Makes a subtree the child of a node, or the whole tree if there is no such node.
    fn lead_to(&mut self, parent: u32, is_right: bool, child: u32) {
        match self.nodes.get_mut(parent as usize) {
            None => self.root = child,
            Some(node) if is_right => node.right = child,
            Some(node) => node.left = child,
        }
    }

    /// Puts a node that is in no tree where its score and member belong: below all nodes of higher priority. On the way down each node
    /// is looked at alone, so that few cache lines are met; below, a few nodes are divided.
    fn hang(&mut self, at: u32) {
        let Node { score, priority, .. } = *self.node(at);
        let member = std::mem::take(&mut self.nodes[at as usize].member);
        let (mut parent, mut is_right, mut here) = (NONE, false, self.root);
        while here != NONE && self.node(here).priority >= priority {
            (parent, is_right) = (here, self.is_before(here, score, &member));
            let node = &mut self.nodes[here as usize];
            node.size += 1;
            here = if is_right { node.right } else { node.left };
        }
        let (left, right) = self.split(here, score, &member);
        let node = &mut self.nodes[at as usize];
        (node.member, node.left, node.right) = (member, left, right);
        self.count(at);
        self.lead_to(parent, is_right, at);
    }

    /// Takes a node out of the tree.
    fn unhang(&mut self, at: u32) {
        let Node { score, left, right, .. } = *self.node(at);
        let member = std::mem::take(&mut self.nodes[at as usize].member);
        let (mut parent, mut is_right, mut here) = (NONE, false, self.root);
        while here != at && here != NONE {
            (parent, is_right) = (here, self.is_before(here, score, &member));
            let node = &mut self.nodes[here as usize];
            node.size -= 1;
            here = if is_right { node.right } else { node.left };
        }
        let both = self.join(left, right);
        self.lead_to(parent, is_right, both);
        self.nodes[at as usize].member = member;
    }

    fn priority(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 32) as u32
    }

    /// Sets a member's score, and returns the old one. Negative zero becomes zero.
    pub fn set(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let score = score + 0.0;
        if let Some(at) = self.place(member) {
            let old = self.node(at).score;
            if old != score {
                self.unhang(at);
                self.nodes[at as usize].score = score;
                self.hang(at);
            }
            return Some(old);
        }
        let priority = self.priority();
        let node = Node { member: member.into(), score, left: NONE, right: NONE, size: 1, priority };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        self.text_bytes += member.len();
        let SortedSet { table, nodes, hasher, .. } = self;
        let rehash = |at: &u32| hasher.hash_one(&*nodes[*at as usize].member);
        table.insert_unique(hasher.hash_one(member), at, rehash);
        self.hang(at);
        None
    }

    /// Removes a member, and returns its score.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let at = self.place(member)?;
        self.unhang(at);
        if let Ok(place) = self.table.find_entry(self.hasher.hash_one(member), |other| *other == at) {
            place.remove();
        }
        self.text_bytes -= member.len();
        let node = &mut self.nodes[at as usize];
        node.member = Box::default();
        node.size = 0;
        let score = node.score;
        self.free.push(at);
        self.give_back();
        Some(score)
    }

    /// Gives memory back when most nodes are free.
    fn give_back(&mut self) {
        if self.nodes.len() > FEW && self.len() < self.nodes.len() / 4 {
            let old = std::mem::take(self);
            for node in old.nodes.iter().filter(|node| node.size > 0) {
                self.set(&node.member, node.score);
            }
        }
    }

    /// How many members are before the first one for which `is_before` says no. It has to say yes to those before that one, and no to
    /// those behind it.
    pub fn rank_where(&self, is_before: impl Fn(f64, &[u8]) -> bool) -> usize {
        let (mut at, mut rank) = (self.root, 0);
        while at != NONE {
            let node = self.node(at);
            if is_before(node.score, &node.member) {
                rank += self.size(node.left) + 1;
                at = node.right;
            } else {
                at = node.left;
            }
        }
        rank
    }

    /// A member's rank, from 0 on, and its score.
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(member)?;
        Some((self.rank_where(|other, text| other < score || (other == score && *text < *member)), score))
    }

    /// Calls `met` for the members of ranks from `from` up to, and without, `to`, and in the other direction if `is_reverse`.
    pub fn visit(&self, from: usize, to: usize, is_reverse: bool, met: &mut impl FnMut(&[u8], f64)) {
        self.visit_in(self.root, from, to, is_reverse, met);
    }

    fn visit_in(&self, at: u32, from: usize, to: usize, is_reverse: bool, met: &mut impl FnMut(&[u8], f64)) {
        if at == NONE || from >= to {
            return;
        }
        let (node, here) = (self.node(at), self.size(self.node(at).left));
        let before = |met: &mut _| self.visit_in(node.left, from, to.min(here), is_reverse, met);
        let behind = |met: &mut _| {
            self.visit_in(node.right, from.saturating_sub(here + 1), to.saturating_sub(here + 1), is_reverse, met)
        };
        if is_reverse {
            behind(met)
        } else {
            before(met)
        }
        if (from..to).contains(&here) {
            met(&node.member, node.score);
        }
        if is_reverse { before(met) } else { behind(met) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{NONE, SortedSet};

    /// The longest path from a node down.
    fn depth(set: &SortedSet, at: u32) -> usize {
        if at == NONE { 0 } else { 1 + depth(set, set.node(at).left).max(depth(set, set.node(at).right)) }
    }

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
        assert!(set.is_empty() && set.root == NONE && set.text_bytes == 0 && set.nodes.len() <= super::FEW);
    }

    #[test]
    fn it_is_flat_whatever_the_order() {
        const COUNT: usize = 1 << 16;
        let mut set = SortedSet::default();
        // Scores that rise are the worst for a tree without priorities.
        (0..COUNT).for_each(|number| assert!(set.set(&number.to_le_bytes(), number as f64).is_none()));
        assert!(depth(&set, set.root) < 5 * 16, "{}", depth(&set, set.root));
    }
}
