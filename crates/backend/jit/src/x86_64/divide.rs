//! Division and remainder.
//!
//! The machine divides rdx:rax, which are R3 and R0, and traps where BPF does not: on zero, and on the minimum
//! divided by -1. Division by a constant is a multiplication by its reciprocal instead (Granlund and Montgomery,
//! "Division by Invariant Integers using Multiplication", 1994):
//!
//! ```text
//!   x / 10 = x * 0xcccccccd >> 35                          for all x below 2^32
//!   x / 7  = (t + (x - t >> 1)) >> 2, t = x * 0x24924925 >> 32, whose multiplier has 33 bits
//! ```

use kiln_isa::{AluOp, Reg, Source, Width};

use super::function::{ColdKind, FunctionCompiler};
use super::operand::{Arithmetic, Condition, Gpr, Shift, Unary};
use super::registers::{SCRATCH, SCRATCH2, gpr};
use crate::immediate::extended;
use crate::shared::Assembly as _;

/// What the machine divides by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Divisor {
    Register(Gpr),
    Constant(u64),
}

/// How to divide by a constant: `x >> before`, multiplied, the product shifted right by the width and `after`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Reciprocal {
    /// The multiplier's lower `width` bits.
    multiplier: u64,
    /// Whether the multiplier has one bit more.
    carry: bool,
    before: u8,
    after: u8,
}

impl Reciprocal {
    /// For a divisor above 1 that is not a power of two, and 32-bit or 64-bit values.
    fn of(divisor: u64, bits: u32) -> Reciprocal {
        let before = divisor.trailing_zeros();
        Self::search(divisor, bits, bits)
            .or_else(|| {
                Self::search(divisor >> before, bits, bits - before).map(|it| Reciprocal { before: before as u8, ..it })
            })
            .unwrap_or_else(|| Self::with_carry(divisor, bits))
    }

    /// The smallest multiplier of at most `bits` bits that is exact for all numbers of `range` bits.
    fn search(divisor: u64, bits: u32, range: u32) -> Option<Reciprocal> {
        let wide = u128::from(divisor);
        (0..bits).find_map(|after| {
            let power = 1u128 << (bits + after);
            let multiplier = power.div_ceil(wide);
            let error = multiplier * wide - power;
            let exact = multiplier >> bits == 0 && error <= 1 << (bits + after - range);
            exact.then_some(Reciprocal { multiplier: multiplier as u64, carry: false, before: 0, after: after as u8 })
        })
    }

    fn with_carry(divisor: u64, bits: u32) -> Reciprocal {
        let after = u64::BITS - (divisor - 1).leading_zeros();
        // (2^(bits + after) / divisor) + 1, without its bit of weight 2^bits.
        let excess = ((1u128 << after) - u128::from(divisor)) << bits;
        let multiplier = (excess / u128::from(divisor) + 1) as u64;
        Reciprocal { multiplier, carry: true, before: 0, after: after as u8 }
    }
}

impl FunctionCompiler<'_, '_> {
    pub(super) fn divide(&mut self, op: AluOp, width: Width, dst: Reg, src: Source) {
        match src {
            Source::Reg(src) => self.divide_register(op, width, gpr(dst), gpr(src)),
            Source::Imm(imm) => self.divide_constant(op, width, gpr(dst), imm),
        }
    }

    fn divide_constant(&mut self, op: AluOp, width: Width, dst: Gpr, imm: i32) {
        let quotient = matches!(op, AluOp::Div | AluOp::Sdiv);
        let signed = matches!(op, AluOp::Sdiv | AluOp::Smod);
        match imm {
            // Dividing by zero gives zero; the remainder is what was to be divided.
            0 if quotient => self.code().constant(dst, 0),
            0 => self.copy(width, dst, dst),
            1 if quotient => self.copy(width, dst, dst),
            1 => self.code().constant(dst, 0),
            -1 if signed && quotient => self.code().unary(Unary::Neg, width, dst),
            -1 if signed => self.code().constant(dst, 0),
            _ if signed => self.divide_machine(op, width, dst, Divisor::Constant(extended(width, imm))),
            _ => self.divide_unsigned(quotient, width, dst, imm),
        }
    }

