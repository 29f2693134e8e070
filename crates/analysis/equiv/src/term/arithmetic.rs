//! The arithmetic side of the normal form: sums, products, and what is neither. See [`crate::term::normalize`] for the idea.

use kiln_isa::semantics::mask;

use crate::term::bound::width_of;
use crate::term::{Binary, Bitwise, Graph, Shape, TermId};

/// Products of sums are multiplied out while there are at most this many terms.
const DISTRIBUTED_TERMS: usize = 8;

/// A sum of this many terms is one term of further sums: a chain of additions would take memory by its length squared.
const ADDENDS: usize = 128;

/// A product of this many factors is one factor of further products: squaring again and again must not explode.
const FACTORS: usize = 8;

impl Graph {
    // Sums and products.

    pub(crate) fn add(&mut self, a: TermId, b: TermId) -> TermId {
        let bits = self.bits(a);
        self.sum(bits, 0, vec![(1, a), (1, b)])
    }

    pub(crate) fn sub(&mut self, a: TermId, b: TermId) -> TermId {
        let bits = self.bits(a);
        self.sum(bits, 0, vec![(1, a), (mask(bits), b)])
    }

    /// `constant` plus the terms, each times its factor, in the normal form.
    pub(crate) fn sum(&mut self, bits: u32, constant: u64, terms: Vec<(u64, TermId)>) -> TermId {
        if !self.normalizes {
            return self.intern(Shape::Sum(constant & mask(bits), terms.into()), bits);
        }
        let mut total = Total { bits, constant, terms: Vec::with_capacity(terms.len()) };
        for (factor, term) in terms {
            self.add_multiple(&mut total, factor, term);
        }
        total.combine();
        self.collapse(&mut total);
        self.from_total(total)
    }

    /// Adds `factor * id`, taken apart as far as it goes.
    fn add_multiple(&mut self, total: &mut Total, factor: u64, id: TermId) {
        let bits = total.bits;
        let factor = factor & mask(bits);
        if factor == 0 {
            return;
        }
        match self.shape(id).clone() {
            Shape::Constant(value) => total.add_constant(factor.wrapping_mul(value)),
            Shape::Sum(constant, terms) if terms.len() < ADDENDS => {
                total.add_constant(factor.wrapping_mul(constant));
                for (inner, term) in terms.iter() {
                    self.add_multiple(total, factor.wrapping_mul(*inner), *term);
                }
            }
            Shape::Not(inner) => {
                // -1 - x
                total.add_constant(factor.wrapping_neg());
                self.add_multiple(total, factor.wrapping_neg(), inner);
            }
            Shape::Repeat(bit) => {
                let bit = self.zero_extend(bit, bits);
                self.add_multiple(total, factor.wrapping_neg(), bit);
            }
            Shape::Concat(parts) => {
                let mut at = 0;
                for part in parts.iter() {
                    let own = self.bits(*part);
                    self.add_part(total, factor << at, *part, at + own == bits);
                    at += own;
                }
            }
            Shape::Bitwise(op @ (Bitwise::Or | Bitwise::Xor), operands) if self.is_pair_of_atoms(&operands) => {
                self.add_disjunction(total, factor, op, operands[0], operands[1], false);
            }
            _ => total.terms.push((factor, id)),
        }
    }

    /// Whether a bitwise operation is one of two terms that sums do not take apart.
    fn is_pair_of_atoms(&self, operands: &[TermId]) -> bool {
        let atom = |id: &TermId| matches!(self.shape(*id), Shape::Symbol(_) | Shape::Extract(..));
        operands.len() == 2 && operands.iter().all(atom)
    }

    /// Adds `a | b` as `a + b - (a & b)`, `a ^ b` as `a + b - 2 (a & b)`. `collapse` undoes it where nothing
    /// cancelled.
    fn add_disjunction(&mut self, total: &mut Total, factor: u64, op: Bitwise, a: TermId, b: TermId, widen: bool) {
        let both = self.bitwise(Bitwise::And, &[a, b]);
        let common = if op == Bitwise::Or { 1 } else { 2 };
        for (factor, id) in [(factor, a), (factor, b), (factor.wrapping_mul(common).wrapping_neg(), both)] {
            let id = if widen { self.zero_extend(id, total.bits) } else { id };
            total.terms.push((factor, id));
        }
    }

