//! The normal form: what makes most equal windows the same term.
//!
//! Every builder returns a term in normal form when its operands are. The form has four ideas:
//!
//! - **Segments.** Shifts, masks, extensions, byte copies and swaps by constants all become a [`Shape::Concat`] of
//!   extracts and constants, adjacent parts merged: `(x << 32) >> 32`, `x & 0xffffffff` and a 32-bit move are all
//!   `[x[0..32], 0]`, and eight byte loads put together are the one eight-byte load.
//! - **Sums.** Additions, subtractions and multiplications by constants become one sum of multiples, mod 2^width:
//!   `(x << 4) - x` is `15 x`. A sum whose parts do not overlap is a concatenation again (`x + y` is `x | y` then).
//! - **Pushing down.** Extracts move through bitwise operations, sums (low bits) and choices towards the variables, and
//!   merging moves them back out, so that a value stored whole and read back in bytes is itself.
//! - **Narrowing.** A result that provably fits fewer bits is computed in fewer bits: adding two bytes in 32 or in 64
//!   bits is the same nine-bit sum.
//!
//! None of this has to be complete, only right: what two forms of one value miss, the solver still finds. The tests
//! evaluate random terms before and after.

use std::rc::Rc;

use kiln_isa::semantics::mask;

use crate::term::{Binary, Bitwise, Graph, Shape, TermId};

/// Products of sums are multiplied out while there are at most this many terms.
const DISTRIBUTED_TERMS: usize = 8;

/// A product of this many factors is one factor of further products: squaring again and again must not explode.
const FACTORS: usize = 8;

