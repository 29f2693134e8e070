//! Upper bounds of terms, which tell how many of their bits can be set.

use std::rc::Rc;

use kiln_isa::semantics::mask;

use crate::term::{Binary, Bitwise, Graph, Shape, TermId};

/// Bits needed for a value; at least one.
pub(crate) fn width_of(value: u64) -> u32 {
    (64 - value.leading_zeros()).max(1)
}

impl Graph {
    /// An upper bound of a shape's value; the caller cuts it to the width.
    pub(crate) fn bound(&self, shape: &Shape, bits: u32) -> u64 {
        let maxima = |ids: &Rc<[TermId]>| ids.iter().map(|id| self.max(*id)).collect::<Vec<_>>();
        let fits = |value: u64| if value <= mask(bits) { value } else { mask(bits) };
        let bound = match shape {
            Shape::Constant(value) => *value,
            Shape::Concat(parts) => {
                let mut low = 0;
                parts.iter().fold(0, |sum, part| {
                    let here = self.max(*part) << low;
                    low += self.bits(*part);
                    sum | here
                })
            }
            Shape::Extract(base, low) => fits(self.max(*base) >> low),
            Shape::Sum(constant, terms) => fits(u64::try_from(self.exact_sum(*constant, terms)).unwrap_or(u64::MAX)),
            Shape::Product(factors) => {
                fits(maxima(factors).into_iter().try_fold(1u64, u64::checked_mul).unwrap_or(u64::MAX))
            }
            Shape::Bitwise(Bitwise::And, operands) => maxima(operands).into_iter().min().unwrap_or(u64::MAX),
            Shape::Bitwise(_, operands) => mask(width_of(maxima(operands).into_iter().fold(0, |a, b| a | b))),
            Shape::Binary(Binary::Urem, a, b) => match self.as_constant(*b) {
                Some(divisor) if divisor > 0 => self.max(*a).min(divisor - 1),
                _ => self.max(*a),
            },
            Shape::Binary(Binary::Lshr, a, _) => self.max(*a),
            Shape::Binary(Binary::Udiv, a, b) if self.as_constant(*b).is_some_and(|b| b > 0) => self.max(*a),
            Shape::Ite(_, then, otherwise) => self.max(*then).max(self.max(*otherwise)),
            _ => mask(bits),
        };
        bound.min(mask(bits))
    }

    /// A sum's greatest value if it did not wrap.
    pub(crate) fn exact_sum(&self, constant: u64, terms: &[(u64, TermId)]) -> u128 {
        terms.iter().fold(u128::from(constant), |sum, (factor, term)| {
            sum.saturating_add(u128::from(*factor) * u128::from(self.max(*term)))
        })
    }
}