    /// Finds `g a + g b - g (a & b)` and the like in a sum.
    fn collapse(&mut self, total: &mut Total) {
        let mut at = 0;
        while at < total.terms.len() {
            let (factor, id) = total.terms[at];
            at += 1;
            let wide = match self.shape(id) {
                Shape::Concat(parts) if parts.len() == 2 && self.as_constant(parts[1]) == Some(0) => Some(parts[0]),
                _ => None,
            };
            let Shape::Bitwise(Bitwise::And, operands) = self.shape(wide.unwrap_or(id)).clone() else {
                continue;
            };
            if !self.is_pair_of_atoms(&operands) {
                continue;
            }
            let (a, b) = (operands[0], operands[1]);
            let (a, b) = (self.zero_extend(a, total.bits), self.zero_extend(b, total.bits));
            let multiple = |id: TermId| total.terms.iter().find(|(_, other)| *other == id).map(|(factor, _)| *factor);
            let (Some(first), Some(second)) = (multiple(a), multiple(b)) else { continue };
            let needs = |common: u64| first.wrapping_mul(common).wrapping_neg() & mask(total.bits);
            let op = match factor {
                _ if first != second => continue,
                factor if factor == needs(1) => Bitwise::Or,
                factor if factor == needs(2) => Bitwise::Xor,
                _ => continue,
            };
            total.terms.retain(|(_, other)| ![a, b, id].contains(other));
            let joined = self.bitwise(op, &[a, b]);
            total.terms.push((first, joined));
            total.terms.sort_unstable_by_key(|(_, id)| *id);
            at = 0;
        }
    }

    /// Adds `factor` times a part of fewer bits than the sum. Where the part reaches the top, only its value modulo
    /// its own width counts.
    fn add_part(&mut self, total: &mut Total, factor: u64, part: TermId, reaches_top: bool) {
        let (bits, own) = (total.bits, self.bits(part));
        match self.shape(part).clone() {
            Shape::Constant(value) => total.add_constant(factor.wrapping_mul(value)),
            Shape::Sum(constant, terms) if reaches_top || self.exact_sum(constant, &terms) <= u128::from(mask(own)) => {
                total.add_constant(factor.wrapping_mul(constant));
                for (inner, term) in terms.iter() {
                    let wide = self.widen(*term, bits, reaches_top);
                    self.add_multiple(total, factor.wrapping_mul(*inner), wide);
                }
            }
            Shape::Bitwise(op @ (Bitwise::Or | Bitwise::Xor), operands)
                if !reaches_top && self.is_pair_of_atoms(&operands) =>
            {
                self.add_disjunction(total, factor, op, operands[0], operands[1], true);
            }
            // (2^n - 1) - x
            Shape::Not(inner) => {
                total.add_constant(factor.wrapping_mul(mask(own)));
                self.add_part(total, factor.wrapping_neg(), inner, reaches_top);
            }
            // (2^n - 1) times the bit
            Shape::Repeat(bit) => {
                let wide = self.zero_extend(bit, bits);
                total.terms.push((factor.wrapping_mul(mask(own)), wide));
            }
            _ => {
                let wide = self.widen(part, bits, reaches_top);
                total.terms.push((factor, wide));
            }
        }
    }

    /// A term of `bits` bits with the same value, or, with `modulo`, the same lowest bits.
    fn widen(&mut self, id: TermId, bits: u32, modulo: bool) -> TermId {
        let whole = |graph: &Graph, id: TermId| match *graph.shape(id) {
            Shape::Extract(base, 0) if graph.bits(base) >= bits => Some(base),
            _ => None,
        };
        if !modulo {
            return self.zero_extend(id, bits);
        }
        if let Shape::Bitwise(op, operands) = self.shape(id).clone() {
            let bases: Option<Vec<_>> = operands.iter().map(|operand| whole(self, *operand)).collect();
            if let Some(bases) = bases {
                let operands: Vec<_> = bases.into_iter().map(|base| self.extract(base, 0, bits)).collect();
                return self.bitwise(op, &operands);
            }
        }
        match whole(self, id) {
            Some(base) => self.extract(base, 0, bits),
            None => self.zero_extend(id, bits),
        }
    }

