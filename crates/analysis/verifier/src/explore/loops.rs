//! Loops that are being explored: a path that ends in a state of a loop whose paths are not all finished leaves open what
//! the future of that state depends on (the kernel's `bpf_scc_visit`).
//!
//! ```text
//!   L: ...        strongly connected component 1; a visit of it begins with the first state kept in it
//!      goto L     a path ends in a state of the visit: the visit is open
//!   ...           all paths of the visit's first state are finished: the visit is over
//! ```
//!
//! A visit is told from others by the component and by the calls that lead to it.
//!
//! A call that runs a callback any number of times is a loop too, but Linux 6.18 does not count it as one: it compares
//! states in callbacks by what matters so far, before it knows what the next turn needs. Kiln does so first, remembers
//! these states, and looks in the end whether they are covered by all that matters. If one is not, it begins anew, with
//! such calls as loops (`strict`).

use std::collections::HashMap;

use crate::code::{Code, Position};
use crate::state::State;

/// The component of a call that runs a callback; the calls that lead to it end with it.
const CALLBACK: u32 = u32::MAX;

/// A visit of a component, 0 for none.
pub(crate) type Visit = u32;

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The kept state that it began with, 0 where it is over.
    entry: u32,
    /// A path ended in one of its states.
    open: bool,
}

/// All visits.
#[derive(Debug, Default)]
pub(crate) struct Visits {
    known: Vec<Known>,
    by_calls: HashMap<(Vec<Position>, u32), Visit>,
}

impl Visits {
    /// The visit that a state at `at` belongs to: of the outermost component on its way.
    pub(crate) fn of(&mut self, code: &Code<'_>, state: &State, at: Position, strict: bool) -> Visit {
        let sites = state.frames.iter().skip(1).map(|frame| frame.call_site);
        let mut calls = Vec::new();
        for site in sites.chain([at]) {
            let component = code.ops.get(site as usize).map_or(0, |op| match op.component {
                0 if strict && op.runs_callback() => CALLBACK,
                component => component,
            });
            if component == CALLBACK {
                calls.push(site);
            }
            if component != 0 {
                let next = self.known.len() as Visit + 1;
                let visit = *self.by_calls.entry((calls, component)).or_insert(next);
                if visit == next {
                    self.known.push(Known::default());
                }
                return visit;
            }
            calls.push(site);
        }
        0
    }

    fn get(&mut self, visit: Visit) -> Option<&mut Known> {
        self.known.get_mut((visit as usize).checked_sub(1)?)
    }

    /// A state of the visit is kept.
    pub(crate) fn enter(&mut self, visit: Visit, state: u32) {
        if let Some(known) = self.get(visit)
            && known.entry == 0
        {
            known.entry = state;
        }
    }

    /// All paths of a state of the visit are finished.
    pub(crate) fn leave(&mut self, visit: Visit, state: u32) {
        if let Some(known) = self.get(visit)
            && known.entry == state
        {
            *known = Known::default();
        }
    }

    /// A path ends in a state of the visit whose future is not explored.
    pub(crate) fn ended_within(&mut self, visit: Visit) {
        if let Some(known) = self.get(visit) {
            known.open = true;
        }
    }

    /// Whether some path ended in a state of the visit, and the visit is not over.
    pub(crate) fn is_open(&self, visit: Visit) -> bool {
        (visit as usize).checked_sub(1).is_some_and(|at| self.known[at].open)
    }
}

/// Numbers the strongly connected components of a graph (Tarjan, without recursion). A node alone has number 0 unless it is
/// its own successor.
pub(crate) fn components(count: usize, successors: impl Fn(usize) -> Vec<usize>) -> Vec<u32> {
    let mut search = Search { order: vec![UNSEEN; count], low: vec![UNSEEN; count], ..Search::default() };
    let mut component = vec![0; count];
    let mut next_component = 1;
    for root in 0..count {
        if search.order[root] == UNSEEN {
            search.begin(root, &successors);
        }
        while let Some((at, rest)) = search.open.last_mut() {
            let at = *at;
            match rest.pop() {
                Some(next) if search.order[next] == UNSEEN => search.begin(next, &successors),
                // What has a component already is not on the stack any more.
                Some(next) if search.low[next] != DONE => search.low[at] = search.low[at].min(search.order[next]),
                Some(_) => {}
                None => {
                    let Some(members) = search.end(at) else { continue };
                    let numbered = members.len() > 1 || successors(at).contains(&at);
                    for member in members.iter().filter(|_| numbered) {
                        component[*member] = next_component;
                    }
                    next_component += u32::from(numbered);
                }
            }
        }
    }
    component
}

/// The order of a node that was not reached yet.
const UNSEEN: usize = usize::MAX;
/// The lowest node that a node in a finished component reaches.
const DONE: usize = usize::MAX - 1;

#[derive(Default)]
struct Search {
    /// When each node was reached.
    order: Vec<usize>,
    /// The first node that each node leads to and that is not in a component yet.
    low: Vec<usize>,
    /// Nodes that are in no component yet.
    stack: Vec<usize>,
    /// Nodes whose successors are being visited, with the successors left.
    open: Vec<(usize, Vec<usize>)>,
    reached: usize,
}

impl Search {
    fn begin(&mut self, at: usize, successors: &impl Fn(usize) -> Vec<usize>) {
        (self.order[at], self.low[at]) = (self.reached, self.reached);
        self.reached += 1;
        self.stack.push(at);
        self.open.push((at, successors(at)));
    }

    /// All successors of a node were visited: gives the members of its component, where it is the first of one.
    fn end(&mut self, at: usize) -> Option<Vec<usize>> {
        self.open.pop();
        let low = self.low[at];
        if low != self.order[at] {
            let (before, _) = self.open.last()?;
            self.low[*before] = self.low[*before].min(low);
            return None;
        }
        let first = self.stack.iter().rposition(|other| *other == at).unwrap_or(0);
        let members = self.stack.split_off(first);
        for member in &members {
            self.low[*member] = DONE;
        }
        Some(members)
    }
}

#[cfg(test)]
mod tests {
    use super::components;

    #[test]
    fn components_are_those_of_loops() {
        // 0 -> 1 -> 2 -> 1, 2 -> 3 -> 4 -> 4, 3 -> 5, 6 -> 7 -> 6.
        let edges = [vec![1], vec![2], vec![1, 3], vec![4, 5], vec![4], vec![], vec![7], vec![6]];
        let found = components(edges.len(), |at| edges[at].clone());
        assert_eq!([found[0], found[3], found[5]], [0, 0, 0]);
        assert!(found[1] != 0 && found[1] == found[2]);
        assert!(found[6] != 0 && found[6] == found[7]);
        let mut numbers = vec![found[1], found[4], found[6]];
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 3);
        assert!(!numbers.contains(&0));
    }
}
