//! Two listings side by side.
//!
//! ```text
//!   before  a b c d e f       a kept instruction keeps its id, so the longest run of ids that both have in one order
//!   after   a x d c f         (a d f or a c f) is what stays in place; the others went, came or moved
//!
//!   a | a   same      b | x   replaced      c |     moved      d | d  same      e | c   replaced      f | f  same
//! ```
//!
//! As ids occur once a side, that run is the longest increasing sequence of places, found in `n log n` steps: five
//! thousand slots take no time.

use std::collections::{HashMap, HashSet};

use kiln_program::{InsnId, Node};

/// How the sides of a row are related. The page's script knows them by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Kept as it was.
    Same,
    /// Kept in place, and changed.
    Changed,
    /// Gone, come, or the one for the other.
    Replaced,
    /// The same instruction is at another place on the other side.
    Moved,
}

/// A row: a place on either side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) before: Option<usize>,
    pub(super) after: Option<usize>,
}

/// Aligns two listings. `same` says whether a kept instruction is unchanged.
pub(super) fn rows((before, after): (&[Node], &[Node]), same: impl Fn(&Node, &Node) -> bool) -> Vec<Row> {
    let places: HashMap<InsnId, usize> = before.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
    let kept = in_order(after.iter().enumerate().filter_map(|(at, node)| Some((*places.get(&node.id)?, at))).collect());
    let stays: HashSet<InsnId> = after.iter().map(|node| node.id).collect();
    let mut rows = Vec::new();
    let (mut left, mut right) = (0, 0);
    for (old, new) in kept.into_iter().chain([(before.len(), after.len())]) {
        // What one side alone has goes side by side as far as both have some.
        for step in 0..(old - left).max(new - right) {
            let sides = [(left + step < old).then_some(left + step), (right + step < new).then_some(right + step)];
            let gone = |at: usize| !stays.contains(&before[at].id);
            let come = |at: usize| !places.contains_key(&after[at].id);
            let moved = !sides[0].is_some_and(gone) && !sides[1].is_some_and(come);
            let kind = if moved { Kind::Moved } else { Kind::Replaced };
            rows.push(Row { kind, before: sides[0], after: sides[1] });
        }
        if let (Some(before), Some(after)) = (before.get(old), after.get(new)) {
            let kind = if same(before, after) { Kind::Same } else { Kind::Changed };
            rows.push(Row { kind, before: Some(old), after: Some(new) });
        }
        (left, right) = (old + 1, new + 1);
    }
    rows
}

/// The longest part of some pairs, ordered by their second, in which the first grow too.
fn in_order(pairs: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    // The index of the pair with the least first that ends a sequence of each length, and the pair before each.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, (first, _)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].0 < *first);
        previous.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut kept = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(index) = next {
        kept.push(pairs[index]);
        next = previous[index];
    }
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(ids: &[u32]) -> Vec<Node> {
        let object = kiln_program::text::parse("; program xdp\n r0 = 1\n exit\n").expect("a program");
        let node = &object.functions[0].nodes[0];
        ids.iter().map(|id| Node { id: InsnId(*id), ..node.clone() }).collect()
    }

    fn aligned(before: &[u32], after: &[u32]) -> Vec<(Kind, Option<usize>, Option<usize>)> {
        let rows = rows((&nodes(before), &nodes(after)), |old, new| old.insn == new.insn);
        rows.into_iter().map(|row| (row.kind, row.before, row.after)).collect()
    }

    #[test]
    fn what_stays_stands_side_by_side() {
        assert_eq!(
            aligned(&[1, 2, 3, 4], &[1, 9, 4]),
            [
                (Kind::Same, Some(0), Some(0)),
                (Kind::Replaced, Some(1), Some(1)),
                (Kind::Replaced, Some(2), None),
                (Kind::Same, Some(3), Some(2)),
            ]
        );
    }

    #[test]
    fn what_moved_is_on_both_sides_once() {
        assert_eq!(
            aligned(&[1, 2, 3], &[3, 1, 2]),
            [
                (Kind::Moved, None, Some(0)),
                (Kind::Same, Some(0), Some(1)),
                (Kind::Same, Some(1), Some(2)),
                (Kind::Moved, Some(2), None),
            ]
        );
        assert_eq!(aligned(&[], &[]), []);
    }
}
