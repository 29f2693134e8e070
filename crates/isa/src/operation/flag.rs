//! Rows with a branch: one or zero by a comparison.
//!
//! The branch leads over the last instruction, so that the proof sequence has one way in and one way out.

use super::parts::*;

/// The flag, what is compared, and how; the second side is at 2.
const D: Index = 0;
const A: Index = 1;
const C: Index = 3;

/// Comparisons of 32 or 64 bits with a register or a number.
struct Compared<const BITS: i32, To>(To);

impl<const BITS: i32, To: Second> Compared<BITS, To> {
    const FAMILY: Operation = Operation {
        operands: &[result("d"), source("a"), To::OPERAND, COMPARISON],
        forms: &[
            Form {
                name: "set, then cleared",
                when: To::APART,
                code: &[set(1), Self::skip_if(Test::Operand(C)), set(0)],
            },
            Form {
                name: "cleared, then set",
                when: To::APART,
                code: &[set(0), Self::skip_if(Test::Opposite(C)), set(1)],
            },
        ],
        pays: "comparisons that are hard to predict, and only there: found by a profile",
        ..ROW
    };

    const fn skip_if(test: Test) -> Template {
        Template::Branch { test, width: width(BITS), dst: A, src: To::SRC, to: Exit::End }
    }
}

const fn set(value: i32) -> Template {
    alu(MOVE, ANY, D, constant(value))
}

const K: NativeOperand = imm(Imm::Operand(2));
const ZERO: NativeInsn = insn("zero32", &[reg(D)]);
const SETCC: NativeInsn = insn("setcc32", &[reg(D), NativeOperand::Comparison(C)]);
const CSET: NativeInsn = insn("cset32", &[reg(D), NativeOperand::Comparison(C)]);

const LEFT_SIDE: Expr = Expr::Reg(A);
const RIGHT_SIDE: Expr = Expr::Reg(2);
const VALUE: Expr = Expr::Imm(Imm::Operand(2));

pub const ROWS: &[Operation] = &[
    Operation {
        name: "flag_32",
        doc: "One if the comparison c of the lower halves of a and b holds, zero if not.",
        effects: &[Register(D, Flag(C, &Truncate(32, &LEFT_SIDE), &Truncate(32, &RIGHT_SIDE)))],
        native: &[
            native(X86_64, &[ZERO, insn("cmp32", &[reg(A), reg(2)]), SETCC]),
            native(Aarch64, &[insn("cmp32", &[reg(A), reg(2)]), CSET]),
        ],
        ..Compared::<32, InRegister<2>>::FAMILY
    },
    Operation {
        name: "flag_64",
        doc: "One if the comparison c of a and b holds, zero if not.",
        effects: &[Register(D, Flag(C, &LEFT_SIDE, &RIGHT_SIDE))],
        native: &[
            native(X86_64, &[ZERO, insn("cmp64", &[reg(A), reg(2)]), SETCC]),
            native(Aarch64, &[insn("cmp64", &[reg(A), reg(2)]), CSET]),
        ],
        ..Compared::<64, InRegister<2>>::FAMILY
    },
    Operation {
        name: "flag_constant_32",
        doc: "One if the comparison c of the lower half of a with a number holds, zero if not.",
        effects: &[Register(D, Flag(C, &Truncate(32, &LEFT_SIDE), &Truncate(32, &VALUE)))],
        native: &[
            native(X86_64, &[ZERO, insn("cmpi32", &[reg(A), K]), SETCC]),
            native(Aarch64, &[insn("cmpi32", &[reg(A), K]), CSET]),
        ],
        ..Compared::<32, Number<2>>::FAMILY
    },
    Operation {
        name: "flag_constant_64",
        doc: "One if the comparison c of a with a number holds, zero if not.",
        effects: &[Register(D, Flag(C, &LEFT_SIDE, &VALUE))],
        native: &[
            native(X86_64, &[ZERO, insn("cmpi64", &[reg(A), K]), SETCC]),
            native(Aarch64, &[insn("cmpi64", &[reg(A), K]), CSET]),
        ],
        ..Compared::<64, Number<2>>::FAMILY
    },
];
