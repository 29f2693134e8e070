//! Tristate numbers, with the operations of Vishwanathan et al., "Sound, Precise, and Fast Abstract Interpretation
//! with Tristate Numbers" (CGO 2022).

/// A tristate number (kernel `kernel/bpf/tnum.c`): each bit is 0, 1 or unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tnum {
    /// Bits known to be 1.
    pub value: u64,
    /// Bits not known. Disjoint from `value`.
    pub mask: u64,
}

impl Tnum {
    /// Nothing known.
    pub const UNKNOWN: Tnum = Tnum { value: 0, mask: u64::MAX };

    /// Exactly this value.
    pub const fn constant(value: u64) -> Tnum {
        Tnum { value, mask: 0 }
    }

    /// Whether this value is possible.
    pub const fn contains(self, value: u64) -> bool {
        value & !self.mask == self.value
    }

    /// The greatest possible value.
    pub const fn greatest(self) -> u64 {
        self.value | self.mask
    }

    /// The least possible value above `bound`; the greatest possible value if none is above.
    pub const fn after(self, bound: u64) -> u64 {
        if bound >= self.greatest() {
            return self.greatest();
        }
        let least = bound + 1;
        let conflicts = (least ^ self.value) & !self.mask;
        if conflicts == 0 {
            return least;
        }
        let highest = 63 - conflicts.leading_zeros();
        let above = if highest == 63 { 0 } else { !0 << (highest + 1) };
        if self.value >> highest & 1 != 0 {
            return least & above | self.value & !above;
        }
        // The bit is clear in all values, so a free one above it is set.
        let free = self.mask & above & !least;
        let bit = free & free.wrapping_neg();
        let kept = !(bit | (bit - 1));
        least & kept | bit | self.value & !kept
    }

    /// The bits that all of `min..=max` share.
    pub const fn range(min: u64, max: u64) -> Tnum {
        let differ = min ^ max;
        let bits = 64 - differ.leading_zeros();
        if bits >= 64 {
            return Tnum::UNKNOWN;
        }
        let mask = (1 << bits) - 1;
        Tnum { value: min & !mask, mask }
    }

    /// The lowest `bits` bits.
    pub const fn truncate(self, bits: u32) -> Tnum {
        let mask = kiln_isa::semantics::mask(bits);
        Tnum { value: self.value & mask, mask: self.mask & mask }
    }

    /// Every value of `other` is one of this.
    pub const fn includes(self, other: Tnum) -> bool {
        other.mask & !self.mask == 0 && other.value & !self.mask == self.value
    }

    /// Whether no value is in both.
    pub const fn disjoint(self, other: Tnum) -> bool {
        (self.value ^ other.value) & !(self.mask | other.mask) != 0
    }

    /// The values in both (meaningless when [`Tnum::disjoint`]).
    pub const fn intersect(self, other: Tnum) -> Tnum {
        let mask = self.mask & other.mask;
        Tnum { value: (self.value | other.value) & !mask, mask }
    }

    /// Every value of either.
    pub const fn join(self, other: Tnum) -> Tnum {
        let mask = self.mask | other.mask | (self.value ^ other.value);
        Tnum { value: self.value & !mask, mask }
    }

    /// Sum.
    pub const fn add(self, other: Tnum) -> Tnum {
        let masks = self.mask.wrapping_add(other.mask);
        let values = self.value.wrapping_add(other.value);
        let carries = masks.wrapping_add(values) ^ values;
        let mask = carries | self.mask | other.mask;
        Tnum { value: values & !mask, mask }
    }

    /// Difference.
    pub const fn sub(self, other: Tnum) -> Tnum {
        let difference = self.value.wrapping_sub(other.value);
        let high = difference.wrapping_add(self.mask);
        let low = difference.wrapping_sub(other.mask);
        let mask = (high ^ low) | self.mask | other.mask;
        Tnum { value: difference & !mask, mask }
    }

    /// Product, as since Linux 6.18: an unknown bit of one factor adds the other factor or does not.
    pub fn mul(self, other: Tnum) -> Tnum {
        let (mut a, mut b) = (self, other);
        let mut sum = Tnum::constant(0);
        while a.value != 0 || a.mask != 0 {
            let added = sum.add(b);
            if a.value & 1 != 0 {
                sum = added;
            } else if a.mask & 1 != 0 {
                sum = sum.join(added);
            }
            a = a.shr(1);
            b = b.shl(1);
        }
        sum
    }

    /// Product, as before Linux 6.18: the known parts are multiplied, and everything else is added as unknown bits.
    pub fn mul_by_parts(self, other: Tnum) -> Tnum {
        let (mut a, mut b) = (self, other);
        let known = a.value.wrapping_mul(b.value);
        let mut unknown = Tnum::constant(0);
        while a.value != 0 || a.mask != 0 {
            if a.value & 1 != 0 {
                unknown = unknown.add(Tnum { value: 0, mask: b.mask });
            } else if a.mask & 1 != 0 {
                unknown = unknown.add(Tnum { value: 0, mask: b.value | b.mask });
            }
            a = a.shr(1);
            b = b.shl(1);
        }
        Tnum::constant(known).add(unknown)
    }

    /// Bitwise and.
    pub const fn and(self, other: Tnum) -> Tnum {
        let maybe = (self.value | self.mask) & (other.value | other.mask);
        let value = self.value & other.value;
        Tnum { value, mask: maybe & !value }
    }

    /// Bitwise or.
    pub const fn or(self, other: Tnum) -> Tnum {
        let value = self.value | other.value;
        Tnum { value, mask: (self.mask | other.mask) & !value }
    }

    /// Bitwise exclusive or.
    pub const fn xor(self, other: Tnum) -> Tnum {
        let mask = self.mask | other.mask;
        Tnum { value: (self.value ^ other.value) & !mask, mask }
    }

    /// Left shift by a known amount below 64.
    pub const fn shl(self, amount: u32) -> Tnum {
        Tnum { value: self.value << amount, mask: self.mask << amount }
    }

    /// Logical right shift by a known amount below 64.
    pub const fn shr(self, amount: u32) -> Tnum {
        Tnum { value: self.value >> amount, mask: self.mask >> amount }
    }

    /// The sign bit of `from` bits copied upwards, kept to `to` bits.
    pub const fn sign_extend(self, from: u32, to: u32) -> Tnum {
        let unused = 64 - from;
        Tnum { value: Self::extended(self.value, unused), mask: Self::extended(self.mask, unused) }.truncate(to)
    }

    /// Arithmetic right shift, as 64 bits, by a known amount below 64.
    pub const fn shr_signed(self, amount: u32) -> Tnum {
        Tnum { value: (self.value as i64 >> amount) as u64, mask: (self.mask as i64 >> amount) as u64 }
    }

    const fn extended(bits: u64, unused: u32) -> u64 {
        ((bits << unused) as i64 >> unused) as u64
    }
}
