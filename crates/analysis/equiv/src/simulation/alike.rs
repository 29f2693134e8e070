//! Where two functions are the same, instruction for instruction.
//!
//! ```text
//!   entry --- same ---> a change --- behind a change ---> no change ahead --- same ---> exit
//! ```
//!
//! A path that has not reached a change is at the same instruction in both functions, in the same state. A path with no
//! change ahead ends in the same way in both, once everything read from there on is equal. Neither has to be followed.

use kiln_isa::{Reg, RegSet};
use kiln_program::{Cfg, Function, InsnId, Node};

/// What the old function has in common with the new one, by position.
pub struct Alike {
    /// Whether the new function does not have the instruction, or goes on elsewhere after it.
    pub changed: Vec<bool>,
    /// Whether some path to the instruction passes a change.
    pub behind: Vec<bool>,
    /// Whether a change may come, the instruction itself included.
    pub ahead: Vec<bool>,
    /// Registers that are read from there on before they are written.
    pub live: Vec<RegSet>,
    /// Positions of the instructions that may run next.
    pub after: Vec<Vec<usize>>,
    before: Vec<Vec<usize>>,
}

impl Alike {
    /// Compares two functions. `uses` tells of an instruction the registers that it reads and writes.
    pub fn new(old: (&Function, &Cfg), new: (&Function, &Cfg), uses: impl Fn(&Node) -> (RegSet, RegSet)) -> Alike {
        let nodes = &old.0.nodes;
        let next = |function: &Function, at: usize| -> Option<InsnId> {
            let falls = function.nodes[at].insn.falls_through();
            falls.then(|| function.nodes.get(at + 1).map(|next| next.id)).flatten()
        };
        let is_changed = |at: usize| {
            let node = &nodes[at];
            new.1
                .position
                .get(&node.id)
                .is_none_or(|other| !is_same(node, &new.0.nodes[*other]) || next(old.0, at) != next(new.0, *other))
        };
        let after: Vec<Vec<usize>> = (0..nodes.len()).map(|at| old.1.after(old.0, at).collect()).collect();
        let mut before = vec![Vec::new(); nodes.len()];
        for (at, successors) in after.iter().enumerate() {
            successors.iter().for_each(|next| before[*next].push(at));
        }
        let changed: Vec<bool> = (0..nodes.len()).map(is_changed).collect();
        let beyond = (0..nodes.len()).filter(|at| changed[*at]).flat_map(|at| after[at].clone());
        let behind = reached(beyond.collect(), &after);
        let ahead = reached((0..nodes.len()).filter(|at| changed[*at]).collect(), &before);
        let live = live(nodes, &before, &after, uses);
        Alike { changed, behind, ahead, live, before, after }
    }

    /// Places that both functions reach in the same state, and from which a path reaches a change before it reaches
    /// another such place.
    pub fn frontier(&self, is_place: impl Fn(usize) -> bool) -> Vec<usize> {
        let leads_on = |at: usize| self.changed[at] || self.after[at].iter().any(|next| self.behind[*next]);
        let mut pending: Vec<usize> = (0..self.changed.len()).filter(|at| !self.behind[*at] && leads_on(*at)).collect();
        let (mut seen, mut found) = (vec![false; self.changed.len()], Vec::new());
        while let Some(at) = pending.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            match is_place(at) {
                true => found.push(at),
                false => pending.extend(&self.before[at]),
            }
        }
        found
    }
}

/// Whether two instructions are equal, with the same id, references and relocations.
pub fn is_same(old: &Node, new: &Node) -> bool {
    old.id == new.id && old.insn == new.insn && old.reference == new.reference && old.core == new.core
}

/// The positions that are reachable from `start` along edges, including `start` itself.
pub fn reached(from: Vec<usize>, edges: &[Vec<usize>]) -> Vec<bool> {
    let (mut reached, mut pending) = (vec![false; edges.len()], from);
    while let Some(at) = pending.pop() {
        if !std::mem::replace(&mut reached[at], true) {
            pending.extend(&edges[at]);
        }
    }
    reached
}

/// Registers that are read from each instruction on before they are written.
pub(super) fn live(
    nodes: &[Node],
    before: &[Vec<usize>],
    after: &[Vec<usize>],
    uses: impl Fn(&Node) -> (RegSet, RegSet),
) -> Vec<RegSet> {
    let uses: Vec<(RegSet, RegSet)> = nodes.iter().map(uses).collect();
    let mut live: Vec<RegSet> = uses.iter().map(|(reads, _)| *reads).collect();
    let mut pending: Vec<usize> = (0..nodes.len()).collect();
    while let Some(at) = pending.pop() {
        let needed = after[at].iter().fold(RegSet::EMPTY, |set, next| set.union(live[*next]));
        let (reads, writes) = uses[at];
        let own = reads.union(needed.difference(writes)).difference(RegSet::of(&[Reg::R10]));
        if own != live[at] {
            live[at] = own;
            pending.extend(&before[at]);
        }
    }
    live
}
