//! Rows with two accesses to adjacent places of 8 bytes, which native code makes as one access of 16.
//!
//! ```text
//!   r1 = 0 ; *(u64 *)(r10 - 8) = r1 ; *(u64 *)(r10 - 16) = r1        clear_pair b=r10 o=-16
//!   x86-64:  xorps xmm0, xmm0 ; movups [rbp - 16], xmm0              aarch64:  stp xzr, xzr, [x25, #-16]
//! ```
//!
//! Compilers write such accesses upwards and downwards, so each row has both.
//!
//! 64-bit Arm promises for a pair what it promises for its halves: each is one access if it is aligned, and neither
//! comes first. x86-64 promises less for 16 bytes and more for two stores, whose order others can see. So there a pair is
//! cleared only on the program's own stack, which no one else looks at.

use super::parts::*;

/// The base, and two more operands.
const B: Index = 0;
const D: Index = 2;
const E: Index = 3;
/// The place of the lower half, and of the upper one.
const LOW: Imm = Imm::Operand(1);
const HIGH: Imm = Imm::Sum(8, 1);
/// The upper half must be reachable, too.
const OFFSET: Operand = immediate("o", -32768, 32767 - 8);
const MEMORY: NativeOperand = NativeOperand::Memory(B, LOW);
/// The frame pointer.
const FRAME: u8 = 10;

const fn place(offset: Imm) -> Place {
    Place { size: Size::B8, base: B, offset }
}

const fn store(offset: Imm, src: From) -> Template {
    Template::Store { size: Size::B8, base: B, offset, src }
}

const fn load(dst: Index, offset: Imm) -> Template {
    Template::Load { size: Size::B8, dst, base: B, offset }
}

pub const ROWS: &[Operation] = &[
    Operation {
        name: "clear_pair",
        doc: "Stores zero in 16 bytes of memory.",
        operands: &[source("b"), OFFSET],
        forms: &[
            Form { name: "upwards", when: &[], code: &[store(LOW, constant(0)), store(HIGH, constant(0))] },
            Form { name: "downwards", when: &[], code: &[store(HIGH, constant(0)), store(LOW, constant(0))] },
        ],
        effects: &[Memory(place(LOW), Expr::Imm(Imm::Constant(0))), Memory(place(HIGH), Expr::Imm(Imm::Constant(0)))],
        native: &[
            Native { when: &[Is(B, FRAME)], ..native(X86_64, &[insn("xorps32", &[]), insn("movups32", &[MEMORY])]) },
            native(Aarch64, &[insn("stpzr64", &[MEMORY])]),
        ],
        pays: "structures on the stack that are cleared before they are filled: keys, values, events",
    },
    Operation {
        name: "load_pair",
        doc: "Loads 16 bytes into two registers.",
        operands: &[source("b"), OFFSET, result("d"), result("e")],
        forms: &[
            Form { name: "upwards", when: &[Differ(B, D), Differ(D, E)], code: &[load(D, LOW), load(E, HIGH)] },
            Form { name: "downwards", when: &[Differ(B, E), Differ(D, E)], code: &[load(E, HIGH), load(D, LOW)] },
        ],
        effects: &[Register(D, Load(Size::B8, B, LOW)), Register(E, Load(Size::B8, B, HIGH))],
        native: &[native(Aarch64, &[insn("ldp64", &[reg(D), reg(E), MEMORY])])],
        pays: "copies and comparisons of structures on 64-bit Arm",
    },
    Operation {
        name: "store_pair",
        doc: "Stores two registers in 16 bytes of memory.",
        operands: &[source("b"), OFFSET, source("s"), source("u")],
        forms: &[
            Form { name: "upwards", when: &[], code: &[store(LOW, Reg(D)), store(HIGH, Reg(E))] },
            Form { name: "downwards", when: &[], code: &[store(HIGH, Reg(E)), store(LOW, Reg(D))] },
        ],
        effects: &[Memory(place(LOW), Expr::Reg(D)), Memory(place(HIGH), Expr::Reg(E))],
        native: &[native(Aarch64, &[insn("stp64", &[MEMORY, reg(D), reg(E)])])],
        pays: "copies and records of structures on 64-bit Arm",
    },
];
