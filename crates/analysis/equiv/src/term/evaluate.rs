//! The value of a term at concrete values of its variables, as SMT-LIB defines it.

use std::collections::HashMap;

use kiln_isa::semantics::{BitVec, Bits, mask};

use crate::term::smt::operands;
use crate::term::{Arena, Binary, Bitwise, Shape, Symbol, TermId};

/// A binary operation on numbers of `bits` bits; comparisons give 0 or 1.
pub fn binary(op: Binary, a: u64, b: u64, bits: u32) -> u64 {
    let (x, y) = (Bits::new(bits, a), Bits::new(bits, b));
    let zero = y.value() == 0;
    match op {
        Binary::Udiv if zero => mask(bits),
        Binary::Urem | Binary::Srem if zero => x.value(),
        Binary::Sdiv if zero => {
            if x.signed() < 0 {
                1
            } else {
                mask(bits)
            }
        }
        Binary::Udiv => x.udiv(&y).value(),
        Binary::Urem => x.urem(&y).value(),
        Binary::Sdiv => x.sdiv(&y).value(),
        Binary::Srem => x.srem(&y).value(),
        Binary::Shl if y.value() >= bits.into() => 0,
        Binary::Lshr if y.value() >= bits.into() => 0,
        Binary::Shl => x.shl(&y).value(),
        Binary::Lshr => x.lshr(&y).value(),
        Binary::Ashr => x.ashr(&y).value(),
        Binary::Eq => u64::from(x == y),
        Binary::Ult => u64::from(x.ult(&y)),
        Binary::Slt => u64::from(x.slt(&y)),
    }
}

/// Evaluates terms of one arena at one valuation; remembers what it has computed.
pub struct Evaluator<'a, F> {
    arena: &'a Arena,
    variable: F,
    known: HashMap<TermId, u64>,
}

impl<'a, F: FnMut(Symbol, u32) -> u64> Evaluator<'a, F> {
    /// `variable` gives the value of a symbol of that many bits.
    pub fn new(arena: &'a Arena, variable: F) -> Evaluator<'a, F> {
        Evaluator { arena, variable, known: HashMap::new() }
    }

    /// The term's value. Operands come before what is made of them, so that deep terms take no stack.
    pub fn value(&mut self, id: TermId) -> u64 {
        let mut pending = vec![id];
        while let Some(id) = pending.last().copied() {
            if self.known.contains_key(&id) {
                pending.pop();
                continue;
            }
            let (shape, bits) = self.arena.shape(id);
            let needed = match &shape {
                Shape::Ite(condition, then, otherwise) => match self.known.get(condition) {
                    None => vec![*condition],
                    Some(0) => vec![*otherwise],
                    Some(_) => vec![*then],
                },
                other => operands(other),
            };
            let waiting = pending.len();
            pending.extend(needed.into_iter().filter(|id| !self.known.contains_key(id)));
            if pending.len() == waiting {
                let value = self.shape_value(&shape, bits) & mask(bits);
                self.known.insert(id, value);
            }
        }
        self.known[&id]
    }

    /// The value of an operand, which was computed before.
    fn operand(&self, id: TermId) -> u64 {
        self.known[&id]
    }

    fn shape_value(&mut self, shape: &Shape, bits: u32) -> u64 {
        match shape {
            Shape::Constant(value) => *value,
            Shape::Symbol(symbol) => (self.variable)(*symbol, bits),
            Shape::Concat(parts) => {
                let mut at = 0;
                parts.iter().fold(0, |sum, part| {
                    let here = self.operand(*part) << at;
                    at += self.arena.shape(*part).1;
                    sum | here
                })
            }
            Shape::Extract(base, low) => self.operand(*base) >> low,
            Shape::Repeat(bit) => self.operand(*bit).wrapping_neg(),
            Shape::Sum(constant, terms) => terms
                .iter()
                .fold(*constant, |sum, (factor, term)| sum.wrapping_add(factor.wrapping_mul(self.operand(*term)))),
            Shape::Product(factors) => {
                factors.iter().fold(1, |product: u64, factor| product.wrapping_mul(self.operand(*factor)))
            }
            Shape::Bitwise(op, operands) => {
                let values = operands.iter().map(|operand| self.operand(*operand));
                let combine = |a: u64, b: u64| match op {
                    Bitwise::And => a & b,
                    Bitwise::Or => a | b,
                    Bitwise::Xor => a ^ b,
                };
                values.reduce(combine).unwrap_or(0)
            }
            Shape::Not(inner) => !self.operand(*inner),
            Shape::Binary(op, a, b) => {
                let width = self.arena.shape(*a).1;
                binary(*op, self.operand(*a), self.operand(*b), width)
            }
            Shape::Ite(condition, then, otherwise) => {
                if self.operand(*condition) != 0 {
                    self.operand(*then)
                } else {
                    self.operand(*otherwise)
                }
            }
        }
    }
}
