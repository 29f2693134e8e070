//! Rows that compare one register with several numbers, and leave if one of them, or none of them, is equal.
//!
//! ```text
//!   if r1 == 6 goto out                     the same, if the last comparison leads elsewhere:
//!   if r1 == 17 goto out                    if r1 == 6 goto end ; if r1 == 17 goto end ; if r1 != 58 goto out ; end:
//!   if r1 == 58 goto out
//! ```
//!
//! Native code is one branch: the numbers are bits of a set, counted from the least of them, and the register less that
//! number is below 64 and in the set. Shifts take the amount modulo 64, so that the bit is made a limit, 64 or 0:
//!
//! ```text
//!   x86-64:  lea s, [a - 6] ; mov t, set ; bt t, s ; sbb t, t ; and t, 64 ; cmp s, t ; jb out
//!   aarch64: sub s, a, #6 ; mov t, set ; lsr t, t, s ; and t, t, #1 ; cmp s, t, lsl #6 ; b.lo out
//! ```
//!
//! There is no second branch for numbers outside of the set's range: it would have to be predicted, too.

use super::meaning::Expr;
use super::parts::{immediate, source};
use super::row::{
    Arch, Condition, Effect, Exit, Form, From, Imm, Index, Native, NativeInsn, NativeOperand, Operation, Template, Test,
};
use crate::insn::Width;
use crate::table::JumpOp;

const A: NativeOperand = NativeOperand::Reg(0);
const PLACE: NativeOperand = NativeOperand::Scratch(0);
const BIT: NativeOperand = NativeOperand::Scratch(1);

const NUMBERS: &[Index] = &[1, 2, 3, 4, 5, 6, 7];
const LEAST: NativeOperand = NativeOperand::Imm(Imm::Least(NUMBERS));
const IN_A_SET: &[Condition] = &[Condition::Within(64, NUMBERS)];

const fn number(value: i32) -> NativeOperand {
    NativeOperand::Imm(Imm::Constant(value))
}

const fn branch(op: JumpOp, width: Width, number: Index, to: Exit) -> Template {
    let src = From::Imm(Imm::Operand(number));
    Template::Branch { test: Test::Is(op), width, dst: 0, src, to }
}

/// Chains of comparisons: a = 0, the numbers = 1 to 7. A shorter chain has its last number several times.
macro_rules! chain {
    ($name:literal, $width:ident, $to:ident, $last:ident, $meaning:expr, $less:literal, $subtract:literal, $leave:ident,
     $doc:literal) => {
        Operation {
            name: $name,
            doc: $doc,
            operands: &[
                source("a"),
                chain!(number "k1"),
                chain!(number "k2"),
                chain!(number "k3"),
                chain!(number "k4"),
                chain!(number "k5"),
                chain!(number "k6"),
                chain!(number "k7"),
            ],
            forms: &[
                chain!(form "seven numbers", $width, $to, $last, [1, 2, 3, 4, 5, 6], 7, []),
                chain!(form "six numbers", $width, $to, $last, [1, 2, 3, 4, 5], 6, [7]),
                chain!(form "five numbers", $width, $to, $last, [1, 2, 3, 4], 5, [6, 7]),
                chain!(form "four numbers", $width, $to, $last, [1, 2, 3], 4, [5, 6, 7]),
                chain!(form "three numbers", $width, $to, $last, [1, 2], 3, [4, 5, 6, 7]),
            ],
            effects: &[Effect::Leave($meaning)],
            native: &[
                Native {
                    arch: Arch::X86_64,
                    needs: &[],
                    when: IN_A_SET,
                    code: &[
                        NativeInsn { name: $less, operands: &[PLACE, A, LEAST] },
                        NativeInsn { name: "movset64", operands: &[BIT, NativeOperand::Set(NUMBERS)] },
                        NativeInsn { name: "bt64", operands: &[BIT, PLACE] },
                        NativeInsn { name: "sbb32", operands: &[BIT] },
                        NativeInsn { name: "andi32", operands: &[BIT, number(64)] },
                        NativeInsn { name: "cmp64", operands: &[PLACE, BIT] },
                        NativeInsn { name: "jcc64", operands: &[NativeOperand::Is(JumpOp::$leave)] },
                    ],
                },
                Native {
                    arch: Arch::Aarch64,
                    needs: &[],
                    when: IN_A_SET,
                    code: &[
                        NativeInsn { name: $subtract, operands: &[PLACE, A, LEAST] },
                        NativeInsn { name: "movset64", operands: &[BIT, NativeOperand::Set(NUMBERS)] },
                        NativeInsn { name: "lsrv64", operands: &[BIT, BIT, PLACE] },
                        NativeInsn { name: "andi64", operands: &[BIT, BIT, number(1)] },
                        NativeInsn { name: "cmplsl64", operands: &[PLACE, BIT, number(6)] },
                        NativeInsn { name: "bcond64", operands: &[NativeOperand::Is(JumpOp::$leave)] },
                    ],
                },
            ],
            pays: "protocols and ports: as fast as the chain where that is predicted, up to 2.3 times where not",
        }
    };
    (number $name:literal) => { immediate($name, -i32::MAX, i32::MAX) };
    (form $name:literal, $width:ident, $to:ident, $last:ident, [$($number:literal),*], $least:literal, [$($same:literal),*]) => {
        Form {
            name: $name,
            when: &[$(Condition::Same($least, $same)),*],
            code: &[
                $(branch(JumpOp::Eq, Width::$width, $number, Exit::$to),)*
                branch(JumpOp::$last, Width::$width, $least, Exit::Out),
            ],
        }
    };
}

const WHOLE: Expr = Expr::Among(&Expr::Reg(0), NUMBERS);
const LOWER: Expr = Expr::Among(&Expr::Truncate(32, &Expr::Reg(0)), NUMBERS);
const ONE: Expr = Expr::Imm(Imm::Constant(1));

/// Leaves if a register is one of several numbers.
pub const BRANCH_IF_ANY_64: Operation =
    chain!("branch_if_any_64", W64, Out, Eq, WHOLE, "leaminus64", "subi64", Lt, "Leaves if a is one of the numbers.");

/// Leaves if the lower half of a register is one of several numbers.
pub const BRANCH_IF_ANY_32: Operation = chain!(
    "branch_if_any_32",
    W32,
    Out,
    Eq,
    LOWER,
    "leaminus32",
    "subi32",
    Lt,
    "Leaves if the lower half of a is one of the numbers."
);

/// Leaves if a register is none of several numbers.
pub const BRANCH_IF_NONE_64: Operation = chain!(
    "branch_if_none_64",
    W64,
    End,
    Ne,
    Expr::Xor(&WHOLE, &ONE),
    "leaminus64",
    "subi64",
    Ge,
    "Leaves if a is none of the numbers."
);

/// Leaves if the lower half of a register is none of several numbers.
pub const BRANCH_IF_NONE_32: Operation = chain!(
    "branch_if_none_32",
    W32,
    End,
    Ne,
    Expr::Xor(&LOWER, &ONE),
    "leaminus32",
    "subi32",
    Ge,
    "Leaves if the lower half of a is none of the numbers."
);
