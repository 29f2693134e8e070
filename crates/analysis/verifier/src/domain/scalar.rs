//! What is known of a 64-bit number.

use super::bounds::{Bounds, as_signed, signed_max, signed_min};
use super::tnum::Tnum;
use kiln_isa::Width;
use kiln_isa::semantics::mask;

/// What is known of a 64-bit number: known bits, and unsigned and signed ranges of all 64 and of the lower 32 bits
/// (inclusive). All six hold together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scalar {
    /// Known bits.
    pub tnum: Tnum,
    /// Least unsigned value.
    pub umin: u64,
    /// Greatest unsigned value.
    pub umax: u64,
    /// Least signed value.
    pub smin: i64,
    /// Greatest signed value.
    pub smax: i64,
    /// Least unsigned value of the lower half.
    pub u32_min: u32,
    /// Greatest unsigned value of the lower half.
    pub u32_max: u32,
    /// Least signed value of the lower half.
    pub s32_min: i32,
    /// Greatest signed value of the lower half.
    pub s32_max: i32,
}

/// Steps of [`Scalar::deduced`] that not every kernel makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deduction {
    /// A signed range across 0 and an unsigned one that meets it at one end narrow each other.
    pub crosses: bool,
    /// The range of the lower half narrows that of the whole number.
    pub halves: bool,
}

impl Deduction {
    /// All steps.
    pub const ALL: Deduction = Deduction { crosses: true, halves: true };
}

impl Scalar {
    /// Nothing known.
    pub const UNKNOWN: Scalar = Scalar {
        tnum: Tnum::UNKNOWN,
        umin: 0,
        umax: u64::MAX,
        smin: i64::MIN,
        smax: i64::MAX,
        u32_min: 0,
        u32_max: u32::MAX,
        s32_min: i32::MIN,
        s32_max: i32::MAX,
    };

    /// Exactly this value.
    pub const fn constant(value: u64) -> Scalar {
        Scalar {
            tnum: Tnum::constant(value),
            umin: value,
            umax: value,
            smin: value as i64,
            smax: value as i64,
            u32_min: value as u32,
            u32_max: value as u32,
            s32_min: value as i32,
            s32_max: value as i32,
        }
    }

    /// From `min` to `max`, unsigned.
    pub fn unsigned_range(min: u64, max: u64) -> Scalar {
        Scalar { umin: min, umax: max, ..Scalar::UNKNOWN }.deduced()
    }

    /// From `min` to `max`, signed.
    pub fn signed_range(min: i64, max: i64) -> Scalar {
        Scalar { smin: min, smax: max, ..Scalar::UNKNOWN }.deduced()
    }

    /// The zero-extended value of that many bits.
    pub fn of_width(bits: u32) -> Scalar {
        if bits >= 64 {
            return Scalar::UNKNOWN;
        }
        // What `deduced` makes of the unsigned range.
        let (all, low) = (mask(bits), mask(bits.min(32)) as u32);
        let (s32_min, s32_max) = if bits < 32 { (0, low as i32) } else { (i32::MIN, i32::MAX) };
        let tnum = Tnum { value: 0, mask: all };
        Scalar { tnum, umin: 0, umax: all, smin: 0, smax: all as i64, u32_min: 0, u32_max: low, s32_min, s32_max }
    }

    /// The value, where only one is possible.
    pub const fn as_constant(&self) -> Option<u64> {
        if self.tnum.mask == 0 {
            Some(self.tnum.value)
        } else if self.umin == self.umax {
            Some(self.umin)
        } else {
            None
        }
    }

    /// The value as an operand of this width, where only one is possible.
    pub fn constant_at(&self, width: Width) -> Option<u64> {
        match width {
            Width::W64 => self.as_constant(),
            Width::W32 => self.low_constant().map(u64::from),
        }
    }

    /// Whether the lower half can only be one value.
    pub const fn low_constant(&self) -> Option<u32> {
        if self.tnum.mask as u32 == 0 {
            Some(self.tnum.value as u32)
        } else if self.u32_min == self.u32_max {
            Some(self.u32_min)
        } else {
            None
        }
    }

