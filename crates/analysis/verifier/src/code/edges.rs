//! Where control flow goes, as the kernel looks at it before it follows any path (`check_cfg`).

use crate::code::{Code, Position};

impl Code<'_> {
    /// An instruction that no path through its function reaches, which the kernel refuses.
    pub(crate) fn unreachable(&self) -> Option<Position> {
        let mut reached = vec![false; self.ops.len()];
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

    /// Finds a branch back to an instruction of the same path, in any function.
    pub(crate) fn back_edge(&self) -> Option<Position> {
        let mut states = vec![Visit::Unseen; self.ops.len()];
        self.functions.iter().find_map(|routine| self.back_edge_from(routine.start, &mut states))
    }

    fn back_edge_from(&self, start: Position, states: &mut [Visit]) -> Option<Position> {
        *states.get_mut(start as usize)? = Visit::Open;
        let mut path: Vec<(Position, Vec<Position>)> = vec![(start, self.successors(start).collect())];
        while let Some((at, left)) = path.last_mut() {
            let at = *at;
            match left.pop() {
                None => {
                    states[at as usize] = Visit::Closed;
                    path.pop();
                }
                Some(next) => match states.get(next as usize) {
                    Some(Visit::Open) => return Some(at),
                    Some(Visit::Unseen) => {
                        states[next as usize] = Visit::Open;
                        path.push((next, self.successors(next).collect()));
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
