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

use crate::term::{Bitwise, Graph, Shape, TermId};

/// Extracts pushed down within one another, which takes stack. A program decides how deep its terms are; below this the
/// extract stays where it is, which is right, too.
const MAX_NESTING: u32 = 256;

impl Graph {
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
        let result = if self.nesting < MAX_NESTING {
            self.nesting += 1;
            let found = self.find_extract(id, low, bits);
            self.nesting -= 1;
            found
        } else {
            self.intern(Shape::Extract(id, low as u8), bits)
        };
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
    pub(crate) fn boundaries(&self, ids: &[TermId], bits: u32) -> Vec<u32> {
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
    pub(crate) fn by_segment(
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
}
