//! Rows that choose between two registers by a comparison.
//!
//! The proof sequence is a branch over a copy. A branch that is predicted well costs less than the choice, which has to
//! wait for the comparison and for both values. So the recognizer marks the form without a request only where it is told
//! that a branch is hard to predict; no compiler writes the other form, a copy of the register to itself first.

use super::parts::*;

/// The choice, its other value, what is compared, and how; the second side is at 3.
const D: Index = 0;
const S: Index = 1;
const A: Index = 2;
const C: Index = 4;

/// Choices by a comparison of 32 or 64 bits with a register or a number.
struct Chosen<const BITS: i32, By>(By);

impl<const BITS: i32, By: Second> Chosen<BITS, By> {
    const FAMILY: Operation = Operation {
        operands: &[result("d"), source("s"), source("a"), By::OPERAND, COMPARISON],
        forms: &[
            Form { name: "branch over a copy", when: &[], code: &[Self::SKIP, copy(S)] },
            Form { name: "requested", when: &[], code: &[copy(D), Self::SKIP, copy(S)] },
        ],
        pays: "branches that are hard to predict, and only there: found by a request or a profile",
        ..ROW
    };

    const SKIP: Template =
        Template::Branch { test: Test::Operand(C), width: width(BITS), dst: A, src: By::SRC, to: Exit::End };
}

const fn copy(from: Index) -> Template {
    alu(MOVE, W64, D, Reg(from))
}

const K: NativeOperand = imm(Imm::Operand(3));
const CMOV: NativeInsn = insn("cmovncc64", &[reg(D), reg(S), NativeOperand::Comparison(C)]);
const CSEL: NativeInsn = insn("csel64", &[reg(D), reg(D), reg(S), NativeOperand::Comparison(C)]);

const LEFT_SIDE: Expr = Expr::Reg(A);
const RIGHT_SIDE: Expr = Expr::Reg(3);
const VALUE: Expr = Expr::Imm(Imm::Operand(3));
const KEPT: Expr = Expr::Reg(D);
const COPIED: Expr = Expr::Reg(S);

pub const ROWS: &[Operation] = &[
    Operation {
        name: "select_32",
        doc: "Keeps d if the comparison c of the lower halves of a and b holds, and copies s to d if not.",
        effects: &[Register(D, Select(C, &Truncate(32, &LEFT_SIDE), &Truncate(32, &RIGHT_SIDE), &KEPT, &COPIED))],
        native: &[
            native(X86_64, &[insn("cmp32", &[reg(A), reg(3)]), CMOV]),
            native(Aarch64, &[insn("cmp32", &[reg(A), reg(3)]), CSEL]),
        ],
        ..Chosen::<32, InRegister<3>>::FAMILY
    },
    Operation {
        name: "select_64",
        doc: "Keeps d if the comparison c of a and b holds, and copies s to d if not.",
        effects: &[Register(D, Select(C, &LEFT_SIDE, &RIGHT_SIDE, &KEPT, &COPIED))],
        native: &[
            native(X86_64, &[insn("cmp64", &[reg(A), reg(3)]), CMOV]),
            native(Aarch64, &[insn("cmp64", &[reg(A), reg(3)]), CSEL]),
        ],
        ..Chosen::<64, InRegister<3>>::FAMILY
    },
    Operation {
        name: "select_constant_32",
        doc: "Keeps d if the comparison c of the lower half of a with a number holds, and copies s to d if not.",
        effects: &[Register(D, Select(C, &Truncate(32, &LEFT_SIDE), &Truncate(32, &VALUE), &KEPT, &COPIED))],
        native: &[
            native(X86_64, &[insn("cmpi32", &[reg(A), K]), CMOV]),
            native(Aarch64, &[insn("cmpi32", &[reg(A), K]), CSEL]),
        ],
        ..Chosen::<32, Number<3>>::FAMILY
    },
    Operation {
        name: "select_constant_64",
        doc: "Keeps d if the comparison c of a with a number holds, and copies s to d if not.",
        effects: &[Register(D, Select(C, &LEFT_SIDE, &VALUE, &KEPT, &COPIED))],
        native: &[
            native(X86_64, &[insn("cmpi64", &[reg(A), K]), CMOV]),
            native(Aarch64, &[insn("cmpi64", &[reg(A), K]), CSEL]),
        ],
        ..Chosen::<64, Number<3>>::FAMILY
    },
];