    fn divide_unsigned(&mut self, quotient: bool, width: Width, dst: Gpr, imm: i32) {
        let divisor = extended(width, imm);
        let op = if quotient { AluOp::Div } else { AluOp::Mod };
        if divisor.is_power_of_two() {
            let shift = divisor.trailing_zeros() as u8;
            match (quotient, imm) {
                (true, _) => self.code().shift_imm(Shift::RightLogical, width, dst, shift),
                // The sign bit alone: the mask does not fit an immediate of 64 bits otherwise.
                (false, i32::MIN) => self.code().arithmetic_imm(Arithmetic::And, Width::W32, dst, i32::MAX),
                (false, _) => self.code().arithmetic_imm(Arithmetic::And, Width::W32, dst, imm - 1),
            }
        } else if width == Width::W32 && imm > 0 {
            self.multiply_reciprocal32(quotient, dst, imm);
        } else if width == Width::W64 && imm > 0 && self.shared.options.bmi2 {
            self.multiply_reciprocal64(quotient, dst, imm);
        } else {
            self.divide_machine(op, width, dst, Divisor::Constant(divisor));
        }
    }

    fn multiply_reciprocal32(&mut self, quotient: bool, dst: Gpr, divisor: i32) {
        let reciprocal = Reciprocal::of(divisor as u64, 32);
        let code = self.code();
        code.mov(Width::W32, SCRATCH, dst);
        if reciprocal.before > 0 {
            code.shift_imm(Shift::RightLogical, Width::W32, SCRATCH, reciprocal.before);
        }
        if reciprocal.multiplier <= i32::MAX as u64 {
            code.multiply_imm(Width::W64, SCRATCH, SCRATCH, reciprocal.multiplier as i32);
        } else {
            code.constant(SCRATCH2, reciprocal.multiplier);
            code.multiply(Width::W64, SCRATCH, SCRATCH2);
        }
        if reciprocal.carry {
            code.shift_imm(Shift::RightLogical, Width::W64, SCRATCH, 32);
        } else {
            code.shift_imm(Shift::RightLogical, Width::W64, SCRATCH, 32 + reciprocal.after);
        }
        self.finish_reciprocal(reciprocal, quotient, Width::W32, dst, divisor);
    }

    fn multiply_reciprocal64(&mut self, quotient: bool, dst: Gpr, divisor: i32) {
        let reciprocal = Reciprocal::of(divisor as u64, 64);
        let keep_rdx = dst == Gpr::RDX || self.needed(Reg::R3);
        let code = self.code();
        if keep_rdx {
            code.mov(Width::W64, SCRATCH2, Gpr::RDX);
        }
        let number = if dst == Gpr::RDX { SCRATCH2 } else { dst };
        if reciprocal.before > 0 {
            code.mov(Width::W64, SCRATCH, number);
            code.shift_imm(Shift::RightLogical, Width::W64, SCRATCH, reciprocal.before);
        }
        code.constant(Gpr::RDX, reciprocal.multiplier);
        code.multiply_wide(SCRATCH, SCRATCH, if reciprocal.before > 0 { SCRATCH } else { number });
        if keep_rdx {
            code.mov(Width::W64, Gpr::RDX, SCRATCH2);
        }
        if !reciprocal.carry && reciprocal.after > 0 {
            code.shift_imm(Shift::RightLogical, Width::W64, SCRATCH, reciprocal.after);
        }
        self.finish_reciprocal(reciprocal, quotient, Width::W64, dst, divisor);
    }

