//! Where kept states are found: by position and by call.

use crate::code::Position;

/// Kept states by position and, there, by the call that made their last frame, in order.
pub(super) struct Places(Vec<Vec<(Position, Vec<u32>)>>);

impl Places {
    /// For a program of so many instructions.
    pub(super) fn new(insns: usize) -> Places {
        Places(Vec::with_capacity(insns))
    }

    /// The states there, if some were kept.
    pub(super) fn get_mut(&mut self, at: Position, call_site: Position) -> Option<&mut Vec<u32>> {
        let here = self.0.get_mut(at as usize)?;
        let found = here.binary_search_by_key(&call_site, |(site, _)| *site).ok()?;
        Some(&mut here[found].1)
    }

    /// Adds a state as the last one there.
    pub(super) fn add(&mut self, at: Position, call_site: Position, state: u32) {
        let at = at as usize;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, Vec::new);
        }
        let here = &mut self.0[at];
        match here.binary_search_by_key(&call_site, |(site, _)| *site) {
            Ok(found) => here[found].1.push(state),
            Err(place) => here.insert(place, (call_site, vec![state])),
        }
    }
}
