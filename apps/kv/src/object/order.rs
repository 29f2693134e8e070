//! Members of a sorted set in order: a B+ tree whose branches count, so that a rank is a sum of few counts.
//!
//! ```text
//!   Branch: first entry, count, node | ...          up to MOST of them
//!           Leaf: score, member | score, member ... up to MOST of them
//! ```
//!
//! Most of a search is in arrays, and a set of 100,000 members has three of them on the way: few cache lines are met. The tree does
//! not know members, only their numbers: who asks says which entries are before a place.

/// Entries of a leaf, and parts of a branch.
const MOST: usize = 64;
/// A node with fewer is joined with its neighbour, if both together leave room.
const FEW: usize = MOST / 4;

/// A member's place.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its score.
    pub score: f64,
    /// Its number.
    pub at: u32,
}

/// A part of a branch.
struct Part {
    first: Entry,
    count: usize,
    node: Node,
}

enum Node {
    Leaf(Vec<Entry>),
    Branch(Vec<Part>),
}

/// Entries in order.
pub struct Order {
    root: Node,
    /// Leaves, of which all but a single one have room for [`MOST`] entries.
    leaves: usize,
}

impl Default for Order {
    fn default() -> Order {
        Order { root: Node::Leaf(Vec::new()), leaves: 1 }
    }
}

/// Where in a full node the entries begin that go to a new one. What is added at the end, as by clients that count, leaves full nodes.
fn middle(place: usize) -> usize {
    if place == MOST { MOST - FEW } else { MOST / 2 }
}

/// Moves what is behind a place to a vector with room for all.
fn halved<T>(all: &mut Vec<T>, from: usize) -> Vec<T> {
    let mut rest = Vec::with_capacity(MOST);
    rest.extend(all.drain(from..));
    rest
}

/// Adds to a node. If it is full, returns what is cut off, which comes behind it.
fn add<T>(all: &mut Vec<T>, place: usize, new: T) -> Option<Vec<T>> {
    if all.len() < MOST {
        all.insert(place, new);
        return None;
    }
    let from = middle(place);
    let mut rest = halved(all, from);
    if place <= from {
        all.insert(place, new);
    } else {
        rest.insert(place - from, new);
    }
    Some(rest)
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Branch(parts) => parts.len(),
        }
    }

    fn count(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Branch(parts) => parts.iter().map(|part| part.count).sum(),
        }
    }

    fn first(&self) -> Option<Entry> {
        match self {
            Node::Leaf(entries) => entries.first().copied(),
            Node::Branch(parts) => parts.first().map(|part| part.first),
        }
    }

    fn into_part(self) -> Option<Part> {
        Some(Part { first: self.first()?, count: self.count(), node: self })
    }

    /// Inserts an entry, and counts leaves that are new; what is cut off, which comes behind this node.
    fn insert(&mut self, entry: Entry, is_before: &impl Fn(&Entry) -> bool, leaves: &mut usize) -> Option<Node> {
        match self {
            Node::Leaf(entries) => {
                let place = entries.partition_point(is_before);
                let rest = add(entries, place, entry)?;
                *leaves += 1;
                Some(Node::Leaf(rest))
            }
            Node::Branch(parts) => {
                let at = parts.partition_point(|part| is_before(&part.first)).saturating_sub(1);
                let part = &mut parts[at];
                if !is_before(&part.first) {
                    part.first = entry;
                }
                part.count += 1;
                let new = part.node.insert(entry, is_before, leaves)?.into_part()?;
                part.count -= new.count;
                add(parts, at + 1, new).map(Node::Branch)
            }
        }
    }

    /// Removes the entry of a number, which is the first one that is not before its place, and counts leaves that go.
    fn remove(&mut self, number: u32, is_before: &impl Fn(&Entry) -> bool, leaves: &mut usize) {
        match self {
            Node::Leaf(entries) => {
                let place = entries.partition_point(is_before);
                if entries.get(place).is_some_and(|entry| entry.at == number) {
                    entries.remove(place);
                }
            }
            Node::Branch(parts) => {
                let behind = parts.partition_point(|part| is_before(&part.first));
                let is_first = parts.get(behind).is_some_and(|part| part.first.at == number);
                let at = if is_first { behind } else { behind.saturating_sub(1) };
                let part = &mut parts[at];
                part.node.remove(number, is_before, leaves);
                part.count -= 1;
                part.first = part.node.first().unwrap_or(part.first);
                match (part.node.len(), &part.node) {
                    (0, Node::Leaf(_)) => {
                        parts.remove(at);
                        *leaves -= 1;
                    }
                    (0, Node::Branch(_)) => drop(parts.remove(at)),
                    (1..FEW, _) => join(parts, at, leaves),
                    _ => {}
                }
            }
        }
    }

    fn visit(&self, from: usize, to: usize, is_reverse: bool, met: &mut impl FnMut(Entry)) {
        match self {
            Node::Leaf(entries) => {
                let entries = entries[from.min(entries.len())..to.min(entries.len())].iter().copied();
                if is_reverse { entries.rev().for_each(met) } else { entries.for_each(met) }
            }
            Node::Branch(parts) => {
                let mut begin = if is_reverse { self.count() } else { 0 };
                let mut meet = |part: &Part| {
                    begin -= if is_reverse { part.count } else { 0 };
                    if from < begin + part.count && to > begin {
                        part.node.visit(from.saturating_sub(begin), to - begin, is_reverse, met);
                    }
                    begin += if is_reverse { 0 } else { part.count };
                };
                if is_reverse { parts.iter().rev().for_each(meet) } else { parts.iter().for_each(&mut meet) }
            }
        }
    }
}