    /// Whether this value is possible.
    pub const fn contains(&self, value: u64) -> bool {
        let (low, signed, signed_low) = (value as u32, value as i64, value as i32);
        self.tnum.contains(value)
            && self.umin <= value
            && value <= self.umax
            && self.smin <= signed
            && signed <= self.smax
            && self.u32_min <= low
            && low <= self.u32_max
            && self.s32_min <= signed_low
            && signed_low <= self.s32_max
    }

    /// Whether every fact about `self` holds for all of `other` (so `other` is a special case).
    pub const fn includes(&self, other: &Scalar) -> bool {
        self.umin <= other.umin
            && self.umax >= other.umax
            && self.smin <= other.smin
            && self.smax >= other.smax
            && self.u32_min <= other.u32_min
            && self.u32_max >= other.u32_max
            && self.s32_min <= other.s32_min
            && self.s32_max >= other.s32_max
            && self.tnum.includes(other.tnum)
    }

    /// What holds for both.
    pub fn join(&self, other: &Scalar) -> Scalar {
        Scalar {
            tnum: self.tnum.join(other.tnum),
            umin: self.umin.min(other.umin),
            umax: self.umax.max(other.umax),
            smin: self.smin.min(other.smin),
            smax: self.smax.max(other.smax),
            u32_min: self.u32_min.min(other.u32_min),
            u32_max: self.u32_max.max(other.u32_max),
            s32_min: self.s32_min.min(other.s32_min),
            s32_max: self.s32_max.max(other.s32_max),
        }
    }

    /// Both facts at once; [`Scalar::is_possible`] says whether any value is left.
    pub fn meet(&self, other: &Scalar) -> Scalar {
        Scalar {
            tnum: self.tnum.intersect(other.tnum),
            umin: self.umin.max(other.umin),
            umax: self.umax.min(other.umax),
            smin: self.smin.max(other.smin),
            smax: self.smax.min(other.smax),
            u32_min: self.u32_min.max(other.u32_min),
            u32_max: self.u32_max.min(other.u32_max),
            s32_min: self.s32_min.max(other.s32_min),
            s32_max: self.s32_max.min(other.s32_max),
        }
    }

    /// Whether the ranges are not empty.
    pub const fn is_possible(&self) -> bool {
        self.umin <= self.umax
            && self.smin <= self.smax
            && self.u32_min <= self.u32_max
            && self.s32_min <= self.s32_max
            && self.tnum.value & self.tnum.mask == 0
            && self.tnum.value <= self.umax
            && self.tnum.value | self.tnum.mask >= self.umin
    }

    /// The same values, with each of the six parts as narrow as the kernel makes it from the others (`reg_bounds_sync`).
    #[must_use]
    pub fn deduced(self) -> Scalar {
        self.deduced_where(Deduction::ALL)
    }

    /// What a kernel deduces that makes these steps.
    #[must_use]
    pub(super) fn deduced_where(mut self, steps: Deduction) -> Scalar {
        self.bounds_from_tnum();
        let first = self;
        if self.becomes_one_range() {
            // The lower half has the whole number's known bits.
            self.tnum = self.tnum.intersect(Tnum::range(self.umin, self.umax));
        } else {
            for _ in 0..3 {
                let before = self;
                self.ranges_from_each_other(steps);
                if self == before {
                    break;
                }
            }
            self.tnum_from_bounds();
        }
        if self != first {
            self.bounds_from_tnum();
        }
        self
    }

    /// Makes all four ranges the unsigned one, where that has no sign and lies within the others: what they say to each other
    /// comes to that.
    fn becomes_one_range(&mut self) -> bool {
        let (low, high) = (self.umin, self.umax);
        let has_no_sign = low <= high && high <= i32::MAX as u64;
        let within = self.smin <= low as i64
            && high as i64 <= self.smax
            && self.u32_min <= low as u32
            && high as u32 <= self.u32_max
            && self.s32_min <= low as i32
            && high as i32 <= self.s32_max;
        if has_no_sign && within {
            (self.smin, self.smax) = (low as i64, high as i64);
            (self.u32_min, self.u32_max) = (low as u32, high as u32);
            (self.s32_min, self.s32_max) = (low as i32, high as i32);
        }
        has_no_sign && within
    }

