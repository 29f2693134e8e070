//! Where kept states are found: by position and by call.

use std::collections::HashMap;

use crate::code::Position;

/// The state kept last at each position for the call that made its last frame, 0 for none. Each state knows the one before it.
pub(super) struct Places {
    /// By position, the first call that a state was kept for, mostly the only one, and that state.
    first: Vec<Option<(Position, u32)>>,
    others: HashMap<(Position, Position), u32>,
}

impl Places {
    /// For a program of so many instructions.
    pub(super) fn new(insns: usize) -> Places {
        Places { first: vec![None; insns], others: HashMap::new() }
    }

    /// The state kept last there.
    pub(super) fn last(&self, at: Position, call_site: Position) -> u32 {
        match self.first.get(at as usize) {
            Some(Some((site, last))) if *site == call_site => *last,
            Some(Some(_)) => self.others.get(&(at, call_site)).copied().unwrap_or(0),
            _ => 0,
        }
    }

    /// Makes a state, or none, the one kept last there.
    pub(super) fn set(&mut self, at: Position, call_site: Position, state: u32) {
        match self.first.get_mut(at as usize) {
            Some(first) if first.is_none_or(|(site, _)| site == call_site) => *first = Some((call_site, state)),
            _ => {
                self.others.insert((at, call_site), state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Places;

    #[test]
    fn a_call_that_has_no_state_any_more_hides_no_other() {
        let mut places = Places::new(1);
        let (first, other) = (5, 9);
        places.set(0, first, 1);
        places.set(0, other, 2);
        places.set(0, first, 0);
        assert_eq!([first, other].map(|call_site| places.last(0, call_site)), [0, 2]);
        places.set(0, other, 3);
        assert_eq!([first, other].map(|call_site| places.last(0, call_site)), [0, 3]);
    }
}
