//! Rows with one memory access: loads and stores in the other byte order, and arithmetic with an operand in memory.
//!
//! Native code accesses the same bytes once, so that an access that faults does so for both, and before either has
//! changed what others see.

use super::meaning::Expr;
use super::parts::{ANY, MOVE, W32, W64, alu, immediate, result, source, temporary};
use super::row::{
    Arch, Condition, Effect, Feature, Form, From, Imm, Native, NativeInsn, NativeOperand, Operation, Place, Template,
};
use crate::insn::Size;
use crate::table::AluOp;

/// The lowest `$bits` of an operand.
macro_rules! low {
    ($bits:literal, $expr:expr) => {
        Expr::Truncate($bits, &$expr)
    };
}

const fn native(arch: Arch, needs: &'static [Feature], code: &'static [NativeInsn]) -> Native {
    Native { arch, needs, when: &[], code }
}

const fn insn(name: &'static str, operands: &'static [NativeOperand]) -> NativeInsn {
    NativeInsn { name, operands }
}

/// Loads in the other byte order: d = 0, b = 1, o = 2.
const LOADED: NativeOperand = NativeOperand::Memory(1, Imm::Operand(2));
const D: NativeOperand = NativeOperand::Reg(0);

macro_rules! load_swapped {
    ($name:literal, $size:ident, $bits:literal, $x86:expr, $needs:expr, $load:literal, $reverse:literal, $doc:literal) => {
        Operation {
            name: $name,
            doc: $doc,
            operands: &[result("d"), source("b"), immediate("o", -32768, 32767)],
            forms: &[Form {
                name: "loaded and swapped",
                when: &[],
                code: &[
                    Template::Load { size: Size::$size, dst: 0, base: 1, offset: Imm::Operand(2) },
                    Template::Swap { size: Size::$size, dst: 0 },
                ],
            }],
            effects: &[Effect::Register(
                0,
                Expr::ZeroExtend(&Expr::SwapBytes(&low!($bits, Expr::Load(Size::$size, 1, Imm::Operand(2))))),
            )],
            native: &[
                native(Arch::X86_64, $needs, $x86),
                native(Arch::Aarch64, &[], &[insn($load, &[D, LOADED]), insn($reverse, &[D, D])]),
            ],
            pays: "headers of network protocols",
        }
    };
}

/// A load of 2 bytes in the other byte order.
pub const LOAD_SWAPPED_16: Operation = load_swapped!(
    "load_swapped_16",
    B2,
    16,
    &[insn("movzxw32", &[D, LOADED]), insn("rolw32", &[D, NativeOperand::Imm(Imm::Constant(8))])],
    &[],
    "ldrh32",
    "reverse16",
    "Loads 2 bytes in reverse order."
);

/// A load of 4 bytes in the other byte order.
pub const LOAD_SWAPPED_32: Operation = load_swapped!(
    "load_swapped_32",
    B4,
    32,
    &[insn("movbe32", &[D, LOADED])],
    &[Feature::Movbe],
    "ldr32",
    "rev32",
    "Loads 4 bytes in reverse order."
);

/// A load of 8 bytes in the other byte order.
pub const LOAD_SWAPPED_64: Operation = load_swapped!(
    "load_swapped_64",
    B8,
    64,
    &[insn("movbe64", &[D, LOADED])],
    &[Feature::Movbe],
    "ldr64",
    "rev64",
    "Loads 8 bytes in reverse order."
);

/// Stores in the other byte order: b = 0, o = 1, s = 2, t = 3.
const STORED: NativeOperand = NativeOperand::Memory(0, Imm::Operand(1));
const S: NativeOperand = NativeOperand::Reg(2);
/// The first scratch register may hold an address whose offset is large.
const REVERSED: NativeOperand = NativeOperand::Scratch(1);

macro_rules! store_swapped {
    ($name:literal, $size:ident, $bits:literal, $copies:ident, $movbe:literal, $reverse:literal, $store:literal,
     $doc:literal) => {
        Operation {
            name: $name,
            doc: $doc,
            operands: &[source("b"), immediate("o", -32768, 32767), source("s"), temporary("t")],
            forms: &[
                Form {
                    name: "copied",
                    when: &[Condition::Differ(2, 3), Condition::Differ(0, 3)],
                    code: &[
                        alu(MOVE, $copies, 3, From::Reg(2)),
                        Template::Swap { size: Size::$size, dst: 3 },
                        Template::Store { size: Size::$size, base: 0, offset: Imm::Operand(1), src: From::Reg(3) },
                    ],
                },
                Form {
                    name: "swapped in place",
                    when: &[Condition::Same(2, 3), Condition::Differ(0, 3)],
                    code: &[
                        Template::Swap { size: Size::$size, dst: 3 },
                        Template::Store { size: Size::$size, base: 0, offset: Imm::Operand(1), src: From::Reg(3) },
                    ],
                },
            ],
            effects: &[Effect::Memory(
                Place { size: Size::$size, base: 0, offset: Imm::Operand(1) },
                Expr::SwapBytes(&low!($bits, Expr::Reg(2))),
            )],
            native: &[
                native(Arch::X86_64, &[Feature::Movbe], &[insn($movbe, &[STORED, S])]),
                native(Arch::Aarch64, &[], &[insn($reverse, &[REVERSED, S]), insn($store, &[STORED, REVERSED])]),
            ],
            pays: "writing headers of network protocols and digests",
        }
    };
}

