//! Values of terms in random states, which show that two terms differ before a solver is asked.

use std::collections::HashMap;

use kiln_isa::semantics::{BitVec as _, Bits, mask};

use crate::term::{Arena, Shape, Term};

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