/// Bits needed for a value; at least one.
fn width_of(value: u64) -> u32 {
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
            Shape::Sum(constant, terms) => {
                fits(u64::try_from(self.exact_sum(*constant, terms)).unwrap_or(u64::MAX))
            }
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
    fn exact_sum(&self, constant: u64, terms: &[(u64, TermId)]) -> u128 {
        terms.iter().fold(u128::from(constant), |sum, (factor, term)| {
            sum.saturating_add(u128::from(*factor) * u128::from(self.max(*term)))
        })
    }

    // Segments.

    /// The parts of a term, the lowest first.
    fn parts(&self, id: TermId) -> Rc<[TermId]> {
        match self.shape(id) {
            Shape::Concat(parts) => parts.clone(),
            _ => Rc::new([id]),
        }
    }

    pub(crate) fn concat(&mut self, parts: &[TermId]) -> TermId {
        let bits = parts.iter().map(|part| self.bits(*part)).sum();
        if !self.normalizes {
            return if let [one] = parts { *one } else { self.intern(Shape::Concat(parts.into()), bits) };
        }
        let mut stack: Vec<TermId> = Vec::with_capacity(parts.len());
        for part in parts {
            for piece in self.parts(*part).iter() {
                self.push_part(&mut stack, *piece);
            }
        }
        match stack.as_slice() {
            [one] => *one,
            _ => self.intern(Shape::Concat(stack.into()), bits),
        }
    }

    /// Appends a part above the others, merged where it continues the one below it.
    fn push_part(&mut self, stack: &mut Vec<TermId>, part: TermId) {
        let mut part = part;
        while let Some(below) = stack.last().copied() {
            if let Some(merged) = self.merge(below, part) {
                stack.pop();
                part = merged;
            } else if let Some((merged, rest)) = self.merge_sign(below, part) {
                stack.pop();
                stack.push(merged);
                part = rest;
            } else {
                break;
            }
        }
        stack.push(part);
    }

    /// One term for two adjacent ones, `low` below `high`.
    fn merge(&mut self, low: TermId, high: TermId) -> Option<TermId> {
        if let Some(known) = self.merges.get(&(low, high)) {
            return *known;
        }
        let merged = self.find_merge(low, high);
        self.merges.insert((low, high), merged);
        merged
    }

    fn find_merge(&mut self, low: TermId, high: TermId) -> Option<TermId> {
        let (low_bits, high_bits) = (self.bits(low), self.bits(high));
        let bits = low_bits + high_bits;
        let merged = match (self.shape(low).clone(), self.shape(high).clone()) {
            (Shape::Constant(a), Shape::Constant(b)) => return Some(self.constant(bits, a | b << low_bits)),
            (Shape::Repeat(a), Shape::Repeat(b)) if a == b => return Some(self.repeat(a, bits)),
            (Shape::Repeat(a), _) if a == high => return Some(self.repeat(a, bits)),
            (_, Shape::Repeat(b)) if b == low => return Some(self.repeat(b, bits)),
            _ if low == high && low_bits == 1 => return Some(self.repeat(low, bits)),
            (_, Shape::Extract(base, from)) if u32::from(from) >= low_bits => {
                let from = u32::from(from) - low_bits;
                if self.extract(base, from, low_bits) != low {
                    return None;
                }
                self.extract(base, from, bits)
            }
            (Shape::Bitwise(a, lows), Shape::Bitwise(b, highs)) if a == b && lows.len() == highs.len() => {
                let operands = self.merge_pairs(&lows, &highs)?;
                self.bitwise(a, &operands)
            }
            (Shape::Not(a), Shape::Not(b)) => {
                let merged = self.merge(a, b)?;
                self.not(merged)
            }
            (Shape::Ite(a, then_low, else_low), Shape::Ite(b, then_high, else_high)) if a == b => {
                let then = self.merge(then_low, then_high)?;
                let otherwise = self.merge(else_low, else_high)?;
                // A choice is kept in runs of equal bits where an arm is a number.
                let mixed = |value: u64| value != 0 && value != mask(bits);
                if [then, otherwise].iter().any(|arm| self.as_constant(*arm).is_some_and(mixed)) {
                    return None;
                }
                self.ite(a, then, otherwise)
            }
            _ => return None,
        };
        // A part is never itself a concatenation.
        (!matches!(self.shape(merged), Shape::Concat(_))).then_some(merged)
    }

    fn merge_pairs(&mut self, lows: &[TermId], highs: &[TermId]) -> Option<Vec<TermId>> {
        let mut left: Vec<TermId> = highs.to_vec();
        let mut merged = Vec::with_capacity(lows.len());
        for low in lows {
            let found = (0..left.len()).find_map(|at| Some((at, self.merge(*low, left[at])?)));
            let (at, pair) = found?;
            left.swap_remove(at);
            merged.push(pair);
        }
        Some(merged)
    }

    /// `x[0..31]` below copies of `x[31]` is `x[0..32]` below one copy less.
    fn merge_sign(&mut self, low: TermId, high: TermId) -> Option<(TermId, TermId)> {
        let Shape::Repeat(bit) = *self.shape(high) else { return None };
        let copies = self.bits(high);
        if self.bits(low) == 1 || matches!(self.shape(low), Shape::Constant(_)) {
            return None;
        }
        let merged = self.merge(low, bit)?;
        Some((merged, self.repeat(bit, copies - 1)))
    }

    pub(crate) fn repeat(&mut self, bit: TermId, bits: u32) -> TermId {
        match self.as_constant(bit) {
            _ if bits == 1 => bit,
            Some(0) => self.constant(bits, 0),
            Some(_) => self.constant(bits, u64::MAX),
            None => self.intern(Shape::Repeat(bit), bits),
        }
    }

    pub(crate) fn extract(&mut self, id: TermId, low: u32, bits: u32) -> TermId {
        let whole = self.bits(id);
        if low == 0 && bits == whole {
            return id;
        }
        if !self.normalizes {
            return self.intern(Shape::Extract(id, low as u8), bits);
        }
        if self.max(id) >> low == 0 {
            return self.constant(bits, 0);
        }
        let key = (id, low as u8, bits as u8);
        if let Some(known) = self.extracts.get(&key) {
            return *known;
        }
        let result = self.find_extract(id, low, bits);
        self.extracts.insert(key, result);
        result
    }

    fn find_extract(&mut self, id: TermId, low: u32, bits: u32) -> TermId {
        let whole = self.bits(id);
        match self.shape(id).clone() {
            Shape::Constant(value) => self.constant(bits, value >> low),
            Shape::Extract(base, from) => self.extract(base, u32::from(from) + low, bits),
            Shape::Concat(parts) => {
                let mut pieces = Vec::with_capacity(parts.len());
                let mut begin = 0;
                for part in parts.iter() {
                    let end = begin + self.bits(*part);
                    let (from, to) = (low.max(begin), (low + bits).min(end));
                    if from < to {
                        pieces.push(self.extract(*part, from - begin, to - from));
                    }
                    begin = end;
                }
                self.concat(&pieces)
            }
            Shape::Repeat(bit) => self.repeat(bit, bits),
            Shape::Bitwise(op, operands) => {
                let operands: Vec<_> = operands.iter().map(|operand| self.extract(*operand, low, bits)).collect();
                self.bitwise(op, &operands)
            }
            Shape::Not(inner) => {
                let inner = self.extract(inner, low, bits);
                self.not(inner)
            }
            Shape::Ite(condition, then, otherwise) => {
                let then = self.extract(then, low, bits);
                let otherwise = self.extract(otherwise, low, bits);
                self.ite(condition, then, otherwise)
            }
            Shape::Sum(constant, terms) if low == 0 => {
                let terms = terms.iter().map(|(factor, term)| (*factor, self.extract(*term, 0, bits))).collect();
                self.sum(bits, constant, terms)
            }
            Shape::Product(factors) if low == 0 => {
                let factors: Vec<_> = factors.iter().map(|factor| self.extract(*factor, 0, bits)).collect();
                factors.into_iter().reduce(|a, b| self.mul(a, b)).unwrap_or(id)
            }
            Shape::Sum(..) | Shape::Product(_) if low + bits < whole => {
                let cut = self.extract(id, 0, low + bits);
                self.extract(cut, low, bits)
            }
            _ => self.intern(Shape::Extract(id, low as u8), bits),
        }
    }

    pub(crate) fn zero_extend(&mut self, id: TermId, bits: u32) -> TermId {
        let own = self.bits(id);
        if bits <= own {
            return id;
        }
        let zeros = self.constant(bits - own, 0);
        self.concat(&[id, zeros])
    }

    pub(crate) fn sign_extend(&mut self, id: TermId, bits: u32) -> TermId {
        let own = self.bits(id);
        if bits <= own {
            return id;
        }
        let sign = self.extract(id, own - 1, 1);
        let signs = self.repeat(sign, bits - own);
        self.concat(&[id, signs])
    }

    /// The places where any of these terms changes part; always with both ends.
    fn boundaries(&self, ids: &[TermId], bits: u32) -> Vec<u32> {
        let mut set = 1u128 | 1 << bits;
        for id in ids {
            let mut at = 0;
            for part in self.parts(*id).iter() {
                set |= 1 << at;
                if let Shape::Constant(value) = *self.shape(*part) {
                    let own = self.bits(*part);
                    let changes = (value ^ (value >> 1)) & mask(own - 1) & if own == 1 { 0 } else { u64::MAX };
                    set |= (u128::from(changes) << 1) << at;
                }
                at += self.bits(*part);
            }
        }
        (0..=bits).filter(|at| set >> at & 1 != 0).collect()
    }

    /// Applies a bitwise function segment by segment, so that it only ever sees whole parts and runs of equal bits.
    fn by_segment(
        &mut self,
        ids: &[TermId],
        bits: u32,
        mut apply: impl FnMut(&mut Graph, &[TermId]) -> TermId,
    ) -> Option<TermId> {
        let boundaries = self.boundaries(ids, bits);
        if boundaries.len() <= 2 {
            return None;
        }
        let mut pieces = Vec::with_capacity(boundaries.len());
        let mut operands = Vec::with_capacity(ids.len());
        for pair in boundaries.windows(2) {
            operands.clear();
            for id in ids {
                operands.push(self.extract(*id, pair[0], pair[1] - pair[0]));
            }
            pieces.push(apply(self, &operands));
        }
        Some(self.concat(&pieces))
    }

    // Bitwise operations.

    pub(crate) fn bitwise(&mut self, op: Bitwise, ids: &[TermId]) -> TermId {
        let bits = self.bits(ids[0]);
        if !self.normalizes {
            return self.intern(Shape::Bitwise(op, ids.into()), bits);
        }
        let mut operands = Vec::with_capacity(ids.len());
        for id in ids {
            match self.shape(*id) {
                Shape::Bitwise(inner, more) if *inner == op => operands.extend_from_slice(more),
                _ => operands.push(*id),
            }
        }
        if let Some(result) = self.by_segment(&operands, bits, |graph, pieces| graph.bitwise(op, pieces)) {
            return result;
        }
        if op == Bitwise::Xor { self.xor(bits, operands) } else { self.and_or(op, bits, operands) }
    }

    fn and_or(&mut self, op: Bitwise, bits: u32, mut operands: Vec<TermId>) -> TermId {
        // Constants are all zeros or all ones here.
        let (neutral, absorbing) = if op == Bitwise::And { (mask(bits), 0) } else { (0, mask(bits)) };
        if operands.iter().any(|id| self.as_constant(*id) == Some(absorbing)) {
            return self.constant(bits, absorbing);
        }
        operands.retain(|id| self.as_constant(*id) != Some(neutral));
        operands.sort_unstable();
        operands.dedup();
        let negated = |graph: &Graph, id: &TermId| match graph.shape(*id) {
            Shape::Not(inner) => Some(*inner),
            _ => None,
        };
        let inverses: Vec<_> = operands.iter().map(|id| negated(self, id)).collect();
        if inverses.iter().flatten().any(|inner| operands.binary_search(inner).is_ok()) {
            return self.constant(bits, absorbing);
        }
        match operands.as_slice() {
            [] => self.constant(bits, neutral),
            [one] => *one,
            _ if inverses.iter().all(Option::is_some) => {
                let inner: Vec<_> = inverses.into_iter().flatten().collect();
                let dual = if op == Bitwise::And { Bitwise::Or } else { Bitwise::And };
                let inner = self.bitwise(dual, &inner);
                self.not(inner)
            }
            _ => self.intern(Shape::Bitwise(op, operands.into()), bits),
        }
    }

    fn xor(&mut self, bits: u32, operands: Vec<TermId>) -> TermId {
        let mut inverted = false;
        let mut left: Vec<TermId> = Vec::with_capacity(operands.len());
        for id in operands {
            match *self.shape(id) {
                Shape::Constant(value) => inverted ^= value != 0,
                Shape::Not(inner) => {
                    inverted = !inverted;
                    left.push(inner);
                }
                _ => left.push(id),
            }
        }
        left.sort_unstable();
        let mut odd: Vec<TermId> = Vec::with_capacity(left.len());
        for id in left {
            if odd.last() == Some(&id) {
                odd.pop();
            } else {
                odd.push(id);
            }
        }
        let result = match odd.as_slice() {
            [] => self.constant(bits, 0),
            [one] => *one,
            _ => self.intern(Shape::Bitwise(Bitwise::Xor, odd.into()), bits),
        };
        if inverted { self.not(result) } else { result }
    }

    pub(crate) fn not(&mut self, id: TermId) -> TermId {
        let bits = self.bits(id);
        if !self.normalizes {
            return self.intern(Shape::Not(id), bits);
        }
        match self.shape(id).clone() {
            Shape::Constant(value) => self.constant(bits, !value),
            Shape::Not(inner) => inner,
            Shape::Concat(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| self.not(*part)).collect();
                self.concat(&parts)
            }
            Shape::Repeat(bit) => {
                let bit = self.not(bit);
                self.repeat(bit, bits)
            }
            Shape::Sum(..) => self.sum(bits, u64::MAX, vec![(u64::MAX, id)]),
            _ => self.intern(Shape::Not(id), bits),
        }
    }

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
            Shape::Sum(constant, terms) => {
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
            _ => total.terms.push((factor, id)),
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
        match *self.shape(id) {
            Shape::Extract(base, 0) if modulo && self.bits(base) >= bits => self.extract(base, 0, bits),
            _ => self.zero_extend(id, bits),
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
                let value = crate::evaluate::binary(op, x, y, bits);
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

    pub(crate) fn equal(&mut self, a: TermId, b: TermId) -> TermId {
        let bits = self.bits(a);
        if !self.normalizes {
            return self.intern(Shape::Binary(Binary::Eq, a, b), 1);
        }
        if a == b {
            return self.constant(1, 1);
        }
        if bits == 1 {
            let different = self.bitwise(Bitwise::Xor, &[a, b]);
            return self.not(different);
        }
        let difference = self.sub(a, b);
        if let Some(value) = self.as_constant(difference) {
            return self.constant(1, u64::from(value == 0));
        }
        // Equal parts say nothing; different constants say all.
        let boundaries = self.boundaries(&[a, b], bits);
        let mut open = Vec::new();
        for pair in boundaries.windows(2) {
            let first = self.extract(a, pair[0], pair[1] - pair[0]);
            let second = self.extract(b, pair[0], pair[1] - pair[0]);
            if first == second {
                continue;
            }
            if self.as_constant(first).is_some() && self.as_constant(second).is_some() {
                return self.constant(1, 0);
            }
            open.push((first, second));
        }
        if open.is_empty() {
            return self.constant(1, 1);
        }
        let (firsts, seconds): (Vec<_>, Vec<_>) = open.into_iter().unzip();
        let (a, b) = (self.concat(&firsts), self.concat(&seconds));
        if self.bits(a) == 1 {
            return self.equal(a, b);
        }
        self.intern(Shape::Binary(Binary::Eq, a.min(b), a.max(b)), 1)
    }

    pub(crate) fn unsigned_less(&mut self, a: TermId, b: TermId) -> TermId {
        let bits = self.bits(a);
        if !self.normalizes {
            return self.intern(Shape::Binary(Binary::Ult, a, b), 1);
        }
        match (self.as_constant(a), self.as_constant(b)) {
            _ if a == b => return self.constant(1, 0),
            (Some(x), Some(y)) => return self.constant(1, u64::from(x < y)),
            (_, Some(y)) if self.max(a) < y => return self.constant(1, 1),
            (Some(x), _) if x >= self.max(b) => return self.constant(1, 0),
            (_, Some(0)) => return self.constant(1, 0),
            (_, Some(1)) => {
                let zero = self.constant(bits, 0);
                return self.equal(a, zero);
            }
            (Some(0), _) => {
                let is_zero = self.equal(a, b);
                return self.not(is_zero);
            }
            _ => {}
        }
        let narrow = width_of(self.max(a).max(self.max(b)));
        if narrow < bits {
            let (a, b) = (self.extract(a, 0, narrow), self.extract(b, 0, narrow));
            return self.unsigned_less(a, b);
        }
        self.intern(Shape::Binary(Binary::Ult, a, b), 1)
    }

    pub(crate) fn signed_less(&mut self, a: TermId, b: TermId) -> TermId {
        let bits = self.bits(a);
        if !self.normalizes {
            return self.intern(Shape::Binary(Binary::Slt, a, b), 1);
        }
        if a == b {
            return self.constant(1, 0);
        }
        let (sign_a, sign_b) = (self.extract(a, bits - 1, 1), self.extract(b, bits - 1, 1));
        if sign_a == sign_b {
            return self.unsigned_less(a, b);
        }
        match (self.as_constant(sign_a), self.as_constant(sign_b)) {
            (Some(1), Some(0)) => self.constant(1, 1),
            (Some(0), Some(1)) => self.constant(1, 0),
            // Comparing with zero is asking for the sign.
            _ if self.as_constant(b) == Some(0) => sign_a,
            _ => self.intern(Shape::Binary(Binary::Slt, a, b), 1),
        }
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
