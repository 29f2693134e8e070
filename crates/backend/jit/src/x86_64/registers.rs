//! The assignment of machine registers.

use kiln_isa::Reg;

use super::operand::{Gpr, Memory};

/// The machine register of a BPF register.
pub const fn gpr(reg: Reg) -> Gpr {
    const MAP: [Gpr; Reg::COUNT] =
        [Gpr::RAX, Gpr::RDI, Gpr::RSI, Gpr::RDX, Gpr::RCX, Gpr::R8, Gpr::RBX, Gpr::R13, Gpr::R14, Gpr::R15, Gpr::RBP];
    MAP[reg.index()]
}

/// The remaining budget, while in compiled code.
pub const BUDGET: Gpr = Gpr::R9;
/// The [`crate::Runtime`].
pub const RUNTIME: Gpr = Gpr::R12;
/// The arena's base, in programs that access one: frames are addressed from rsp there ([`super::assembler::Assembler::frame`]).
pub const BASE: Gpr = Gpr::RBP;
/// Free within one instruction.
pub const SCRATCH: Gpr = Gpr::R10;
/// Free within one instruction.
pub const SCRATCH2: Gpr = Gpr::R11;

pub const fn runtime_field(displacement: i32) -> Memory {
    Memory::at(RUNTIME, displacement)
}
