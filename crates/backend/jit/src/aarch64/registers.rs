//! The assignment of machine registers.

use kiln_isa::Reg;

use super::assembler::Gpr;

/// The machine register of a BPF register.
pub const fn gpr(reg: Reg) -> Gpr {
    const MAP: [Gpr; Reg::COUNT] =
        [Gpr(7), Gpr(0), Gpr(1), Gpr(2), Gpr(3), Gpr(4), Gpr(19), Gpr(20), Gpr(21), Gpr(22), Gpr(25)];
    MAP[reg.index()]
}

/// What callers that are not compiled code take for the result.
pub const RESULT: Gpr = Gpr(0);
/// The sixth argument of a helper.
pub const SIXTH: Gpr = Gpr(5);
/// The remaining budget, while in compiled code.
pub const BUDGET: Gpr = Gpr(6);
/// The [`crate::Runtime`].
pub const RUNTIME: Gpr = Gpr(24);
/// Free within one instruction.
pub const SCRATCH: [Gpr; 4] = [Gpr(9), Gpr(10), Gpr(11), Gpr(12)];
