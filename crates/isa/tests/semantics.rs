//! Compares the table's meanings over concrete bits with Rust's own arithmetic and RFC 9669's corner cases.

use kiln_isa::semantics::{BitVec, Bits, at_width, compare};
use kiln_isa::{AluOp, AtomicOp, JumpOp, Width};
use proptest::prelude::*;

const CORNERS: [u64; 16] = [
    0,
    1,
    2,
    31,
    32,
    63,
    64,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_8000_0000,
    0xffff_ffff_ffff_fffe,
    0xffff_ffff_ffff_ffff,
];

fn alu(op: AluOp, width: Width, dst: u64, src: u64) -> u64 {
    at_width(width, &Bits::new(64, dst), &Bits::new(64, src), |d, s| op.apply(d, s)).value()
}

/// The operation's meaning in native 32-bit arithmetic.
fn native32(op: AluOp, dst: u32, src: u32) -> u32 {
    let (signed, divisor) = (dst as i32, src as i32);
    match op {
        AluOp::Add => dst.wrapping_add(src),
        AluOp::Sub => dst.wrapping_sub(src),
        AluOp::Mul => dst.wrapping_mul(src),
        AluOp::Div => dst.checked_div(src).unwrap_or(0),
        AluOp::Sdiv if divisor == 0 => 0,
        AluOp::Sdiv => signed.wrapping_div(divisor) as u32,
        AluOp::Or => dst | src,
        AluOp::And => dst & src,
        AluOp::Lsh => dst.wrapping_shl(src),
        AluOp::Rsh => dst.wrapping_shr(src),
        AluOp::Mod => dst.checked_rem(src).unwrap_or(dst),
        AluOp::Smod if divisor == 0 => dst,
        AluOp::Smod => signed.wrapping_rem(divisor) as u32,
        AluOp::Xor => dst ^ src,
        AluOp::Mov => src,
        AluOp::Arsh => signed.wrapping_shr(src) as u32,
    }
}

/// The operation's meaning in native 64-bit arithmetic.
fn native64(op: AluOp, dst: u64, src: u64) -> u64 {
    let (signed, divisor) = (dst as i64, src as i64);
    match op {
        AluOp::Add => dst.wrapping_add(src),
        AluOp::Sub => dst.wrapping_sub(src),
        AluOp::Mul => dst.wrapping_mul(src),
        AluOp::Div => dst.checked_div(src).unwrap_or(0),
        AluOp::Sdiv if divisor == 0 => 0,
        AluOp::Sdiv => signed.wrapping_div(divisor) as u64,
        AluOp::Or => dst | src,
        AluOp::And => dst & src,
        AluOp::Lsh => dst.wrapping_shl(src as u32),
        AluOp::Rsh => dst.wrapping_shr(src as u32),
        AluOp::Mod => dst.checked_rem(src).unwrap_or(dst),
        AluOp::Smod if divisor == 0 => dst,
        AluOp::Smod => signed.wrapping_rem(divisor) as u64,
        AluOp::Xor => dst ^ src,
        AluOp::Mov => src,
        AluOp::Arsh => signed.wrapping_shr(src as u32) as u64,
    }
}

fn holds(op: JumpOp, dst: u64, src: u64, signed_dst: i64, signed_src: i64) -> bool {
    match op {
        JumpOp::Eq => dst == src,
        JumpOp::Gt => dst > src,
        JumpOp::Ge => dst >= src,
        JumpOp::Set => dst & src != 0,
        JumpOp::Ne => dst != src,
        JumpOp::Sgt => signed_dst > signed_src,
        JumpOp::Sge => signed_dst >= signed_src,
        JumpOp::Lt => dst < src,
        JumpOp::Le => dst <= src,
        JumpOp::Slt => signed_dst < signed_src,
        JumpOp::Sle => signed_dst <= signed_src,
    }
}

fn check_pair(dst: u64, src: u64) {
    for op in AluOp::ALL.iter().copied() {
        assert_eq!(alu(op, Width::W64, dst, src), native64(op, dst, src), "{op:?} 64 {dst:#x} {src:#x}");
        let expected = u64::from(native32(op, dst as u32, src as u32));
        assert_eq!(alu(op, Width::W32, dst, src), expected, "{op:?} 32 {dst:#x} {src:#x}");
    }
    for op in JumpOp::ALL.iter().copied() {
        let (d, s) = (Bits::new(64, dst), Bits::new(64, src));
        let wide = holds(op, dst, src, dst as i64, src as i64);
        assert_eq!(compare(op, Width::W64, &d, &s), wide, "{op:?} 64 {dst:#x} {src:#x}");
        let (low_dst, low_src) = (dst as u32, src as u32);
        let signed = (i64::from(low_dst as i32), i64::from(low_src as i32));
        let narrow = holds(op, low_dst.into(), low_src.into(), signed.0, signed.1);
        assert_eq!(compare(op, Width::W32, &d, &s), narrow, "{op:?} 32 {dst:#x} {src:#x}");
        let row = op.row();
        if let Some(negated) = row.negated {
            assert_eq!(compare(negated, Width::W64, &d, &s), !wide, "negation of {op:?}");
        }
        if let Some(swapped) = row.swapped {
            assert_eq!(compare(swapped, Width::W64, &s, &d), wide, "swap of {op:?}");
        }
    }
}

