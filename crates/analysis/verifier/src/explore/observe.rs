//! Observes an exploration, for the story of a rejection and for the profile of what exploring cost.
//!
//! ```text
//!   before  each instruction that is carried out          after   it, when it may have put states aside
//!   started a root: the program, then each global         resumed the last state put aside goes on
//! ```
//!
//! The exploration is generic over its observer, and `()` observes nothing: a plain verdict costs nothing extra.

use crate::code::Position;
use crate::path::Path;

/// What an observer sees.
pub(crate) struct Moment<'m, 'a> {
    /// The path that is followed.
    pub path: &'m Path<'a>,
    /// States put aside.
    pub pending: usize,
    /// States kept so far.
    pub kept: u64,
}

/// The events that an observer is told about.
pub(crate) trait Observer {
    /// Exploration begins at the start of the program, or of a global function that is verified on its own.
    fn started(&mut self) {}
    /// The instruction at the path's position is carried out next.
    fn before(&mut self, _moment: &Moment<'_, '_>) {}
    /// The instruction at the path's position was processed, but not carried out: a kept state covers what follows.
    fn covered(&mut self, _moment: &Moment<'_, '_>) {}
    /// It was carried out, and perhaps put states aside.
    fn after(&mut self, _moment: &Moment<'_, '_>) {}
    /// A path ended, and the state that was put aside last is continued.
    fn resumed(&mut self) {}
}

impl Observer for () {}

/// No node of a [`PathFinder`].
const NONE: u32 = u32::MAX;

/// Finds the path that leads to where an exploration ends: every instruction carried out knows the one before it.
pub(crate) struct PathFinder {
    /// Position, and the index of the instruction before it on its path.
    nodes: Vec<(Position, u32)>,
    current: u32,
    /// For each state put aside, the instruction that did so.
    aside: Vec<u32>,
}

impl PathFinder {
    pub(crate) fn new() -> PathFinder {
        PathFinder { nodes: Vec::new(), current: NONE, aside: Vec::new() }
    }

    /// Returns the indices of the path's last instructions, no more than `most`, and whether that is all of it. All
    /// instructions that were carried out are counted from 0.
    pub(crate) fn path(&self, most: usize) -> (Vec<u32>, bool) {
        let mut path = Vec::new();
        let mut at = self.current;
        while let Some((_, before)) = self.nodes.get(at as usize) {
            if path.len() == most {
                path.reverse();
                return (path, false);
            }
            path.push(at);
            at = *before;
        }
        path.reverse();
        (path, true)
    }
}

impl Observer for PathFinder {
    fn started(&mut self) {
        self.current = NONE;
        self.aside.clear();
    }

    fn before(&mut self, moment: &Moment<'_, '_>) {
        self.nodes.push((moment.path.at, self.current));
        self.current = (self.nodes.len() - 1) as u32;
    }

    fn after(&mut self, moment: &Moment<'_, '_>) {
        self.aside.resize(moment.pending, self.current);
    }

    fn resumed(&mut self) {
        self.current = self.aside.pop().unwrap_or(NONE);
    }
}

/// One instruction of a path, and what was known before it.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub at: Position,
    pub state: crate::state::State,
}

/// Keeps the states at the instructions with these indices.
pub(crate) struct Snapshots {
    wanted: std::vec::IntoIter<u32>,
    next: Option<u32>,
    count: u32,
    pub visits: Vec<Visit>,
}

impl Snapshots {
    pub(crate) fn new(wanted: Vec<u32>) -> Snapshots {
        let mut wanted = wanted.into_iter();
        Snapshots { next: wanted.next(), wanted, count: 0, visits: Vec::new() }
    }
}

impl Observer for Snapshots {
    fn before(&mut self, moment: &Moment<'_, '_>) {
        if self.next == Some(self.count) {
            self.visits.push(Visit { at: moment.path.at, state: moment.path.state.clone() });
            self.next = self.wanted.next();
        }
        self.count += 1;
    }
}
