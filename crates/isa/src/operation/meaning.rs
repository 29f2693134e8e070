//! What an operation means, as an expression that any [`BitVec`] evaluates.

use super::pattern::Operands;
use super::row::{Imm, Index};
use crate::insn::Size;
use crate::semantics::BitVec;
use crate::table::JumpOp;

/// An expression over the operands. Registers are 64 bits; both sides of a binary expression have one width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expr {
    /// A register operand, 64 bits.
    Reg(Index),
    /// A number, 64 bits.
    Imm(Imm),
    /// The lowest bits.
    Truncate(u32, &'static Expr),
    /// Widened with zeros to 64 bits.
    ZeroExtend(&'static Expr),
    /// Widened with the sign bit to 64 bits.
    SignExtend(&'static Expr),
    /// Bitwise or.
    Or(&'static Expr, &'static Expr),
    /// Bitwise and.
    And(&'static Expr, &'static Expr),
    /// Bitwise exclusive or.
    Xor(&'static Expr, &'static Expr),
    /// Wrapping addition.
    Add(&'static Expr, &'static Expr),
    /// Wrapping subtraction.
    Sub(&'static Expr, &'static Expr),
    /// Wrapping multiplication.
    Mul(&'static Expr, &'static Expr),
    /// The bytes in reverse order.
    SwapBytes(&'static Expr),
    /// The bytes of memory at a register operand plus a number, zero-extended to 64 bits.
    Load(Size, Index, Imm),
    /// One if a comparison holds of two values, zero if not; 64 bits.
    Flag(Index, &'static Expr, &'static Expr),
    /// The third value if a comparison holds of the first two, the fourth if not.
    Select(Index, &'static Expr, &'static Expr, &'static Expr, &'static Expr),
    /// One if a value is zero, zero if not; 64 bits.
    IsZero(&'static Expr),
    /// One if a value is one of several immediate operands, zero if not; 64 bits.
    Among(&'static Expr, &'static [Index]),
    /// Left shift by the amount modulo the width, a power of two.
    Shl(&'static Expr, &'static Expr),
    /// Logical right shift by the amount modulo the width, a power of two.
    Lshr(&'static Expr, &'static Expr),
}

impl Expr {
    /// The value, given what each register operand holds, a way to make 64-bit constants, and what memory holds: the
    /// bytes at an address, zero-extended to 64 bits.
    pub fn evaluate<B: BitVec>(
        &self,
        operands: &Operands,
        register: &impl Fn(Index) -> B,
        constant: &impl Fn(u64) -> B,
        memory: &impl Fn(Size, B) -> B,
    ) -> B {
        let value = |expr: &Expr| expr.evaluate(operands, register, constant, memory);
        match self {
            Expr::Reg(index) => register(*index),
            Expr::Imm(imm) => constant(operands.imm(*imm) as u64),
            Expr::Truncate(bits, of) => value(of).truncate(*bits),
            Expr::ZeroExtend(of) => value(of).zero_extend(64),
            Expr::SignExtend(of) => value(of).sign_extend(64),
            Expr::Or(left, right) => value(left).or(&value(right)),
            Expr::And(left, right) => value(left).and(&value(right)),
            Expr::Xor(left, right) => value(left).xor(&value(right)),
            Expr::Add(left, right) => value(left).add(&value(right)),
            Expr::Sub(left, right) => value(left).sub(&value(right)),
            Expr::Mul(left, right) => value(left).mul(&value(right)),
            Expr::SwapBytes(of) => value(of).swap_bytes(),
            Expr::Load(size, base, offset) => {
                memory(*size, register(*base).add(&constant(operands.imm(*offset) as u64)))
            }
            Expr::Flag(comparison, left, right) => {
                let holds = operands.comparison(*comparison).unwrap_or(JumpOp::Eq).holds(&value(left), &value(right));
                B::ite(&holds, &constant(1), &constant(0))
            }
            Expr::Select(comparison, left, right, then, otherwise) => {
                let holds = operands.comparison(*comparison).unwrap_or(JumpOp::Eq).holds(&value(left), &value(right));
                B::ite(&holds, &value(then), &value(otherwise))
            }
            Expr::IsZero(of) => B::ite(&value(of).is_zero(), &constant(1), &constant(0)),
            Expr::Among(of, numbers) => {
                let one_of = |found: B, index: &Index| {
                    let number = constant(operands.imm(Imm::Operand(*index)) as u64).truncate(value(of).bits());
                    B::ite(&value(of).eq(&number), &constant(1), &found)
                };
                numbers.iter().fold(constant(0), one_of)
            }
            Expr::Shl(left, right) => value(left).shl(&value(right).shift_amount()),
            Expr::Lshr(left, right) => value(left).lshr(&value(right).shift_amount()),
        }
    }
}
