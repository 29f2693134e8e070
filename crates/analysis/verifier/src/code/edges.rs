//! Where control flow goes, as the kernel looks at it before it follows any path (`check_cfg`).

use kiln_isa::Insn;

use crate::code::{Code, Position};

impl Code<'_> {
    /// An instruction that no path through its function reaches, which the kernel refuses.
    pub(crate) fn unreachable(&self) -> Option<Position> {
        let mut reached = vec![false; self.ops.len()];
        if self.forward {
            // What leads to an instruction is before it.
            for routine in &self.functions {
                if let Some(seen) = reached.get_mut(routine.start as usize) {
                    *seen = true;
                }
            }
            for at in 0..self.ops.len() {
                if !reached[at] {
                    return Some(at as Position);
                }
                self.successors(at as Position).for_each(|next| {
                    if let Some(seen) = reached.get_mut(next as usize) {
                        *seen = true;
                    }
                });
            }
            return None;
        }
        let mut pending: Vec<Position> = self.functions.iter().map(|routine| routine.start).collect();
        while let Some(at) = pending.pop() {
            if let Some(seen) = reached.get_mut(at as usize)
                && !*seen
            {
                *seen = true;
                pending.extend(self.successors(at));
            }
        }
        reached.iter().position(|seen| !seen).map(|at| at as Position)
    }

    /// Finds an instruction that leads back to one of the same path, in any function.
    pub(crate) fn back_edge(&self) -> Option<Position> {
        self.back_edge_of(|_| true)
    }

    /// Finds one that leads back and is not a branch.
    pub(crate) fn back_by_falling(&self) -> Option<Position> {
        self.back_edge_of(|insn| !matches!(insn, Insn::Jump { .. } | Insn::Branch { .. } | Insn::MayGoto { .. }))
    }

    fn back_edge_of(&self, counts: fn(&Insn) -> bool) -> Option<Position> {
        let mut states = vec![Visit::Unseen; self.ops.len()];
        self.functions.iter().find_map(|routine| self.back_edge_from(routine.start, counts, &mut states))
    }

    /// As the kernel, follows what is next in the code before what is branched to.
    fn back_edge_from(&self, start: Position, counts: fn(&Insn) -> bool, states: &mut [Visit]) -> Option<Position> {
        *states.get_mut(start as usize)? = Visit::Open;
        let reversed = |at: Position| {
            let mut all: Vec<Position> = self.successors(at).collect();
            all.reverse();
            all
        };
        let mut path: Vec<(Position, Vec<Position>)> = vec![(start, reversed(start))];
        while let Some((at, left)) = path.last_mut() {
            let at = *at;
            match left.pop() {
                None => {
                    states[at as usize] = Visit::Closed;
                    path.pop();
                }
                Some(next) => match states.get(next as usize) {
                    Some(Visit::Open) if counts(&self.op(at).node.insn) => return Some(at),
                    Some(Visit::Unseen) => {
                        states[next as usize] = Visit::Open;
                        path.push((next, reversed(next)));
                    }
                    _ => {}
                },
            }
        }
        None
    }
}

/// How far the search for a way back has come with an instruction.
#[derive(Clone, Copy)]
enum Visit {
    /// Not looked at.
    Unseen,
    /// On the path that is looked at.
    Open,
    /// Everything behind it was looked at.
    Closed,
}
