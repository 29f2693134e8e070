//! Values of terms in random states, which show that two terms differ before a solver is asked.

use std::collections::HashMap;

use kiln_isa::semantics::{BitVec as _, Bits, mask};

use crate::term::{Arena, Shape, Term};

/// Random states in which two values are compared before a solver is asked.
pub(super) const SAMPLES: u64 = 6;

impl Arena {
    /// The value of a term, where `value` gives that of variables and functions by name and operands.
    pub fn evaluate(&self, term: Term<'_>, value: &dyn Fn(&str, &[u64]) -> u64) -> u64 {
        let shapes = self.shapes.borrow();
        let mut values: HashMap<u32, u64> = HashMap::new();
        for id in self.cone(&[term.id()]) {
            let (shape, bits) = &shapes[id as usize];
            let bits_of = |id: u32| Bits::new(shapes[id as usize].1, values[&id]);
            let result = match shape {
                Shape::Constant(number) => *number,
                Shape::Apply(name, operands) => {
                    value(name, &operands.iter().map(|id| values[id]).collect::<Vec<_>>()) & mask(*bits)
                }
                Shape::Not(a) => !values[a] & mask(*bits),
                Shape::Binary(op, a, b) => op.apply(bits_of(*a), bits_of(*b)).value(),
                Shape::Extract(a, low) => values[a] >> low & mask(*bits),
                Shape::Concat(high, low) => values[high] << shapes[*low as usize].1 | values[low],
                Shape::SignExtend(a) => bits_of(*a).sign_extend(*bits).value(),
                Shape::Ite(condition, a, b) => {
                    if values[condition] == 1 {
                        values[a]
                    } else {
                        values[b]
                    }
                }
            };
            values.insert(id, result);
        }
        values[&term.id()]
    }
}

/// Whether a condition holds in the random state in which most of what is known holds.
pub fn is_likely<'a>(arena: &'a Arena, known: &[Term<'a>], condition: Term<'a>) -> bool {
    let holds = |seed, term: Term<'a>| arena.evaluate(term, &|name: &str, of: &[u64]| sample(seed, name, of)) == 1;
    let best = (0..SAMPLES).max_by_key(|seed| known.iter().filter(|term| holds(*seed, **term)).count());
    best.is_some_and(|seed| holds(seed, condition))
}

/// Whether a random state in which all that is known holds shows that a goal does not follow.
pub fn is_refuted<'a>(arena: &'a Arena, known: &[Term<'a>], goal: Term<'a>) -> bool {
    let holds = |seed, term: Term<'a>| arena.evaluate(term, &|name: &str, of: &[u64]| sample(seed, name, of)) == 1;
    (0..SAMPLES).any(|seed| !holds(seed, goal) && known.iter().all(|term| holds(seed, *term)))
}

/// A number that a variable has in a random state.
pub(super) fn sample(seed: u64, name: &str, operands: &[u64]) -> u64 {
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