    fn bounds_from_tnum(&mut self) {
        let Tnum { value, mask } = self.tnum;
        self.umin = self.umin.max(value);
        self.umax = self.umax.min(value | mask);
        self.smin = self.smin.max((value | mask & 1 << 63) as i64);
        self.smax = self.smax.min((value | mask & (u64::MAX >> 1)) as i64);
        let (value, mask) = (value as u32, mask as u32);
        self.u32_min = self.u32_min.max(value);
        self.u32_max = self.u32_max.min(value | mask);
        self.s32_min = self.s32_min.max((value | mask & 1 << 31) as i32);
        self.s32_max = self.s32_max.min((value | mask & (u32::MAX >> 1)) as i32);
        if let Some(only) = self.only_value() {
            *self = Scalar::constant(only);
        }
    }

    /// The one value with the known bits that lies within the unsigned range, where the kernel finds it.
    fn only_value(&self) -> Option<u64> {
        let (first, last) = (self.umin, self.umax);
        let both = self.tnum.contains(first) && self.tnum.contains(last);
        if both && first < last {
            return None;
        }
        let next = self.tnum.after(first);
        if self.tnum.contains(first) {
            return (next > self.umax).then_some(first);
        }
        let alone = next == self.tnum.greatest() || next <= self.umax && self.tnum.after(next) > self.umax;
        alone.then_some(next)
    }

    /// `__reg_deduce_bounds`.
    fn ranges_from_each_other(&mut self, steps: Deduction) {
        self.half_from_whole();
        self.half_by_sign(steps.crosses);
        self.whole_by_sign(steps.crosses);
        if steps.halves {
            self.whole_from_half();
        }
    }

    /// The whole number to its lower half: where the upper half is fixed, or is one of two neighbours between which the
    /// lower one goes from negative to positive.
    fn half_from_whole(&mut self) {
        let ends = [(self.umin, self.umax), (self.smin as u64, self.smax as u64)];
        for (low, high) in ends.into_iter().filter(|(low, high)| low >> 32 == high >> 32) {
            if low as u32 <= high as u32 {
                self.u32_min = self.u32_min.max(low as u32);
                self.u32_max = self.u32_max.min(high as u32);
            }
            if low as i32 <= high as i32 {
                self.s32_min = self.s32_min.max(low as i32);
                self.s32_max = self.s32_max.min(high as i32);
            }
        }
        let neighbours = |low: u64, high: u64| ((low >> 32) as u32).wrapping_add(1) == (high >> 32) as u32;
        for (low, high) in ends.into_iter().filter(|(low, high)| neighbours(*low, *high)) {
            if (low as i32) < 0 && high as i32 >= 0 {
                self.s32_min = self.s32_min.max(low as i32);
                self.s32_max = self.s32_max.min(high as i32);
            }
        }
    }

    fn half_by_sign(&mut self, crosses: bool) {
        if self.u32_min as i32 <= self.u32_max as i32 {
            self.s32_min = self.s32_min.max(self.u32_min as i32);
            self.s32_max = self.s32_max.min(self.u32_max as i32);
        }
        if self.s32_min as u32 <= self.s32_max as u32 {
            self.u32_min = self.u32_min.max(self.s32_min as u32);
            self.u32_max = self.u32_max.min(self.s32_max as u32);
        } else if crosses && self.u32_max < self.s32_min as u32 {
            self.s32_min = self.u32_min as i32;
            self.u32_max = self.u32_max.min(self.s32_max as u32);
        } else if crosses && (self.s32_max as u32) < self.u32_min {
            self.s32_max = self.u32_max as i32;
            self.u32_min = self.u32_min.max(self.s32_min as u32);
        }
    }

    /// Where a signed range crosses zero, the unsigned one may still meet it at only one of its ends.
    fn whole_by_sign(&mut self, crosses: bool) {
        if self.umin as i64 <= self.umax as i64 {
            self.smin = self.smin.max(self.umin as i64);
            self.smax = self.smax.min(self.umax as i64);
        }
        if self.smin as u64 <= self.smax as u64 {
            self.umin = self.umin.max(self.smin as u64);
            self.umax = self.umax.min(self.smax as u64);
        } else if crosses && self.umax < self.smin as u64 {
            self.smin = self.umin as i64;
            self.umax = self.umax.min(self.smax as u64);
        } else if crosses && (self.smax as u64) < self.umin {
            self.smax = self.umax as i64;
            self.umin = self.umin.max(self.smin as u64);
        }
    }

