//! What the outcome of a comparison says of its operands.
//!
//! ```text
//!   if r1 > 7 goto      taken: r1 8..           not taken: r1 0..7
//!   if w1 s< w2 goto    taken: w1 s32 ..w2.s32_max-1, w2 s32 w1.s32_min+1..
//! ```

use kiln_isa::semantics::compare;
use kiln_isa::{JumpOp, Width};

use super::abstract_bits::{Abstract, Truth};
use super::scalar::Scalar;
use super::tnum::Tnum;

/// Whether a comparison of two registers holds.
pub(crate) fn outcome(op: JumpOp, width: Width, dst: &Scalar, src: &Scalar) -> Truth {
    if op == JumpOp::Set {
        return any_common_bit(width, dst, src);
    }
    compare(op, width, &Abstract::wide(*dst), &Abstract::wide(*src))
}

fn any_common_bit(width: Width, dst: &Scalar, src: &Scalar) -> Truth {
    let both = dst.tnum.and(src.tnum).truncate(width.bits());
    if both.value != 0 {
        Truth::True
    } else if both.mask == 0 {
        Truth::False
    } else {
        Truth::Unknown
    }
}

/// What is known of both operands where the comparison came out as `taken`; `None` where it cannot have.
pub fn refine(op: JumpOp, width: Width, taken: bool, dst: &Scalar, src: &Scalar) -> Option<(Scalar, Scalar)> {
    let known = outcome(op, width, dst, src);
    if known == Truth::True && !taken || known == Truth::False && taken {
        return None;
    }
    let (mut dst, mut src) = (*dst, *src);
    narrow(op, width, taken, &mut dst, &mut src);
    let possible = |scalar: &Scalar| scalar.is_possible();
    if !possible(&dst) || !possible(&src) {
        return None;
    }
    let (dst, src) = (dst.deduced(), src.deduced());
    (possible(&dst) && possible(&src)).then_some((dst, src))
}

/// Narrows both operands by the outcome, without making their parts consistent.
pub(super) fn narrow(op: JumpOp, width: Width, taken: bool, dst: &mut Scalar, src: &mut Scalar) {
    match if taken { Some(op) } else { op.row().negated } {
        None => bits_clear(width, dst, src),
        Some(JumpOp::Set) => bit_set(width, dst, src),
        Some(JumpOp::Eq) => equal(width, dst, src),
        Some(JumpOp::Ne) => unequal(width, dst, src),
        Some(JumpOp::Lt) => less(width, dst, src, 1),
        Some(JumpOp::Le) => less(width, dst, src, 0),
        Some(JumpOp::Gt) => less(width, src, dst, 1),
        Some(JumpOp::Ge) => less(width, src, dst, 0),
        Some(JumpOp::Slt) => signed_less(width, dst, src, 1),
        Some(JumpOp::Sle) => signed_less(width, dst, src, 0),
        Some(JumpOp::Sgt) => signed_less(width, src, dst, 1),
        Some(JumpOp::Sge) => signed_less(width, src, dst, 0),
    }
}

fn bits_clear(width: Width, dst: &mut Scalar, src: &mut Scalar) {
    if let Some(bits) = src.constant_at(width) {
        dst.tnum = dst.tnum.and(Tnum::constant(!bits));
    } else if let Some(bits) = dst.constant_at(width) {
        src.tnum = src.tnum.and(Tnum::constant(!bits));
    }
}

fn bit_set(width: Width, dst: &mut Scalar, src: &mut Scalar) {
    let set = |bits: u64, target: &mut Scalar| {
        if bits.is_power_of_two() {
            target.tnum = target.tnum.or(Tnum::constant(bits));
        }
    };
    if let Some(bits) = src.constant_at(width) {
        set(bits, dst);
    } else if let Some(bits) = dst.constant_at(width) {
        set(bits, src);
    }
}

fn equal(width: Width, dst: &mut Scalar, src: &mut Scalar) {
    match width {
        Width::W64 => {
            // The kernel keeps what each knows of its own lower half.
            let Scalar { tnum, umin, umax, smin, smax, .. } = dst.meet(src);
            for side in [dst, src] {
                *side = Scalar { tnum, umin, umax, smin, smax, ..*side };
            }
        }
        Width::W32 => {
            let low = |of: &Scalar| Tnum { value: of.tnum.value, mask: of.tnum.mask | !0xffff_ffff };
            let both = low(dst).truncate(32).intersect(low(src).truncate(32));
            for side in [&mut *dst, &mut *src] {
                side.tnum = Tnum {
                    value: side.tnum.value & !0xffff_ffff | both.value,
                    mask: side.tnum.mask & !0xffff_ffff | both.mask,
                };
            }
            let (umin, umax) = (dst.u32_min.max(src.u32_min), dst.u32_max.min(src.u32_max));
            let (smin, smax) = (dst.s32_min.max(src.s32_min), dst.s32_max.min(src.s32_max));
            for side in [dst, src] {
                (side.u32_min, side.u32_max, side.s32_min, side.s32_max) = (umin, umax, smin, smax);
            }
        }
    }
}

fn unequal(width: Width, dst: &mut Scalar, src: &mut Scalar) {
    if let Some(value) = src.constant_at(width) {
        exclude(width, dst, value);
    } else if let Some(value) = dst.constant_at(width) {
        exclude(width, src, value);
    }
}

/// Takes a value off the ends of the ranges.
fn exclude(width: Width, scalar: &mut Scalar, value: u64) {
    // A range of one value that is excluded becomes empty, which the caller notices.
    if width == Width::W64 {
        if scalar.umin == value {
            scalar.umin = scalar.umin.saturating_add(1);
        }
        if scalar.umax == value {
            scalar.umax = scalar.umax.saturating_sub(1);
        }
        if scalar.smin == value as i64 {
            scalar.smin = scalar.smin.saturating_add(1);
        }
        if scalar.smax == value as i64 {
            scalar.smax = scalar.smax.saturating_sub(1);
        }
        return;
    }
    let value = value as u32;
    if scalar.u32_min == value {
        scalar.u32_min = scalar.u32_min.saturating_add(1);
    }
    if scalar.u32_max == value {
        scalar.u32_max = scalar.u32_max.saturating_sub(1);
    }
    if scalar.s32_min == value as i32 {
        scalar.s32_min = scalar.s32_min.saturating_add(1);
    }
    if scalar.s32_max == value as i32 {
        scalar.s32_max = scalar.s32_max.saturating_sub(1);
    }
}

/// `low + gap <= high`, unsigned; the outcome is already known to be possible, so nothing overflows.
fn less(width: Width, low: &mut Scalar, high: &mut Scalar, gap: u64) {
    match width {
        Width::W64 => {
            low.umax = low.umax.min(high.umax.saturating_sub(gap));
            high.umin = high.umin.max(low.umin.saturating_add(gap));
        }
        Width::W32 => {
            low.u32_max = low.u32_max.min(high.u32_max.saturating_sub(gap as u32));
            high.u32_min = high.u32_min.max(low.u32_min.saturating_add(gap as u32));
        }
    }
}

/// `low + gap <= high`, signed.
fn signed_less(width: Width, low: &mut Scalar, high: &mut Scalar, gap: i64) {
    match width {
        Width::W64 => {
            low.smax = low.smax.min(high.smax.saturating_sub(gap));
            high.smin = high.smin.max(low.smin.saturating_add(gap));
        }
        Width::W32 => {
            low.s32_max = low.s32_max.min(high.s32_max.saturating_sub(gap as i32));
            high.s32_min = high.s32_min.max(low.s32_min.saturating_add(gap as i32));
        }
    }
}