    /// With the high half of the product in the scratch register: adds the multiplier's last bit, and computes the
    /// remainder from the quotient if it is wanted.
    fn finish_reciprocal(&mut self, reciprocal: Reciprocal, quotient: bool, width: Width, dst: Gpr, divisor: i32) {
        let code = self.code();
        if reciprocal.carry {
            code.mov(width, SCRATCH2, dst);
            code.arithmetic(Arithmetic::Sub, width, SCRATCH2, SCRATCH);
            code.shift_imm(Shift::RightLogical, width, SCRATCH2, 1);
            code.arithmetic(Arithmetic::Add, width, SCRATCH, SCRATCH2);
            if reciprocal.after > 1 {
                code.shift_imm(Shift::RightLogical, width, SCRATCH, reciprocal.after - 1);
            }
        }
        if quotient {
            code.mov(width, dst, SCRATCH);
        } else {
            code.multiply_imm(width, SCRATCH, SCRATCH, divisor);
            code.arithmetic(Arithmetic::Sub, width, dst, SCRATCH);
        }
    }

    fn divide_register(&mut self, op: AluOp, width: Width, dst: Gpr, src: Gpr) {
        let (zero, done) = (self.code().label(), self.code().label());
        self.code().test(width, src, src);
        self.code().jump_if(Condition::EQUAL, zero);
        let kind = match op {
            AluOp::Div | AluOp::Sdiv => Some(ColdKind::Zero(dst)),
            _ if width == Width::W32 => Some(ColdKind::ZeroExtend(dst)),
            _ => None,
        };
        let unchanged = kind.is_none();
        if let Some(kind) = kind {
            self.rare(zero, Some(done), kind);
        }
        if matches!(op, AluOp::Sdiv | AluOp::Smod) {
            let minus_one = self.code().label();
            self.code().arithmetic_imm(Arithmetic::Cmp, width, src, -1);
            self.code().jump_if(Condition::EQUAL, minus_one);
            let kind = if op == AluOp::Sdiv { ColdKind::Negate(width, dst) } else { ColdKind::Zero(dst) };
            self.rare(minus_one, Some(done), kind);
        }
        self.divide_machine(op, width, dst, Divisor::Register(src));
        if unchanged {
            self.code().bind(zero);
        }
        self.code().bind(done);
    }

    /// The machine's division; the divisor is neither 0 nor, signed, -1.
    pub(super) fn divide_machine(&mut self, op: AluOp, width: Width, dst: Gpr, divisor: Divisor) {
        let is = |gpr| divisor == Divisor::Register(gpr);
        let keep_rax = dst != Gpr::RAX && self.needed(Reg::R0);
        let keep_rdx = dst != Gpr::RDX && self.needed(Reg::R3);
        let code = self.code();
        if keep_rax || is(Gpr::RAX) {
            code.mov(Width::W64, SCRATCH, Gpr::RAX);
        }
        if keep_rdx || is(Gpr::RDX) {
            code.mov(Width::W64, SCRATCH2, Gpr::RDX);
        }
        if dst != Gpr::RAX {
            code.mov(width, Gpr::RAX, dst);
        }
        let divisor = match (divisor, dst) {
            (Divisor::Register(Gpr::RAX), _) => SCRATCH,
            (Divisor::Register(Gpr::RDX), _) => SCRATCH2,
            (Divisor::Register(other), _) => other,
            // Some register is free: the scratch that saves nothing, or the destination.
            (Divisor::Constant(value), dst) => {
                let free = match dst {
                    Gpr::RAX => SCRATCH,
                    Gpr::RDX => SCRATCH2,
                    other => other,
                };
                code.constant(free, value);
                free
            }
        };
        if matches!(op, AluOp::Sdiv | AluOp::Smod) {
            code.sign_into_rdx(width);
            code.unary(Unary::Idiv, width, divisor);
        } else {
            code.constant(Gpr::RDX, 0);
            code.unary(Unary::Div, width, divisor);
        }
        let result = if matches!(op, AluOp::Div | AluOp::Sdiv) { Gpr::RAX } else { Gpr::RDX };
        if dst != result {
            code.mov(Width::W64, dst, result);
        }
        if keep_rax {
            code.mov(Width::W64, Gpr::RAX, SCRATCH);
        }
        if keep_rdx {
            code.mov(Width::W64, Gpr::RDX, SCRATCH2);
        }
    }
}
