//! A scalar at a width, as a [`BitVec`]: what turns the instruction table into the transfer function.

use kiln_isa::semantics::{BitVec, Bits, at_width, mask};
use kiln_isa::{AluOp, Width};

use super::bounds::{Bounds, as_signed};
use super::scalar::Scalar;
use super::tnum::Tnum;

/// What is known about a truth value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Truth {
    /// Always.
    True,
    /// Never.
    False,
    /// Perhaps.
    Unknown,
}

/// A number `bits` wide. At 64 bits all of the scalar speaks; below, its tristate number and 64-bit ranges do, at that
/// width (signed bounds sign-extended), and the 32-bit ranges are not used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abstract {
    bits: u32,
    scalar: Scalar,
}

/// The effect of an ALU operation on two 64-bit registers.
pub fn apply(op: AluOp, width: Width, dst: &Scalar, src: &Scalar) -> Scalar {
    let (dst, src) = (Abstract::wide(*dst), Abstract::wide(*src));
    at_width(width, &dst, &src, |dst, src| op.apply(dst, src)).scalar
}

type OnBounds = fn(Bounds, Bounds, u32) -> Bounds;

impl Abstract {
    /// A 64-bit number.
    pub const fn wide(scalar: Scalar) -> Abstract {
        Abstract { bits: 64, scalar }
    }

    /// Anything of that width.
    pub fn unknown(bits: u32) -> Abstract {
        Abstract::from_bounds(bits, Tnum::UNKNOWN.truncate(bits), Bounds::full(bits))
    }

    /// What is known of it; for 64 bits.
    pub const fn scalar(&self) -> &Scalar {
        &self.scalar
    }

    /// Whether a value (its lowest bits) is possible.
    pub fn contains(&self, value: u64) -> bool {
        let value = value & mask(self.bits);
        if self.bits == 64 {
            return self.scalar.contains(value);
        }
        let (Scalar { umin, umax, smin, smax, .. }, signed) = (self.scalar, as_signed(value, self.bits));
        self.scalar.tnum.contains(value) && umin <= value && value <= umax && smin <= signed && signed <= smax
    }

    /// The number of that width with these known bits and within these bounds.
    pub fn with_ranges(bits: u32, tnum: Tnum, unsigned: (u64, u64), signed: (i64, i64)) -> Abstract {
        let bounds = Bounds { umin: unsigned.0, umax: unsigned.1, smin: signed.0, smax: signed.1 };
        Abstract::from_bounds(bits, tnum, bounds)
    }

    fn from_bounds(bits: u32, tnum: Tnum, bounds: Bounds) -> Abstract {
        if bits == 64 {
            let scalar = Scalar::from_parts(tnum, bounds, Bounds::full(32));
            return Abstract::wide(scalar.deduced());
        }
        let scalar = Scalar::from_parts(tnum, bounds, Bounds::full(32)).deduced_at(bits);
        Abstract { bits, scalar }
    }

    fn as_constant(&self) -> Option<u64> {
        self.scalar.as_constant()
    }

    fn concrete(&self, other: &Self, op: impl Fn(&Bits, &Bits) -> Bits) -> Option<Self> {
        let (a, b) = (self.as_constant()?, other.as_constant()?);
        Some(self.like(op(&Bits::new(self.bits, a), &Bits::new(self.bits, b)).value()))
    }

    /// An operation whose lower half depends on the lower halves alone.
    fn by_halves(&self, other: &Self, tnum: Tnum, op: OnBounds) -> Self {
        let wide = op(self.scalar.wide(), other.scalar.wide(), self.bits);
        if self.bits != 64 {
            return Abstract::from_bounds(self.bits, tnum.truncate(self.bits), wide);
        }
        let narrow = op(self.scalar.narrow(), other.scalar.narrow(), 32);
        Abstract::wide(Scalar::from_parts(tnum, wide, narrow).deduced())
    }

    /// An operation whose lower half depends on all bits.
    fn as_whole(&self, other: &Self, tnum: Tnum, op: OnBounds) -> Self {
        let bounds = op(self.scalar.wide(), other.scalar.wide(), self.bits);
        Abstract::from_bounds(self.bits, tnum.truncate(self.bits), bounds)
    }

