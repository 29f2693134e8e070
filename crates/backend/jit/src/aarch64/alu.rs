//! Arithmetic, moves, shifts, byte order.

use kiln_isa::{AluOp, ByteOrder, Reg, Size, Source, Width};

use super::assembler::{Gpr, Op};
use super::function::FunctionCompiler;
use super::registers::{SCRATCH, gpr};
use crate::immediate::{ShiftedSum, extended};
use crate::walk::LowerArithmetic;

/// Immediates of additions and comparisons are below this.
const IMM_LIMIT: i64 = 4096;

impl LowerArithmetic for FunctionCompiler<'_, '_> {
    fn negate(&mut self, width: Width, dst: Reg) {
        let dst = gpr(dst);
        self.code().op(Op::Sub, width, dst, Gpr::ZERO, dst);
    }

    fn move_sign_extend(&mut self, width: Width, from: Size, dst: Reg, src: Reg) {
        self.code().sign_extend(from, width, gpr(dst), gpr(src));
    }

    fn alu(&mut self, op: AluOp, width: Width, dst: Reg, src: Source) {
        let to = gpr(dst);
        match (op, src) {
            (AluOp::Mov, Source::Imm(imm)) => self.code().constant(to, extended(width, imm)),
            (op, Source::Imm(imm)) if self.hides(imm) && !matches!(op, AluOp::Lsh | AluOp::Rsh | AluOp::Arsh) => {
                self.code().constant(SCRATCH[0], extended(width, imm));
                self.operate(op, width, to, SCRATCH[0]);
            }
            (AluOp::Mov, Source::Reg(src)) => self.code().mov(width, to, gpr(src)),
            (AluOp::Add, Source::Imm(imm)) => self.add_constant(width, to, imm.into()),
            (AluOp::Sub, Source::Imm(imm)) => self.add_constant(width, to, -i64::from(imm)),
            (AluOp::Lsh | AluOp::Rsh | AluOp::Arsh, Source::Imm(imm)) => {
                let amount = imm as u32 & (width.bits() - 1);
                self.code().shift_imm(machine(op), width, to, to, amount);
            }
            (AluOp::And | AluOp::Or | AluOp::Xor, Source::Imm(imm)) => {
                let value = extended(width, imm);
                if !self.code().logical_imm(machine(op), width, to, to, value) {
                    self.code().constant(SCRATCH[0], value);
                    self.code().op(machine(op), width, to, to, SCRATCH[0]);
                }
            }
            (AluOp::Mul, Source::Imm(imm)) => self.multiply_imm(width, to, imm),
            (_, Source::Imm(imm)) => {
                self.code().constant(SCRATCH[0], extended(width, imm));
                self.operate(op, width, to, SCRATCH[0]);
            }
            (_, Source::Reg(src)) => self.operate(op, width, to, gpr(src)),
        }
    }

    fn endian(&mut self, order: ByteOrder, size: Size, dst: Reg) {
        let to = gpr(dst);
        match (order, size) {
            (ByteOrder::Little, Size::B8) => {}
            (ByteOrder::Little, size) => self.code().zero_extend(size, to, to),
            (_, size) => self.code().swap_bytes(size, to, to),
        }
    }
}

impl FunctionCompiler<'_, '_> {
    fn operate(&mut self, op: AluOp, width: Width, dst: Gpr, src: Gpr) {
        match op {
            AluOp::Mul => self.code().multiply(width, dst, dst, src),
            AluOp::Mod | AluOp::Smod => {
                // With a divisor of zero the quotient is zero and the remainder is the dividend, as BPF defines it.
                let division = if op == AluOp::Mod { Op::Udiv } else { Op::Sdiv };
                self.code().op(division, width, SCRATCH[1], dst, src);
                self.code().multiply_subtract(width, dst, SCRATCH[1], src, dst);
            }
            _ => self.code().op(machine(op), width, dst, dst, src),
        }
    }

    /// A multiplication takes three cycles and its constant an instruction, a shift and a sum take two.
    fn multiply_imm(&mut self, width: Width, dst: Gpr, imm: i32) {
        let scratch = SCRATCH[0];
        match ShiftedSum::of(imm) {
            Some(ShiftedSum { shift, difference: false }) => {
                self.code().add_shifted(width, dst, dst, dst, shift.into());
            }
            Some(ShiftedSum { shift, difference: true }) => {
                self.code().shift_imm(Op::Lsl, width, scratch, dst, shift.into());
                self.code().op(Op::Sub, width, dst, scratch, dst);
            }
            None if imm > 0 && imm.count_ones() == 1 => {
                self.code().shift_imm(Op::Lsl, width, dst, dst, imm.trailing_zeros());
            }
            None => {
                self.code().constant(scratch, extended(width, imm));
                self.code().multiply(width, dst, dst, scratch);
            }
        }
    }

    fn add_constant(&mut self, width: Width, dst: Gpr, value: i64) {
        match value {
            0..IMM_LIMIT => self.code().add_imm(width, dst, dst, value as u32),
            -4095..0 => self.code().sub_imm(width, dst, dst, -value as u32),
            _ => {
                let value = if width == Width::W32 { value as u32 as u64 } else { value as u64 };
                self.code().constant(SCRATCH[0], value);
                self.code().op(Op::Add, width, dst, dst, SCRATCH[0]);
            }
        }
    }
}

/// The machine's operation, if there is a single one.
fn machine(op: AluOp) -> Op {
    match op {
        AluOp::Add => Op::Add,
        AluOp::Sub => Op::Sub,
        AluOp::And => Op::And,
        AluOp::Or | AluOp::Mov | AluOp::Mul | AluOp::Mod | AluOp::Smod => Op::Or,
        AluOp::Xor => Op::Xor,
        AluOp::Div => Op::Udiv,
        AluOp::Sdiv => Op::Sdiv,
        AluOp::Lsh => Op::Lsl,
        AluOp::Rsh => Op::Lsr,
        AluOp::Arsh => Op::Asr,
    }
}
