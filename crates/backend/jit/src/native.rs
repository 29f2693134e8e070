//! Native code of operations: from a row's machine instructions to calls of an assembler.
//!
//! Each machine has a table of the instructions that rows may use, by name: which operands each reads and writes, and
//! how it is encoded. A row that names another instruction, or writes what it may not, has no native code on that
//! machine, and its proof sequence is compiled.

use kiln_isa::operation::{Native, NativeOperand, OperandKind};
use kiln_isa::{JumpOp, Reg};
use kiln_program::Node;
use kiln_program::operation::Region;

use crate::shared::Assembly;

/// What an instruction does with an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// A register that it reads.
    Read,
    /// A register that it writes.
    Write,
    /// A register that it reads and writes.
    Both,
    /// A number from 0 to this one.
    Imm(u8),
    /// Any number.
    Number,
    /// A comparison.
    Comparison,
    /// A set of numbers.
    Set,
    /// Memory that it reads or writes.
    Memory,
}

/// How an instruction is emitted. Registers are in the order of the operands.
pub(crate) enum Emit<A: Assembly, R, M> {
    /// With registers and a number, if it has one.
    Registers(fn(code: &mut A, regs: &[R], imm: u8)),
    /// With registers and any number.
    Number(fn(code: &mut A, regs: &[R], imm: i32)),
    /// With registers and a comparison.
    Comparison(fn(code: &mut A, regs: &[R], comparison: JumpOp)),
    /// With registers and memory.
    Memory(fn(code: &mut A, regs: &[R], place: M)),
    /// With registers and a set.
    Set(fn(code: &mut A, regs: &[R], set: u64)),
    /// A branch out of the region, by a comparison.
    Branch(fn(code: &mut A, regs: &[R], comparison: JumpOp, out: A::Label)),
}

/// An instruction that rows may use.
pub(crate) struct MachineInsn<A: Assembly, R, M> {
    /// Its name in rows.
    pub name: &'static str,
    /// Its operands.
    pub operands: &'static [Access],
    /// Emits it.
    pub emit: Emit<A, R, M>,
}

/// Where the operands of a region live on a machine.
pub(crate) struct Places<R, M, L> {
    pub bpf: fn(Reg) -> R,
    pub scratch: [R; 2],
    /// The memory at a register plus a number.
    pub memory: fn(R, i16) -> M,
    /// The memory that the region accesses, if its address is computed on the way.
    pub computed: Option<M>,
    /// Where the region leaves to, if it leaves.
    pub out: Option<L>,
    /// Whether the program's constants must not appear in the code.
    pub blind: bool,
}

/// An instruction with its operands, ready to be emitted.
pub(crate) struct Ready<A: Assembly + 'static, R: 'static, M: 'static> {
    insn: &'static MachineInsn<A, R, M>,
    regs: Vec<R>,
    imm: u8,
    number: i32,
    comparison: JumpOp,
    set: u64,
    place: Option<M>,
    out: Option<A::Label>,
}

impl<A: Assembly, R, M: Copy> Ready<A, R, M> {
    /// Whether it accesses memory.
    pub fn accesses_memory(&self) -> bool {
        self.place.is_some()
    }

    /// Emits it.
    pub fn emit(&self, code: &mut A) {
        match (&self.insn.emit, self.place, self.out) {
            (Emit::Memory(emit), Some(place), _) => emit(code, &self.regs, place),
            (Emit::Branch(emit), _, Some(out)) => emit(code, &self.regs, self.comparison, out),
            (Emit::Registers(emit), ..) => emit(code, &self.regs, self.imm),
            (Emit::Number(emit), ..) => emit(code, &self.regs, self.number),
            (Emit::Comparison(emit), ..) => emit(code, &self.regs, self.comparison),
            (Emit::Set(emit), ..) => emit(code, &self.regs, self.set),
            (Emit::Memory(_), None, _) => unreachable!("an instruction with memory is prepared with it"),
            (Emit::Branch(_), _, None) => unreachable!("a branch is prepared with its target"),
        }
    }
}