    fn known_amount(&self) -> Option<u32> {
        self.as_constant().filter(|amount| *amount < u64::from(self.bits)).map(|amount| amount as u32)
    }
}

impl BitVec for Abstract {
    type Bool = Truth;

    fn bits(&self) -> u32 {
        self.bits
    }

    fn like(&self, value: u64) -> Self {
        let value = value & mask(self.bits);
        if self.bits == 64 {
            return Abstract::wide(Scalar::constant(value));
        }
        let bounds = Bounds::constant(value, self.bits);
        let scalar = Scalar::from_parts(Tnum::constant(value), bounds, Bounds::full(32));
        Abstract { bits: self.bits, scalar }
    }

    fn add(&self, other: &Self) -> Self {
        self.by_halves(other, self.scalar.tnum.add(other.scalar.tnum), Bounds::add)
    }

    fn sub(&self, other: &Self) -> Self {
        self.by_halves(other, self.scalar.tnum.sub(other.scalar.tnum), Bounds::sub)
    }

    fn mul(&self, other: &Self) -> Self {
        let concrete = self.concrete(other, Bits::mul);
        concrete.unwrap_or_else(|| self.by_halves(other, self.scalar.tnum.mul(other.scalar.tnum), Bounds::mul))
    }

    fn udiv(&self, other: &Self) -> Self {
        let concrete = self.concrete(other, Bits::udiv);
        concrete.unwrap_or_else(|| self.as_whole(other, Tnum::UNKNOWN, Bounds::udiv))
    }

    fn urem(&self, other: &Self) -> Self {
        let concrete = self.concrete(other, Bits::urem);
        concrete.unwrap_or_else(|| self.as_whole(other, Tnum::UNKNOWN, Bounds::urem))
    }

    fn sdiv(&self, other: &Self) -> Self {
        let concrete = self.concrete(other, Bits::sdiv);
        concrete.unwrap_or_else(|| self.as_whole(other, Tnum::UNKNOWN, Bounds::sdiv))
    }

    fn srem(&self, other: &Self) -> Self {
        let concrete = self.concrete(other, Bits::srem);
        concrete.unwrap_or_else(|| self.as_whole(other, Tnum::UNKNOWN, Bounds::srem))
    }

    fn and(&self, other: &Self) -> Self {
        self.by_halves(other, self.scalar.tnum.and(other.scalar.tnum), Bounds::and)
    }

    fn or(&self, other: &Self) -> Self {
        self.by_halves(other, self.scalar.tnum.or(other.scalar.tnum), Bounds::or)
    }

    fn xor(&self, other: &Self) -> Self {
        self.by_halves(other, self.scalar.tnum.xor(other.scalar.tnum), Bounds::xor)
    }

    fn shl(&self, amount: &Self) -> Self {
        let Some(known) = amount.known_amount() else {
            return self.as_whole(amount, Tnum::UNKNOWN, Bounds::shl);
        };
        let tnum = self.scalar.tnum.shl(known);
        if known < 32 { self.by_halves(amount, tnum, Bounds::shl) } else { self.as_whole(amount, tnum, Bounds::shl) }
    }

    fn lshr(&self, amount: &Self) -> Self {
        let tnum = amount.known_amount().map_or(Tnum::UNKNOWN, |known| self.scalar.tnum.shr(known));
        self.as_whole(amount, tnum, Bounds::lshr)
    }

    fn ashr(&self, amount: &Self) -> Self {
        let shifted = |known| self.scalar.tnum.sign_extend(self.bits, 64).shr_signed(known);
        let tnum = amount.known_amount().map_or(Tnum::UNKNOWN, shifted);
        self.as_whole(amount, tnum, Bounds::ashr)
    }

