//! What the kernel's verifier knows after an operation, no more and no less.
//!
//! ```text
//!   r1: -10..50                      r1 <<= 3      the kernel: anything        the instruction table: -80..400
//!   r1: known bits xxxxx000          r1 = (s32)r1  the kernel: s32             the table: the low bits stay known
//! ```
//!
//! A verdict that rests on more than the kernel knows accepts programs that do not load. So verdicts use these
//! functions, and [`super::apply`], which derives from the instruction table, serves facts where it knows more. The names
//! of the kernel's functions (6.18, `kernel/bpf/verifier.c`) stand beside those that are modelled on them.

use kiln_isa::semantics::mask;
use kiln_isa::{AluOp, ByteOrder, JumpOp, Size, Width};

use super::abstract_bits::Truth;
use super::bounds::{Bounds, as_signed, signed_max, signed_min};
use super::refine::{self, outcome};
use super::scalar::{Deduction, Scalar};
use super::tnum::Tnum;

/// The effect of an ALU operation on two 64-bit registers (`adjust_scalar_min_max_vals`).
pub fn apply_as_kernel(op: AluOp, width: Width, dst: &Scalar, src: &Scalar) -> Scalar {
    apply_as_kernel_where(Deduction::ALL, op, width, dst, src)
}

/// [`apply_as_kernel`] for a kernel that deduces in these steps.
pub fn apply_as_kernel_where(steps: Deduction, op: AluOp, width: Width, dst: &Scalar, src: &Scalar) -> Scalar {
    let result = match op {
        AluOp::Mov => *src,
        AluOp::Add => by_halves(dst, src, dst.tnum.add(src.tnum), Bounds::add),
        AluOp::Sub => by_halves(dst, src, dst.tnum.sub(src.tnum), Bounds::sub),
        AluOp::Mul => by_halves(dst, src, dst.tnum.mul(src.tnum), Bounds::mul),
        AluOp::And => bitwise(dst, src, dst.tnum.and(src.tnum), |a, b, tnum| (tnum.value, a.umax.min(b.umax))),
        AluOp::Or => {
            bitwise(dst, src, dst.tnum.or(src.tnum), |a, b, tnum| (a.umin.max(b.umin), tnum.value | tnum.mask))
        }
        AluOp::Xor => bitwise(dst, src, dst.tnum.xor(src.tnum), |_, _, tnum| (tnum.value, tnum.value | tnum.mask)),
        AluOp::Lsh | AluOp::Rsh | AluOp::Arsh => match shift_amount(width, src) {
            Some(amount) => shifted(op, width, dst, amount),
            None => return Scalar::UNKNOWN,
        },
        AluOp::Div | AluOp::Sdiv | AluOp::Mod | AluOp::Smod => match src.constant_at(width) {
            // The kernel follows a division by a constant only.
            Some(divisor) => divided(op, width, dst, divisor),
            None => return Scalar::UNKNOWN,
        },
    };
    let result = if width == Width::W32 { zero_extended(&result) } else { result };
    result.deduced_where(steps).or_unbounded()
}

/// The effect of a multiplication before Linux 6.18, which knew fewer bits of a product.
pub fn multiply_as_older_kernel(width: Width, dst: &Scalar, src: &Scalar) -> Scalar {
    let result = by_halves(dst, src, dst.tnum.mul_by_parts(src.tnum), Bounds::mul);
    let result = if width == Width::W32 { zero_extended(&result) } else { result };
    result.deduced().or_unbounded()
}

/// The effect of a negation (`BPF_NEG` in `adjust_scalar_min_max_vals`).
pub fn negate_as_kernel(width: Width, value: &Scalar) -> Scalar {
    apply_as_kernel(AluOp::Sub, width, &Scalar::constant(0), value)
}

