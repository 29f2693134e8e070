//! Rows that leave if some bits of a register are set, or none of them: a conjunction that only a branch reads.

use super::meaning::Expr;
use super::parts::{AND, ANY, ANY_NUMBER, MOVE, W32, W64, alu, source, temporary};
use super::row::{
    Arch, Condition, Effect, Exit, Form, From, Imm, Native, NativeInsn, NativeOperand, Operation, Template, Test,
};
use crate::insn::Width;
use crate::table::JumpOp;

const A: NativeOperand = NativeOperand::Reg(1);

const fn leave(op: JumpOp, width: Width) -> Template {
    let src = From::Imm(Imm::Constant(0));
    Template::Branch { test: Test::Is(op), width, dst: 0, src, to: Exit::Out }
}

/// Tests of bits: t = 0, a = 1, b or k = 2.
macro_rules! bits {
    ($name:literal, $op:ident, $second:expr, [$($form:expr),*], $meaning:expr, $x86:literal, $arm:literal, $with:expr,
     $doc:literal) => {
        Operation {
            name: $name,
            doc: $doc,
            operands: &[temporary("t"), source("a"), $second],
            forms: &[$($form),*],
            effects: &[Effect::Leave($meaning)],
            native: &[
                Native {
                    arch: Arch::X86_64,
                    needs: &[],
                    when: &[],
                    code: &[
                        NativeInsn { name: $x86, operands: &[A, $with] },
                        NativeInsn { name: "jcc64", operands: &[NativeOperand::Is(JumpOp::$op)] },
                    ],
                },
                Native {
                    arch: Arch::Aarch64,
                    needs: &[],
                    when: &[],
                    code: &[
                        NativeInsn { name: $arm, operands: &[A, $with] },
                        NativeInsn { name: "bcond64", operands: &[NativeOperand::Is(JumpOp::$op)] },
                    ],
                },
            ],
            pays: "flags in headers: an instruction or two saved per test",
        }
    };
    (copied $name:literal, $when:expr, $copy:expr, $mask:expr, $widths:expr, $op:ident, $width:ident) => {
        Form {
            name: $name,
            when: $when,
            code: &[
                alu(MOVE, $copy, 0, From::Reg(1)),
                alu(AND, $widths, 0, $mask),
                leave(JumpOp::$op, Width::$width),
            ],
        }
    };
    (in_place $name:literal, $mask:expr, $widths:expr, $op:ident, $width:ident) => {
        Form {
            name: $name,
            when: &[Condition::Same(0, 1)],
            code: &[alu(AND, $widths, 0, $mask), leave(JumpOp::$op, Width::$width)],
        }
    };
    (wide $name:literal, $op:ident, $second:expr, $mask:expr, $apart:expr, $meaning:expr, $x86:literal, $arm:literal,
     $with:expr, $doc:literal) => {
        bits!(
            $name, $op, $second,
            [
                bits!(copied "copied", $apart, W64, $mask, W64, $op, W64),
                bits!(in_place "in place", $mask, W64, $op, W64)
            ],
            $meaning, $x86, $arm, $with, $doc
        )
    };
    // A value of 32 bits is zero if and only if it is zero as 64 bits.
    (narrow $name:literal, $op:ident, $second:expr, $mask:expr, $apart:expr, $meaning:expr, $x86:literal, $arm:literal,
     $with:expr, $doc:literal) => {
        bits!(
            $name, $op, $second,
            [
                bits!(copied "copied", $apart, ANY, $mask, ANY, $op, W32),
                bits!(in_place "in place", $mask, ANY, $op, W32),
                bits!(copied "copied, wide branch", $apart, ANY, $mask, W32, $op, W64),
                bits!(copied "lower half copied, wide branch", $apart, W32, $mask, W64, $op, W64),
                bits!(in_place "in place, wide branch", $mask, W32, $op, W64)
            ],
            $meaning, $x86, $arm, $with, $doc
        )
    };
}

