//! The machine instructions that rows of the operation table may use, and regions compiled by them.

use kiln_isa::operation::{Arch, Native, Operation};
use kiln_isa::{JumpOp, Size, Width};
use kiln_program::operation::Region;

use super::assembler::{Assembler, Condition, Gpr, Label, Op};
use super::control::{compare_imm, test_imm};
use super::function::FunctionCompiler;
use super::registers::{SCRATCH, gpr};
use crate::immediate::extended;
use crate::native::{Access, Emit, MachineInsn, Places, later_access, prepare};

/// An instruction, its operands, its encoding.
type Row = MachineInsn<Assembler, Gpr, Place>;

/// A register and what is added to it.
type Place = (Gpr, i32);

const fn row(name: &'static str, operands: &'static [Access], emit: fn(&mut Assembler, &[Gpr], u8)) -> Row {
    MachineInsn { name, operands, emit: Emit::Registers(emit) }
}

/// With an operand in memory. The first scratch register may hold its address.
const fn access(name: &'static str, operands: &'static [Access], emit: fn(&mut Assembler, &[Gpr], Place)) -> Row {
    MachineInsn { name, operands, emit: Emit::Memory(emit) }
}

/// With any number.
const fn number(name: &'static str, operands: &'static [Access], emit: fn(&mut Assembler, &[Gpr], i32)) -> Row {
    MachineInsn { name, operands, emit: Emit::Number(emit) }
}

/// With a comparison, of what was compared last.
const fn flag(name: &'static str, operands: &'static [Access], emit: fn(&mut Assembler, &[Gpr], JumpOp)) -> Row {
    MachineInsn { name, operands, emit: Emit::Comparison(emit) }
}

/// A branch out of the region by what was compared last.
const fn branch(name: &'static str, emit: fn(&mut Assembler, &[Gpr], JumpOp, Label)) -> Row {
    MachineInsn { name, operands: &[Access::Comparison], emit: Emit::Branch(emit) }
}

const LESS_NUMBER: &[Access] = &[Access::Write, Access::Read, Access::Number];
const COMPARE: &[Access] = &[Access::Read, Access::Read];
const COMPARE_NUMBER: &[Access] = &[Access::Read, Access::Number];
const LOAD: &[Access] = &[Access::Write, Access::Memory];
const STORE: &[Access] = &[Access::Memory, Access::Read];
const LOAD_PAIR: &[Access] = &[Access::Write, Access::Write, Access::Memory];
const STORE_PAIR: &[Access] = &[Access::Memory, Access::Read, Access::Read];

const ONE: &[Access] = &[Access::Write, Access::Read];
const TWO: &[Access] = &[Access::Write, Access::Read, Access::Read];

