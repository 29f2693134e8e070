//! Operations on terms, which build the simplest term that they find.
//!
//! Every step is an identity over bit vectors; `tests/terms.rs` compares it with evaluation.

use kiln_isa::semantics::{BitVec, Bits, mask};

use crate::term::{Binary, Shape, Term};

impl<'a> Term<'a> {
    fn binary(self, op: Binary, other: Term<'a>) -> Term<'a> {
        let bits = if op.is_comparison() { 1 } else { self.bits() };
        let (mut a, mut b) = (self, other);
        if let (Some(x), Some(y)) = (a.as_constant(), b.as_constant()) {
            return self.arena().constant(bits, op.apply(Bits::new(self.bits(), x), Bits::new(self.bits(), y)).value());
        }
        if op.commutes() && (a.as_constant().is_some() || b.as_constant().is_none() && a.id() > b.id()) {
            (a, b) = (b, a);
        }
        if let Some(simple) = simplified(op, a, b) {
            return simple;
        }
        self.arena().term(Shape::Binary(op, a.id(), b.id()), bits)
    }

    /// `bits` bits from `low` on.
    ///
    /// Terms share operands, so each part is built once: otherwise this would take time exponential in the depth. Parts of
    /// operands are built first, without recursion, because a path may be longer than the stack.
    pub fn extract(self, low: u32, bits: u32) -> Term<'a> {
        let arena = self.arena();
        let (mut pending, mut last) = (vec![(self.id(), low, bits)], self);
        while let Some(part) = pending.last().copied() {
            let mut open = None;
            let mut built = |id: u32, low: u32, bits: u32| {
                let own = arena.at(id);
                let known = if low == 0 && bits == own.bits() { Some(own) } else { arena.part(&(id, low, bits)) };
                open = known.is_none().then_some((id, low, bits)).or(open);
                known
            };
            let known = built(part.0, part.1, part.2);
            match known.or_else(|| arena.at(part.0).extract_of_operands(part.1, part.2, &mut built)) {
                Some(term) => {
                    arena.keep_part(part, term);
                    (_, last) = (pending.pop(), term);
                }
                None => pending.extend(open),
            }
        }
        last
    }

    /// Bits of a term that is not wanted whole, if the parts of operands that this takes are built: `built` returns one.
    fn extract_of_operands(
        self,
        low: u32,
        bits: u32,
        built: &mut dyn FnMut(u32, u32, u32) -> Option<Term<'a>>,
    ) -> Option<Term<'a>> {
        Some(match self.shape() {
            Shape::Constant(value) => self.arena().constant(bits, value >> low),
            Shape::Extract(base, first) => built(base, first + low, bits)?,
            Shape::Concat(high, lower) => match self.part(lower).bits() {
                below if low + bits <= below => built(lower, low, bits)?,
                below if low >= below => built(high, low - below, bits)?,
                below => built(high, 0, low + bits - below)?.concat(built(lower, low, below - low)?),
            },
            Shape::SignExtend(base) if low + bits <= self.part(base).bits() => built(base, low, bits)?,
            Shape::Binary(op @ (Binary::And | Binary::Or | Binary::Xor), a, b) => {
                built(a, low, bits)?.binary(op, built(b, low, bits)?)
            }
            Shape::Binary(op @ (Binary::Add | Binary::Mul), a, b) if low == 0 => {
                built(a, 0, bits)?.binary(op, built(b, 0, bits)?)
            }
            Shape::Ite(condition, a, b) => {
                Term::ite(&self.part(condition), &built(a, low, bits)?, &built(b, low, bits)?)
            }
            _ => self.arena().term(Shape::Extract(self.id(), low), bits),
        })
    }

    /// The concatenation of this term (upper part) and `low`.
    pub fn concat(self, low: Term<'a>) -> Term<'a> {
        let bits = self.bits() + low.bits();
        if let (Some(high), Some(value)) = (self.as_constant(), low.as_constant()) {
            return self.arena().constant(bits, high << low.bits() | value);
        }
        match (self.shape(), low.shape()) {
            (Shape::Extract(base, first), Shape::Extract(other, second))
                if base == other && first == second + low.bits() =>
            {
                return self.part(base).extract(second, bits);
            }
            // The lowest of the upper part may join with the lower one.
            (Shape::Concat(upper, middle), _) => {
                let joined = self.part(middle).concat(low);
                if !matches!(joined.shape(), Shape::Concat(..)) {
                    return self.part(upper).concat(joined);
                }
            }
            (_, Shape::Concat(middle, lower)) => {
                let joined = self.concat(low.part(middle));
                if !matches!(joined.shape(), Shape::Concat(..)) {
                    return joined.concat(low.part(lower));
                }
            }
            _ => {}
        }
        self.arena().term(Shape::Concat(self.id(), low.id()), bits)
    }
}