const APART: &[Condition] = &[Condition::Differ(0, 1)];
const ALL_APART: &[Condition] = &[Condition::Differ(0, 1), Condition::Differ(0, 2)];
const REGISTER: From = From::Reg(2);
const NUMBER: From = From::Imm(Imm::Operand(2));
const B: NativeOperand = NativeOperand::Reg(2);
const K: NativeOperand = NativeOperand::Imm(Imm::Operand(2));

const BY_REGISTER: Expr = Expr::And(&Expr::Reg(1), &Expr::Reg(2));
const BY_NUMBER: Expr = Expr::And(&Expr::Reg(1), &Expr::Imm(Imm::Operand(2)));
const NONE: Expr = Expr::IsZero(&BY_REGISTER);
const NONE_LOW: Expr = Expr::IsZero(&Expr::Truncate(32, &BY_REGISTER));
const NONE_OF_NUMBER: Expr = Expr::IsZero(&BY_NUMBER);
const NONE_OF_NUMBER_LOW: Expr = Expr::IsZero(&Expr::Truncate(32, &BY_NUMBER));
const ONE: Expr = Expr::Imm(Imm::Constant(1));

/// Every row: its constant, its name, its kind, and what it leaves by.
macro_rules! rows {
    ($($constant:ident, $name:literal, $kind:ident, $op:ident, $second:expr, $mask:expr, $apart:expr, $meaning:expr,
       $x86:literal, $arm:literal, $with:expr, $doc:literal;)*) => {
        $(
            #[doc = $doc]
            pub const $constant: Operation = bits!(
                $kind $name, $op, $second, $mask, $apart, $meaning, $x86, $arm, $with, $doc
            );
        )*
    };
}

rows! {
    BRANCH_IF_BITS_32, "branch_if_bits_32", narrow, Ne, source("b"), REGISTER, ALL_APART, Expr::Xor(&NONE_LOW, &ONE),
        "test32", "tst32", B, "Leaves if the lower halves of a and b have a common bit.";
    BRANCH_IF_BITS_64, "branch_if_bits_64", wide, Ne, source("b"), REGISTER, ALL_APART, Expr::Xor(&NONE, &ONE),
        "test64", "tst64", B, "Leaves if a and b have a common bit.";
    BRANCH_IF_NO_BITS_32, "branch_if_no_bits_32", narrow, Eq, source("b"), REGISTER, ALL_APART, NONE_LOW,
        "test32", "tst32", B, "Leaves if the lower halves of a and b have no common bit.";
    BRANCH_IF_NO_BITS_64, "branch_if_no_bits_64", wide, Eq, source("b"), REGISTER, ALL_APART, NONE,
        "test64", "tst64", B, "Leaves if a and b have no common bit.";
    BRANCH_IF_BITS_CONSTANT_32, "branch_if_bits_constant_32", narrow, Ne, ANY_NUMBER, NUMBER, APART,
        Expr::Xor(&NONE_OF_NUMBER_LOW, &ONE), "testi32", "tsti32", K,
        "Leaves if the lower half of a has a bit of a number.";
    BRANCH_IF_BITS_CONSTANT_64, "branch_if_bits_constant_64", wide, Ne, ANY_NUMBER, NUMBER, APART,
        Expr::Xor(&NONE_OF_NUMBER, &ONE), "testi64", "tsti64", K, "Leaves if a has a bit of a number.";
    BRANCH_IF_NO_BITS_CONSTANT_32, "branch_if_no_bits_constant_32", narrow, Eq, ANY_NUMBER, NUMBER, APART,
        NONE_OF_NUMBER_LOW, "testi32", "tsti32", K, "Leaves if the lower half of a has no bit of a number.";
    BRANCH_IF_NO_BITS_CONSTANT_64, "branch_if_no_bits_constant_64", wide, Eq, ANY_NUMBER, NUMBER, APART,
        NONE_OF_NUMBER, "testi64", "tsti64", K, "Leaves if a has no bit of a number.";
}
