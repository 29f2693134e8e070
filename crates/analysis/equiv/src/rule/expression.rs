//! Expressions over a rule's placeholders, and conditions on them.

use kiln_isa::semantics::{BitVec, compare};
use kiln_isa::{AluOp, JumpOp, Reg, Width};

/// A 64-bit number computed from what a rule's placeholders are bound to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expression {
    /// An immediate.
    Immediate(u8),
    /// What a register holds before the window.
    Register(Reg),
    /// A number.
    Constant(i64),
    /// An operation of the instruction set.
    Operation(AluOp, Width, Box<Expression>, Box<Expression>),
}

impl Expression {
    /// Its value over any kind of bit vector, 64 bits wide.
    pub fn value<B: BitVec>(&self, zero: &B, immediates: &[B], registers: &dyn Fn(Reg) -> B) -> B {
        match self {
            Expression::Immediate(hole) => immediates[usize::from(*hole)].clone(),
            Expression::Register(reg) => registers(*reg),
            Expression::Constant(value) => zero.like(*value as u64),
            Expression::Operation(op, width, left, right) => {
                let left = left.value(zero, immediates, registers);
                let right = right.value(zero, immediates, registers);
                kiln_isa::semantics::at_width(*width, &left, &right, |a, b| op.apply(a, b))
            }
        }
    }

    /// Whether it asks for an immediate.
    pub fn mentions(&self, hole: u8) -> bool {
        match self {
            Expression::Immediate(own) => *own == hole,
            Expression::Operation(_, _, left, right) => left.mentions(hole) || right.mentions(hole),
            _ => false,
        }
    }

    /// Whether it asks for a register's value.
    pub fn needs_registers(&self) -> bool {
        match self {
            Expression::Register(_) => true,
            Expression::Operation(_, _, left, right) => left.needs_registers() || right.needs_registers(),
            _ => false,
        }
    }

    pub(crate) fn rename(&self, rename: &dyn Fn(Reg) -> Reg) -> Expression {
        match self {
            Expression::Register(reg) => Expression::Register(rename(*reg)),
            Expression::Operation(op, width, left, right) => {
                Expression::Operation(*op, *width, left.rename(rename).into(), right.rename(rename).into())
            }
            other => other.clone(),
        }
    }
}

/// What must hold for a rule to apply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// A comparison.
    Compare(JumpOp, Width, Expression, Expression),
    /// 32 bits, sign-extended, hold it.
    Fits(Expression),
}

impl Condition {
    /// Whether it holds, over any kind of bit vector.
    pub fn holds<B: BitVec>(&self, zero: &B, immediates: &[B], registers: &dyn Fn(Reg) -> B) -> B::Bool {
        match self {
            Condition::Compare(op, width, left, right) => {
                let left = left.value(zero, immediates, registers);
                let right = right.value(zero, immediates, registers);
                compare(*op, *width, &left, &right)
            }
            Condition::Fits(expression) => {
                let value = expression.value(zero, immediates, registers);
                value.truncate(32).sign_extend(64).eq(&value)
            }
        }
    }

    /// Whether it asks for a register's value: then facts must show it at each use.
    pub fn needs_registers(&self) -> bool {
        match self {
            Condition::Compare(_, _, left, right) => left.needs_registers() || right.needs_registers(),
            Condition::Fits(expression) => expression.needs_registers(),
        }
    }

    pub(crate) fn rename(&self, rename: &dyn Fn(Reg) -> Reg) -> Condition {
        match self {
            Condition::Compare(op, width, left, right) => {
                Condition::Compare(*op, *width, left.rename(rename), right.rename(rename))
            }
            Condition::Fits(expression) => Condition::Fits(expression.rename(rename)),
        }
    }
}
