//! Rows that change no value: what they are for is not in the meaning.
//!
//! A proof sequence is two instructions that each leave a register as it is. No compiler writes them, so a program that
//! has them asks for the operation (`bpf/include/kiln/ops.h`). A kernel that does not know the operation does nothing.

use super::meaning::Expr;
use super::parts::{AND, MOVE, W64, alu, result};
use super::row::{Arch, Effect, Form, From, Native, NativeInsn, NativeOperand, Operation, Template};

const REGISTER: NativeOperand = NativeOperand::Reg(0);

const fn twice(code: &'static [Template]) -> Form {
    Form { name: "twice", when: &[], code }
}

const fn native(arch: Arch, code: &'static [NativeInsn]) -> Native {
    Native { arch, needs: &[], when: &[], code }
}

/// A hint to load a cache line.
pub const PREFETCH: Operation = Operation {
    name: "prefetch",
    doc: "Asks for the cache line at the address p; p keeps its value, and no address faults.",
    operands: &[result("p")],
    forms: &[twice(&[alu(MOVE, W64, 0, From::Reg(0)), alu(MOVE, W64, 0, From::Reg(0))])],
    effects: &[Effect::Register(0, Expr::Reg(0))],
    native: &[
        native(Arch::X86_64, &[NativeInsn { name: "prefetch64", operands: &[REGISTER] }]),
        native(Arch::Aarch64, &[NativeInsn { name: "prfm64", operands: &[REGISTER] }]),
    ],
    pays: "only on request, where a program knows long before what it will read",
};

/// A barrier that speculation does not pass.
pub const SPECULATION_BARRIER: Operation = Operation {
    name: "speculation_barrier",
    doc: "Later instructions wait until all earlier ones, branches among them, are done; r keeps its value.",
    operands: &[result("r")],
    forms: &[twice(&[alu(AND, W64, 0, From::Reg(0)), alu(AND, W64, 0, From::Reg(0))])],
    effects: &[Effect::Register(0, Expr::Reg(0))],
    native: &[
        native(Arch::X86_64, &[NativeInsn { name: "lfence64", operands: &[] }]),
        native(Arch::Aarch64, &[NativeInsn { name: "dsbisb64", operands: &[] }]),
    ],
    pays: "never faster: only on request, between a bounds check and an access by a secret's reader",
};