/// `scalar_min_max_udiv`, `_sdiv`, `_umod`, `_smod` and their 32-bit forms (7.0 and later).
fn divided(op: AluOp, width: Width, dst: &Scalar, divisor: u64) -> Scalar {
    let bits = width.bits();
    let of = if width == Width::W64 { dst.wide() } else { dst.narrow() };
    let full = Bounds::full(bits);
    let signed = as_signed(divisor, bits);
    // A remainder keeps below the divisor, and has the sign of the number that was divided.
    let below = divisor.wrapping_sub(1);
    let most = as_signed(signed.unsigned_abs().wrapping_sub(1) & mask(bits), bits);
    let bounds = match (op, divisor) {
        (AluOp::Div | AluOp::Sdiv, 0) => return Scalar::constant(0),
        (AluOp::Mod | AluOp::Smod, 0) => return *dst,
        (AluOp::Div, _) => Bounds { umin: of.umin / divisor, umax: of.umax / divisor, ..full },
        (AluOp::Sdiv, _) if signed == -1 && of.smin == signed_min(bits) => match of.smax == of.smin {
            true => Bounds { smin: of.smin, smax: of.smin, ..full },
            false => full,
        },
        (AluOp::Sdiv, _) => {
            let (first, last) = (of.smin.wrapping_div(signed), of.smax.wrapping_div(signed));
            Bounds { smin: first.min(last), smax: first.max(last), ..full }
        }
        (AluOp::Mod, _) if of.umax <= below => return *dst,
        (AluOp::Mod, _) => Bounds { umin: 0, umax: of.umax.min(below), ..full },
        _ if of.smin >= -most && of.smax <= most => return *dst,
        _ => {
            let (smin, smax) = match (of.smin >= 0, of.smax <= 0) {
                (true, _) => (0, of.smax.min(most)),
                (false, true) => (of.smin.max(-most), 0),
                (false, false) => (-most, most),
            };
            Bounds { smin, smax, ..full }
        }
    };
    match width {
        Width::W64 => Scalar::from_parts(Tnum::UNKNOWN, bounds, Bounds::full(32)),
        Width::W32 => Scalar::from_parts(Tnum::UNKNOWN, Bounds::full(64), bounds),
    }
}

/// How far a shift goes, where the kernel follows it: by a constant below the width.
fn shift_amount(width: Width, src: &Scalar) -> Option<u32> {
    let known = match width {
        Width::W64 => src.tnum.mask == 0,
        Width::W32 => src.tnum.mask as u32 == 0,
    };
    (known && src.umax < u64::from(width.bits())).then_some(src.umax as u32)
}

type OnBounds = fn(Bounds, Bounds, u32) -> Bounds;

fn by_halves(dst: &Scalar, src: &Scalar, tnum: Tnum, op: OnBounds) -> Scalar {
    Scalar::from_parts(tnum, op(dst.wide(), src.wide(), 64), op(dst.narrow(), src.narrow(), 32))
}

/// `scalar_min_max_and` and its like: an unsigned range, and the signed one where the sign is the same at both ends.
fn bitwise(dst: &Scalar, src: &Scalar, tnum: Tnum, range: fn(Bounds, Bounds, Tnum) -> (u64, u64)) -> Scalar {
    let at = |a: Bounds, b: Bounds, bits: u32| {
        let (umin, umax) = range(a, b, tnum.truncate(bits));
        let (smin, smax) = (as_signed(umin, bits), as_signed(umax, bits));
        let signed = if smin <= smax { (smin, smax) } else { (signed_min(bits), signed_max(bits)) };
        Bounds { umin, umax, smin: signed.0, smax: signed.1 }
    };
    Scalar::from_parts(tnum, at(dst.wide(), src.wide(), 64), at(dst.narrow(), src.narrow(), 32))
}

