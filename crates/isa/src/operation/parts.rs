//! The words that rows are written in: short names for what their fields hold.
//!
//! ```text
//!   proof sequences   alu(LEFT, W64, T, From::Imm(K))                      T <<= K, of 64 bits
//!                     alu(JOIN, ANY, D, Reg(T))                            D |= T, ^= T or += T, of 64 or 32 bits
//!   meaning           Register(D, Shl(&Expr::Reg(S), &Expr::Imm(K)))       D holds S << K afterwards
//!   native code       native(X86_64, &[insn("rol64", &[reg(D), imm(K)])])  rol D, K
//! ```
//!
//! A family's file names the positions of operands (`const D: Index = 0`), so that a row reads as the sequence does.

pub use super::meaning::Expr::{
    self, Add, Among, And, Flag, IsZero, Load, Lshr, Mul, Or, Select, Shl, SignExtend, Sub, SwapBytes, Truncate, Xor,
    ZeroExtend,
};
pub use super::row::Arch::{self, Aarch64, X86_64};
pub use super::row::Condition::{self, Differ, Is, IsNot, Same, Within};
pub use super::row::Effect::{Leave, Memory, Register};
pub use super::row::From::{self, Reg};
pub use super::row::{
    Exit, Feature, Form, Imm, Index, Native, NativeInsn, NativeOperand, Operand, OperandKind, Operation, Place,
    Template, Test,
};
pub use crate::insn::{Size, Width};
use crate::table::AluOp;
pub use crate::table::JumpOp;

pub const W32: &[Width] = &[Width::W32];
pub const W64: &[Width] = &[Width::W64];
/// A copy may be wider than the operation on it.
pub const ANY: &[Width] = &[Width::W64, Width::W32];

/// The width of a row of 32 or 64 bits.
pub const fn width(bits: i32) -> Width {
    if bits == 64 { Width::W64 } else { Width::W32 }
}

/// The width of a row of 32 or 64 bits, and no other.
pub const fn exactly(bits: i32) -> &'static [Width] {
    if bits == 64 { W64 } else { W32 }
}

/// The widths that keep at least the lowest 32 or 64 bits.
pub const fn at_least(bits: i32) -> &'static [Width] {
    if bits == 64 { W64 } else { ANY }
}

pub const ADD: &[AluOp] = &[AluOp::Add];
pub const SUB: &[AluOp] = &[AluOp::Sub];
pub const MUL: &[AluOp] = &[AluOp::Mul];
pub const OR: &[AluOp] = &[AluOp::Or];
pub const XOR: &[AluOp] = &[AluOp::Xor];
pub const AND: &[AluOp] = &[AluOp::And];
pub const MOVE: &[AluOp] = &[AluOp::Mov];
/// For values without common bits these three are equal.
pub const JOIN: &[AluOp] = &[AluOp::Or, AluOp::Xor, AluOp::Add];
pub const LEFT: &[AluOp] = &[AluOp::Lsh];
pub const RIGHT: &[AluOp] = &[AluOp::Rsh];
pub const SIGNED_RIGHT: &[AluOp] = &[AluOp::Arsh];

pub const fn alu(ops: &'static [AluOp], widths: &'static [Width], dst: Index, src: From) -> Template {
    Template::Alu { ops, widths, dst, src }
}

pub const fn constant(value: i32) -> From {
    From::Imm(Imm::Constant(value))
}

pub const ONE: Expr = Expr::Imm(Imm::Constant(1));

pub const fn result(name: &'static str) -> Operand {
    Operand { name, kind: OperandKind::Result }
}

pub const fn source(name: &'static str) -> Operand {
    Operand { name, kind: OperandKind::Source }
}

pub const fn temporary(name: &'static str) -> Operand {
    Operand { name, kind: OperandKind::Temporary }
}

pub const fn immediate(name: &'static str, min: i32, max: i32) -> Operand {
    Operand { name, kind: OperandKind::Immediate { min, max } }
}

/// A comparison of rows that choose by one.
pub const COMPARISON: Operand = Operand { name: "c", kind: OperandKind::Comparison };

/// What a register is compared with: another register or a number, the operand at a position.
pub trait Second {
    const OPERAND: Operand;
    const SRC: From;
    /// That the operand at position 0, which is written first, is neither the operand at 1 nor this one.
    const APART: &'static [Condition];
}

pub struct InRegister<const AT: Index>;

impl<const AT: Index> Second for InRegister<AT> {
    const OPERAND: Operand = source("b");
    const SRC: From = Reg(AT);
    const APART: &'static [Condition] = &[Differ(0, 1), Differ(0, AT)];
}

pub struct Number<const AT: Index>;

impl<const AT: Index> Second for Number<AT> {
    const OPERAND: Operand = immediate("k", i32::MIN, i32::MAX);
    const SRC: From = From::Imm(Imm::Operand(AT));
    const APART: &'static [Condition] = &[Differ(0, 1)];
}

/// Native code for every processor of a machine and all operands; rows with conditions add `needs` and `when`.
pub const fn native(arch: Arch, code: &'static [NativeInsn]) -> Native {
    Native { arch, needs: &[], when: &[], code }
}

pub const fn insn(name: &'static str, operands: &'static [NativeOperand]) -> NativeInsn {
    NativeInsn { name, operands }
}

pub const fn reg(index: Index) -> NativeOperand {
    NativeOperand::Reg(index)
}

pub const fn imm(imm: Imm) -> NativeOperand {
    NativeOperand::Imm(imm)
}

/// What the rows of a family share begins with this; each row adds its name, its meaning and its native code.
pub const ROW: Operation =
    Operation { name: "", doc: "", operands: &[], forms: &[], effects: &[], native: &[], pays: "" };