    fn whole_from_half(&mut self) {
        let high = !0xffff_ffff_u64;
        self.umin = self.umin.max(self.umin & high | u64::from(self.u32_min));
        self.umax = self.umax.min(self.umax & high | u64::from(self.u32_max));
        self.smin = self.smin.max((self.smin as u64 & high | u64::from(self.u32_min)) as i64);
        self.smax = self.smax.min((self.smax as u64 & high | u64::from(self.u32_max)) as i64);
        if self.s32_min >= 0 && self.smin >= i64::from(i32::MIN) && self.smax <= i64::from(i32::MAX) {
            (self.smin, self.smax) = (i64::from(self.s32_min), i64::from(self.s32_max));
            (self.umin, self.umax) = (self.smin as u64, self.smax as u64);
            self.tnum = self.tnum.intersect(Tnum::range(self.umin, self.umax));
        }
    }

    /// The number with its value known, or only that of its lower half (`__mark_reg32_known`).
    pub(crate) fn with_low(&self, width: Width, value: u64) -> Scalar {
        if width == Width::W64 {
            return Scalar::constant(value);
        }
        let (high, low) = (!0xffff_ffff_u64, value as u32);
        let tnum = Tnum { value: self.tnum.value & high | u64::from(low), mask: self.tnum.mask & high };
        Scalar { tnum, u32_min: low, u32_max: low, s32_min: low as i32, s32_max: low as i32, ..*self }
    }

    /// Without ranges of the lower half but those that the whole number gives it, unless its value is known.
    #[must_use]
    pub(crate) fn without_half(self) -> Scalar {
        if self.tnum.mask == 0 {
            return self;
        }
        let (low, high) = match self.umin >> 32 == self.umax >> 32 {
            true => (self.umin as u32, self.umax as u32),
            false => (0, u32::MAX),
        };
        let signed = if low as i32 <= high as i32 { (low as i32, high as i32) } else { (i32::MIN, i32::MAX) };
        Scalar { u32_min: low, u32_max: high, s32_min: signed.0, s32_max: signed.1, ..self }
    }

    /// `__reg_bound_offset`.
    fn tnum_from_bounds(&mut self) {
        let wide = self.tnum.intersect(Tnum::range(self.umin, self.umax));
        let range = Tnum::range(u64::from(self.u32_min), u64::from(self.u32_max));
        let low = wide.truncate(32).intersect(range);
        let high = !0xffff_ffff_u64;
        self.tnum = Tnum { value: wide.value & high | low.value, mask: wide.mask & high | low.mask };
    }

    /// The same known bits, and any ranges (`__mark_reg_unbounded`).
    pub(super) const fn unbounded(&self) -> Scalar {
        Scalar { tnum: self.tnum, ..Scalar::UNKNOWN }
    }

    /// What the kernel makes of a number whose parts contradict one another (`reg_bounds_sanity_check`): its ranges are
    /// forgotten.
    pub(super) fn or_unbounded(self) -> Scalar {
        let empty = self.umin > self.umax
            || self.smin > self.smax
            || self.u32_min > self.u32_max
            || self.s32_min > self.s32_max;
        let (value, low) = (self.tnum.value, self.tnum.value as u32);
        let other = self.tnum.mask == 0
            && (self.umin != value || self.umax != value || self.smin != value as i64 || self.smax != value as i64);
        let other_low = self.tnum.mask as u32 == 0
            && (self.u32_min != low || self.u32_max != low || self.s32_min != low as i32 || self.s32_max != low as i32);
        if empty || other || other_low { self.unbounded() } else { self }
    }

    /// The same known bits and ranges of the lower half, and any of the whole number (`__mark_reg64_unbounded`).
    pub(super) const fn with_any_whole(self) -> Scalar {
        Scalar { umin: 0, umax: u64::MAX, smin: i64::MIN, smax: i64::MAX, ..self }
    }

    pub(super) fn wide(&self) -> Bounds {
        Bounds { umin: self.umin, umax: self.umax, smin: self.smin, smax: self.smax }
    }

