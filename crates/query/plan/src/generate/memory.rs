//! Numbers in memory of the kernel and of programs, read so that memory that is not there gives 0; and what programs have in
//! registers: parts of them, and their sums as addresses.

use kiln_isa::{AluOp, Insn, Reg, Size, Source as Operand};

use super::code::Code;
use super::failure::Failure;
use super::layout::{Origin, behind, size};
use super::writing::Writing;
use crate::table::{Read, Scalar};

impl Writing<'_> {
    /// Follows members from the address in R1, through kernel memory that may not be there.
    pub(super) fn behind(&self, code: &mut Code<'_>, path: &[Vec<(String, String)>]) -> Result<(), Failure> {
        let Origin::Hooks(types) = self.origin else { return Err(Failure::NotHere("kernel memory".to_owned())) };
        let found = behind(path, types).map_err(Failure::Kernel)?;
        for (step, offset) in found.offsets.iter().enumerate() {
            let scalar = if step + 1 == found.offsets.len() { found.scalar } else { Scalar::unsigned(8) };
            self.peek(code, *offset, scalar);
        }
        Ok(())
    }

    /// Loads what is behind the address in R1 into R1; 0 if it is not there.
    fn peek(&self, code: &mut Code<'_>, offset: u32, scalar: Scalar) {
        let at = self.frame.scratch;
        code.copy(Reg::R3, Reg::R1);
        code.alu(AluOp::Add, Reg::R3, Operand::Imm(i32::try_from(offset).unwrap_or(i32::MAX)));
        code.store(Size::B8, Reg::R10, at, Operand::Imm(0));
        code.frame_address(Reg::R1, at);
        code.push(Insn::mov_imm(Reg::R2, scalar.bytes.into()));
        code.call("probe_read_kernel");
        code.load(size(scalar), false, Reg::R1, Reg::R10, at);
    }

    /// Makes [`Read::Element`] in R1: what is in an array of pointers.
    pub(super) fn element(&self, code: &mut Code<'_>, array: &Read, index: &Read) -> Result<(), Failure> {
        self.value(code, array)?;
        code.store(Size::B8, Reg::R10, self.frame.scratch, Operand::Reg(Reg::R1));
        self.value(code, index)?;
        // A descriptor has 32 bits.
        code.alu(AluOp::Lsh, Reg::R1, Operand::Imm(32));
        code.alu(AluOp::Rsh, Reg::R1, Operand::Imm(29));
        code.load(Size::B8, false, Reg::R2, Reg::R10, self.frame.scratch);
        code.alu(AluOp::Add, Reg::R1, Operand::Reg(Reg::R2));
        self.peek(code, 0, Scalar::unsigned(8));
        Ok(())
    }

    /// Makes a number that a program has in R1.
    pub(super) fn of_program(&self, code: &mut Code<'_>, what: &Read) -> Result<(), Failure> {
        match what {
            Read::UserNumber { address, kind } => {
                self.value(code, address)?;
                self.peek_at_program(code, *kind);
            }
            Read::Cut { of, skip, kind } => {
                self.value(code, of)?;
                cut(code, *skip, *kind);
            }
            Read::Sum { of, more } => self.sum(code, of, *more)?,
            Read::Cookie => {
                code.copy(Reg::R1, Reg::R6);
                self.helper(code, "get_attach_cookie");
            }
            _ => return Err(Failure::NotHere("a number of a program".to_owned())),
        }
        Ok(())
    }

    /// Loads what is behind the program's address in R1 into R1; 0 if it is not there.
    fn peek_at_program(&self, code: &mut Code<'_>, kind: Scalar) {
        let at = self.frame.scratch;
        code.copy(Reg::R3, Reg::R1);
        code.store(Size::B8, Reg::R10, at, Operand::Imm(0));
        code.frame_address(Reg::R1, at);
        code.push(Insn::mov_imm(Reg::R2, kind.bytes.into()));
        code.call("probe_read_user");
        code.load(size(kind), kind.signed, Reg::R1, Reg::R10, at);
    }

    /// Makes a sum in R1; what is added up so far waits in the frame.
    fn sum(&self, code: &mut Code<'_>, of: &[(Read, u8)], more: i64) -> Result<(), Failure> {
        let at = self.frame.scratch;
        for (number, (read, shift)) in of.iter().enumerate() {
            if number > 0 {
                code.store(Size::B8, Reg::R10, at, Operand::Reg(Reg::R1));
            }
            self.value(code, read)?;
            if *shift > 0 {
                code.alu(AluOp::Lsh, Reg::R1, Operand::Imm((*shift).into()));
            }
            if number > 0 {
                code.load(Size::B8, false, Reg::R2, Reg::R10, at);
                code.alu(AluOp::Add, Reg::R1, Operand::Reg(Reg::R2));
            }
        }
        if more != 0 {
            code.constant(Reg::R2, more as u64);
            code.alu(AluOp::Add, Reg::R1, Operand::Reg(Reg::R2));
        }
        Ok(())
    }
}

/// Keeps a part of the number in R1.
fn cut(code: &mut Code<'_>, skip: u8, kind: Scalar) {
    let above = 64 - 8 * i32::from(kind.bytes) - i32::from(skip);
    let below = above + i32::from(skip);
    if above > 0 {
        code.alu(AluOp::Lsh, Reg::R1, Operand::Imm(above));
    }
    if below > 0 {
        let op = if kind.signed { AluOp::Arsh } else { AluOp::Rsh };
        code.alu(op, Reg::R1, Operand::Imm(below));
    }
}
