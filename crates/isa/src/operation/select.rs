//! Rows that choose between two registers by a comparison.
//!
//! The proof sequence is a branch over a copy. A branch that is predicted well costs less than the choice, which has to
//! wait for the comparison and for both values. So the recognizer marks the form without a request only where it is told
//! that a branch is hard to predict; no compiler writes the other form, a copy of the register to itself first.

use super::meaning::Expr;
use super::parts::{ANY_NUMBER, COMPARISON, MOVE, W64, alu, result, source};
use super::row::{Arch, Effect, Exit, Form, From, Imm, Native, NativeInsn, NativeOperand, Operation, Template, Test};
use crate::insn::Width;

const D: NativeOperand = NativeOperand::Reg(0);
const S: NativeOperand = NativeOperand::Reg(1);
const A: NativeOperand = NativeOperand::Reg(2);
const C: NativeOperand = NativeOperand::Comparison(4);

/// Choices: d = 0, s = 1, a = 2, b or k = 3, c = 4.
macro_rules! select {
    ($name:literal, $width:ident, $second:expr, $src:expr, $left:expr, $right:expr, $cmp:literal, $with:expr,
     $doc:literal) => {
        Operation {
            name: $name,
            doc: $doc,
            operands: &[result("d"), source("s"), source("a"), $second, COMPARISON],
            forms: &[
                Form {
                    name: "branch over a copy",
                    when: &[],
                    code: &[
                        Template::Branch {
                            test: Test::Operand(4),
                            width: Width::$width,
                            dst: 2,
                            src: $src,
                            to: Exit::End,
                        },
                        alu(MOVE, W64, 0, From::Reg(1)),
                    ],
                },
                Form {
                    name: "requested",
                    when: &[],
                    code: &[
                        alu(MOVE, W64, 0, From::Reg(0)),
                        Template::Branch {
                            test: Test::Operand(4),
                            width: Width::$width,
                            dst: 2,
                            src: $src,
                            to: Exit::End,
                        },
                        alu(MOVE, W64, 0, From::Reg(1)),
                    ],
                },
            ],
            effects: &[Effect::Register(0, Expr::Select(4, &$left, &$right, &Expr::Reg(0), &Expr::Reg(1)))],
            native: &[
                Native {
                    arch: Arch::X86_64,
                    needs: &[],
                    when: &[],
                    code: &[
                        NativeInsn { name: $cmp, operands: &[A, $with] },
                        NativeInsn { name: "cmovncc64", operands: &[D, S, C] },
                    ],
                },
                Native {
                    arch: Arch::Aarch64,
                    needs: &[],
                    when: &[],
                    code: &[
                        NativeInsn { name: $cmp, operands: &[A, $with] },
                        NativeInsn { name: "csel64", operands: &[D, D, S, C] },
                    ],
                },
            ],
            pays: "branches that are hard to predict, and only there: found by a request or a profile",
        }
    };
}

const REGISTER: From = From::Reg(3);
const NUMBER: From = From::Imm(Imm::Operand(3));
const LEFT: Expr = Expr::Reg(2);
const RIGHT: Expr = Expr::Reg(3);
const VALUE: Expr = Expr::Imm(Imm::Operand(3));

/// A choice by a comparison of two registers.
pub const SELECT_64: Operation = select!(
    "select_64",
    W64,
    source("b"),
    REGISTER,
    LEFT,
    RIGHT,
    "cmp64",
    NativeOperand::Reg(3),
    "Keeps d if the comparison c of a and b holds, and copies s to d if not."
);

/// A choice by a comparison of the lower halves of two registers.
pub const SELECT_32: Operation = select!(
    "select_32",
    W32,
    source("b"),
    REGISTER,
    Expr::Truncate(32, &LEFT),
    Expr::Truncate(32, &RIGHT),
    "cmp32",
    NativeOperand::Reg(3),
    "Keeps d if the comparison c of the lower halves of a and b holds, and copies s to d if not."
);

/// A choice by a comparison of a register with a number.
pub const SELECT_CONSTANT_64: Operation = select!(
    "select_constant_64",
    W64,
    ANY_NUMBER,
    NUMBER,
    LEFT,
    VALUE,
    "cmpi64",
    NativeOperand::Imm(Imm::Operand(3)),
    "Keeps d if the comparison c of a with a number holds, and copies s to d if not."
);

/// A choice by a comparison of the lower half of a register with a number.
pub const SELECT_CONSTANT_32: Operation = select!(
    "select_constant_32",
    W32,
    ANY_NUMBER,
    NUMBER,
    Expr::Truncate(32, &LEFT),
    Expr::Truncate(32, &VALUE),
    "cmpi32",
    NativeOperand::Imm(Imm::Operand(3)),
    "Keeps d if the comparison c of the lower half of a with a number holds, and copies s to d if not."
);