/// `scalar_min_max_lsh`, `_rsh`, `_arsh` and their 32-bit forms.
fn shifted(op: AluOp, width: Width, dst: &Scalar, amount: u32) -> Scalar {
    let (wide, narrow, low) = (dst.wide(), dst.narrow(), dst.tnum.truncate(32));
    let signed = |of: Bounds, bits| Bounds { smin: of.smin >> amount, smax: of.smax >> amount, ..Bounds::full(bits) };
    let down = |of: Bounds, bits| Bounds { umin: of.umin >> amount, umax: of.umax >> amount, ..Bounds::full(bits) };
    let (tnum, wide, narrow) = match (op, width) {
        (AluOp::Lsh, Width::W64) => (dst.tnum.shl(amount), up_wide(dst, amount), up(narrow, amount, 32)),
        (AluOp::Lsh, Width::W32) => (low.shl(amount).truncate(32), Bounds::full(64), up(narrow, amount, 32)),
        (AluOp::Rsh, Width::W64) => (dst.tnum.shr(amount), down(wide, 64), Bounds::full(32)),
        (AluOp::Rsh, Width::W32) => (low.shr(amount), Bounds::full(64), down(narrow, 32)),
        (_, Width::W64) => (dst.tnum.shr_signed(amount), signed(wide, 64), Bounds::full(32)),
        (_, Width::W32) => {
            let moved = low.sign_extend(32, 64).shr_signed(amount).truncate(32);
            (moved, Bounds::full(64), signed(narrow, 32))
        }
    };
    Scalar::from_parts(tnum, wide, narrow)
}

/// A left shift moves an unsigned range, if no bit may go out at the top.
fn up(of: Bounds, amount: u32, bits: u32) -> Bounds {
    if amount >= bits || of.umax > 1 << (bits - 1 - amount) {
        return Bounds::full(bits);
    }
    Bounds { umin: of.umin << amount, umax: of.umax << amount & mask(bits), ..Bounds::full(bits) }
}

/// At 64 bits, a shift by 32 keeps the signed range of the lower half: compilers sign-extend by `<<= 32; s>>= 32`.
fn up_wide(dst: &Scalar, amount: u32) -> Bounds {
    let bounds = up(dst.wide(), amount, 64);
    if amount == 32 {
        return Bounds { smin: i64::from(dst.s32_min) << 32, smax: i64::from(dst.s32_max) << 32, ..bounds };
    }
    bounds
}

/// The lower half, the upper one zero (`zext_32_to_64`).
fn zero_extended(value: &Scalar) -> Scalar {
    let positive = value.s32_min >= 0;
    let (smin, smax) =
        if positive { (i64::from(value.s32_min), i64::from(value.s32_max)) } else { (0, i64::from(u32::MAX)) };
    let (umin, umax) = (u64::from(value.u32_min), u64::from(value.u32_max));
    Scalar { tnum: value.tnum.truncate(32), umin, umax, smin, smax, ..*value }
}

/// The lowest bytes of a number, zero-extended (`coerce_reg_to_size`).
pub fn narrowed_as_kernel(value: &Scalar, size: Size) -> Scalar {
    let all = mask(size.bits());
    if size == Size::B8 {
        return *value;
    }
    let (umin, umax) =
        if value.umin & !all == value.umax & !all { (value.umin & all, value.umax & all) } else { (0, all) };
    let wide = Bounds { umin, umax, smin: umin as i64, smax: umax as i64 };
    let narrow = if size == Size::B4 { value.narrow() } else { Bounds::full(32) };
    Scalar::from_parts(value.tnum.truncate(size.bits()), wide, narrow).deduced().or_unbounded()
}

