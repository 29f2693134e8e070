//! The machine instructions that rows of the operation table may use, and regions compiled by them.

use kiln_isa::operation::{Arch, Feature, Native, NativeOperand};
use kiln_isa::{Size, Width};
use kiln_program::operation::Region;

use super::assembler::Assembler;
use super::function::FunctionCompiler;
use super::fuse::Chain;
use super::operand::{Gpr, Memory, Shift, Unary};
use super::registers::{SCRATCH, SCRATCH2, gpr};
use crate::native::{Access, MachineInsn, Registers, prepare};

/// An instruction, its operands, its encoding.
type Row = MachineInsn<Assembler, Gpr>;

const fn row(name: &'static str, operands: &'static [Access], emit: fn(&mut Assembler, &[Gpr], u8)) -> Row {
    MachineInsn { name, operands, emit }
}

const MOVE: &[Access] = &[Access::Write, Access::Read];
const CHANGE: &[Access] = &[Access::Both];
const NOT: &[Access] = &[Access::Write, Access::Read, Access::Read];
const ROTATE_BY: &[Access] = &[Access::Both, Access::Read];

/// The instruction that computes an address, which a memory access can do by itself.
const LEA: &str = "lea64";

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
    row("andn32", NOT, |code, regs, _| code.and_not(Width::W32, regs[0], regs[1], regs[2])),
    row("andn64", NOT, |code, regs, _| code.and_not(Width::W64, regs[0], regs[1], regs[2])),
    row("movsxb32", MOVE, |code, regs, _| code.sign_extend(Size::B1, Width::W32, regs[0], regs[1])),
    row("movsxw32", MOVE, |code, regs, _| code.sign_extend(Size::B2, Width::W32, regs[0], regs[1])),
    row("movsxb64", MOVE, |code, regs, _| code.sign_extend(Size::B1, Width::W64, regs[0], regs[1])),
    row("movsxw64", MOVE, |code, regs, _| code.sign_extend(Size::B2, Width::W64, regs[0], regs[1])),
    row("movsxd64", MOVE, |code, regs, _| code.sign_extend(Size::B4, Width::W64, regs[0], regs[1])),
    // dst, base, index, the logarithm of the scale.
    row(LEA, &[Access::Write, Access::Read, Access::Read, Access::Imm(3)], |code, regs, imm| {
        code.lea(Width::W64, regs[0], Memory { base: regs[1], index: Some((regs[2], 1 << imm)), displacement: 0 });
    }),
    // The second operand is cl.
    row("rol32cl", ROTATE_BY, |code, regs, _| code.shift_cl(Shift::RotateLeft, Width::W32, regs[0])),
    row("rol64cl", ROTATE_BY, |code, regs, _| code.shift_cl(Shift::RotateLeft, Width::W64, regs[0])),
];

impl FunctionCompiler<'_, '_> {
    /// The native code of a region on this CPU.
    pub(super) fn native_of(&self, region: &Region) -> Option<&'static Native> {
        let options = self.shared.options;
        let has = |feature| match feature {
            Feature::Bmi1 => options.bmi1,
            Feature::Bmi2 => options.bmi2,
            Feature::Movbe => options.movbe,
        };
        region.operation.native(Arch::X86_64, has, &region.operands)
    }

    /// A region that computes an address, and the access right after it: the access alone, if nothing else reads the
    /// address. Returns how many instructions it covers.
    pub(super) fn addressed(&mut self, at: usize, region: &Region) -> Option<usize> {
        let [insn] = self.native_of(region)?.code else { return None };
        let [NativeOperand::Reg(dst), NativeOperand::Reg(base), NativeOperand::Reg(index), NativeOperand::Imm(scale)] =
            insn.operands
        else {
            return None;
        };
        let next = at + region.length;
        if insn.name != LEA || !self.shared.options.fusions || next >= self.nodes.len() || self.is_border(next) {
            return None;
        }
        let reg = |operand: u8| region.operands.reg(operand);
        let scale = 1 << u8::try_from(region.operands.imm(*scale)).ok().filter(|scale| *scale <= 3)?;
        let place = Memory { base: gpr(reg(*base)), index: Some((gpr(reg(*index)), scale)), displacement: 0 };
        let chain = Chain { place, register: reg(*dst), length: 0 };
        Some(region.length + self.access_at(next, self.run(next), Some(chain))?)
    }

    /// Compiles the region that begins here by the operation's native code; false where it has none on this CPU.
    pub(super) fn native(&mut self, region: &Region) -> bool {
        let Some(native) = self.native_of(region) else { return false };
        let registers = Registers { bpf: gpr, scratch: [SCRATCH, SCRATCH2] };
        let Some(insns) = prepare(native, region, TABLE, &registers) else { return false };
        insns.iter().for_each(|insn| insn.emit(self.code()));
        true
    }
}