/// The instructions of a row for a region; `None` where the machine's table does not have them, or they do not keep
/// what they must.
pub(crate) fn prepare<A: Assembly, R: Copy, M: Copy>(
    native: &Native,
    region: &Region,
    table: &'static [MachineInsn<A, R, M>],
    places: &Places<R, M, A::Label>,
) -> Option<Vec<Ready<A, R, M>>> {
    let mut ready = Vec::with_capacity(native.code.len());
    for (at, insn) in native.code.iter().enumerate() {
        let known = table.iter().find(|known| known.name == insn.name)?;
        if known.operands.len() != insn.operands.len() {
            return None;
        }
        let mut prepared = Ready {
            insn: known,
            regs: Vec::new(),
            imm: 0,
            number: 0,
            comparison: JumpOp::Eq,
            set: 0,
            place: None,
            out: None,
        };
        if matches!(known.emit, Emit::Branch(_)) {
            // Nothing of the region runs after it left.
            prepared.out = Some(places.out.filter(|_| at + 1 == native.code.len())?);
        }
        for (access, operand) in known.operands.iter().zip(insn.operands) {
            match (access, operand) {
                (Access::Imm(max), NativeOperand::Imm(value)) => {
                    let value = u8::try_from(region.operands.imm(*value)).ok();
                    prepared.imm = value.filter(|value| value <= max)?;
                }
                (Access::Number, NativeOperand::Imm(value)) => {
                    let number = i32::try_from(region.operands.imm(*value)).ok()?;
                    prepared.number = Some(number).filter(|number| *number == 0 || !places.blind)?;
                }
                (Access::Set, NativeOperand::Set(of)) => {
                    prepared.set = Some(region.operands.set(of)).filter(|_| !places.blind)?;
                }
                (Access::Comparison, NativeOperand::Is(op)) => prepared.comparison = *op,
                (Access::Comparison, NativeOperand::Comparison(index)) => {
                    prepared.comparison = region.operands.comparison(*index)?;
                }
                (Access::Memory, NativeOperand::Memory(base, offset)) => {
                    let offset = i16::try_from(region.operands.imm(*offset)).ok()?;
                    let own = (places.memory)((places.bpf)(region.operands.reg(*base)), offset);
                    prepared.place = Some(places.computed.unwrap_or(own));
                }
                (Access::Imm(_) | Access::Number | Access::Comparison | Access::Set | Access::Memory, _) => {
                    return None;
                }
                (access, operand) => {
                    if *access != Access::Read && !may_write(native, region, at, *operand) {
                        return None;
                    }
                    prepared.regs.push(match *operand {
                        NativeOperand::Reg(index) => (places.bpf)(region.operands.reg(index)),
                        NativeOperand::Bpf(number) => (places.bpf)(Reg::new(number)?),
                        NativeOperand::Scratch(number) => *places.scratch.get(usize::from(number))?,
                        NativeOperand::Imm(_)
                        | NativeOperand::Memory(..)
                        | NativeOperand::Comparison(_)
                        | NativeOperand::Is(_)
                        | NativeOperand::Set(_) => return None,
                    });
                }
            }
        }
        ready.push(prepared);
    }
    // Native code has one access where the proof sequence has some.
    let accesses = ready.iter().filter(|insn| insn.accesses_memory()).count();
    let expected = region.form.code.iter().any(|template| template.accesses_memory());
    let leaves = ready.last().is_some_and(|insn| insn.out.is_some());
    (accesses == usize::from(expected) && leaves == region.form.leaves()).then_some(ready)
}

/// The first instruction of a region that accesses memory, if the region's code does not begin with it.
pub(crate) fn later_access(nodes: &[Node], mut members: std::ops::Range<usize>) -> Option<usize> {
    members.find(|at| nodes[*at].insn.address().is_some())
}

/// Whether the instruction at `at` may write an operand: results, temporaries and scratch registers it may, another
/// register only between saving it in the first instruction and restoring it in the last one.
fn may_write(native: &Native, region: &Region, at: usize, operand: NativeOperand) -> bool {
    match operand {
        NativeOperand::Scratch(_) => true,
        NativeOperand::Reg(index) => {
            let kind = region.operation.operands.get(usize::from(index)).map(|operand| operand.kind);
            matches!(kind, Some(OperandKind::Result | OperandKind::Temporary))
        }
        NativeOperand::Bpf(_) => {
            let moves = |insn: Option<&kiln_isa::operation::NativeInsn>, to, from| {
                insn.is_some_and(|insn| insn.name == "mov64" && insn.operands == [to, from])
            };
            let kept = NativeOperand::Scratch(0);
            at > 0 && moves(native.code.first(), kept, operand) && moves(native.code.last(), operand, kept)
        }
        NativeOperand::Imm(_)
        | NativeOperand::Memory(..)
        | NativeOperand::Comparison(_)
        | NativeOperand::Is(_)
        | NativeOperand::Set(_) => false,
    }
}
