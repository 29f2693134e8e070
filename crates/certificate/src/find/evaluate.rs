//! Values of terms in random states, which show that two terms differ before a solver is asked.
//!
//! Most random states are not on the path that is asked about. So the variables are given numbers with which what is known
//! holds, where its form says which:
//!
//! ```text
//!   known:  byte_1(data + 12) = 8,  not (end < data + 34),  end < data + 54
//!   state:  byte_1(data + 12) = 8,  data = 0x1000,  end = data + 34, 53, or between
//! ```

use std::collections::HashMap;
use std::rc::Rc;

use kiln_isa::semantics::{BitVec as _, Bits, mask};

use crate::term::{Arena, Binary, Shape, Term, operands};

/// Random states in which what is known is to hold.
const SAMPLES: u64 = 8;
/// Random states in which anything may hold.
const ANY: u64 = 24;
/// The distance of two variables that only one side of a range bounds.
const DISTANCE: i64 = 1500;

impl Arena {
    /// The value of a term, where `value` gives that of variables and functions by name and operands.
    pub fn evaluate(&self, term: Term<'_>, value: &dyn Fn(&str, &[u64]) -> u64) -> u64 {
        let shapes = self.shapes.borrow();
        let mut values: HashMap<u32, u64> = HashMap::new();
        for id in self.cone(&[term.id()]) {
            let (shape, bits) = &shapes[id as usize];
            let result = match shape {
                Shape::Apply(name, own) => {
                    value(name, &own.iter().map(|id| values[id]).collect::<Vec<_>>()) & mask(*bits)
                }
                _ => result(&shapes, id, &|id| values[&id]),
            };
            values.insert(id, result);
        }
        values[&term.id()]
    }
}

/// The value of a term that is no variable or function, from those of its operands.
fn result(shapes: &[(Shape, u32)], id: u32, value: &dyn Fn(u32) -> u64) -> u64 {
    let (shape, bits) = &shapes[id as usize];
    let bits_of = |id: u32| Bits::new(shapes[id as usize].1, value(id));
    match shape {
        Shape::Constant(number) => *number,
        Shape::Apply(..) => 0,
        Shape::Not(a) => !value(*a) & mask(*bits),
        Shape::Binary(op, a, b) => op.apply(bits_of(*a), bits_of(*b)).value(),
        Shape::Extract(a, low) => value(*a) >> low & mask(*bits),
        Shape::Concat(high, low) => value(*high) << shapes[*low as usize].1 | value(*low),
        Shape::SignExtend(a) => bits_of(*a).sign_extend(*bits).value(),
        Shape::Ite(condition, a, b) => value(if value(*condition) == 1 { *a } else { *b }),
    }
}

/// Random states, in which terms are evaluated once.
pub(crate) struct States<'a> {
    arena: &'a Arena,
    states: Vec<Sampled>,
}

/// A random state.
#[derive(Default)]
struct Sampled {
    seed: u64,
    /// Bits that variables and functions are given, by term: which, and their values.
    given: HashMap<u32, (u64, u64)>,
    /// Results of functions: equal operands give equal results.
    functions: HashMap<(Rc<str>, Vec<u64>), u64>,
    /// Values of terms so far.
    values: Vec<Option<u64>>,
    /// How much of what is known holds, and whether all of it does.
    holding: usize,
    holds: bool,
}