    pub(super) fn narrow(&self) -> Bounds {
        Bounds {
            umin: u64::from(self.u32_min),
            umax: u64::from(self.u32_max),
            smin: i64::from(self.s32_min),
            smax: i64::from(self.s32_max),
        }
    }

    pub(super) fn from_parts(tnum: Tnum, wide: Bounds, narrow: Bounds) -> Scalar {
        Scalar {
            tnum,
            umin: wide.umin,
            umax: wide.umax,
            smin: wide.smin,
            smax: wide.smax,
            u32_min: narrow.umin as u32,
            u32_max: narrow.umax as u32,
            s32_min: narrow.smin as i32,
            s32_max: narrow.smax as i32,
        }
    }

    /// [`Scalar::deduced`] for a number narrower than 64 bits, whose signed range is at its own width.
    pub(super) fn deduced_at(mut self, bits: u32) -> Scalar {
        let all = mask(bits);
        let sign = 1_u64 << (bits - 1);
        for _ in 0..2 {
            let Tnum { value, mask } = self.tnum;
            self.umin = self.umin.max(value);
            self.umax = self.umax.min(value | mask);
            self.smin = self.smin.max(as_signed(value | mask & sign, bits));
            self.smax = self.smax.min(as_signed(value | mask & !sign, bits));
            let (low, high) = (as_signed(self.umin, bits), as_signed(self.umax, bits));
            if low <= high {
                self.smin = self.smin.max(low);
                self.smax = self.smax.min(high);
            }
            let (low, high) = (self.smin as u64 & all, self.smax as u64 & all);
            if low <= high {
                self.umin = self.umin.max(low);
                self.umax = self.umax.min(high);
            }
            let range = Tnum::range(self.umin, self.umax);
            if self.umin <= self.umax && !self.tnum.disjoint(range) {
                self.tnum = self.tnum.intersect(range);
            }
        }
        self.smin = self.smin.max(signed_min(bits));
        self.smax = self.smax.min(signed_max(bits));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [`Scalar::deduced_where`] without what it leaves out.
    fn deduced_plainly(mut scalar: Scalar, steps: Deduction) -> Scalar {
        scalar.bounds_from_tnum();
        for _ in 0..3 {
            scalar.ranges_from_each_other(steps);
        }
        scalar.tnum_from_bounds();
        scalar.bounds_from_tnum();
        scalar
    }

    #[test]
    fn nothing_that_could_be_deduced_is_left_out() {
        let mut seed = 1_u64;
        let mut random = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        // Few bits, many bits, the ends: what programs compute with.
        let mut number = move || match random() % 8 {
            0 => 0,
            1 => u64::MAX,
            2 => random() % 8,
            3 => random() % 256,
            4 => u64::from(random() as u32),
            5 => (random() as i32 as i64) as u64,
            6 => 1 << (random() % 64),
            _ => random(),
        };
        for _ in 0..50_000 {
            let mut scalar = Scalar::UNKNOWN;
            let (value, mask) = (number(), number());
            let kept = number();
            if kept & 1 == 0 {
                scalar.tnum = Tnum { value: value & !mask, mask };
            }
            if kept & 2 == 0 {
                (scalar.umin, scalar.umax) = (number(), number());
            }
            if kept & 4 == 0 {
                (scalar.smin, scalar.smax) = (number() as i64, number() as i64);
            }
            if kept & 8 == 0 {
                (scalar.u32_min, scalar.u32_max) = (number() as u32, number() as u32);
            }
            if kept & 16 == 0 {
                (scalar.s32_min, scalar.s32_max) = (number() as i32, number() as i32);
            }
            for (crosses, halves) in [(false, false), (false, true), (true, true)] {
                let steps = Deduction { crosses, halves };
                let once = scalar.deduced_where(steps);
                assert_eq!(once, deduced_plainly(scalar, steps), "{scalar:?}");
                assert_eq!(once.deduced_where(steps), deduced_plainly(once, steps), "{once:?}");
            }
        }
    }

    #[test]
    fn a_width_is_an_unsigned_range() {
        for bits in 1..64 {
            assert_eq!(Scalar::of_width(bits), Scalar::unsigned_range(0, mask(bits)), "{bits} bits");
        }
    }
}