/// A store of 2 bytes in the other byte order.
pub const STORE_SWAPPED_16: Operation = store_swapped!(
    "store_swapped_16",
    B2,
    16,
    ANY,
    "movbestorew32",
    "reverse16",
    "strh32",
    "Stores the lowest 2 bytes of s in reverse order."
);

/// A store of 4 bytes in the other byte order.
pub const STORE_SWAPPED_32: Operation = store_swapped!(
    "store_swapped_32",
    B4,
    32,
    ANY,
    "movbestore32",
    "rev32",
    "str32",
    "Stores the lowest 4 bytes of s in reverse order."
);

/// A store of 8 bytes in the other byte order.
pub const STORE_SWAPPED_64: Operation = store_swapped!(
    "store_swapped_64",
    B8,
    64,
    W64,
    "movbestore64",
    "rev64",
    "str64",
    "Stores the bytes of s in reverse order."
);

/// Arithmetic with an operand in memory: d = 0, b = 1, o = 2, t = 3.
macro_rules! with_memory {
    ($name:literal, $size:ident, $widths:ident, $op:ident, $meaning:expr, $insn:literal, $doc:literal) => {
        Operation {
            name: $name,
            doc: $doc,
            operands: &[result("d"), source("b"), immediate("o", -32768, 32767), temporary("t")],
            forms: &[Form {
                name: "loaded",
                when: &[Condition::Differ(0, 3)],
                code: &[
                    Template::Load { size: Size::$size, dst: 3, base: 1, offset: Imm::Operand(2) },
                    alu(&[AluOp::$op], $widths, 0, From::Reg(3)),
                ],
            }],
            effects: &[Effect::Register(0, $meaning)],
            native: &[native(Arch::X86_64, &[], &[insn($insn, &[D, LOADED])])],
            pays: "sums, hashes and tables: one instruction and one register saved",
        }
    };
}

const WORD: Expr = Expr::Load(Size::B8, 1, Imm::Operand(2));
const HALF: Expr = low!(32, Expr::Load(Size::B4, 1, Imm::Operand(2)));
const LOW: Expr = low!(32, Expr::Reg(0));

/// The two widths of one operation.
macro_rules! both_widths {
    ($narrow:ident, $wide:ident, $op:ident, $doc:literal,
     $name32:literal, $insn32:literal, $name64:literal, $insn64:literal) => {
        #[doc = $doc]
        pub const $narrow: Operation =
            with_memory!($name32, B4, W32, $op, Expr::ZeroExtend(&Expr::$op(&LOW, &HALF)), $insn32, $doc);
        #[doc = $doc]
        pub const $wide: Operation =
            with_memory!($name64, B8, W64, $op, Expr::$op(&Expr::Reg(0), &WORD), $insn64, $doc);
    };
}

both_widths!(
    ADD_MEMORY_32,
    ADD_MEMORY_64,
    Add,
    "Adds what memory holds to d.",
    "add_memory_32",
    "addm32",
    "add_memory_64",
    "addm64"
);
both_widths!(
    SUB_MEMORY_32,
    SUB_MEMORY_64,
    Sub,
    "Subtracts what memory holds from d.",
    "sub_memory_32",
    "subm32",
    "sub_memory_64",
    "subm64"
);
both_widths!(
    MUL_MEMORY_32,
    MUL_MEMORY_64,
    Mul,
    "Multiplies d by what memory holds.",
    "mul_memory_32",
    "imulm32",
    "mul_memory_64",
    "imulm64"
);
both_widths!(
    AND_MEMORY_32,
    AND_MEMORY_64,
    And,
    "Keeps the bits of d that memory holds, too.",
    "and_memory_32",
    "andm32",
    "and_memory_64",
    "andm64"
);
both_widths!(
    OR_MEMORY_32,
    OR_MEMORY_64,
    Or,
    "Sets the bits of d that memory holds.",
    "or_memory_32",
    "orm32",
    "or_memory_64",
    "orm64"
);
both_widths!(
    XOR_MEMORY_32,
    XOR_MEMORY_64,
    Xor,
    "Inverts the bits of d that memory holds.",
    "xor_memory_32",
    "xorm32",
    "xor_memory_64",
    "xorm64"
);
