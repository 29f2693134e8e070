//! Parts of a rewrite: what cannot be certified is left out, and the rest is kept.
//!
//! ```text
//!   old   1 2 3 4 5 6        hunks:  2 -> 7      between 1 and 3
//!   new   1 7 3 4 6                  5 -> (none) between 4 and 6
//! ```
//!
//! A hunk is applied to another version of the function if that still has what the hunk replaces. Nothing is claimed
//! about the result: it is certified like every other version.

use std::collections::{HashMap, HashSet};

use kiln_program::{Function, InsnId, Node};

/// Instructions in a row, and those that replace them.
#[derive(Clone, Debug)]
pub struct Hunk {
    /// The instruction before them; none at the beginning.
    before: Option<InsnId>,
    /// The instruction after them; none at the end.
    after: Option<InsnId>,
    old: Vec<Node>,
    new: Vec<Node>,
}

/// The differences of two versions, in the order of the listing.
pub fn between(old: &Function, new: &Function) -> Vec<Hunk> {
    let at: HashMap<InsnId, usize> = old.nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
    let same = |(place, node): (usize, &Node)| {
        let other = *at.get(&node.id)?;
        (old.nodes[other] == *node).then_some((other, place))
    };
    let anchors = rising(&new.nodes.iter().enumerate().filter_map(same).collect::<Vec<_>>());
    let ends = (old.nodes.len(), new.nodes.len());
    let mut hunks = Vec::new();
    let mut from = (0, 0);
    for (index, place) in anchors.iter().copied().chain([ends]).enumerate() {
        if from != place {
            let id = |anchor: Option<&(usize, usize)>| anchor.map(|(place, _)| old.nodes[*place].id);
            hunks.push(Hunk {
                before: id(index.checked_sub(1).and_then(|index| anchors.get(index))),
                after: id(anchors.get(index)),
                old: old.nodes[from.0..place.0].to_vec(),
                new: new.nodes[from.1..place.1].to_vec(),
            });
        }
        from = (place.0 + 1, place.1 + 1);
    }
    hunks
}

/// A longest subsequence whose first numbers rise; the second ones do.
fn rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // The last pair of the best subsequence of each length, and what precedes each pair.
    let (mut ends, mut previous): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
    for (index, (own, _)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].0 < *own);
        previous.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        ends.truncate(ends.len().max(length + 1));
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut found = Vec::new();
    let mut next = ends.last().copied();
    while let Some(index) = next {
        found.push(pairs[index]);
        next = previous[index];
    }
    found.reverse();
    found
}

/// A version with those hunks that fit it; none if it stays as it is, or is no function any more.
pub fn applied(function: &Function, hunks: &[Hunk]) -> Option<Function> {
    let mut nodes = function.nodes.clone();
    for hunk in hunks {
        let place = |id: InsnId| nodes.iter().position(|node| node.id == id);
        let start = match (hunk.old.first(), hunk.before) {
            (Some(first), _) => place(first.id),
            (None, Some(before)) => place(before).map(|at| at + 1),
            (None, None) => Some(0),
        };
        let Some(start) = start else { continue };
        let end = start + hunk.old.len();
        let next = nodes.get(end).map(|node| node.id);
        if nodes.get(start..end) == Some(&hunk.old[..]) && (!hunk.old.is_empty() || next == hunk.after) {
            nodes.splice(start..end, hunk.new.iter().cloned());
        }
    }
    let applied = Function { nodes, ..function.clone() };
    (applied.nodes != function.nodes && is_whole(&applied)).then_some(applied)
}

/// Whether branches lead to instructions of the function, each of which is there once, and none falls off its end.
fn is_whole(function: &Function) -> bool {
    let ids: HashSet<InsnId> = function.nodes.iter().map(|node| node.id).collect();
    let leads = |node: &Node| node.target().is_none_or(|target| ids.contains(&target));
    let tables = function.tables.iter().flat_map(|table| &table.targets).all(|target| ids.contains(target));
    let ends = function.nodes.last().is_some_and(|node| !node.insn.falls_through());
    ids.len() == function.nodes.len() && ends && tables && function.nodes.iter().all(leads)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: &[(u32, &str)]) -> Function {
        let lines: String = lines.iter().map(|(id, line)| format!("; insn {id}\n  {line}\n")).collect();
        let object = kiln_program::text::parse(&format!("; program xdp\n{lines}")).expect("a listing");
        object.functions[0].clone()
    }

    #[test]
    fn hunks_lead_from_one_version_to_another() {
        let old = function(&[(1, "r0 = 1"), (2, "r1 = 2"), (3, "r2 = 3"), (4, "r3 = 4"), (5, "r4 = 5"), (6, "exit")]);
        let new = function(&[(1, "r0 = 1"), (7, "r1 = 7"), (3, "r2 = 3"), (4, "r3 = 4"), (6, "exit")]);
        let hunks = between(&old, &new);
        assert_eq!(hunks.len(), 2);
        assert_eq!(applied(&old, &hunks).expect("they fit").nodes, new.nodes);
        // One alone, and the other on what the first left.
        let first = applied(&old, &hunks[..1]).expect("it fits");
        assert_eq!(first.nodes.len(), 6);
        assert_eq!(applied(&first, &hunks[1..]).expect("it fits").nodes, new.nodes);
        // What is replaced is not there any more.
        assert!(applied(&new, &hunks).is_none());
        assert!(between(&old, &old).is_empty());
    }

    #[test]
    fn what_is_no_function_is_not_made() {
        let old = function(&[(1, "if r1 == 0 goto +1"), (2, "r0 = 2"), (3, "exit")]);
        let new = function(&[(2, "r0 = 2"), (4, "exit")]);
        let hunks = between(&old, &new);
        assert_eq!(applied(&old, &hunks).expect("all of them fit").nodes, new.nodes);
        // The branch stays, and its target goes.
        assert!(applied(&old, &hunks[1..]).is_none());
        // Moved: one half alone doubles the instruction or loses it.
        let (one, two) = ([(1, "r0 = 1"), (2, "r1 = 2"), (3, "exit")], [(2, "r1 = 2"), (1, "r0 = 1"), (3, "exit")]);
        let hunks = between(&function(&one), &function(&two));
        assert_eq!(hunks.len(), 2);
        assert!(applied(&function(&one), &hunks[..1]).is_none_or(|other| other.nodes.len() == 2));
    }
}