/// The lowest bytes of a number, sign-extended to a width, then zero-extended (`coerce_reg_to_size_sx` and
/// `coerce_subreg_to_size_sx`).
pub fn sign_extended_as_kernel(value: &Scalar, from: Size, width: Width) -> Scalar {
    let (bits, of) = (from.bits(), if width == Width::W64 { value.wide() } else { value.narrow() });
    let to = width.bits();
    let extended = |value: i64| as_signed(value as u64 & mask(bits), bits);
    if value.tnum.mask == 0 {
        return Scalar::constant(extended(value.tnum.value as i64) as u64 & mask(to));
    }
    let (low, high) = (extended(of.smin), extended(of.smax));
    let (smin, smax) = (low.min(high), low.max(high));
    let fits = of.smin >> bits.min(63) == of.smax >> bits.min(63) && (smin >= 0) == (smax >= 0);
    let (tnum, bounds) = if fits {
        let (umin, umax) = (smin as u64 & mask(to), smax as u64 & mask(to));
        (Tnum::range(umin, umax), Bounds { umin, umax, smin, smax })
    } else {
        let tnum = Tnum::UNKNOWN.truncate(to);
        (tnum, Bounds { smin: signed_min(bits), smax: signed_max(bits), ..Bounds::full(to) })
    };
    let half =
        Bounds { umin: bounds.umin & mask(32), umax: bounds.umax & mask(32), smin: bounds.smin, smax: bounds.smax };
    let result = Scalar::from_parts(tnum, bounds, half);
    let result = if width == Width::W32 { zero_extended(&result) } else { result };
    result.deduced().or_unbounded()
}

/// The lowest bytes of a number in another order, zero-extended (`scalar_byte_swap`): where they are swapped, only the
/// known bits are followed.
pub fn reordered_as_kernel(order: ByteOrder, size: Size, value: &Scalar) -> Scalar {
    if order == ByteOrder::Little {
        return narrowed_as_kernel(value, size);
    }
    let unused = 64 - size.bits();
    let Tnum { value, mask } = value.tnum;
    let tnum = Tnum { value: value.swap_bytes() >> unused, mask: mask.swap_bytes() >> unused };
    narrowed_as_kernel(&Scalar { tnum, ..Scalar::UNKNOWN }.deduced(), size)
}

/// Whether the kernel knows how a comparison of two numbers comes out (`is_scalar_branch_taken`).
pub(crate) fn outcome_as_kernel(op: JumpOp, width: Width, dst: &Scalar, src: &Scalar) -> Truth {
    if op == JumpOp::Set && dst.constant_at(width).is_none() && src.constant_at(width).is_none() {
        return Truth::Unknown;
    }
    outcome(op, width, dst, src)
}

/// What the kernel knows of both operands where the comparison came out as `taken` (`reg_set_min_max`). The kernel also
/// explores what cannot be: a number of which nothing is possible any more gets unknown ranges. `same`: both operands are
/// one register, of which it learns what it learns of either. `steps`: as [`Scalar::deduced_where`] has them.
pub(crate) fn refine_as_kernel(
    op: JumpOp,
    width: Width,
    taken: bool,
    same: bool,
    steps: Deduction,
    [dst, src]: [&Scalar; 2],
) -> (Scalar, Scalar) {
    let (mut left, mut right) = (*dst, *src);
    if op == JumpOp::Set && !taken {
        // The kernel forgets the ranges of the number that is compared with constant bits.
        if src.constant_at(width).is_some() {
            left = left.unbounded();
        } else if dst.constant_at(width).is_some() {
            right = right.unbounded();
        }
    }
    refine::narrow(op, width, taken, &mut left, &mut right);
    if same {
        left = left.meet(&right).deduced_where(steps);
        right = left;
    }
    let settled = |side: Scalar| match side.tnum.mask {
        // A constant has nothing left to deduce.
        0 if side == Scalar::constant(side.tnum.value) => side,
        // `__reg_combine_32_into_64`: what older kernels learn of a lower half is all they know, unless the upper one is 0.
        _ if width == Width::W32 && !steps.halves => match (side.tnum.value | side.tnum.mask) >> 32 {
            0 => side.deduced_where(Deduction { halves: true, ..steps }).or_unbounded(),
            _ => side.with_any_whole().deduced_where(steps).or_unbounded(),
        },
        _ => side.deduced_where(steps).or_unbounded(),
    };
    (settled(left), settled(right))
}
