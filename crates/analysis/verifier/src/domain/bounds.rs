//! Unsigned and signed ranges at one width, and how operations move them.
//!
//! An operation at 64 bits moves two of these: the range of the whole number and, where the lower half of the result
//! depends on the lower halves alone, the range of the lower half. Ranges that wrap become full; what the known bits
//! still say is put back by [`super::Scalar::deduced`].

use kiln_isa::semantics::mask;

/// Ranges, inclusive, of a number `bits` wide. Signed bounds are sign-extended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    pub umin: u64,
    pub umax: u64,
    pub smin: i64,
    pub smax: i64,
}

/// The least number of that width.
pub(super) const fn signed_min(bits: u32) -> i64 {
    i64::MIN >> (64 - bits)
}

/// The greatest number of that width.
pub(super) const fn signed_max(bits: u32) -> i64 {
    i64::MAX >> (64 - bits)
}

/// A number as the signed one of the same bits.
pub(super) const fn as_signed(value: u64, bits: u32) -> i64 {
    ((value << (64 - bits)) as i64) >> (64 - bits)
}

impl Bounds {
    pub(super) const fn full(bits: u32) -> Bounds {
        Bounds { umin: 0, umax: mask(bits), smin: signed_min(bits), smax: signed_max(bits) }
    }

    pub(super) const fn constant(value: u64, bits: u32) -> Bounds {
        let value = value & mask(bits);
        Bounds { umin: value, umax: value, smin: as_signed(value, bits), smax: as_signed(value, bits) }
    }

    /// Only an unsigned range known.
    const fn unsigned(umin: u64, umax: u64, bits: u32) -> Bounds {
        Bounds { umin, umax, ..Bounds::full(bits) }
    }

    fn with_signed(self, low: i128, high: i128, bits: u32) -> Bounds {
        let (least, most) = (i128::from(signed_min(bits)), i128::from(signed_max(bits)));
        if low >= least && high <= most {
            return Bounds { smin: low as i64, smax: high as i64, ..self };
        }
        self
    }

    pub(super) fn add(self, other: Bounds, bits: u32) -> Bounds {
        let low = u128::from(self.umin) + u128::from(other.umin);
        let high = u128::from(self.umax) + u128::from(other.umax);
        let most = u128::from(mask(bits));
        let unsigned = if high <= most || low > most {
            Bounds::unsigned(low as u64 & mask(bits), high as u64 & mask(bits), bits)
        } else {
            Bounds::full(bits)
        };
        let low = i128::from(self.smin) + i128::from(other.smin);
        unsigned.with_signed(low, i128::from(self.smax) + i128::from(other.smax), bits)
    }

    pub(super) fn sub(self, other: Bounds, bits: u32) -> Bounds {
        let low = i128::from(self.umin) - i128::from(other.umax);
        let high = i128::from(self.umax) - i128::from(other.umin);
        let unsigned = if low >= 0 || high < 0 {
            Bounds::unsigned(low as u64 & mask(bits), high as u64 & mask(bits), bits)
        } else {
            Bounds::full(bits)
        };
        let low = i128::from(self.smin) - i128::from(other.smax);
        unsigned.with_signed(low, i128::from(self.smax) - i128::from(other.smin), bits)
    }

    pub(super) fn mul(self, other: Bounds, bits: u32) -> Bounds {
        let high = u128::from(self.umax) * u128::from(other.umax);
        let unsigned = if high <= u128::from(mask(bits)) {
            Bounds::unsigned(self.umin * other.umin, high as u64, bits)
        } else {
            Bounds::full(bits)
        };
        let product = |a: i64, b: i64| i128::from(a) * i128::from(b);
        let corners = [
            product(self.smin, other.smin),
            product(self.smin, other.smax),
            product(self.smax, other.smin),
            product(self.smax, other.smax),
        ];
        let low = corners.iter().copied().fold(i128::MAX, i128::min);
        let high = corners.iter().copied().fold(i128::MIN, i128::max);
        let (least, most) = (i128::from(signed_min(bits)), i128::from(signed_max(bits)));
        if low >= least && high <= most { Bounds { smin: low as i64, smax: high as i64, ..unsigned } } else { unsigned }
    }

    pub(super) fn and(self, other: Bounds, bits: u32) -> Bounds {
        // A mask of all the bits that the other operand can have changes nothing.
        let keeps = |kept: &Bounds, by: &Bounds| {
            by.umin == by.umax && by.umin & by.umin.wrapping_add(1) == 0 && kept.umax <= by.umin
        };
        if keeps(&self, &other) {
            self
        } else if keeps(&other, &self) {
            other
        } else {
            Bounds::unsigned(0, self.umax.min(other.umax), bits)
        }
    }

