//! Two states compared: which ids of one correspond to which ids of the other, and whether one describes the other.

use super::{Byte, Kind, Register, State};

/// Ids of one state that stand for ids of another.
#[derive(Default)]
pub(crate) struct IdMap {
    pairs: Vec<(u32, u32)>,
    /// Numbers of the current state that were seen without an id.
    single: u32,
}

impl IdMap {
    /// Whether the ids may stand for each other, remembering that they do.
    pub(crate) fn matches(&mut self, old: u32, current: u32) -> bool {
        if (old == 0) != (current == 0) {
            return false;
        }
        if old == 0 {
            return true;
        }
        for (known, partner) in &self.pairs {
            if *known == old {
                return *partner == current;
            }
            if *partner == current {
                return false;
            }
        }
        self.pairs.push((old, current));
        true
    }

    /// Like `matches`, for numbers: a number without an id counts as one with an id of its own.
    pub(crate) fn matches_number(&mut self, old: u32, current: u32) -> bool {
        if old == 0 {
            return true;
        }
        if current == 0 {
            self.single += 1;
            return self.matches(old, u32::MAX - self.single);
        }
        self.matches(old, current)
    }
}

/// Whether everything known about the old register holds for the current one, including numbers that no decision depends
/// on. (Registers of the old state that nothing reads were emptied, so nothing holds for them.)
pub(crate) fn strictly_within(old: &Register, current: &Register) -> bool {
    let alike = old.kind() == current.kind()
        && old.nullable == current.nullable
        && old.inner == current.inner
        && old.relocated == current.relocated
        && old.holds == current.holds
        && (old.offset == current.offset || old.kind() == Kind::Scalar);
    old.kind() != Kind::Uninit && alike && old.scalar.includes(&current.scalar)
}

/// Returns ids of numbers that are linked in the old state and not in the current one.
pub(crate) fn broken_links(old: &State, current: &State) -> Vec<u32> {
    let mut ids = IdMap::default();
    let mut broken = Vec::new();
    let mut look = |a: &Register, b: &Register| {
        if a.kind() != Kind::Scalar || a.id == 0 {
            return;
        }
        if b.kind() != Kind::Scalar || a.offset != b.offset || !ids.matches_number(a.id, b.id) {
            broken.push(a.id);
        }
    };
    for (left, right) in old.frames.iter().zip(&current.frames) {
        for (a, b) in left.registers.iter().zip(&right.registers) {
            look(a, b);
        }
        for (slot, a) in left.stack.slots().iter().enumerate().filter(|(_, slot)| slot.bytes[0] == Byte::Spill) {
            look(&a.register, &right.stack.slot(slot).register);
        }
    }
    broken
}