    fn from_total(&mut self, total: Total) -> TermId {
        let Total { bits, constant, terms } = total;
        if terms.is_empty() {
            return self.constant(bits, constant);
        }
        if let Some(concatenation) = self.disjoint(bits, constant, &terms) {
            return concatenation;
        }
        let twos = terms.iter().map(|(factor, _)| factor.trailing_zeros()).min().unwrap_or(0);
        let twos = if constant == 0 { twos } else { twos.min(constant.trailing_zeros()) };
        if twos > 0 {
            let left = bits - twos;
            let terms = terms.iter().map(|(factor, id)| (factor >> twos, self.extract(*id, 0, left))).collect();
            let high = self.sum(left, constant >> twos, terms);
            let zeros = self.constant(twos, 0);
            return self.concat(&[zeros, high]);
        }
        match terms.as_slice() {
            [(1, id)] if constant == 0 => return *id,
            [(factor, id)] if constant == mask(bits) && *factor == mask(bits) => return self.not(*id),
            [(factor, id)] if *factor == mask(bits) => {
                // 2^n - 1 - x, where x has at most n bits
                if let Shape::Concat(parts) = self.shape(*id).clone()
                    && self.max(*id) == constant
                    && constant == mask(self.bits(parts[0]))
                {
                    let inverse = self.not(parts[0]);
                    return self.zero_extend(inverse, bits);
                }
            }
            _ => {}
        }
        let greatest = self.exact_sum(constant, &terms);
        if let Ok(greatest) = u64::try_from(greatest)
            && greatest <= mask(bits)
            && width_of(greatest) < bits
        {
            let narrow = width_of(greatest);
            let terms = terms.iter().map(|(factor, id)| (*factor, self.extract(*id, 0, narrow))).collect();
            let sum = self.sum(narrow, constant, terms);
            return self.zero_extend(sum, bits);
        }
        self.intern(Shape::Sum(constant, terms.into()), bits)
    }

    /// The sum as a concatenation, where no two of its parts share a bit.
    fn disjoint(&mut self, bits: u32, constant: u64, terms: &[(u64, TermId)]) -> Option<TermId> {
        let mut taken = constant;
        let mut parts = Vec::with_capacity(terms.len());
        for (factor, id) in terms {
            let (at, part) = self.placed(bits, *factor, *id)?;
            let place = mask(self.bits(part)) << at;
            if taken & place != 0 {
                return None;
            }
            taken |= place;
            parts.push((at, part));
        }
        if let [(0, part)] = parts.as_slice()
            && self.bits(*part) == bits
        {
            // The term itself; its shape is not a sum's.
            return Some(*part);
        }
        parts.sort_unstable_by_key(|(at, _)| *at);
        let mut pieces = Vec::with_capacity(2 * parts.len() + 1);
        let mut next = 0;
        for (at, part) in parts {
            if at > next {
                pieces.push(self.constant(at - next, constant >> next));
            }
            pieces.push(part);
            next = at + self.bits(part);
        }
        if next < bits {
            pieces.push(self.constant(bits - next, constant >> next));
        }
        Some(self.concat(&pieces))
    }

    /// Where a multiple of a term lies, if it is a run of bits: the lowest bit, and the bits.
    fn placed(&mut self, bits: u32, factor: u64, id: TermId) -> Option<(u32, TermId)> {
        let at = factor.trailing_zeros();
        let room = bits - at;
        let base = match self.shape(id).clone() {
            Shape::Concat(parts) if parts.len() == 2 && self.as_constant(parts[1]) == Some(0) => parts[0],
            _ => id,
        };
        let odd = factor >> at;
        if odd == 1 {
            let own = self.bits(base).min(room);
            return Some((at, self.extract(base, 0, own)));
        }
        // A multiple 2^k - 1 of one bit is k copies of it.
        let copies = width_of(odd);
        if self.bits(base) == 1 && odd == mask(copies) {
            return Some((at, self.repeat(base, copies)));
        }
        None
    }

