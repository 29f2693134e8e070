//! Where two runs of instructions differ.

use std::ops::Range;

use kiln_program::Node;

/// A piece of both runs, by positions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub before: Range<usize>,
    pub after: Range<usize>,
}

/// The changed pieces between cuts, trimmed; `None` if a cut changed.
pub(super) fn pieces(before: &[Node], after: &[Node], cut: fn(&Node) -> bool) -> Option<Vec<Piece>> {
    let barriers = |nodes: &[Node]| -> Vec<usize> {
        nodes.iter().enumerate().filter(|(_, node)| cut(node)).map(|(at, _)| at).collect()
    };
    let (old, new) = (barriers(before), barriers(after));
    if old.len() != new.len() || old.iter().zip(&new).any(|(a, b)| before[*a] != after[*b]) {
        return None;
    }
    let mut result = Vec::new();
    let (mut from, mut since) = (0, 0);
    let ends = old.into_iter().zip(new).chain([(before.len(), after.len())]);
    for (to, until) in ends {
        let (mut left, mut right) = (from..to, since..until);
        while !left.is_empty() && !right.is_empty() && before[left.start] == after[right.start] {
            left.start += 1;
            right.start += 1;
        }
        while !left.is_empty() && !right.is_empty() && before[left.end - 1] == after[right.end - 1] {
            left.end -= 1;
            right.end -= 1;
        }
        if !left.is_empty() || !right.is_empty() {
            result.push(Piece { before: left, after: right });
        }
        (from, since) = (to + 1, until + 1);
    }
    Some(result)
}

/// A piece cut at the instructions that both runs have unchanged and in the same order.
pub(super) fn split(before: &[Node], after: &[Node], whole: &Piece) -> Vec<Piece> {
    let mut result = Vec::new();
    let (mut from, mut since) = (whole.before.start, whole.after.start);
    let mut push = |before: Range<usize>, after: Range<usize>| {
        if !before.is_empty() || !after.is_empty() {
            result.push(Piece { before, after });
        }
    };
    for at in whole.before.clone() {
        let found = after[since..whole.after.end].iter().position(|node| *node == before[at]);
        if let Some(found) = found {
            push(from..at, since..since + found);
            since += found + 1;
            from = at + 1;
        }
    }
    push(from..whole.before.end, since..whole.after.end);
    result
}
