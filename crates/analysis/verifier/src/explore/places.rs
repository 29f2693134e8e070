//! Where kept states are found: by position and by call.

use std::collections::HashMap;

use crate::code::Position;

/// The state kept last at each position for the call that made its last frame, 0 for none. Each state knows the one before it.
pub(super) struct Places {
    /// By position, the first call that a state was kept for: mostly the only one.
    first: Vec<(Position, u32)>,
    others: HashMap<(Position, Position), u32>,
}

impl Places {
    /// For a program of so many instructions.
    pub(super) fn new(insns: usize) -> Places {
        Places { first: vec![(0, 0); insns], others: HashMap::new() }
    }

    /// The state kept last there.
    pub(super) fn last(&self, at: Position, call_site: Position) -> u32 {
        match self.first.get(at as usize) {
            Some((site, last)) if *site == call_site => *last,
            Some((_, last)) if *last != 0 => self.others.get(&(at, call_site)).copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// Makes a state, or none, the one kept last there.
    pub(super) fn set(&mut self, at: Position, call_site: Position, state: u32) {
        match self.first.get_mut(at as usize) {
            Some(first) if first.0 == call_site || first.1 == 0 => *first = (call_site, state),
            _ => {
                self.others.insert((at, call_site), state);
            }
        }
    }
}
