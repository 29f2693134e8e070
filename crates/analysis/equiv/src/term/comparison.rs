//! The comparisons of the normal form: one bit, of the fewest bits that decide it. See [`crate::term::normalize`] for the idea.

use crate::term::bound::width_of;
use crate::term::{Binary, Bitwise, Graph, Shape, TermId};

impl Graph {
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
        if let Some((a, b)) = self.without_signs(a, b) {
            return self.equal(a, b);
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

    /// Two sign-extended terms before their extension, which changes no comparison of them.
    fn without_signs(&mut self, a: TermId, b: TermId) -> Option<(TermId, TermId)> {
        let bits = self.bits(a);
        let narrow = self.signed_width(a).max(self.signed_width(b));
        (narrow < bits).then(|| (self.extract(a, 0, narrow), self.extract(b, 0, narrow)))
    }

    /// How many bits of a term are left without the copies of its highest bit, as far as its form shows.
    fn signed_width(&mut self, id: TermId) -> u32 {
        let bits = self.bits(id);
        match self.shape(id) {
            &Shape::Constant(value) => {
                let value = (value << (64 - bits)) as i64 >> (64 - bits);
                let copies = if value < 0 { value.leading_ones() } else { value.leading_zeros() };
                65 - copies
            }
            Shape::Concat(parts) => {
                let Some(&last) = parts.last() else { return bits };
                let &Shape::Repeat(bit) = self.shape(last) else { return bits };
                let copies = self.bits(last);
                let extended = copies < bits && self.extract(id, bits - copies - 1, 1) == bit;
                if extended { bits - copies } else { bits }
            }
            _ => bits,
        }
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
        if let Some((a, b)) = self.without_signs(a, b) {
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
        if let Some((a, b)) = self.without_signs(a, b) {
            return self.signed_less(a, b);
        }
        match (self.as_constant(sign_a), self.as_constant(sign_b)) {
            (Some(1), Some(0)) => self.constant(1, 1),
            (Some(0), Some(1)) => self.constant(1, 0),
            // Comparing with zero is asking for the sign.
            _ if self.as_constant(b) == Some(0) => sign_a,
            _ => self.intern(Shape::Binary(Binary::Slt, a, b), 1),
        }
    }
}
