//! Rows with a branch: one or zero by a comparison.
//!
//! The branch leads over the last instruction, so that the proof sequence has one way in and one way out.

use super::meaning::Expr;
use super::parts::{ANY, ANY_NUMBER, COMPARISON, MOVE, alu, result, source};
use super::row::{
    Arch, Condition, Effect, Exit, Form, From, Imm, Native, NativeInsn, NativeOperand, Operation, Template, Test,
};
use crate::insn::Width;

const D: NativeOperand = NativeOperand::Reg(0);
const A: NativeOperand = NativeOperand::Reg(1);
const C: NativeOperand = NativeOperand::Comparison(3);

/// Flags: d = 0, a = 1, b or k = 2, c = 3.
macro_rules! flag {
    ($name:literal, $width:ident, $second:expr, $src:expr, $when:expr, $left:expr, $right:expr, $cmp:literal, $with:expr,
     $doc:literal) => {
        Operation {
            name: $name,
            doc: $doc,
            operands: &[result("d"), source("a"), $second, COMPARISON],
            forms: &[
                Form {
                    name: "set, then cleared",
                    when: $when,
                    code: &[
                        alu(MOVE, ANY, 0, From::Imm(Imm::Constant(1))),
                        Template::Branch {
                            test: Test::Operand(3),
                            width: Width::$width,
                            dst: 1,
                            src: $src,
                            to: Exit::End,
                        },
                        alu(MOVE, ANY, 0, From::Imm(Imm::Constant(0))),
                    ],
                },
                Form {
                    name: "cleared, then set",
                    when: $when,
                    code: &[
                        alu(MOVE, ANY, 0, From::Imm(Imm::Constant(0))),
                        Template::Branch {
                            test: Test::Opposite(3),
                            width: Width::$width,
                            dst: 1,
                            src: $src,
                            to: Exit::End,
                        },
                        alu(MOVE, ANY, 0, From::Imm(Imm::Constant(1))),
                    ],
                },
            ],
            effects: &[Effect::Register(0, Expr::Flag(3, &$left, &$right))],
            native: &[
                Native {
                    arch: Arch::X86_64,
                    needs: &[],
                    when: &[],
                    code: &[
                        NativeInsn { name: "zero32", operands: &[D] },
                        NativeInsn { name: $cmp, operands: &[A, $with] },
                        NativeInsn { name: "setcc32", operands: &[D, C] },
                    ],
                },
                Native {
                    arch: Arch::Aarch64,
                    needs: &[],
                    when: &[],
                    code: &[
                        NativeInsn { name: $cmp, operands: &[A, $with] },
                        NativeInsn { name: "cset32", operands: &[D, C] },
                    ],
                },
            ],
            pays: "comparisons that are hard to predict, and only there: found by a profile",
        }
    };
}

const APART: &[Condition] = &[Condition::Differ(0, 1)];
const ALL_APART: &[Condition] = &[Condition::Differ(0, 1), Condition::Differ(0, 2)];
const REGISTER: From = From::Reg(2);
const NUMBER: From = From::Imm(Imm::Operand(2));
const LEFT: Expr = Expr::Reg(1);
const RIGHT: Expr = Expr::Reg(2);
const VALUE: Expr = Expr::Imm(Imm::Operand(2));

/// A comparison of two registers.
pub const FLAG_64: Operation = flag!(
    "flag_64",
    W64,
    source("b"),
    REGISTER,
    ALL_APART,
    LEFT,
    RIGHT,
    "cmp64",
    NativeOperand::Reg(2),
    "One if the comparison c of a and b holds, zero if not."
);

/// A comparison of the lower halves of two registers.
pub const FLAG_32: Operation = flag!(
    "flag_32",
    W32,
    source("b"),
    REGISTER,
    ALL_APART,
    Expr::Truncate(32, &LEFT),
    Expr::Truncate(32, &RIGHT),
    "cmp32",
    NativeOperand::Reg(2),
    "One if the comparison c of the lower halves of a and b holds, zero if not."
);

/// A comparison of a register with a number.
pub const FLAG_CONSTANT_64: Operation = flag!(
    "flag_constant_64",
    W64,
    ANY_NUMBER,
    NUMBER,
    APART,
    LEFT,
    VALUE,
    "cmpi64",
    NativeOperand::Imm(Imm::Operand(2)),
    "One if the comparison c of a with a number holds, zero if not."
);

/// A comparison of the lower half of a register with a number.
pub const FLAG_CONSTANT_32: Operation = flag!(
    "flag_constant_32",
    W32,
    ANY_NUMBER,
    NUMBER,
    APART,
    Expr::Truncate(32, &LEFT),
    Expr::Truncate(32, &VALUE),
    "cmpi32",
    NativeOperand::Imm(Imm::Operand(2)),
    "One if the comparison c of the lower half of a with a number holds, zero if not."
);
