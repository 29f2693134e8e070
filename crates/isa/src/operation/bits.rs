//! Rows that leave if some bits of a register are set, or none of them: a conjunction that only a branch reads.

use super::parts::*;

/// The conjunction, and what is tested; the bits are at 2.
const T: Index = 0;
const A: Index = 1;

/// Tests of the bits that a register or a number has, which leave if some are set or if none is.
struct Tested<Bits, const IF: bool>(Bits);

const SOME_SET: bool = true;
const NONE_SET: bool = false;

impl<Bits: Second, const IF: bool> Tested<Bits, IF> {
    const FAMILY: Operation = Operation {
        operands: &[temporary("t"), source("a"), Bits::OPERAND],
        pays: "flags in headers: an instruction or two saved per test",
        ..ROW
    };
    const WHOLE: Operation = Operation {
        forms: &[
            Form { name: "copied", when: Bits::APART, code: &[copy(W64), Self::and(W64), Self::leave(Width::W64)] },
            Form { name: "in place", when: IN_PLACE, code: &[Self::and(W64), Self::leave(Width::W64)] },
        ],
        ..Self::FAMILY
    };
    /// A value of 32 bits is zero if and only if it is zero as 64 bits.
    const LOWER: Operation = Operation {
        forms: &[
            Form { name: "copied", when: Bits::APART, code: &[copy(ANY), Self::and(ANY), Self::leave(Width::W32)] },
            Form { name: "in place", when: IN_PLACE, code: &[Self::and(ANY), Self::leave(Width::W32)] },
            Form {
                name: "copied, wide branch",
                when: Bits::APART,
                code: &[copy(ANY), Self::and(W32), Self::leave(Width::W64)],
            },
            Form {
                name: "lower half copied, wide branch",
                when: Bits::APART,
                code: &[copy(W32), Self::and(W64), Self::leave(Width::W64)],
            },
            Form { name: "in place, wide branch", when: IN_PLACE, code: &[Self::and(W32), Self::leave(Width::W64)] },
        ],
        ..Self::FAMILY
    };

    const fn and(widths: &'static [Width]) -> Template {
        alu(AND, widths, T, Bits::SRC)
    }

    const fn leave(width: Width) -> Template {
        let test = Test::Is(if IF == SOME_SET { JumpOp::Ne } else { JumpOp::Eq });
        Template::Branch { test, width, dst: T, src: constant(0), to: Exit::Out }
    }
}

const IN_PLACE: &[Condition] = &[Same(T, A)];

const fn copy(widths: &'static [Width]) -> Template {
    alu(MOVE, widths, T, Reg(A))
}

const SET: NativeOperand = NativeOperand::Is(JumpOp::Ne);
const CLEAR: NativeOperand = NativeOperand::Is(JumpOp::Eq);
const K: NativeOperand = imm(Imm::Operand(2));

const COMMON: Expr = And(&Expr::Reg(A), &Expr::Reg(2));
const OF_NUMBER: Expr = And(&Expr::Reg(A), &Expr::Imm(Imm::Operand(2)));
const NONE: Expr = IsZero(&COMMON);
const NONE_LOW: Expr = IsZero(&Truncate(32, &COMMON));
const NONE_OF_NUMBER: Expr = IsZero(&OF_NUMBER);
const NONE_OF_NUMBER_LOW: Expr = IsZero(&Truncate(32, &OF_NUMBER));

pub const ROWS: &[Operation] = &[
    Operation {
        name: "branch_if_bits_32",
        doc: "Leaves if the lower halves of a and b have a common bit.",
        effects: &[Leave(Xor(&NONE_LOW, &ONE))],
        native: &[
            native(X86_64, &[insn("test32", &[reg(A), reg(2)]), insn("jcc64", &[SET])]),
            native(Aarch64, &[insn("tst32", &[reg(A), reg(2)]), insn("bcond64", &[SET])]),
        ],
        ..Tested::<InRegister<2>, SOME_SET>::LOWER
    },
    Operation {
        name: "branch_if_bits_64",
        doc: "Leaves if a and b have a common bit.",
        effects: &[Leave(Xor(&NONE, &ONE))],
        native: &[
            native(X86_64, &[insn("test64", &[reg(A), reg(2)]), insn("jcc64", &[SET])]),
            native(Aarch64, &[insn("tst64", &[reg(A), reg(2)]), insn("bcond64", &[SET])]),
        ],
        ..Tested::<InRegister<2>, SOME_SET>::WHOLE
    },
    Operation {
        name: "branch_if_no_bits_32",
        doc: "Leaves if the lower halves of a and b have no common bit.",
        effects: &[Leave(NONE_LOW)],
        native: &[
            native(X86_64, &[insn("test32", &[reg(A), reg(2)]), insn("jcc64", &[CLEAR])]),
            native(Aarch64, &[insn("tst32", &[reg(A), reg(2)]), insn("bcond64", &[CLEAR])]),
        ],
        ..Tested::<InRegister<2>, NONE_SET>::LOWER
    },
    Operation {
        name: "branch_if_no_bits_64",
        doc: "Leaves if a and b have no common bit.",
        effects: &[Leave(NONE)],
        native: &[
            native(X86_64, &[insn("test64", &[reg(A), reg(2)]), insn("jcc64", &[CLEAR])]),
            native(Aarch64, &[insn("tst64", &[reg(A), reg(2)]), insn("bcond64", &[CLEAR])]),
        ],
        ..Tested::<InRegister<2>, NONE_SET>::WHOLE
    },
    Operation {
        name: "branch_if_bits_constant_32",
        doc: "Leaves if the lower half of a has a bit of a number.",
        effects: &[Leave(Xor(&NONE_OF_NUMBER_LOW, &ONE))],
        native: &[
            native(X86_64, &[insn("testi32", &[reg(A), K]), insn("jcc64", &[SET])]),
            native(Aarch64, &[insn("tsti32", &[reg(A), K]), insn("bcond64", &[SET])]),
        ],
        ..Tested::<Number<2>, SOME_SET>::LOWER
    },
    Operation {
        name: "branch_if_bits_constant_64",
        doc: "Leaves if a has a bit of a number.",
        effects: &[Leave(Xor(&NONE_OF_NUMBER, &ONE))],
        native: &[
            native(X86_64, &[insn("testi64", &[reg(A), K]), insn("jcc64", &[SET])]),
            native(Aarch64, &[insn("tsti64", &[reg(A), K]), insn("bcond64", &[SET])]),
        ],
        ..Tested::<Number<2>, SOME_SET>::WHOLE
    },
    Operation {
        name: "branch_if_no_bits_constant_32",
        doc: "Leaves if the lower half of a has no bit of a number.",
        effects: &[Leave(NONE_OF_NUMBER_LOW)],
        native: &[
            native(X86_64, &[insn("testi32", &[reg(A), K]), insn("jcc64", &[CLEAR])]),
            native(Aarch64, &[insn("tsti32", &[reg(A), K]), insn("bcond64", &[CLEAR])]),
        ],
        ..Tested::<Number<2>, NONE_SET>::LOWER
    },
    Operation {
        name: "branch_if_no_bits_constant_64",
        doc: "Leaves if a has no bit of a number.",
        effects: &[Leave(NONE_OF_NUMBER)],
        native: &[
            native(X86_64, &[insn("testi64", &[reg(A), K]), insn("jcc64", &[CLEAR])]),
            native(Aarch64, &[insn("tsti64", &[reg(A), K]), insn("bcond64", &[CLEAR])]),
        ],
        ..Tested::<Number<2>, NONE_SET>::WHOLE
    },
];
