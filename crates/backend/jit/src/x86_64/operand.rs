//! What instructions name: registers, memory, conditions and operations, by their numbers in encodings.

use kiln_isa::JumpOp;

/// A general-purpose register, by its number in encodings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gpr(pub(super) u8);

impl Gpr {
    pub const RAX: Gpr = Gpr(0);
    pub const RCX: Gpr = Gpr(1);
    pub const RDX: Gpr = Gpr(2);
    pub const RBX: Gpr = Gpr(3);
    pub const RSP: Gpr = Gpr(4);
    pub const RBP: Gpr = Gpr(5);
    pub const RSI: Gpr = Gpr(6);
    pub const RDI: Gpr = Gpr(7);
    pub const R8: Gpr = Gpr(8);
    pub const R9: Gpr = Gpr(9);
    pub const R10: Gpr = Gpr(10);
    pub const R11: Gpr = Gpr(11);
    pub const R12: Gpr = Gpr(12);
    pub const R13: Gpr = Gpr(13);
    pub const R14: Gpr = Gpr(14);
    pub const R15: Gpr = Gpr(15);

    pub(super) const fn low(self) -> u8 {
        self.0 & 7
    }

    pub(super) const fn high(self) -> bool {
        self.0 >= 8
    }
}

/// A memory operand: base, index times a scale, displacement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    pub base: Gpr,
    /// Not rsp; the scale is 1, 2, 4 or 8.
    pub index: Option<(Gpr, u8)>,
    pub displacement: i32,
}

impl Memory {
    /// `[base + displacement]`.
    pub const fn at(base: Gpr, displacement: i32) -> Memory {
        Memory { base, index: None, displacement }
    }
}

/// The register-or-memory operand of an encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    Gpr(Gpr),
    Memory(Memory),
}

impl From<Gpr> for Operand {
    fn from(gpr: Gpr) -> Operand {
        Operand::Gpr(gpr)
    }
}

impl From<Memory> for Operand {
    fn from(memory: Memory) -> Operand {
        Operand::Memory(memory)
    }
}

/// A condition, by its number in `jcc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Condition(pub(super) u8);

impl Condition {
    pub const BELOW: Condition = Condition(0x2);
    pub const ABOVE_EQUAL: Condition = Condition(0x3);
    pub const EQUAL: Condition = Condition(0x4);
    pub const NOT_EQUAL: Condition = Condition(0x5);
    pub const BELOW_EQUAL: Condition = Condition(0x6);
    pub const ABOVE: Condition = Condition(0x7);
    pub const SIGN: Condition = Condition(0x8);
    pub const LESS: Condition = Condition(0xc);
    pub const GREATER_EQUAL: Condition = Condition(0xd);
    pub const LESS_EQUAL: Condition = Condition(0xe);
    pub const GREATER: Condition = Condition(0xf);

    /// The condition that holds when this one does not.
    pub const fn opposite(self) -> Condition {
        Condition(self.0 ^ 1)
    }

    /// The condition under which a compared pair branches.
    pub fn of(op: JumpOp) -> Condition {
        match op {
            JumpOp::Eq => Condition::EQUAL,
            JumpOp::Ne | JumpOp::Set => Condition::NOT_EQUAL,
            JumpOp::Gt => Condition::ABOVE,
            JumpOp::Ge => Condition::ABOVE_EQUAL,
            JumpOp::Lt => Condition::BELOW,
            JumpOp::Le => Condition::BELOW_EQUAL,
            JumpOp::Sgt => Condition::GREATER,
            JumpOp::Sge => Condition::GREATER_EQUAL,
            JumpOp::Slt => Condition::LESS,
            JumpOp::Sle => Condition::LESS_EQUAL,
        }
    }
}

/// The eight classic operations, by their number in encodings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arithmetic {
    Add = 0,
    Or = 1,
    /// Subtraction of the carry flag, too.
    Sbb = 3,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// Shifts and rotations, by their number in encodings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shift {
    RotateLeft = 0,
    Left = 4,
    RightLogical = 5,
    RightArithmetic = 7,
}

/// One-operand instructions of opcode F7, by their number there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unary {
    Neg = 3,
    Div = 6,
    Idiv = 7,
}