impl<'a> States<'a> {
    /// States in which what is known holds, as far as its form says how.
    pub(crate) fn of(arena: &'a Arena, known: &[Term<'a>]) -> States<'a> {
        let states = (0..SAMPLES).map(|seed| {
            let mut state = Sampled { seed, ..Sampled::default() };
            state.give(arena, known);
            state.holding = known.iter().filter(|term| state.value(arena, **term) == 1).count();
            state.holds = state.holding == known.len();
            state
        });
        States { arena, states: states.collect() }
    }

    /// States of any kind.
    pub(crate) fn any(arena: &'a Arena) -> States<'a> {
        let states = (0..ANY).map(|seed| Sampled { seed, holds: true, ..Sampled::default() });
        States { arena, states: states.collect() }
    }

    /// The values of a term.
    pub(crate) fn values(&mut self, term: Term<'a>) -> impl Iterator<Item = u64> + '_ {
        self.states.iter_mut().map(move |state| state.value(term.arena(), term))
    }

    /// Whether a condition holds in the state in which most of what is known holds.
    pub(crate) fn is_likely(&mut self, condition: Term<'a>) -> bool {
        let best = self.states.iter_mut().max_by_key(|state| state.holding);
        best.is_some_and(|state| state.value(self.arena, condition) == 1)
    }

    /// Whether a state in which all that is known holds shows that a goal does not follow.
    pub(crate) fn refute(&mut self, goal: Term<'a>) -> bool {
        self.states.iter_mut().filter(|state| state.holds).any(|state| state.value(self.arena, goal) == 0)
    }
}

impl Sampled {
    fn value(&mut self, arena: &Arena, term: Term<'_>) -> u64 {
        let shapes = arena.shapes.borrow();
        if self.values.len() < shapes.len() {
            self.values.resize(shapes.len(), None);
        }
        let mut pending = vec![term.id()];
        while let Some(id) = pending.last().copied() {
            let open = pending.len();
            if self.values[id as usize].is_none() {
                let shape = &shapes[id as usize].0;
                pending.extend(operands(shape).into_iter().filter(|id| self.values[*id as usize].is_none()));
                if pending.len() > open {
                    continue;
                }
                let value = match shape {
                    Shape::Apply(name, own) => self.apply(id, name, own, shapes[id as usize].1),
                    _ => result(&shapes, id, &|id| self.values[id as usize].unwrap_or(0)),
                };
                self.values[id as usize] = Some(value);
            }
            pending.pop();
        }
        self.values[term.id() as usize].unwrap_or(0)
    }

    fn apply(&mut self, id: u32, name: &Rc<str>, operands: &[u32], bits: u32) -> u64 {
        let own: Vec<u64> = operands.iter().map(|id| self.values[*id as usize].unwrap_or(0)).collect();
        let (which, given) = self.given.get(&id).copied().unwrap_or((0, 0));
        let random = sample(self.seed, name, &own);
        *self.functions.entry((name.clone(), own)).or_insert((random & !which | given) & mask(bits))
    }

    /// Gives variables numbers with which what is known holds.
    fn give(&mut self, arena: &Arena, known: &[Term<'_>]) {
        let shapes = arena.shapes.borrow();
        let mut distances: HashMap<(u32, u32), (i64, i64)> = HashMap::new();
        let mut pending: Vec<(u32, bool)> = known.iter().rev().map(|term| (term.id(), true)).collect();
        let constant = |id: u32| if let Shape::Constant(value) = shapes[id as usize].0 { Some(value) } else { None };
        while let Some((id, holds)) = pending.pop() {
            match shapes[id as usize].0 {
                Shape::Not(a) => pending.push((a, !holds)),
                Shape::Binary(Binary::And, a, b) if holds => pending.extend([(b, true), (a, true)]),
                Shape::Binary(Binary::Or, a, b) if !holds => pending.extend([(b, false), (a, false)]),
                Shape::Binary(Binary::Eq, a, b) if holds => {
                    if let Some(value) = constant(b) {
                        self.set(&shapes, a, u64::MAX, value);
                    }
                }
                Shape::Binary(Binary::Ult, a, b) => {
                    let most = mask(shapes[a as usize].1);
                    match (constant(a), constant(b), holds) {
                        (None, Some(end), true) => self.set(&shapes, a, u64::MAX, self.seed % end.max(1)),
                        (None, Some(end), false) => {
                            self.set(&shapes, a, u64::MAX, end.saturating_add(self.seed).min(most));
                        }
                        (Some(end), None, true) => {
                            self.set(&shapes, b, u64::MAX, end.saturating_add(1 + self.seed).min(most));
                        }
                        (Some(end), None, false) => {
                            self.set(&shapes, b, u64::MAX, self.seed % end.saturating_add(1).max(1));
                        }
                        (None, None, _) => bound(&mut distances, sum(&shapes, a), sum(&shapes, b), holds),
                        _ => {}
                    }
                }
                _ => self.set(&shapes, id, 1, u64::from(holds)),
            }
        }
        let mut distances: Vec<_> = distances.into_iter().collect();
        distances.sort_unstable();
        for ((one, other), (least, most)) in distances {
            self.set_distance(&shapes, one, other, least, most);
        }
    }

    /// Gives two variables numbers of which one is so much larger than the other.
    fn set_distance(&mut self, shapes: &[(Shape, u32)], one: u32, other: u32, least: i64, most: i64) {
        let (least, most) = match (least, most) {
            (i64::MIN, i64::MAX) => (0, DISTANCE),
            (i64::MIN, most) => (most.saturating_sub(DISTANCE), most),
            (least, i64::MAX) => (least, least.saturating_add(DISTANCE)),
            both => both,
        };
        let distance = match self.seed {
            0 => least,
            1 => most,
            seed => {
                let range = most.wrapping_sub(least).unsigned_abs().saturating_add(1);
                least.wrapping_add((sample(seed, "distance", &[u64::from(one), u64::from(other)]) % range) as i64)
            }
        };
        let full = |id: u32, state: &Sampled| state.given.get(&id).map(|(_, value)| *value);
        match (full(one, self), full(other, self)) {
            (Some(one), None) => self.set(shapes, other, u64::MAX, one.wrapping_sub(distance as u64)),
            (None, Some(other)) => self.set(shapes, one, u64::MAX, other.wrapping_add(distance as u64)),
            (None, None) => {
                let base = 0x1000_0000 + (self.seed << 20);
                self.set(shapes, other, u64::MAX, base);
                self.set(shapes, one, u64::MAX, base.wrapping_add(distance as u64));
            }
            (Some(_), Some(_)) => {}
        }
    }

    /// Gives the variables of a term numbers with which some of its bits have these values.
    fn set(&mut self, shapes: &[(Shape, u32)], id: u32, which: u64, value: u64) {
        let constant = |id: u32| if let Shape::Constant(value) = shapes[id as usize].0 { Some(value) } else { None };
        let mut pending = vec![(id, which, value)];
        while let Some((id, which, value)) = pending.pop() {
            let (shape, bits) = &shapes[id as usize];
            let which = which & mask(*bits);
            if which == 0 {
                continue;
            }
            match *shape {
                Shape::Apply(..) => {
                    let (own, known) = self.given.entry(id).or_insert((0, 0));
                    let open = which & !*own;
                    (*own, *known) = (*own | open, *known | value & open);
                }
                Shape::Not(a) => pending.push((a, which, !value)),
                Shape::Concat(high, low) => {
                    let below = shapes[low as usize].1;
                    pending.extend([(low, which, value), (high, which >> below, value >> below)]);
                }
                Shape::Extract(a, low) => pending.push((a, which << low, value << low)),
                Shape::SignExtend(a) => pending.push((a, which, value)),
                Shape::Binary(op, a, b) => match (op, constant(b)) {
                    (Binary::Add, Some(term)) if which == mask(*bits) => {
                        pending.push((a, which, value.wrapping_sub(term)))
                    }
                    (Binary::Xor, Some(term)) => pending.push((a, which, value ^ term)),
                    (Binary::And, Some(term)) => pending.push((a, which & term, value)),
                    (Binary::Or, Some(term)) => pending.push((a, which & !term, value)),
                    _ => {}
                },
                Shape::Constant(_) | Shape::Ite(..) => {}
            }
        }
    }
}

/// A variable or function, and what is added to it.
fn sum(shapes: &[(Shape, u32)], id: u32) -> Option<(u32, u64)> {
    match shapes[id as usize] {
        (Shape::Apply(..), 64) => Some((id, 0)),
        (Shape::Binary(Binary::Add, a, b), 64) => match (&shapes[a as usize].0, &shapes[b as usize].0) {
            (Shape::Apply(..), Shape::Constant(value)) => Some((a, *value)),
            _ => None,
        },
        _ => None,
    }
}

/// Notes how far one sum is from another that it is below, or not below.
fn bound(
    distances: &mut HashMap<(u32, u32), (i64, i64)>,
    one: Option<(u32, u64)>,
    other: Option<(u32, u64)>,
    below: bool,
) {
    let (Some((one, first)), Some((other, second))) = (one, other) else { return };
    let distance = second.wrapping_sub(first) as i64;
    // one - other < distance, or it is at least that; in the other order, other - one > -distance, or at most that.
    let ((key, least), most) = match (one < other, below) {
        (true, true) => (((one, other), i64::MIN), distance.saturating_sub(1)),
        (true, false) => (((one, other), distance), i64::MAX),
        (false, true) => (((other, one), distance.saturating_neg().saturating_add(1)), i64::MAX),
        (false, false) => (((other, one), i64::MIN), distance.saturating_neg()),
    };
    let own = distances.entry(key).or_insert((i64::MIN, i64::MAX));
    *own = (own.0.max(least), own.1.min(most));
}

/// A number that a variable has in a random state.
fn sample(seed: u64, name: &str, operands: &[u64]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (seed, name, operands).hash(&mut hasher);
    let hash = hasher.finish();
    match hash % 5 {
        0 => hash >> 8 & 0xff,
        1 => hash >> 60,
        _ => hash,
    }
}
