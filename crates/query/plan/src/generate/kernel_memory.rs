//! Numbers behind pointers of the kernel's, read so that memory that is not there gives 0.

use kiln_isa::{AluOp, Insn, Reg, Size, Source as Operand};

use super::code::Code;
use super::failure::Failure;
use super::layout::{Origin, behind, size};
use super::operators::Writing;
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
}