    pub(crate) fn mul(&mut self, a: TermId, b: TermId) -> TermId {
        let bits = self.bits(a);
        if !self.normalizes {
            return self.intern(Shape::Product([a, b].into()), bits);
        }
        let zero = self.constant(bits, 0);
        let (first, first_constant) = self.addends(bits, a);
        let (second, second_constant) = self.addends(bits, b);
        let count = |terms: &[(u64, TermId)], constant: u64| terms.len() + usize::from(constant != 0);
        let (rows, columns) = (count(&first, first_constant), count(&second, second_constant));
        if rows == 0 || columns == 0 {
            return zero;
        }
        let linear = first.is_empty() || second.is_empty();
        if !linear && rows * columns > DISTRIBUTED_TERMS {
            return self.product(bits, a, b);
        }
        let mut terms = Vec::with_capacity(rows * columns);
        for (factor, x) in &first {
            terms.push((factor.wrapping_mul(second_constant), *x));
            for (other, y) in &second {
                let product = self.product(bits, *x, *y);
                terms.push((factor.wrapping_mul(*other), product));
            }
        }
        terms.extend(second.iter().map(|(other, y)| (other.wrapping_mul(first_constant), *y)));
        self.sum(bits, first_constant.wrapping_mul(second_constant), terms)
    }

    /// A term as multiples and a constant.
    fn addends(&mut self, bits: u32, id: TermId) -> (Vec<(u64, TermId)>, u64) {
        let mut total = Total { bits, constant: 0, terms: Vec::new() };
        match self.shape(id) {
            // A zero-extended value is one factor; everything else comes apart.
            Shape::Concat(parts) if parts.len() > 2 || self.as_constant(parts[0]) != Some(0) => {
                return (vec![(1, id)], 0);
            }
            _ => self.add_multiple(&mut total, 1, id),
        }
        total.combine();
        (total.terms, total.constant)
    }

    /// A product of two terms that are not numbers.
    fn product(&mut self, bits: u32, a: TermId, b: TermId) -> TermId {
        let mut factors = Vec::new();
        for id in [a, b] {
            match self.shape(id) {
                Shape::Product(more) if more.len() < FACTORS => factors.extend_from_slice(more),
                Shape::Constant(_) => return self.mul(a, b),
                _ => factors.push(id),
            }
        }
        factors.sort_unstable();
        let greatest = factors.iter().map(|id| self.max(*id)).try_fold(1u64, u64::checked_mul);
        if let Some(greatest) = greatest
            && width_of(greatest) < bits
            && greatest <= mask(bits)
        {
            let narrow = width_of(greatest);
            let cut: Vec<_> = factors.iter().map(|id| self.extract(*id, 0, narrow)).collect();
            let product = self.intern(Shape::Product(cut.into()), narrow);
            return self.zero_extend(product, bits);
        }
        self.intern(Shape::Product(factors.into()), bits)
    }

    // The rest.

    pub(crate) fn shift(&mut self, op: Binary, a: TermId, amount: TermId) -> TermId {
        let bits = self.bits(a);
        let constant = self.as_constant(amount).filter(|_| self.normalizes);
        let Some(amount) = constant.map(|amount| amount.min(u64::from(bits)) as u32) else {
            if self.normalizes && self.as_constant(a) == Some(0) {
                return a;
            }
            return self.intern(Shape::Binary(op, a, amount), bits);
        };
        if amount == 0 {
            return a;
        }
        let keep = bits - amount;
        match op {
            Binary::Shl | Binary::Lshr if keep == 0 => self.constant(bits, 0),
            Binary::Shl => {
                let (zeros, kept) = (self.constant(amount, 0), self.extract(a, 0, keep));
                self.concat(&[zeros, kept])
            }
            Binary::Lshr => {
                let kept = self.extract(a, amount, keep);
                self.zero_extend(kept, bits)
            }
            _ => {
                let keep = keep.max(1);
                let kept = self.extract(a, bits - keep, keep);
                self.sign_extend(kept, bits)
            }
        }
    }