    fn truncate(&self, bits: u32) -> Self {
        let (tnum, scalar) = (self.scalar.tnum.truncate(bits), &self.scalar);
        if bits == self.bits {
            return *self;
        }
        if bits == 32 && self.bits == 64 {
            return Abstract::from_bounds(bits, tnum, scalar.narrow());
        }
        let mut bounds = Bounds::full(bits);
        let low = if bits < 32 && self.bits == 64 { scalar.narrow() } else { scalar.wide() };
        if low.umax - low.umin <= mask(bits) && low.umin & mask(bits) <= low.umax & mask(bits) {
            (bounds.umin, bounds.umax) = (low.umin & mask(bits), low.umax & mask(bits));
        }
        if low.smin >= bounds.smin && low.smax <= bounds.smax {
            (bounds.smin, bounds.smax) = (low.smin, low.smax);
        }
        Abstract::from_bounds(bits, tnum, bounds)
    }

    fn zero_extend(&self, bits: u32) -> Self {
        if bits == self.bits {
            return *self;
        }
        let Scalar { tnum, umin, umax, .. } = self.scalar;
        let bounds = Bounds { umin, umax, ..Bounds::full(bits) };
        if bits == 64 && self.bits == 32 {
            let scalar = Scalar::from_parts(tnum, bounds, self.scalar.wide());
            return Abstract::wide(scalar.deduced());
        }
        Abstract::from_bounds(bits, tnum, bounds)
    }

    fn sign_extend(&self, bits: u32) -> Self {
        if bits == self.bits {
            return *self;
        }
        let tnum = self.scalar.tnum.sign_extend(self.bits, bits);
        let bounds = Bounds { smin: self.scalar.smin, smax: self.scalar.smax, ..Bounds::full(bits) };
        if bits == 64 && self.bits == 32 {
            let scalar = Scalar::from_parts(tnum, bounds, self.scalar.wide());
            return Abstract::wide(scalar.deduced());
        }
        Abstract::from_bounds(bits, tnum, bounds)
    }

    fn eq(&self, other: &Self) -> Truth {
        let (a, b) = (&self.scalar, &other.scalar);
        if let (Some(a), Some(b)) = (a.as_constant(), b.as_constant()) {
            return if a == b { Truth::True } else { Truth::False };
        }
        let apart = a.umin > b.umax || b.umin > a.umax || a.smin > b.smax || b.smin > a.smax;
        let low_apart = self.bits == 64
            && (a.u32_min > b.u32_max || b.u32_min > a.u32_max || a.s32_min > b.s32_max || b.s32_min > a.s32_max);
        if apart || low_apart || a.tnum.disjoint(b.tnum) { Truth::False } else { Truth::Unknown }
    }

    fn ult(&self, other: &Self) -> Truth {
        if self.scalar.umax < other.scalar.umin {
            Truth::True
        } else if self.scalar.umin >= other.scalar.umax {
            Truth::False
        } else {
            Truth::Unknown
        }
    }

    fn slt(&self, other: &Self) -> Truth {
        if self.scalar.smax < other.scalar.smin {
            Truth::True
        } else if self.scalar.smin >= other.scalar.smax {
            Truth::False
        } else {
            Truth::Unknown
        }
    }

    fn not(value: &Truth) -> Truth {
        match value {
            Truth::True => Truth::False,
            Truth::False => Truth::True,
            Truth::Unknown => Truth::Unknown,
        }
    }

    fn ite(condition: &Truth, then: &Self, otherwise: &Self) -> Self {
        match condition {
            Truth::True => *then,
            Truth::False => *otherwise,
            Truth::Unknown => {
                let tnum = then.scalar.tnum.join(otherwise.scalar.tnum);
                let wide = then.scalar.wide().join(otherwise.scalar.wide());
                let narrow = then.scalar.narrow().join(otherwise.scalar.narrow());
                let scalar = Scalar::from_parts(tnum, wide, narrow);
                let scalar = if then.bits == 64 { scalar.deduced() } else { scalar };
                Abstract { bits: then.bits, scalar }
            }
        }
    }

    /// The general definition, one byte at a time, on the known bits alone.
    fn swap_bytes(&self) -> Self {
        let unused = 64 - self.bits;
        let Tnum { value, mask } = self.scalar.tnum;
        let tnum = Tnum { value: value.swap_bytes() >> unused, mask: mask.swap_bytes() >> unused };
        Abstract::from_bounds(self.bits, tnum, Bounds::full(self.bits))
    }
}