/// The result of a binary operation, if an operand makes it simple. A constant is the second operand of a commutative
/// operation.
// long: one arm for each operation
fn simplified<'a>(op: Binary, a: Term<'a>, b: Term<'a>) -> Option<Term<'a>> {
    let ones = mask(a.bits());
    let constant = b.as_constant();
    match op {
        Binary::Add => {
            if constant == Some(0) {
                return Some(a);
            }
            let ((left, x), (right, y)) = (a.split(), b.split());
            if constant.is_some() && x != 0 {
                return Some(left.binary(Binary::Add, a.like(x.wrapping_add(y))));
            }
            if constant.is_none() && (x != 0 || y != 0) {
                return Some(left.binary(Binary::Add, right).binary(Binary::Add, a.like(x.wrapping_add(y))));
            }
            // A subtracted term is added again.
            let negated = |of: Term<'a>, other: Term<'a>| match of.shape() {
                Shape::Binary(Binary::Mul, base, factor) => {
                    base == other.id() && of.part(factor).as_constant() == Some(ones)
                }
                _ => false,
            };
            if negated(a, b) || negated(b, a) {
                return Some(a.like(0));
            }
            None
        }
        Binary::Mul => match constant {
            Some(0) => Some(b),
            Some(1) => Some(a),
            _ => None,
        },
        Binary::And => match constant {
            _ if a == b => Some(a),
            Some(0) => Some(b),
            Some(value) if value == ones => Some(a),
            // A mask of low bits.
            Some(value) if value & value.wrapping_add(1) == 0 => {
                let low = 64 - value.leading_zeros();
                Some(a.like(0).extract(0, a.bits() - low).concat(a.extract(0, low)))
            }
            _ => None,
        },
        Binary::Or => match constant {
            _ if a == b => Some(a),
            Some(0) => Some(a),
            Some(value) if value == ones => Some(b),
            _ => None,
        },
        Binary::Xor => match constant {
            _ if a == b => Some(a.like(0)),
            Some(0) => Some(a),
            _ => None,
        },
        Binary::Shl | Binary::Lshr => match constant {
            Some(0) => Some(a),
            Some(amount) if amount >= u64::from(a.bits()) => Some(a.like(0)),
            Some(amount) => {
                let (amount, zeros) = (amount as u32, a.arena().constant(amount as u32, 0));
                Some(match op {
                    Binary::Shl => a.extract(0, a.bits() - amount).concat(zeros),
                    _ => zeros.concat(a.extract(amount, a.bits() - amount)),
                })
            }
            None => None,
        },
        Binary::Ashr => (constant == Some(0)).then_some(a),
        Binary::Eq if a == b => Some(a.arena().truth(true)),
        Binary::Eq => {
            // Two sums that differ by a constant are not equal.
            let ((left, x), (right, y)) = (a.split(), b.split());
            if left == right && x != y {
                return Some(a.arena().truth(false));
            }
            if a.bits() == 1 {
                return constant.map(|value| if value == 1 { a } else { Term::not(&a) });
            }
            // The upper parts are zero, so the lower part decides.
            let (Shape::Concat(high, low), Some(value)) = (a.shape(), constant) else { return None };
            let (high, low) = (a.part(high), a.part(low));
            (high.as_constant() == Some(0)).then(|| match value >> low.bits() {
                0 => low.binary(Binary::Eq, a.arena().constant(low.bits(), value)),
                _ => a.arena().truth(false),
            })
        }
        Binary::Ult | Binary::Slt if a == b => Some(a.arena().truth(false)),
        Binary::Ult if constant == Some(0) => Some(a.arena().truth(false)),
        _ => None,
    }
}

