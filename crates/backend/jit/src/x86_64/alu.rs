//! Arithmetic, moves, shifts, byte order.

use kiln_isa::{AluOp, ByteOrder, Reg, Size, Source, Width};

use super::function::FunctionCompiler;
use super::operand::{Arithmetic, Gpr, Memory, Shift, Unary};
use super::registers::{SCRATCH2, gpr};
use crate::immediate::{ShiftedSum, extended};
use crate::walk::LowerArithmetic;

impl LowerArithmetic for FunctionCompiler<'_, '_> {
    fn move_sign_extend(&mut self, width: Width, from: Size, dst: Reg, src: Reg) {
        self.code().sign_extend(from, width, gpr(dst), gpr(src));
    }

    fn alu(&mut self, op: AluOp, width: Width, dst: Reg, src: Source) {
        let to = gpr(dst);
        match (op, src) {
            (op, Source::Imm(imm)) if self.hides(imm) && self.hidden_alu(op, width, to, imm) => {}
            (AluOp::Add, src) => self.arithmetic(Arithmetic::Add, width, to, src),
            (AluOp::Sub, src) => self.arithmetic(Arithmetic::Sub, width, to, src),
            (AluOp::Or, src) => self.arithmetic(Arithmetic::Or, width, to, src),
            (AluOp::Xor, src) => self.arithmetic(Arithmetic::Xor, width, to, src),
            (AluOp::And, Source::Imm(imm)) => self.and_imm(width, to, imm),
            (AluOp::And, src) => self.arithmetic(Arithmetic::And, width, to, src),
            (AluOp::Mov, Source::Reg(Reg::R10)) if self.shared.plan.base => {
                self.code().lea(width, to, Memory::at(gpr(Reg::R10), 0));
            }
            (AluOp::Mov, Source::Reg(src)) => self.copy(width, to, gpr(src)),
            (AluOp::Mov, Source::Imm(imm)) => self.code().constant(to, extended(width, imm)),
            (AluOp::Mul, Source::Reg(src)) => self.code().multiply(width, to, gpr(src)),
            (AluOp::Mul, Source::Imm(imm)) => self.multiply_imm(width, to, to, imm),
            (AluOp::Lsh, src) => self.shift(Shift::Left, width, dst, src),
            (AluOp::Rsh, src) => self.shift(Shift::RightLogical, width, dst, src),
            (AluOp::Arsh, src) => self.shift(Shift::RightArithmetic, width, dst, src),
            (AluOp::Div | AluOp::Mod | AluOp::Sdiv | AluOp::Smod, src) => self.divide(op, width, dst, src),
        }
    }

    fn negate(&mut self, width: Width, dst: Reg) {
        self.code().unary(Unary::Neg, width, gpr(dst));
    }

    fn endian(&mut self, order: ByteOrder, size: Size, dst: Reg) {
        let to = gpr(dst);
        match (order, size) {
            (ByteOrder::Little, Size::B8) => {}
            (ByteOrder::Little, size) => self.code().zero_extend(size, to, to),
            (_, Size::B8) => self.code().swap_bytes(Width::W64, to),
            (_, Size::B4) => self.code().swap_bytes(Width::W32, to),
            (_, _) => {
                self.code().swap_bytes(Width::W32, to);
                self.code().shift_imm(Shift::RightLogical, Width::W32, to, 16);
            }
        }
    }
}

impl FunctionCompiler<'_, '_> {
    fn arithmetic(&mut self, op: Arithmetic, width: Width, dst: Gpr, src: Source) {
        match src {
            Source::Reg(src) => self.code().arithmetic(op, width, dst, gpr(src)),
            Source::Imm(0) => self.copy(width, dst, dst),
            // 128 has no short form, -128 has.
            Source::Imm(128) if op == Arithmetic::Add => {
                self.code().arithmetic_imm(Arithmetic::Sub, width, dst, -128);
            }
            Source::Imm(128) if op == Arithmetic::Sub => {
                self.code().arithmetic_imm(Arithmetic::Add, width, dst, -128);
            }
            Source::Imm(imm) => self.code().arithmetic_imm(op, width, dst, imm),
        }
    }

