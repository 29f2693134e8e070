//! The machine instructions that rows of the operation table may use, and regions compiled by them.

use kiln_isa::operation::{Arch, Feature, Native, NativeOperand, Operation};
use kiln_isa::{JumpOp, Reg, Size, Width};
use kiln_program::operation::Region;

use super::assembler::{Assembler, Label};
use super::control::compare_imm;
use super::function::FunctionCompiler;
use super::fuse::Chain;
use super::operand::{Arithmetic, Condition, Gpr, Memory, Shift, Unary};
use super::registers::{SCRATCH, SCRATCH2, gpr};
use crate::native::{Access, Emit, MachineInsn, Places, later_access, prepare};
use crate::walk::Frame as _;

/// An instruction, its operands, its encoding.
type Row = MachineInsn<Assembler, Gpr, Memory>;

const fn row(name: &'static str, operands: &'static [Access], emit: fn(&mut Assembler, &[Gpr], u8)) -> Row {
    MachineInsn { name, operands, emit: Emit::Registers(emit) }
}

/// With an operand in memory.
const fn access(name: &'static str, operands: &'static [Access], emit: fn(&mut Assembler, &[Gpr], Memory)) -> Row {
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

/// Arithmetic with an operand in memory.
macro_rules! with_memory {
    ($name:literal, $operation:ident, $width:ident) => {
        access($name, CHANGE_BY, |code, regs, place| {
            code.arithmetic_load(Arithmetic::$operation, Width::$width, regs[0], place);
        })
    };
}

const COMPARE: &[Access] = &[Access::Read, Access::Read];
const COMPARE_NUMBER: &[Access] = &[Access::Read, Access::Number];
const LESS_NUMBER: &[Access] = &[Access::Write, Access::Read, Access::Number];
const LOAD: &[Access] = &[Access::Write, Access::Memory];
const STORE: &[Access] = &[Access::Memory, Access::Read];
const CHANGE_BY: &[Access] = &[Access::Both, Access::Memory];

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
    access("movzxw32", LOAD, |code, regs, place| code.load(Size::B2, regs[0], place)),
    access("movbe32", LOAD, |code, regs, place| code.load_swapped(Width::W32, regs[0], place)),
    access("movbe64", LOAD, |code, regs, place| code.load_swapped(Width::W64, regs[0], place)),
    access("movbestorew32", STORE, |code, regs, place| code.store_swapped(Size::B2, place, regs[0])),
    access("movbestore32", STORE, |code, regs, place| code.store_swapped(Size::B4, place, regs[0])),
    access("movbestore64", STORE, |code, regs, place| code.store_swapped(Size::B8, place, regs[0])),
    // The JIT's vector register, and its 16 bytes; the address need not be aligned.
    row("xorps32", &[], |code, _, _| code.clear_vector()),
    access("movups32", &[Access::Memory], |code, _, place| code.store_vector(place)),
    access("imulm32", CHANGE_BY, |code, regs, place| code.multiply(Width::W32, regs[0], place)),
    access("imulm64", CHANGE_BY, |code, regs, place| code.multiply(Width::W64, regs[0], place)),
    with_memory!("addm32", Add, W32),
    with_memory!("addm64", Add, W64),
    with_memory!("subm32", Sub, W32),
    with_memory!("subm64", Sub, W64),
    with_memory!("andm32", And, W32),
    with_memory!("andm64", And, W64),
    with_memory!("orm32", Or, W32),
    with_memory!("orm64", Or, W64),
    with_memory!("xorm32", Xor, W32),
    with_memory!("xorm64", Xor, W64),
    // Of the lowest two bytes; the others are kept.
    row("rolw32", &[Access::Both, Access::Imm(15)], |code, regs, imm| code.rotate_low_bytes(regs[0], imm)),
    row("zero32", &[Access::Write], |code, regs, _| code.constant(regs[0], 0)),
    row("cmp32", COMPARE, |code, regs, _| code.arithmetic(Arithmetic::Cmp, Width::W32, regs[0], regs[1])),
    row("cmp64", COMPARE, |code, regs, _| code.arithmetic(Arithmetic::Cmp, Width::W64, regs[0], regs[1])),
    number("cmpi32", COMPARE_NUMBER, |code, regs, imm| compare_imm(code, Width::W32, regs[0], imm)),
    number("cmpi64", COMPARE_NUMBER, |code, regs, imm| compare_imm(code, Width::W64, regs[0], imm)),
    flag("setcc32", &[Access::Both, Access::Comparison], |code, regs, op| code.set_if(Condition::of(op), regs[0])),
    // Where the comparison does not hold.
    flag("cmovncc64", &[Access::Both, Access::Read, Access::Comparison], |code, regs, op| {
        code.move_if(Condition::of(op).opposite(), regs[0], regs[1]);
    }),
    // dst, what is less by a number.
    number("leaminus32", LESS_NUMBER, |code, regs, imm| code.lea(Width::W32, regs[0], less(regs[1], imm))),
    number("leaminus64", LESS_NUMBER, |code, regs, imm| code.lea(Width::W64, regs[0], less(regs[1], imm))),
    MachineInsn {
        name: "movset64",
        operands: &[Access::Write, Access::Set],
        emit: Emit::Set(|code, regs, set| code.constant(regs[0], set)),
    },
    // A set, the number of a bit modulo 64.
    row("bt64", COMPARE, |code, regs, _| code.bit_test(regs[0], regs[1])),
    // Less itself and the carry flag.
    row("sbb32", &[Access::Write], |code, regs, _| code.arithmetic(Arithmetic::Sbb, Width::W32, regs[0], regs[0])),
    row("andi32", &[Access::Both, Access::Imm(127)], |code, regs, imm| {
        code.arithmetic_imm(Arithmetic::And, Width::W32, regs[0], imm.into());
    }),
    row("test32", COMPARE, |code, regs, _| code.test(Width::W32, regs[0], regs[1])),
    row("test64", COMPARE, |code, regs, _| code.test(Width::W64, regs[0], regs[1])),
    number("testi32", COMPARE_NUMBER, |code, regs, imm| code.test_imm(Width::W32, regs[0], imm)),
    number("testi64", COMPARE_NUMBER, |code, regs, imm| code.test_imm(Width::W64, regs[0], imm)),
    branch("jcc64", |code, _, op, out| code.jump_if(Condition::of(op), out)),
    row("prefetch64", &[Access::Read], |code, regs, _| code.prefetch(Memory::at(regs[0], 0))),
    row("lfence64", &[], |code, _, _| code.load_fence()),
    // The second operand is cl.
    row("rol32cl", ROTATE_BY, |code, regs, _| code.shift_cl(Shift::RotateLeft, Width::W32, regs[0])),
    row("rol64cl", ROTATE_BY, |code, regs, _| code.shift_cl(Shift::RotateLeft, Width::W64, regs[0])),
];