/// Joins a part that is small with a neighbour, if there is room in one node for both, and counts leaves that go.
fn join(parts: &mut Vec<Part>, at: usize, leaves: &mut usize) {
    let Some(left) = [at, at.wrapping_sub(1)].into_iter().find(|left| {
        let pair = parts.get(*left).zip(parts.get(left.wrapping_add(1)));
        pair.is_some_and(|(one, other)| one.node.len() + other.node.len() <= MOST - FEW)
    }) else {
        return;
    };
    let right = parts.remove(left + 1);
    let part = &mut parts[left];
    part.count += right.count;
    match (&mut part.node, right.node) {
        (Node::Leaf(entries), Node::Leaf(more)) => {
            entries.extend(more);
            *leaves -= 1;
        }
        (Node::Branch(parts), Node::Branch(more)) => parts.extend(more),
        // All leaves have one depth.
        _ => {}
    }
    part.first = part.node.first().unwrap_or(right.first);
}

impl Order {
    /// About how many bytes an entry takes: a leaf is two thirds full.
    pub const ENTRY_BYTES: u64 = size_of::<Entry>() as u64 * 3 / 2;

    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> u64 {
        let leaf = MOST * size_of::<Entry>() + 2 * size_of::<Part>();
        match &self.root {
            Node::Leaf(entries) => (entries.capacity() * size_of::<Entry>()) as u64,
            Node::Branch(_) => (self.leaves * leaf) as u64,
        }
    }

    /// Inserts an entry. `is_before` says which others are before it.
    pub fn insert(&mut self, entry: Entry, is_before: impl Fn(&Entry) -> bool) {
        let Some(new) = self.root.insert(entry, &is_before, &mut self.leaves) else { return };
        let old = std::mem::replace(&mut self.root, Node::Leaf(Vec::new()));
        let mut parts = Vec::with_capacity(MOST);
        parts.extend([old, new].into_iter().filter_map(Node::into_part));
        self.root = Node::Branch(parts);
    }

    /// Removes the entry of a number, which has to be there. `is_before` says which others are before it.
    pub fn remove(&mut self, number: u32, is_before: impl Fn(&Entry) -> bool) {
        self.root.remove(number, &is_before, &mut self.leaves);
        // A branch of one part is that part.
        while let Node::Branch(parts) = &mut self.root
            && parts.len() <= 1
        {
            match parts.pop() {
                Some(part) => self.root = part.node,
                None => *self = Order::default(),
            }
        }
    }

