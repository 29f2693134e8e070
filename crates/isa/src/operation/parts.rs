//! What rows are made of: names for widths, choices of operations, operands.

use super::row::{From, Operand, OperandKind, Template};
use crate::insn::Width;
use crate::table::AluOp;

pub(super) const W32: &[Width] = &[Width::W32];
pub(super) const W64: &[Width] = &[Width::W64];
/// A copy may be wider than the operation on it.
pub(super) const ANY: &[Width] = &[Width::W64, Width::W32];
pub(super) const OR: &[AluOp] = &[AluOp::Or];
/// For values without common bits these three are equal.
pub(super) const JOIN: &[AluOp] = &[AluOp::Or, AluOp::Xor, AluOp::Add];
pub(super) const LEFT: &[AluOp] = &[AluOp::Lsh];
pub(super) const RIGHT: &[AluOp] = &[AluOp::Rsh];
pub(super) const MOVE: &[AluOp] = &[AluOp::Mov];
pub(super) const AND: &[AluOp] = &[AluOp::And];

pub(super) const fn alu(ops: &'static [AluOp], widths: &'static [Width], dst: u8, src: From) -> Template {
    Template::Alu { ops, widths, dst, src }
}

pub(super) const fn result(name: &'static str) -> Operand {
    Operand { name, kind: OperandKind::Result }
}

pub(super) const fn source(name: &'static str) -> Operand {
    Operand { name, kind: OperandKind::Source }
}

pub(super) const fn temporary(name: &'static str) -> Operand {
    Operand { name, kind: OperandKind::Temporary }
}

pub(super) const fn immediate(name: &'static str, min: i32, max: i32) -> Operand {
    Operand { name, kind: OperandKind::Immediate { min, max } }
}

/// A comparison of rows that choose by one.
pub(super) const COMPARISON: Operand = Operand { name: "c", kind: OperandKind::Comparison };
/// A number that a row compares with.
pub(super) const ANY_NUMBER: Operand = immediate("k", i32::MIN, i32::MAX);