/// The address that is a register less a number.
const fn less(base: Gpr, number: i32) -> Memory {
    Memory::at(base, number.wrapping_neg())
}

/// What is wrong with a row's native code for this machine, if something is.
pub(crate) fn check(native: &Native, operation: &Operation) -> Result<(), String> {
    crate::native::check(native, operation, TABLE)
}

impl FunctionCompiler<'_, '_> {
    /// The native code of a region on this CPU.
    pub(super) fn native_of(&self, region: &Region) -> Option<&'static Native> {
        let options = self.shared.options;
        let has = |feature| match feature {
            Feature::Bmi1 => options.bmi1,
            Feature::Bmi2 => options.bmi2,
            Feature::Movbe => options.movbe,
        };
        let native = region.operation.native(Arch::X86_64, has, &region.operands)?;
        // Where no register holds the frame pointer, it can only be the base of an operand in memory.
        let frame = |operand: &NativeOperand| match operand {
            NativeOperand::Reg(of) => region.operands.reg(*of) == Reg::R10,
            NativeOperand::Bpf(number) => *number == Reg::R10.number(),
            _ => false,
        };
        let names_frame = self.shared.plan.base && native.code.iter().flat_map(|insn| insn.operands).any(frame);
        (!names_frame).then_some(native)
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
        if insn.name != LEA || !self.shared.options.fusions || next >= self.nodes.len() || self.targets.is_target(next)
        {
            return None;
        }
        let reg = |operand: u8| region.operands.reg(operand);
        let scale = 1 << u8::try_from(region.operands.imm(*scale)).ok().filter(|scale| *scale <= 3)?;
        let place = Memory { base: gpr(reg(*base)), index: Some((gpr(reg(*index)), scale)), displacement: 0 };
        let chain = Chain { place, register: reg(*dst), length: 0 };
        if self.clears_upper_half(self.nodes.get(next), chain.register) {
            self.code().lea(Width::W32, gpr(chain.register), chain.place);
            return Some(region.length + 1);
        }
        let covered = if self.is_border(next) {
            self.accessed(next, &chain)?
        } else {
            self.access_at(next, self.run(next), Some(chain))?
        };
        Some(region.length + covered)
    }

    /// Compiles the region at `at` by the operation's native code; false where it has none on this CPU. `computed` is the
    /// memory that it accesses, if its address is computed on the way.
    pub(super) fn native(&mut self, at: usize, region: &Region, computed: Option<Memory>) -> bool {
        let Some(native) = self.native_of(region) else { return false };
        let memory = |base, offset: i16| Memory::at(base, offset.into());
        let out = region.form.leaves().then(|| self.target(at + region.length - 1).ok()).flatten();
        let blind = self.shared.options.blind.is_some();
        let places = Places { bpf: gpr, scratch: [SCRATCH, SCRATCH2], memory, computed, out, blind };
        let Some(insns) = prepare(native, region, TABLE, &places) else { return false };
        for insn in insns {
            // A fault is the fault of the region's access.
            if insn.accesses_memory()
                && let Some(own) = later_access(self.nodes, at + usize::from(computed.is_none())..at + region.length)
            {
                self.shared.begin_insn(self.nodes[own].id, self.labels[own]);
            }
            insn.emit(self.code());
        }
        true
    }

    /// A region that accesses memory, at the address that the instructions before it computed: the access alone, if
    /// nothing else reads the address. Returns how many instructions the region has.
    pub(super) fn accessed(&mut self, at: usize, chain: &Chain) -> Option<usize> {
        let region = self.regions.get(&at)?;
        let native = self.native_of(region)?;
        let members = at..at + region.length;
        if self.targets.is_target(at) || members.clone().any(|at| self.in_arena(at)) {
            return None;
        }
        let holds_address = |operand: &NativeOperand| matches!(operand, NativeOperand::Reg(index) if region.operands.reg(*index) == chain.register);
        let [first, ..] = native.code else { return None };
        let (base, offset) = first.operands.iter().find_map(|operand| match operand {
            NativeOperand::Memory(base, offset) => Some((region.operands.reg(*base), *offset)),
            _ => None,
        })?;
        let is_overwritten = match first.operands {
            [dst, NativeOperand::Memory(..)] => {
                let known = TABLE.iter().find(|known| known.name == first.name)?;
                holds_address(dst) && known.operands.first() == Some(&Access::Write)
            }
            _ => false,
        };
        let is_read = native.code.iter().flat_map(|insn| insn.operands).any(holds_address);
        let is_gone = is_overwritten || !is_read && !self.lives_after(members.end - 1, chain.register);
        if base != chain.register || !is_gone {
            return None;
        }
        let displacement = i32::try_from(region.operands.imm(offset)).ok()?;
        let displacement = chain.place.displacement.checked_add(displacement)?;
        self.native(at, region, Some(Memory { displacement, ..chain.place })).then_some(region.length)
    }
}
