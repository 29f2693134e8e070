//! Native code of operations: from a row's machine instructions to calls of an assembler.
//!
//! Each machine has a table of the instructions that rows may use, by name: which operands each reads and writes, and
//! how it is encoded. A row that names another instruction, or writes what it may not, has no native code on that
//! machine, and its proof sequence is compiled.

use kiln_isa::Reg;
use kiln_isa::operation::{Native, NativeOperand, OperandKind};
use kiln_program::operation::Region;

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
}

/// An instruction that rows may use.
pub(crate) struct MachineInsn<A, R> {
    /// Its name in rows.
    pub name: &'static str,
    /// Its operands.
    pub operands: &'static [Access],
    /// Emits it. Operands that are numbers are in `imm`, in their order; registers in `regs`.
    pub emit: fn(code: &mut A, regs: &[R], imm: u8),
}

/// Where registers of operands live on a machine.
pub(crate) struct Registers<R> {
    pub bpf: fn(Reg) -> R,
    pub scratch: [R; 2],
}

/// An instruction with its operands, ready to be emitted.
pub(crate) struct Ready<A: 'static, R: 'static> {
    insn: &'static MachineInsn<A, R>,
    regs: Vec<R>,
    imm: u8,
}

impl<A, R> Ready<A, R> {
    /// Emits it.
    pub fn emit(&self, code: &mut A) {
        (self.insn.emit)(code, &self.regs, self.imm);
    }
}

/// The instructions of a row for a region; `None` where the machine's table does not have them, or they do not keep
/// what they must.
pub(crate) fn prepare<A, R: Copy>(
    native: &Native,
    region: &Region,
    table: &'static [MachineInsn<A, R>],
    registers: &Registers<R>,
) -> Option<Vec<Ready<A, R>>> {
    let mut ready = Vec::with_capacity(native.code.len());
    for (at, insn) in native.code.iter().enumerate() {
        let known = table.iter().find(|known| known.name == insn.name)?;
        if known.operands.len() != insn.operands.len() {
            return None;
        }
        let (mut regs, mut imm) = (Vec::new(), 0);
        for (access, operand) in known.operands.iter().zip(insn.operands) {
            match (access, operand) {
                (Access::Imm(max), NativeOperand::Imm(value)) => {
                    imm = u8::try_from(region.operands.imm(*value)).ok().filter(|value| value <= max)?;
                }
                (Access::Imm(_), _) | (_, NativeOperand::Imm(_)) => return None,
                (access, operand) => {
                    if *access != Access::Read && !may_write(native, region, at, *operand) {
                        return None;
                    }
                    regs.push(match *operand {
                        NativeOperand::Reg(index) => (registers.bpf)(region.operands.reg(index)),
                        NativeOperand::Bpf(number) => (registers.bpf)(Reg::new(number)?),
                        NativeOperand::Scratch(number) => *registers.scratch.get(usize::from(number))?,
                        NativeOperand::Imm(_) => return None,
                    });
                }
            }
        }
        ready.push(Ready { insn: known, regs, imm });
    }
    Some(ready)
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
        NativeOperand::Imm(_) => false,
    }
}
