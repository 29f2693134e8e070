//! What the conditions on a path imply about terms, without the solver.

use std::collections::HashMap;

use kiln_isa::semantics::BitVec;

use crate::term::{Binary, Shape, Term, TermId};
use crate::window::memory::World;

/// Conditions that hold, and what follows from them for other terms.
#[derive(Clone, Default)]
pub struct Known {
    truths: HashMap<TermId, bool>,
    numbers: HashMap<TermId, u64>,
    lengths: HashMap<(TermId, TermId), Length>,
}

/// What is known about the distance from an address in a packet to the packet's end.
#[derive(Clone, Copy, Default)]
struct Length {
    /// A number of bytes that the packet has after the address.
    there: Option<u64>,
    /// A number of bytes that the packet does not have after the address.
    missing: Option<u64>,
}

/// Maximum number of bytes after an address that a packet check may ask for.
const LONGEST_PACKET: u64 = 0xffff;

impl Known {
    /// Whether what is known decides a condition.
    pub fn decides(&self, world: &World<'_>, condition: TermId) -> Option<bool> {
        match world.arena.term(condition).as_constant() {
            Some(value) => Some(value == 1),
            None => self.truths.get(&condition).copied().or_else(|| {
                if let Some((key, bytes, past)) = checked_length(world, condition) {
                    let known = self.lengths.get(&key)?;
                    let missing = known.missing.is_some_and(|missing| missing <= bytes);
                    let there = known.there.is_some_and(|there| there >= bytes);
                    return (missing || there).then_some(missing == past);
                }
                let (term, value) = compared(world, condition)?;
                self.numbers.get(&term).map(|known| *known == value)
            }),
        }
    }

    /// Adds a condition. Returns whether it agrees with what is known.
    pub fn add(&mut self, world: &World<'_>, condition: TermId) -> bool {
        let arena = world.arena;
        let fits = self.decides(world, condition) != Some(false);
        self.truths.insert(condition, true);
        self.truths.insert(Term::not(&arena.term(condition)).id(), false);
        self.numbers.extend(compared(world, condition));
        if let Some((key, bytes, past)) = checked_length(world, condition) {
            let known = self.lengths.entry(key).or_default();
            match past {
                true => known.missing = Some(known.missing.map_or(bytes, |least| least.min(bytes))),
                false => known.there = Some(known.there.map_or(bytes, |most| most.max(bytes))),
            }
        }
        fits
    }

    /// Whether two terms are equal by what is known.
    pub fn says_equal(&self, world: &World<'_>, one: TermId, other: TermId) -> bool {
        let arena = world.arena;
        let number = |term: TermId| {
            let bits = arena.shape(term).1;
            let truth = self.decides(world, term).filter(|_| bits == 1).map(u64::from);
            truth.or_else(|| self.numbers.get(&term).copied()).or_else(|| arena.term(term).as_constant())
        };
        let chosen = |term: TermId| match arena.shape(term).0 {
            Shape::Ite(condition, yes, no) => match self.decides(world, condition) {
                Some(true) => yes,
                Some(false) => no,
                None => term,
            },
            _ => term,
        };
        chosen(one) == chosen(other) || number(one).is_some_and(|value| number(other) == Some(value))
    }
}

/// Reads a condition as a packet check. Returns the packet's end and the address, the number of bytes, and whether the
/// condition says that the packet has fewer.
fn checked_length(world: &World<'_>, condition: TermId) -> Option<((TermId, TermId), u64, bool)> {
    let (comparison, past) = match world.arena.shape(condition).0 {
        Shape::Not(inner) => (inner, false),
        _ => (condition, true),
    };
    let Shape::Binary(Binary::Ult, end, address) = world.arena.shape(comparison).0 else { return None };
    let (start, bytes) = match world.arena.shape(address).0 {
        Shape::Sum(constant, terms) => match *terms {
            [(1, only)] => (only, constant),
            _ => return None,
        },
        _ => (address, 0),
    };
    let sound = bytes <= LONGEST_PACKET && world.is_packet_symbol(start);
    sound.then_some(((end, start), bytes, past))
}

/// The term and the constant that a condition makes equal.
fn compared(world: &World<'_>, condition: TermId) -> Option<(TermId, u64)> {
    let Shape::Binary(Binary::Eq, one, other) = world.arena.shape(condition).0 else { return None };
    let number = |term: TermId| world.arena.term(term).as_constant();
    number(other).map(|value| (one, value)).or_else(|| number(one).map(|value| (other, value)))
}
