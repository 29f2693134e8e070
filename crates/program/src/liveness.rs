//! Which registers are live after each instruction.
//!
//! ```text
//!   w4 = w3                        r3 r4
//!   w4 >>= 28                      r3 r4
//!   w3 <<= 4                       r3 r4
//!   w3 |= w4                       r3         <- r4 is dead: the four may become one rotation
//! ```

use kiln_isa::{Insn, Reg, RegSet};

use crate::object::{InsnId, Node};

/// The position of each instruction of a function.
#[derive(Clone, Debug, Default)]
pub struct Positions {
    /// How many instructions have the ids from `first` on, in order: all of most functions, and then `known` is empty.
    row: usize,
    first: u32,
    /// Sorted by the instruction.
    known: Vec<(InsnId, usize)>,
}

impl Positions {
    /// The positions of a function's instructions.
    pub fn of(nodes: &[Node]) -> Positions {
        Positions::of_all(std::iter::once(nodes))
    }

    /// The positions of the instructions of several functions, one after the other.
    pub fn of_all<'a>(functions: impl Iterator<Item = &'a [Node]> + Clone) -> Positions {
        let first = functions.clone().find_map(<[Node]>::first).map_or(0, |node| node.id.0);
        let (mut row, mut in_order) = (0, true);
        for nodes in functions.clone() {
            for node in nodes {
                in_order &= node.id.0.checked_sub(first) == Some(row as u32);
                row += 1;
            }
        }
        if in_order {
            return Positions { row, first, known: Vec::new() };
        }
        let mut known: Vec<_> = functions.flatten().enumerate().map(|(at, node)| (node.id, at)).collect();
        known.sort_unstable();
        Positions { row: 0, first: 0, known }
    }

    /// The position of an instruction, if the function has it.
    pub fn get(&self, id: &InsnId) -> Option<usize> {
        let at = id.0.wrapping_sub(self.first) as usize;
        if at < self.row {
            return Some(at);
        }
        let found = self.known.binary_search_by_key(id, |(known, _)| *known).ok()?;
        Some(self.known[found].1)
    }
}

/// The registers that may be read after each instruction before they are written, over all paths of the control-flow
/// graph. A call reads R1 to R5 and destroys R0 to R5. All are live after an indirect jump. `positions` gives the position
/// of each instruction.
pub fn live_after(nodes: &[Node], positions: &Positions) -> Vec<RegSet> {
    let target = |node: &Node| node.target().and_then(|id| positions.get(&id)).filter(|at| *at < nodes.len());
    let targets: Vec<Option<usize>> = nodes.iter().map(target).collect();
    let mut before = vec![RegSet::EMPTY; nodes.len() + 1];
    let after = |before: &[RegSet], at: usize| {
        let next = match nodes[at].insn {
            Insn::Jump { .. } | Insn::Exit => RegSet::EMPTY,
            Insn::JumpIndirect { .. } => RegSet::ALL,
            _ => before[at + 1],
        };
        targets[at].map_or(next, |target| next.union(before[target]))
    };
    let live_before = |at: usize, after: RegSet| {
        let insn = &nodes[at].insn;
        after.difference(written(insn)).union(read(insn))
    };
    if targets.iter().enumerate().all(|(at, target)| target.is_none_or(|target| target > at)) {
        // Without loops, what an instruction depends on is done before it.
        let mut live = vec![RegSet::EMPTY; nodes.len()];
        for at in (0..nodes.len()).rev() {
            live[at] = after(&before, at);
            before[at] = live_before(at, live[at]);
        }
        return live;
    }
    let mut branches: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (at, target) in targets.iter().enumerate() {
        if let Some(target) = target {
            branches[*target].push(at);
        }
    }
    // Sets only grow, so each instruction is visited at most once per register and successor.
    let mut pending: Vec<usize> = (0..nodes.len()).collect();
    let mut waiting = vec![true; nodes.len()];
    while let Some(at) = pending.pop() {
        waiting[at] = false;
        let live = live_before(at, after(&before, at));
        if live == before[at] {
            continue;
        }
        before[at] = live;
        for earlier in branches[at].iter().copied().chain(at.checked_sub(1)) {
            if !waiting[earlier] {
                waiting[earlier] = true;
                pending.push(earlier);
            }
        }
    }
    (0..nodes.len()).map(|at| after(&before, at)).collect()
}

/// The registers that an instruction writes or destroys.
#[inline]
pub fn written(insn: &Insn) -> RegSet {
    match insn {
        Insn::Call(_) | Insn::LoadPacket { .. } => RegSet::CALLER_SAVED,
        _ => insn.written().map_or(RegSet::EMPTY, |reg| RegSet::of(&[reg])),
    }
}

/// The registers that an instruction may read.
#[inline]
pub fn read(insn: &Insn) -> RegSet {
    match insn {
        Insn::Call(_) => RegSet::arguments(5),
        // A packet load may exit the function, and then only R0 is read.
        Insn::LoadPacket { .. } => insn.read().union(RegSet::of(&[Reg::R6])),
        _ => insn.read(),
    }
}