    /// How many entries are before the first one for which `is_before` says no. It has to say yes to those before that one, and no to
    /// those behind it.
    pub fn rank_where(&self, is_before: impl Fn(&Entry) -> bool) -> usize {
        let (mut node, mut rank) = (&self.root, 0);
        loop {
            match node {
                Node::Leaf(entries) => return rank + entries.partition_point(&is_before),
                Node::Branch(parts) => {
                    let Some((last, before)) =
                        parts[..parts.partition_point(|part| is_before(&part.first))].split_last()
                    else {
                        return rank;
                    };
                    rank += before.iter().map(|part| part.count).sum::<usize>();
                    node = &last.node;
                }
            }
        }
    }

    /// Calls `met` for the entries of ranks from `from` up to, and without, `to`, and in the other direction if `is_reverse`.
    pub fn visit(&self, from: usize, to: usize, is_reverse: bool, met: &mut impl FnMut(Entry)) {
        if from < to {
            self.root.visit(from, to, is_reverse, met);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, FEW, MOST, Node, Order};

    /// Checks a subtree: its counts, first entries, and that no node is too full; its depth.
    fn depth(node: &Node) -> usize {
        assert!(node.len() <= MOST);
        let Node::Branch(parts) = node else { return 1 };
        let depths: Vec<usize> = parts.iter().map(|part| depth(&part.node)).collect();
        for part in parts {
            assert_eq!(part.count, part.node.count());
            assert_eq!(part.node.first().map(|first| first.at), Some(part.first.at));
        }
        assert!(depths.windows(2).all(|pair| pair[0] == pair[1]), "all leaves have one depth");
        1 + depths[0]
    }

    fn leaves(node: &Node) -> usize {
        match node {
            Node::Leaf(_) => 1,
            Node::Branch(parts) => parts.iter().map(|part| leaves(&part.node)).sum(),
        }
    }

    fn all(order: &Order) -> Vec<u32> {
        let mut all = Vec::new();
        order.visit(0, usize::MAX, false, &mut |entry| all.push(entry.at));
        all
    }

    #[test]
    fn it_does_as_a_sorted_vector_does_whatever_the_order() {
        const COUNT: u32 = 20_000;
        // Up, down, and by a step that meets all of them.
        let orders: [fn(u32) -> u32; 3] = [|at| at, |at| COUNT - 1 - at, |at| (at * 7919) % COUNT];
        for added in orders {
            for removed in orders {
                let mut order = Order::default();
                for at in (0..COUNT).map(added) {
                    order.insert(Entry { score: f64::from(at), at }, |entry| entry.at < at);
                }
                assert!(depth(&order.root) <= 4 && leaves(&order.root) == order.leaves);
                assert_eq!(all(&order), (0..COUNT).collect::<Vec<_>>());
                assert_eq!(order.rank_where(|entry| entry.at < 12_345), 12_345);
                for (count, at) in (0..COUNT).map(removed).enumerate() {
                    order.remove(at, |entry| entry.at < at);
                    if count % 2000 == 0 {
                        depth(&order.root);
                        assert_eq!(leaves(&order.root), order.leaves);
                        assert_eq!(all(&order).len(), COUNT as usize - count - 1);
                    }
                }
                assert!(order.root.len() == 0 && order.leaves == 1);
            }
        }
    }

    #[test]
    fn leaves_that_are_nearly_empty_are_joined() {
        let mut order = Order::default();
        for at in 0..64_000 {
            order.insert(Entry { score: 0.0, at }, |entry| entry.at < at);
        }
        // One of sixteen stays.
        (0..64_000).filter(|at| at % 16 != 0).for_each(|at| order.remove(at, |entry| entry.at < at));
        assert!(order.leaves <= 2 * 4_000 / FEW, "{}", order.leaves);
        assert_eq!(all(&order), (0..64_000).step_by(16).collect::<Vec<_>>());
    }
}