impl<'a> BitVec for Term<'a> {
    type Bool = Term<'a>;

    fn bits(&self) -> u32 {
        self.width()
    }
    fn like(&self, value: u64) -> Term<'a> {
        self.arena().constant(self.bits(), value)
    }
    fn add(&self, other: &Self) -> Self {
        self.binary(Binary::Add, *other)
    }
    fn sub(&self, other: &Self) -> Self {
        let negated = match other.as_constant() {
            Some(value) => other.like(value.wrapping_neg()),
            None => other.binary(Binary::Mul, other.like(u64::MAX)),
        };
        if self == other { self.like(0) } else { self.binary(Binary::Add, negated) }
    }
    fn mul(&self, other: &Self) -> Self {
        self.binary(Binary::Mul, *other)
    }
    fn udiv(&self, other: &Self) -> Self {
        self.binary(Binary::Udiv, *other)
    }
    fn urem(&self, other: &Self) -> Self {
        self.binary(Binary::Urem, *other)
    }
    fn sdiv(&self, other: &Self) -> Self {
        self.binary(Binary::Sdiv, *other)
    }
    fn srem(&self, other: &Self) -> Self {
        self.binary(Binary::Srem, *other)
    }
    fn and(&self, other: &Self) -> Self {
        self.binary(Binary::And, *other)
    }
    fn or(&self, other: &Self) -> Self {
        self.binary(Binary::Or, *other)
    }
    fn xor(&self, other: &Self) -> Self {
        self.binary(Binary::Xor, *other)
    }
    fn shl(&self, amount: &Self) -> Self {
        self.binary(Binary::Shl, *amount)
    }
    fn lshr(&self, amount: &Self) -> Self {
        self.binary(Binary::Lshr, *amount)
    }
    fn ashr(&self, amount: &Self) -> Self {
        self.binary(Binary::Ashr, *amount)
    }
    fn truncate(&self, bits: u32) -> Self {
        self.extract(0, bits)
    }
    fn zero_extend(&self, bits: u32) -> Self {
        if bits == self.bits() { *self } else { self.arena().constant(bits - self.bits(), 0).concat(*self) }
    }
    fn sign_extend(&self, bits: u32) -> Self {
        match self.as_constant() {
            _ if bits == self.bits() => *self,
            Some(value) => self.arena().constant(bits, Bits::new(self.bits(), value).sign_extend(bits).value()),
            None => self.arena().term(Shape::SignExtend(self.id()), bits),
        }
    }
    fn eq(&self, other: &Self) -> Self {
        self.binary(Binary::Eq, *other)
    }
    fn ult(&self, other: &Self) -> Self {
        self.binary(Binary::Ult, *other)
    }
    fn slt(&self, other: &Self) -> Self {
        self.binary(Binary::Slt, *other)
    }
    fn not(value: &Self) -> Self {
        match value.shape() {
            Shape::Constant(number) => value.like(!number),
            Shape::Not(inner) => value.part(inner),
            _ => value.arena().term(Shape::Not(value.id()), value.bits()),
        }
    }
    fn ite(condition: &Self, then: &Self, otherwise: &Self) -> Self {
        match condition.as_constant() {
            Some(1) => *then,
            Some(_) => *otherwise,
            None if then == otherwise => *then,
            None => {
                let shape = Shape::Ite(condition.id(), then.id(), otherwise.id());
                then.arena().term(shape, then.bits())
            }
        }
    }
}
