//! The machine instructions that rows of the operation table may use, and regions compiled by them.

use kiln_isa::Width;
use kiln_isa::operation::{Arch, Feature};
use kiln_program::operation::Region;

use super::assembler::Assembler;
use super::function::FunctionCompiler;
use super::operand::{Gpr, Shift, Unary};
use super::registers::{SCRATCH, SCRATCH2, gpr};
use crate::native::{Access, MachineInsn, Registers, prepare};

/// An instruction, its operands, its encoding.
type Row = MachineInsn<Assembler, Gpr>;

const fn row(name: &'static str, operands: &'static [Access], emit: fn(&mut Assembler, &[Gpr], u8)) -> Row {
    MachineInsn { name, operands, emit }
}

const MOVE: &[Access] = &[Access::Write, Access::Read];
const CHANGE: &[Access] = &[Access::Both];
const ROTATE_BY: &[Access] = &[Access::Both, Access::Read];

/// The table. Registers come before numbers.
const TABLE: &[Row] = &[
    row("mov32", MOVE, |code, regs, _| code.mov(Width::W32, regs[0], regs[1])),
    row("mov64", MOVE, |code, regs, _| code.mov(Width::W64, regs[0], regs[1])),
    row("neg32", CHANGE, |code, regs, _| code.unary(Unary::Neg, Width::W32, regs[0])),
    row("neg64", CHANGE, |code, regs, _| code.unary(Unary::Neg, Width::W64, regs[0])),
    row("rol32", &[Access::Both, Access::Imm(31)], |code, regs, imm| {
        code.shift_imm(Shift::RotateLeft, Width::W32, regs[0], imm);
    }),
    row("rol64", &[Access::Both, Access::Imm(63)], |code, regs, imm| {
        code.shift_imm(Shift::RotateLeft, Width::W64, regs[0], imm);
    }),
    row("rorx32", &[Access::Write, Access::Read, Access::Imm(31)], |code, regs, imm| {
        code.rotate_right(Width::W32, regs[0], regs[1], imm);
    }),
    row("rorx64", &[Access::Write, Access::Read, Access::Imm(63)], |code, regs, imm| {
        code.rotate_right(Width::W64, regs[0], regs[1], imm);
    }),
    // The second operand is cl.
    row("rol32cl", ROTATE_BY, |code, regs, _| code.shift_cl(Shift::RotateLeft, Width::W32, regs[0])),
    row("rol64cl", ROTATE_BY, |code, regs, _| code.shift_cl(Shift::RotateLeft, Width::W64, regs[0])),
];

impl FunctionCompiler<'_, '_> {
    /// Compiles the region that begins here by the operation's native code; false where it has none on this CPU.
    pub(super) fn native(&mut self, region: &Region) -> bool {
        let options = self.shared.options;
        let has = |feature| match feature {
            Feature::Bmi2 => options.bmi2,
            Feature::Movbe => options.movbe,
        };
        let Some(native) = region.operation.native(Arch::X86_64, has, &region.operands) else { return false };
        let registers = Registers { bpf: gpr, scratch: [SCRATCH, SCRATCH2] };
        let Some(insns) = prepare(native, region, TABLE, &registers) else { return false };
        insns.iter().for_each(|insn| insn.emit(self.code()));
        true
    }
}