    fn and_imm(&mut self, width: Width, dst: Gpr, imm: i32) {
        match imm {
            0 => self.code().constant(dst, 0),
            0xff => self.code().zero_extend(Size::B1, dst, dst),
            0xffff => self.code().zero_extend(Size::B2, dst, dst),
            -1 => self.copy(width, dst, dst),
            // A positive mask clears the upper half, as 32-bit operations do.
            _ => self.code().arithmetic_imm(Arithmetic::And, if imm > 0 { Width::W32 } else { width }, dst, imm),
        }
    }

    /// `dst = src * imm`.
    pub(super) fn multiply_imm(&mut self, width: Width, dst: Gpr, src: Gpr, imm: i32) {
        match imm {
            0 => self.code().constant(dst, 0),
            1 => self.copy(width, dst, src),
            -1 => {
                if dst != src {
                    self.code().mov(width, dst, src);
                }
                self.code().unary(Unary::Neg, width, dst);
            }
            3 | 5 | 9 => {
                let place = Memory { base: src, index: Some((src, (imm - 1) as u8)), displacement: 0 };
                self.code().lea(width, dst, place);
            }
            _ if imm > 0 && imm.count_ones() == 1 => {
                if dst != src {
                    self.code().mov(width, dst, src);
                }
                self.code().shift_imm(Shift::Left, width, dst, imm.trailing_zeros() as u8);
            }
            _ => match ShiftedSum::of(imm) {
                Some(sum) => self.multiply_by_shift(width, dst, src, sum),
                None => self.code().multiply_imm(width, dst, src, imm),
            },
        }
    }

    /// A multiplication takes three cycles, a shift and a sum take two.
    fn multiply_by_shift(&mut self, width: Width, dst: Gpr, src: Gpr, sum: ShiftedSum) {
        let (copy, added) = if dst == src { (SCRATCH2, SCRATCH2) } else { (dst, src) };
        let operation = if sum.difference { Arithmetic::Sub } else { Arithmetic::Add };
        self.code().mov(width, copy, src);
        self.code().shift_imm(Shift::Left, width, dst, sum.shift);
        self.code().arithmetic(operation, width, dst, added);
    }

    fn shift(&mut self, shift: Shift, width: Width, dst: Reg, src: Source) {
        let to = gpr(dst);
        match src {
            Source::Imm(imm) => match imm as u32 & (width.bits() - 1) {
                0 => self.copy(width, to, to),
                amount => self.code().shift_imm(shift, width, to, amount as u8),
            },
            Source::Reg(src) => self.shift_register(shift, width, to, gpr(src)),
        }
    }

    fn shift_register(&mut self, shift: Shift, width: Width, dst: Gpr, amount: Gpr) {
        if self.shared.options.bmi2 {
            self.code().shift_variable(shift, width, dst, dst, amount);
        } else if amount == Gpr::RCX && dst != Gpr::RCX {
            self.code().shift_cl(shift, width, dst);
        } else if dst == Gpr::RCX {
            // Shift a copy, in the register that is free.
            self.code().mov(Width::W64, SCRATCH2, dst);
            self.copy(Width::W64, Gpr::RCX, amount);
            self.code().shift_cl(shift, width, SCRATCH2);
            self.code().mov(Width::W64, Gpr::RCX, SCRATCH2);
        } else {
            self.code().mov(Width::W64, SCRATCH2, Gpr::RCX);
            self.code().mov(Width::W32, Gpr::RCX, amount);
            self.code().shift_cl(shift, width, dst);
            self.code().mov(Width::W64, Gpr::RCX, SCRATCH2);
        }
    }
}