    pub(crate) fn divide(&mut self, op: Binary, a: TermId, b: TermId) -> TermId {
        let bits = self.bits(a);
        if !self.normalizes {
            return self.intern(Shape::Binary(op, a, b), bits);
        }
        let unsigned = matches!(op, Binary::Udiv | Binary::Urem);
        match (self.as_constant(a), self.as_constant(b)) {
            (Some(x), Some(y)) => {
                let value = crate::term::evaluate::binary(op, x, y, bits);
                return self.constant(bits, value);
            }
            (_, Some(divisor)) if unsigned && divisor.is_power_of_two() => {
                let shift = divisor.trailing_zeros();
                if op == Binary::Udiv {
                    let amount = self.constant(bits, shift.into());
                    return self.shift(Binary::Lshr, a, amount);
                }
                if shift == 0 {
                    return self.constant(bits, 0);
                }
                let kept = self.extract(a, 0, shift);
                return self.zero_extend(kept, bits);
            }
            (_, Some(divisor)) if unsigned && divisor > self.max(a) => {
                return if op == Binary::Udiv { self.constant(bits, 0) } else { a };
            }
            _ => {}
        }
        let narrow = width_of(self.max(a).max(self.max(b)));
        if unsigned && narrow < bits {
            // The divisor is not zero: the table guards it.
            let (a, b) = (self.extract(a, 0, narrow), self.extract(b, 0, narrow));
            let result = self.divide(op, a, b);
            return self.zero_extend(result, bits);
        }
        self.intern(Shape::Binary(op, a, b), bits)
    }

    pub(crate) fn ite(&mut self, condition: TermId, then: TermId, otherwise: TermId) -> TermId {
        let bits = self.bits(then);
        if !self.normalizes {
            return self.intern(Shape::Ite(condition, then, otherwise), bits);
        }
        match self.shape(condition) {
            Shape::Constant(0) => return otherwise,
            Shape::Constant(_) => return then,
            Shape::Not(inner) => {
                let inner = *inner;
                return self.ite(inner, otherwise, then);
            }
            _ => {}
        }
        if then == otherwise {
            return then;
        }
        match (self.as_constant(then), self.as_constant(otherwise)) {
            (Some(1), Some(0)) if bits == 1 => return condition,
            (Some(0), Some(1)) if bits == 1 => return self.not(condition),
            _ => {}
        }
        let split = self.by_segment(&[then, otherwise], bits, |graph, arms| graph.ite(condition, arms[0], arms[1]));
        if let Some(result) = split {
            return result;
        }
        match (self.as_constant(then), self.as_constant(otherwise)) {
            // Runs of ones and zeros are copies of the condition.
            (Some(0), Some(_)) => {
                let inverse = self.not(condition);
                self.repeat(inverse, bits)
            }
            (Some(_), Some(0)) => self.repeat(condition, bits),
            _ => self.intern(Shape::Ite(condition, then, otherwise), bits),
        }
    }
}

/// A sum being put together.
struct Total {
    bits: u32,
    constant: u64,
    terms: Vec<(u64, TermId)>,
}

impl Total {
    fn add_constant(&mut self, value: u64) {
        self.constant = self.constant.wrapping_add(value);
    }

    /// Cuts to the width, joins multiples of one term, drops zeros.
    fn combine(&mut self) {
        self.constant &= mask(self.bits);
        self.terms.sort_unstable_by_key(|(_, id)| *id);
        self.terms.dedup_by(|next, kept| {
            let same = next.1 == kept.1;
            if same {
                kept.0 = kept.0.wrapping_add(next.0);
            }
            same
        });
        for term in &mut self.terms {
            term.0 &= mask(self.bits);
        }
        self.terms.retain(|(factor, _)| *factor != 0);
    }
}
