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

use super::meaning::Expr;
use super::parts::{immediate, result, source};
use super::row::{
    Arch, Condition, Effect, Form, From, Imm, Native, NativeInsn, NativeOperand, Operand, Operation, Place, Template,
};
use crate::insn::Size;

/// The place of the lower half, and of the upper one.
const LOW: Imm = Imm::Operand(1);
const HIGH: Imm = Imm::Sum(8, 1);
/// The upper half must be reachable, too.
const OFFSET: Operand = immediate("o", -32768, 32767 - 8);
const MEMORY: NativeOperand = NativeOperand::Memory(0, LOW);
/// The frame pointer.
const FRAME: u8 = 10;

const fn place(offset: Imm) -> Place {
    Place { size: Size::B8, base: 0, offset }
}

const fn store(offset: Imm, src: From) -> Template {
    Template::Store { size: Size::B8, base: 0, offset, src }
}

const fn load(dst: u8, offset: Imm) -> Template {
    Template::Load { size: Size::B8, dst, base: 0, offset }
}

const fn native(arch: Arch, when: &'static [Condition], code: &'static [NativeInsn]) -> Native {
    Native { arch, needs: &[], when, code }
}

const ZERO: From = From::Imm(Imm::Constant(0));

/// Zero into 16 bytes: b = 0, o = 1.
pub const CLEAR_PAIR: Operation = Operation {
    name: "clear_pair",
    doc: "Stores zero in 16 bytes of memory.",
    operands: &[source("b"), OFFSET],
    forms: &[
        Form { name: "upwards", when: &[], code: &[store(LOW, ZERO), store(HIGH, ZERO)] },
        Form { name: "downwards", when: &[], code: &[store(HIGH, ZERO), store(LOW, ZERO)] },
    ],
    effects: &[
        Effect::Memory(place(LOW), Expr::Imm(Imm::Constant(0))),
        Effect::Memory(place(HIGH), Expr::Imm(Imm::Constant(0))),
    ],
    native: &[
        native(
            Arch::X86_64,
            &[Condition::Is(0, FRAME)],
            &[NativeInsn { name: "xorps32", operands: &[] }, NativeInsn { name: "movups32", operands: &[MEMORY] }],
        ),
        native(Arch::Aarch64, &[], &[NativeInsn { name: "stpzr64", operands: &[MEMORY] }]),
    ],
    pays: "structures on the stack that are cleared before they are filled: keys, values, events",
};

const D: NativeOperand = NativeOperand::Reg(2);
const E: NativeOperand = NativeOperand::Reg(3);

/// Two loads: b = 0, o = 1, d = 2, e = 3.
pub const LOAD_PAIR: Operation = Operation {
    name: "load_pair",
    doc: "Loads 16 bytes into two registers.",
    operands: &[source("b"), OFFSET, result("d"), result("e")],
    forms: &[
        Form {
            name: "upwards",
            when: &[Condition::Differ(0, 2), Condition::Differ(2, 3)],
            code: &[load(2, LOW), load(3, HIGH)],
        },
        Form {
            name: "downwards",
            when: &[Condition::Differ(0, 3), Condition::Differ(2, 3)],
            code: &[load(3, HIGH), load(2, LOW)],
        },
    ],
    effects: &[Effect::Register(2, Expr::Load(Size::B8, 0, LOW)), Effect::Register(3, Expr::Load(Size::B8, 0, HIGH))],
    native: &[native(Arch::Aarch64, &[], &[NativeInsn { name: "ldp64", operands: &[D, E, MEMORY] }])],
    pays: "copies and comparisons of structures on 64-bit Arm",
};

/// Two stores: b = 0, o = 1, s = 2, u = 3.
pub const STORE_PAIR: Operation = Operation {
    name: "store_pair",
    doc: "Stores two registers in 16 bytes of memory.",
    operands: &[source("b"), OFFSET, source("s"), source("u")],
    forms: &[
        Form { name: "upwards", when: &[], code: &[store(LOW, From::Reg(2)), store(HIGH, From::Reg(3))] },
        Form { name: "downwards", when: &[], code: &[store(HIGH, From::Reg(3)), store(LOW, From::Reg(2))] },
    ],
    effects: &[Effect::Memory(place(LOW), Expr::Reg(2)), Effect::Memory(place(HIGH), Expr::Reg(3))],
    native: &[native(Arch::Aarch64, &[], &[NativeInsn { name: "stp64", operands: &[MEMORY, D, E] }])],
    pays: "copies and records of structures on 64-bit Arm",
};
