//! A native operation added by a crate outside of Kiln: the address of an element of 8 bytes by a signed index.
//!
//! Below version 4 of the instruction set, compilers extend an `int` index by two shifts, and the second one also
//! multiplies:
//!
//! ```text
//!   r2 <<= 32 ; r2 s>>= 29 ; r1 += r2            x86-64:  movsxd r10, esi ; lea rdi, [rdi + 8*r10]
//!                                                arm64:   sxtw x10, w2    ; add x1, x1, x10, lsl #3
//! ```
//!
//! The row below is everything that the operation needs. [`REGISTRY`] has it beside Kiln's own rows; pass it to the
//! recognizer (`kiln_idiom::annotate`) and to the VM (`kiln_vm::Options::operations`). The test of this crate shows each
//! step, and the proof obligation first: `kiln_equiv::operation::prove` shows that every proof sequence has the meaning.
//! That the native code has it too is tried when a VM is made with the registry, on operands at limits and at random; to
//! prove it takes a theorem (`proofs/`).
#![forbid(unsafe_code)]

use kiln_isa::operation::{
    Arch, Condition, Effect, Expr, Form, From, Imm, Native, NativeInsn, NativeOperand, Operand, OperandKind, Operation,
    Registry, Template, table,
};
use kiln_isa::{AluOp, Width};

/// Base and result, index, the extended index.
const D: u8 = 0;
const B: u8 = 1;
const I: u8 = 2;
const T: u8 = 3;

const fn step(op: &'static [AluOp], dst: u8, src: From) -> Template {
    Template::Alu { ops: op, widths: &[Width::W64], dst, src }
}

const fn operand(name: &'static str, kind: OperandKind) -> Operand {
    Operand { name, kind }
}

const EIGHT: NativeOperand = NativeOperand::Imm(Imm::Constant(3));
const EXTENDED: NativeOperand = NativeOperand::Scratch(0);

/// Adds a base and a signed 32-bit index times 8.
pub const ELEMENT_OF_8: Operation = Operation {
    name: "example_element_of_8",
    doc: "Adds b and the signed lower half of i times 8.",
    operands: &[
        operand("d", OperandKind::Result),
        operand("b", OperandKind::Source),
        operand("i", OperandKind::Source),
        operand("t", OperandKind::Temporary),
    ],
    forms: &[Form {
        name: "index extended in place",
        when: &[Condition::Same(D, B), Condition::Same(I, T), Condition::Differ(D, T)],
        code: &[
            step(&[AluOp::Lsh], T, From::Imm(Imm::Constant(32))),
            step(&[AluOp::Arsh], T, From::Imm(Imm::Constant(29))),
            step(&[AluOp::Add], D, From::Reg(T)),
        ],
    }],
    effects: &[Effect::Register(
        D,
        Expr::Add(
            &Expr::Reg(B),
            &Expr::Shl(&Expr::SignExtend(&Expr::Truncate(32, &Expr::Reg(I))), &Expr::Imm(Imm::Constant(3))),
        ),
    )],
    native: &[
        Native {
            arch: Arch::X86_64,
            needs: &[],
            when: &[],
            code: &[
                NativeInsn { name: "movsxd64", operands: &[EXTENDED, NativeOperand::Reg(I)] },
                NativeInsn {
                    name: "lea64",
                    operands: &[NativeOperand::Reg(D), NativeOperand::Reg(B), EXTENDED, EIGHT],
                },
            ],
        },
        Native {
            arch: Arch::Aarch64,
            needs: &[],
            when: &[],
            code: &[
                NativeInsn { name: "sxtw64", operands: &[EXTENDED, NativeOperand::Reg(I)] },
                NativeInsn {
                    name: "addlsl64",
                    operands: &[NativeOperand::Reg(D), NativeOperand::Reg(B), EXTENDED, EIGHT],
                },
            ],
        },
    ],
    pays: "tables with int indices",
};

const ROWS: usize = table::OPERATIONS.len() + 1;

/// The row above, then Kiln's.
static OPERATIONS: [&Operation; ROWS] = {
    let mut rows: [&Operation; ROWS] = [&ELEMENT_OF_8; ROWS];
    let mut at = 0;
    while at + 1 < ROWS {
        rows[at + 1] = table::OPERATIONS[at];
        at += 1;
    }
    rows
};

/// Kiln's operations and this crate's.
pub const REGISTRY: Registry = Registry::new(&OPERATIONS);
