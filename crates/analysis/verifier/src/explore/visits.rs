//! Loops that are being explored: a path that ends in a state of a loop whose paths are not all finished leaves open what
//! the future of that state depends on (the kernel's `bpf_scc_visit`).
//!
//! ```text
//!   L: ...        strongly connected component 1; a visit of it begins with the first state kept in it
//!      goto L     a path ends in a state of the visit: the visit is open
//!   ...           all paths of the visit's first state are finished: the visit is over
//! ```
//!
//! The component and the calls that lead to it identify a visit.
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
        let component_of = |site: Position| {
            code.ops.get(site as usize).map_or(0, |op| match op.component {
                0 if strict && op.runs_callback() => CALLBACK,
                component => component,
            })
        };
        let sites = state.frames.iter().skip(1).map(|frame| frame.call_site).chain([at]);
        if sites.clone().all(|site| component_of(site) == 0) {
            return 0;
        }
        let mut calls = Vec::new();
        for site in sites {
            let component = component_of(site);
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