    pub(super) fn or(self, other: Bounds, bits: u32) -> Bounds {
        let highest = self.umax | other.umax;
        let umax = if highest == 0 { 0 } else { u64::MAX >> highest.leading_zeros() };
        Bounds::unsigned(self.umin.max(other.umin), umax, bits)
    }

    pub(super) fn xor(self, other: Bounds, bits: u32) -> Bounds {
        let highest = self.umax | other.umax;
        let umax = if highest == 0 { 0 } else { u64::MAX >> highest.leading_zeros() };
        Bounds::unsigned(0, umax, bits)
    }

    pub(super) fn shl(self, amount: Bounds, bits: u32) -> Bounds {
        if amount.umax >= u64::from(bits) {
            return Bounds::full(bits);
        }
        let unsigned = if self.umax <= mask(bits) >> amount.umax {
            Bounds::unsigned(self.umin << amount.umin, self.umax << amount.umax, bits)
        } else {
            Bounds::full(bits)
        };
        let by = |value: i64, amount: u64| i128::from(value) << amount;
        let low = if self.smin < 0 { by(self.smin, amount.umax) } else { by(self.smin, amount.umin) };
        let high = if self.smax < 0 { by(self.smax, amount.umin) } else { by(self.smax, amount.umax) };
        let fits = low >= i128::from(signed_min(bits)) && high <= i128::from(signed_max(bits));
        if fits { Bounds { smin: low as i64, smax: high as i64, ..unsigned } } else { unsigned }
    }

    pub(super) fn lshr(self, amount: Bounds, bits: u32) -> Bounds {
        if amount.umax >= u64::from(bits) {
            return Bounds::full(bits);
        }
        Bounds::unsigned(self.umin >> amount.umax, self.umax >> amount.umin, bits)
    }

    pub(super) fn ashr(self, amount: Bounds, bits: u32) -> Bounds {
        if amount.umax >= u64::from(bits) {
            return Bounds::full(bits);
        }
        let smin = if self.smin < 0 { self.smin >> amount.umin } else { self.smin >> amount.umax };
        let smax = if self.smax < 0 { self.smax >> amount.umax } else { self.smax >> amount.umin };
        Bounds { smin, smax, ..Bounds::full(bits) }
    }

    /// For a nonzero divisor.
    pub(super) fn udiv(self, other: Bounds, bits: u32) -> Bounds {
        Bounds::unsigned(self.umin / other.umax.max(1), self.umax / other.umin.max(1), bits)
    }

    /// For a nonzero divisor.
    pub(super) fn urem(self, other: Bounds, bits: u32) -> Bounds {
        if self.umax < other.umin {
            return self;
        }
        Bounds::unsigned(0, self.umax.min(other.umax.max(1) - 1), bits)
    }

    /// For a nonzero divisor.
    pub(super) fn sdiv(self, other: Bounds, bits: u32) -> Bounds {
        let inside = |value: &i64| *value != 0 && other.smin <= *value && *value <= other.smax;
        let mut low = i128::MAX;
        let mut high = i128::MIN;
        for divisor in [other.smin, other.smax, -1, 1].iter().filter(|value| inside(value)) {
            for dividend in [self.smin, self.smax] {
                let quotient = i128::from(dividend) / i128::from(*divisor);
                low = low.min(quotient);
                high = high.max(quotient);
            }
        }
        if low > high || high > i128::from(signed_max(bits)) {
            return Bounds::full(bits);
        }
        Bounds { smin: low as i64, smax: high as i64, ..Bounds::full(bits) }
    }

    /// For a nonzero divisor.
    pub(super) fn srem(self, other: Bounds, bits: u32) -> Bounds {
        let greatest = i128::from(other.smin).abs().max(i128::from(other.smax).abs()).max(1) - 1;
        let smax = i128::from(self.smax.max(0)).min(greatest);
        let smin = i128::from(self.smin.min(0)).max(-greatest);
        Bounds { smin: smin as i64, smax: smax as i64, ..Bounds::full(bits) }
    }

    pub(super) fn join(self, other: Bounds) -> Bounds {
        Bounds {
            umin: self.umin.min(other.umin),
            umax: self.umax.max(other.umax),
            smin: self.smin.min(other.smin),
            smax: self.smax.max(other.smax),
        }
    }
}
