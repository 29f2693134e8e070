//! Native code of operations: from a row's machine instructions to calls of an assembler.
//!
//! Each machine has a table of the instructions that rows may use, by name: which operands each reads and writes, and
//! how it is encoded. A row that names another instruction, or writes what it may not, has no native code on that
//! machine, and its proof sequence is compiled.

use kiln_isa::operation::{Imm, Index, Native, NativeInsn, NativeOperand, OperandKind, Operation, Template};
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
                    if *access != Access::Read && !may_write(native, region.operation, at, *operand) {
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

/// Whether a row's native code can be compiled, by a machine's table alone: its instructions exist and have operands of
/// these kinds, it writes only what it may, and it accesses memory and leaves where the proof sequences do. What is wrong,
/// if something is.
pub(crate) fn check<A: Assembly, R, M>(
    native: &Native,
    operation: &Operation,
    table: &'static [MachineInsn<A, R, M>],
) -> Result<(), String> {
    let mut accesses = 0;
    let mut leaves = false;
    for (at, insn) in native.code.iter().enumerate() {
        let known = table.iter().find(|known| known.name == insn.name);
        let known = known.ok_or_else(|| format!("there is no machine instruction {}", insn.name))?;
        if known.operands.len() != insn.operands.len() {
            return Err(format!("{} has {} operands, not {}", insn.name, known.operands.len(), insn.operands.len()));
        }
        if matches!(known.emit, Emit::Branch(_)) {
            leaves = true;
            if at + 1 < native.code.len() {
                return Err(format!("{} leaves, and is not the last instruction", insn.name));
            }
        }
        for (position, (access, operand)) in known.operands.iter().zip(insn.operands).enumerate() {
            if !fits(operation, *access, *operand) {
                return Err(format!("operand {position} of {} is of another kind or range", insn.name));
            }
            let writes = matches!(access, Access::Write | Access::Both);
            if writes && !may_write(native, operation, at, *operand) {
                return Err(format!("{} writes a register that is neither a result nor a temporary", insn.name));
            }
            if let NativeOperand::Memory(base, offset) = *operand {
                accesses += 1;
                accessed_by_all(operation, base, offset)?;
            }
            // The address is what it is for the proof sequence, and a fault leaves the same behind.
            let later = native.code.iter().skip(at + 1).any(|insn| insn.operands.iter().any(is_memory));
            if writes && later && !matches!(operand, NativeOperand::Scratch(_)) {
                return Err(format!("{} writes a register before the access to memory", insn.name));
            }
        }
    }
    for form in operation.forms {
        let expected = form.code.iter().any(|template| template.accesses_memory());
        if accesses != usize::from(expected) {
            return Err(format!(
                "it has {accesses} accesses to memory, the proof sequence needs {}",
                usize::from(expected)
            ));
        }
        if leaves != form.leaves() {
            return Err("it leaves where the proof sequence does not, or the other way round".to_owned());
        }
    }
    Ok(())
}

fn is_memory(operand: &NativeOperand) -> bool {
    matches!(operand, NativeOperand::Memory(..))
}

/// Whether an operand of a row is what an instruction needs.
fn fits(operation: &Operation, access: Access, operand: NativeOperand) -> bool {
    let kind = |index: u8| operation.operands.get(usize::from(index)).map(|operand| operand.kind);
    let is_reg =
        |index| matches!(kind(index), Some(OperandKind::Result | OperandKind::Source | OperandKind::Temporary));
    match (access, operand) {
        (Access::Imm(most), NativeOperand::Imm(imm)) => {
            range(operation, imm).is_some_and(|(low, high)| low >= 0 && high <= most.into())
        }
        (Access::Number, NativeOperand::Imm(_)) | (Access::Set, NativeOperand::Set(_)) => true,
        (Access::Comparison, NativeOperand::Comparison(index)) => kind(index) == Some(OperandKind::Comparison),
        (Access::Comparison, NativeOperand::Is(_)) => true,
        (Access::Memory, NativeOperand::Memory(base, _)) | (Access::Read, NativeOperand::Reg(base)) => is_reg(base),
        (Access::Write | Access::Both, NativeOperand::Reg(index)) => is_reg(index),
        (Access::Read | Access::Write | Access::Both, NativeOperand::Bpf(number)) => Reg::new(number).is_some(),
        (Access::Read | Access::Write | Access::Both, NativeOperand::Scratch(number)) => number < 2,
        _ => false,
    }
}

/// The least and the largest value of an immediate, by the ranges of operands.
fn range(operation: &Operation, imm: Imm) -> Option<(i64, i64)> {
    let of = |index: Index| match operation.operands.get(usize::from(index))?.kind {
        OperandKind::Immediate { min, max } => Some((i64::from(min), i64::from(max))),
        _ => None,
    };
    Some(match imm {
        Imm::Operand(index) => of(index)?,
        Imm::Complement(from, index) => {
            let (low, high) = of(index)?;
            (i64::from(from) - high, i64::from(from) - low)
        }
        Imm::Sum(more, index) => {
            let (low, high) = of(index)?;
            (low + i64::from(more), high + i64::from(more))
        }
        Imm::Constant(value) => (value.into(), value.into()),
        Imm::Least(indices) => {
            let ranges = indices.iter().map(|index| of(*index)).collect::<Option<Vec<_>>>()?;
            (ranges.iter().map(|range| range.0).min()?, ranges.iter().map(|range| range.1).min()?)
        }
    })
}

/// Whether each proof sequence accesses memory at this place.
fn accessed_by_all(operation: &Operation, base: Index, offset: Imm) -> Result<(), String> {
    let at_place = |template: &Template| match *template {
        Template::Load { base: own, offset: by, .. } | Template::Store { base: own, offset: by, .. } => {
            (own, by) == (base, offset)
        }
        _ => false,
    };
    let all = operation.forms.iter().all(|form| form.code.iter().any(at_place));
    all.then_some(()).ok_or_else(|| "it accesses memory where the proof sequences do not".to_owned())
}

/// The first instruction of a region that accesses memory, if the region's code does not begin with it.
pub(crate) fn later_access(nodes: &[Node], mut members: std::ops::Range<usize>) -> Option<usize> {
    members.find(|at| nodes[*at].insn.address().is_some())
}

/// Whether the instruction at `at` may write an operand: results, temporaries and scratch registers it may, another
/// register only between saving it in the first instruction and restoring it in the last one.
fn may_write(native: &Native, operation: &Operation, at: usize, operand: NativeOperand) -> bool {
    match operand {
        NativeOperand::Scratch(_) => true,
        NativeOperand::Reg(index) => {
            let kind = operation.operands.get(usize::from(index)).map(|operand| operand.kind);
            matches!(kind, Some(OperandKind::Result | OperandKind::Temporary))
        }
        NativeOperand::Bpf(_) => {
            let moves = |insn: Option<&NativeInsn>, to, from| {
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
