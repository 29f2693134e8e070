//! Rows that change no value: what they are for is not in the meaning.
//!
//! A proof sequence is two instructions that each leave a register as it is. No compiler writes them, so a program that
//! has them asks for the operation (`bpf/include/kiln/ops.h`). A kernel that does not know the operation does nothing.

use super::parts::*;

const fn twice(code: &'static [Template]) -> Form {
    Form { name: "twice", when: &[], code }
}

pub const ROWS: &[Operation] = &[
    Operation {
        name: "prefetch",
        doc: "Asks for the cache line at the address p; p keeps its value, and no address faults.",
        operands: &[result("p")],
        forms: &[twice(&[alu(MOVE, W64, 0, Reg(0)), alu(MOVE, W64, 0, Reg(0))])],
        effects: &[Register(0, Expr::Reg(0))],
        native: &[native(X86_64, &[insn("prefetch64", &[reg(0)])]), native(Aarch64, &[insn("prfm64", &[reg(0)])])],
        pays: "only on request, where a program knows long before what it will read",
    },
    Operation {
        name: "speculation_barrier",
        doc: "Later instructions wait until all earlier ones, branches among them, are done; r keeps its value.",
        operands: &[result("r")],
        forms: &[twice(&[alu(AND, W64, 0, Reg(0)), alu(AND, W64, 0, Reg(0))])],
        effects: &[Register(0, Expr::Reg(0))],
        native: &[native(X86_64, &[insn("lfence64", &[])]), native(Aarch64, &[insn("dsbisb64", &[])])],
        pays: "never faster: only on request, between a bounds check and an access by a secret's reader",
    },
];