#[test]
fn corners_agree_with_native_arithmetic() {
    for dst in CORNERS {
        for src in CORNERS {
            check_pair(dst, src);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_values_agree_with_native_arithmetic(dst in any::<u64>(), src in any::<u64>(), shift in 0_u32..64) {
        check_pair(dst, src);
        check_pair(dst, src >> shift);
        check_pair(dst >> shift, src);
    }

    #[test]
    fn byte_swaps_agree(value in any::<u64>()) {
        prop_assert_eq!(Bits::new(16, value).swap_bytes().value(), u64::from((value as u16).swap_bytes()));
        prop_assert_eq!(Bits::new(32, value).swap_bytes().value(), u64::from((value as u32).swap_bytes()));
        prop_assert_eq!(Bits::new(64, value).swap_bytes().value(), value.swap_bytes());
    }

    #[test]
    fn extensions_agree(value in any::<u64>()) {
        let bits = Bits::new(64, value);
        prop_assert_eq!(bits.truncate(8).sign_extend(64).value(), value as i8 as i64 as u64);
        prop_assert_eq!(bits.truncate(16).sign_extend(32).value(), u64::from(value as i16 as i32 as u32));
        prop_assert_eq!(bits.truncate(32).zero_extend(64).value(), u64::from(value as u32));
    }

    #[test]
    fn atomics_agree(old in any::<u64>(), src in any::<u64>()) {
        let apply = |op: AtomicOp| op.apply(&Bits::new(64, old), &Bits::new(64, src)).value();
        prop_assert_eq!(apply(AtomicOp::Add), old.wrapping_add(src));
        prop_assert_eq!(apply(AtomicOp::Or), old | src);
        prop_assert_eq!(apply(AtomicOp::And), old & src);
        prop_assert_eq!(apply(AtomicOp::Xor), old ^ src);
        prop_assert_eq!(apply(AtomicOp::Exchange), src);
        prop_assert_eq!(apply(AtomicOp::CompareExchange), src);
    }
}

/// RFC 9669 section 4.1: division by zero gives zero, modulo by zero leaves the destination (its lower half, zero
/// extended, for 32 bits); the signed minimum divided by -1 is itself, with remainder zero.
#[test]
fn division_corners_of_the_rfc() {
    let value = 0x1234_5678_9abc_def0;
    for op in [AluOp::Div, AluOp::Sdiv] {
        assert_eq!(alu(op, Width::W64, value, 0), 0);
        assert_eq!(alu(op, Width::W32, value, 0xffff_ffff_0000_0000), 0);
    }
    for op in [AluOp::Mod, AluOp::Smod] {
        assert_eq!(alu(op, Width::W64, value, 0), value);
        assert_eq!(alu(op, Width::W32, value, 0), 0x9abc_def0);
    }
    let (minimum64, minimum32) = (1 << 63, 1 << 31);
    assert_eq!(alu(AluOp::Sdiv, Width::W64, minimum64, u64::MAX), minimum64);
    assert_eq!(alu(AluOp::Smod, Width::W64, minimum64, u64::MAX), 0);
    assert_eq!(alu(AluOp::Sdiv, Width::W32, minimum32, u64::MAX), minimum32);
    assert_eq!(alu(AluOp::Smod, Width::W32, minimum32, u64::MAX), 0);
    // Truncated, not floored: -13 / 3 is -4, -13 % 3 is -1.
    assert_eq!(alu(AluOp::Sdiv, Width::W64, (-13_i64) as u64, 3), (-4_i64) as u64);
    assert_eq!(alu(AluOp::Smod, Width::W64, (-13_i64) as u64, 3), (-1_i64) as u64);
}

/// RFC 9669 section 4.1: shift amounts are masked with 63 or 31.
#[test]
fn shift_amounts_are_masked() {
    assert_eq!(alu(AluOp::Lsh, Width::W64, 1, 65), 2);
    assert_eq!(alu(AluOp::Lsh, Width::W32, 1, 33), 2);
    assert_eq!(alu(AluOp::Rsh, Width::W32, 0xffff_ffff_0000_0004, 33), 2);
    assert_eq!(alu(AluOp::Arsh, Width::W32, 0x8000_0000, 63), 0xffff_ffff);
    assert_eq!(alu(AluOp::Arsh, Width::W64, 1 << 63, 127), u64::MAX);
}