/// The table. Registers come before numbers.
const TABLE: &[Row] = &[
    row("mov32", ONE, |code, regs, _| code.mov(Width::W32, regs[0], regs[1])),
    row("mov64", ONE, |code, regs, _| code.mov(Width::W64, regs[0], regs[1])),
    row("neg32", ONE, |code, regs, _| code.op(Op::Sub, Width::W32, regs[0], Gpr::ZERO, regs[1])),
    row("neg64", ONE, |code, regs, _| code.op(Op::Sub, Width::W64, regs[0], Gpr::ZERO, regs[1])),
    row("bic32", TWO, |code, regs, _| code.op(Op::Bic, Width::W32, regs[0], regs[1], regs[2])),
    row("bic64", TWO, |code, regs, _| code.op(Op::Bic, Width::W64, regs[0], regs[1], regs[2])),
    row("sxtb32", ONE, |code, regs, _| code.sign_extend(Size::B1, Width::W32, regs[0], regs[1])),
    row("sxth32", ONE, |code, regs, _| code.sign_extend(Size::B2, Width::W32, regs[0], regs[1])),
    row("sxtb64", ONE, |code, regs, _| code.sign_extend(Size::B1, Width::W64, regs[0], regs[1])),
    row("sxth64", ONE, |code, regs, _| code.sign_extend(Size::B2, Width::W64, regs[0], regs[1])),
    row("sxtw64", ONE, |code, regs, _| code.sign_extend(Size::B4, Width::W64, regs[0], regs[1])),
    access("ldrh32", LOAD, |code, regs, (base, offset)| code.load(Size::B2, regs[0], base, offset, SCRATCH[0])),
    access("ldr32", LOAD, |code, regs, (base, offset)| code.load(Size::B4, regs[0], base, offset, SCRATCH[0])),
    access("ldr64", LOAD, |code, regs, (base, offset)| code.load(Size::B8, regs[0], base, offset, SCRATCH[0])),
    access("strh32", STORE, |code, regs, (base, offset)| code.store(Size::B2, regs[0], base, offset, SCRATCH[0])),
    access("str32", STORE, |code, regs, (base, offset)| code.store(Size::B4, regs[0], base, offset, SCRATCH[0])),
    access("str64", STORE, |code, regs, (base, offset)| code.store(Size::B8, regs[0], base, offset, SCRATCH[0])),
    access("ldp64", LOAD_PAIR, |code, regs, (base, offset)| {
        code.load_pair(regs[0], regs[1], base, offset, SCRATCH[0]);
    }),
    access("stp64", STORE_PAIR, |code, regs, (base, offset)| {
        code.store_pair(regs[0], regs[1], base, offset, SCRATCH[0]);
    }),
    // Of the zero register, twice.
    access("stpzr64", &[Access::Memory], |code, _, (base, offset)| {
        code.store_pair(Gpr::ZERO, Gpr::ZERO, base, offset, SCRATCH[0]);
    }),
    row("cmp32", COMPARE, |code, regs, _| code.op(Op::Subs, Width::W32, Gpr::ZERO, regs[0], regs[1])),
    row("cmp64", COMPARE, |code, regs, _| code.op(Op::Subs, Width::W64, Gpr::ZERO, regs[0], regs[1])),
    number("cmpi32", COMPARE_NUMBER, |code, regs, imm| compare_imm(code, Width::W32, regs[0], imm)),
    number("cmpi64", COMPARE_NUMBER, |code, regs, imm| compare_imm(code, Width::W64, regs[0], imm)),
    flag("cset32", &[Access::Write, Access::Comparison], |code, regs, op| code.set_if(Condition::of(op), regs[0])),
    // dst, what it is where the comparison holds, what it is where not.
    flag("csel64", &[Access::Write, Access::Read, Access::Read, Access::Comparison], |code, regs, op| {
        code.select(Condition::of(op), regs[0], regs[1], regs[2]);
    }),
    number("subi32", LESS_NUMBER, |code, regs, imm| less(code, Width::W32, regs[0], regs[1], imm)),
    number("subi64", LESS_NUMBER, |code, regs, imm| less(code, Width::W64, regs[0], regs[1], imm)),
    MachineInsn {
        name: "movset64",
        operands: &[Access::Write, Access::Set],
        emit: Emit::Set(|code, regs, set| code.constant(regs[0], set)),
    },
    row("lsrv64", TWO, |code, regs, _| code.op(Op::Lsr, Width::W64, regs[0], regs[1], regs[2])),
    // A number of one bit: each has an encoding.
    row("andi64", &[Access::Write, Access::Read, Access::Imm(1)], |code, regs, imm| {
        code.logical_imm(Op::And, Width::W64, regs[0], regs[1], imm.into());
    }),
    // What the second register is shifted by.
    row("cmplsl64", &[Access::Read, Access::Read, Access::Imm(63)], |code, regs, imm| {
        code.compare_shifted(Width::W64, regs[0], regs[1], imm.into());
    }),
    row("tst32", COMPARE, |code, regs, _| code.op(Op::Ands, Width::W32, Gpr::ZERO, regs[0], regs[1])),
    row("tst64", COMPARE, |code, regs, _| code.op(Op::Ands, Width::W64, Gpr::ZERO, regs[0], regs[1])),
    number("tsti32", COMPARE_NUMBER, |code, regs, imm| test_imm(code, Width::W32, regs[0], imm)),
    number("tsti64", COMPARE_NUMBER, |code, regs, imm| test_imm(code, Width::W64, regs[0], imm)),
    branch("bcond64", |code, _, op, out| code.jump_if(Condition::of(op), out)),
    row("prfm64", &[Access::Read], |code, regs, _| code.prefetch(regs[0])),
    row("dsbisb64", &[], |code, _, _| code.speculation_barrier()),
    row("reverse16", ONE, |code, regs, _| code.reverse_halves(regs[0], regs[1])),
    row("rev32", ONE, |code, regs, _| code.swap_bytes(Size::B4, regs[0], regs[1])),
    row("rev64", ONE, |code, regs, _| code.swap_bytes(Size::B8, regs[0], regs[1])),
    // dst, base, index, by how many bits the index is shifted.
    row("addlsl64", &[Access::Write, Access::Read, Access::Read, Access::Imm(3)], |code, regs, imm| {
        code.add_shifted(Width::W64, regs[0], regs[1], regs[2], imm.into());
    }),
    row("rorv32", TWO, |code, regs, _| code.op(Op::Ror, Width::W32, regs[0], regs[1], regs[2])),
    row("rorv64", TWO, |code, regs, _| code.op(Op::Ror, Width::W64, regs[0], regs[1], regs[2])),
    row("extr32", &[Access::Write, Access::Read, Access::Read, Access::Imm(31)], |code, regs, imm| {
        code.extract(Width::W32, regs[0], regs[1], regs[2], imm.into());
    }),
    row("extr64", &[Access::Write, Access::Read, Access::Read, Access::Imm(63)], |code, regs, imm| {
        code.extract(Width::W64, regs[0], regs[1], regs[2], imm.into());
    }),
];

/// `dst = src - number`.
fn less(code: &mut Assembler, width: Width, dst: Gpr, src: Gpr, number: i32) {
    match number {
        0..4096 => code.sub_imm(width, dst, src, number as u32),
        -4095..0 => code.add_imm(width, dst, src, number.unsigned_abs()),
        number => {
            code.constant(SCRATCH[0], extended(width, number));
            code.op(Op::Sub, width, dst, src, SCRATCH[0]);
        }
    }
}

/// What is wrong with a row's native code for this machine, if something is.
pub(crate) fn check(native: &Native, operation: &Operation) -> Result<(), String> {
    crate::native::check(native, operation, TABLE)
}

impl FunctionCompiler<'_, '_> {
    /// Compiles the region at `at` by the operation's native code; false where it has none.
    pub(super) fn native(&mut self, at: usize, region: &Region) -> bool {
        let Some(native) = region.operation.native(Arch::Aarch64, |_| false, &region.operands) else { return false };
        let memory = |base, offset: i16| (base, offset.into());
        let out = region.form.leaves().then(|| self.target(at + region.length - 1).ok()).flatten();
        let blind = self.shared.options.blind.is_some();
        let places = Places { bpf: gpr, scratch: [SCRATCH[0], SCRATCH[1]], memory, computed: None, out, blind };
        let Some(insns) = prepare(native, region, TABLE, &places) else { return false };
        for insn in insns {
            // A fault is the fault of the region's access.
            if insn.accesses_memory()
                && let Some(own) = later_access(self.nodes, at + 1..at + region.length)
            {
                self.shared.begin_insn(self.nodes[own].id, self.labels[own]);
            }
            insn.emit(self.code());
        }
        true
    }
}
