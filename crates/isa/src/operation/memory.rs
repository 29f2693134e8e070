//! Rows with one memory access: loads and stores in the other byte order, and arithmetic with an operand in memory.
//!
//! Native code accesses the same bytes once, so that an access that faults does so for both, and before either has
//! changed what others see.

use super::parts::*;

const OFFSET: Operand = immediate("o", -32768, 32767);

/// Rows that load: the result, the base, the offset, and a temporary register for what is loaded.
const D: Index = 0;
const B: Index = 1;
const O: Imm = Imm::Operand(2);
const T: Index = 3;
const LOADED: NativeOperand = NativeOperand::Memory(B, O);

const fn load(size: Size, dst: Index) -> Template {
    Template::Load { size, dst, base: B, offset: O }
}

const fn load_swapped(code: &'static [Template]) -> Form {
    Form { name: "loaded and swapped", when: &[], code }
}

/// What loads in the other byte order share.
const LOAD_SWAPPED: Operation =
    Operation { operands: &[result("d"), source("b"), OFFSET], pays: "headers of network protocols", ..ROW };

/// Stores in the other byte order, of `BITS` bits.
struct StoreSwapped<const BITS: i32>;

/// The base, the offset, what is stored, and its reversed copy.
const TO: Index = 0;
const AT: Imm = Imm::Operand(1);
const S: Index = 2;
const COPY: Index = 3;
const STORED: NativeOperand = NativeOperand::Memory(TO, AT);
/// The first scratch register may hold an address whose offset is large.
const REVERSED: NativeOperand = NativeOperand::Scratch(1);

const fn place(size: Size) -> Place {
    Place { size, base: TO, offset: AT }
}

impl<const BITS: i32> StoreSwapped<BITS> {
    const FAMILY: Operation = Operation {
        operands: &[source("b"), OFFSET, source("s"), temporary("t")],
        forms: &[
            Form {
                name: "copied",
                when: &[Differ(S, COPY), Differ(TO, COPY)],
                code: &[alu(MOVE, at_least(BITS), COPY, Reg(S)), Self::SWAP, Self::STORE],
            },
            Form {
                name: "swapped in place",
                when: &[Same(S, COPY), Differ(TO, COPY)],
                code: &[Self::SWAP, Self::STORE],
            },
        ],
        pays: "writing headers of network protocols and digests",
        ..ROW
    };

    const SIZE: Size = match BITS {
        16 => Size::B2,
        32 => Size::B4,
        _ => Size::B8,
    };
    const SWAP: Template = Template::Swap { size: Self::SIZE, dst: COPY };
    const STORE: Template = Template::Store { size: Self::SIZE, base: TO, offset: AT, src: Reg(COPY) };
}

const fn loaded(code: &'static [Template]) -> Form {
    Form { name: "loaded", when: &[Differ(D, T)], code }
}

/// What arithmetic with an operand in memory shares.
const WITH_MEMORY: Operation = Operation {
    operands: &[result("d"), source("b"), OFFSET, temporary("t")],
    pays: "sums, hashes and tables: one instruction and one register saved",
    ..ROW
};

const LOAD_32: Template = load(Size::B4, T);
const LOAD_64: Template = load(Size::B8, T);
const WORD: Expr = Load(Size::B8, B, O);
const HALF: Expr = Truncate(32, &Load(Size::B4, B, O));
const LOW: Expr = Truncate(32, &Expr::Reg(D));

pub const ROWS: &[Operation] = &[
    Operation {
        name: "load_swapped_16",
        doc: "Loads 2 bytes in reverse order.",
        forms: &[load_swapped(&[load(Size::B2, D), Template::Swap { size: Size::B2, dst: D }])],
        effects: &[Register(D, ZeroExtend(&SwapBytes(&Truncate(16, &Load(Size::B2, B, O)))))],
        native: &[
            native(X86_64, &[insn("movzxw32", &[reg(D), LOADED]), insn("rolw32", &[reg(D), imm(Imm::Constant(8))])]),
            native(Aarch64, &[insn("ldrh32", &[reg(D), LOADED]), insn("reverse16", &[reg(D), reg(D)])]),
        ],
        ..LOAD_SWAPPED
    },
    Operation {
        name: "load_swapped_32",
        doc: "Loads 4 bytes in reverse order.",
        forms: &[load_swapped(&[load(Size::B4, D), Template::Swap { size: Size::B4, dst: D }])],
        effects: &[Register(D, ZeroExtend(&SwapBytes(&Truncate(32, &Load(Size::B4, B, O)))))],
        native: &[
            Native { needs: &[Feature::Movbe], ..native(X86_64, &[insn("movbe32", &[reg(D), LOADED])]) },
            native(Aarch64, &[insn("ldr32", &[reg(D), LOADED]), insn("rev32", &[reg(D), reg(D)])]),
        ],
        ..LOAD_SWAPPED
    },
    Operation {
        name: "load_swapped_64",
        doc: "Loads 8 bytes in reverse order.",
        forms: &[load_swapped(&[load(Size::B8, D), Template::Swap { size: Size::B8, dst: D }])],
        effects: &[Register(D, ZeroExtend(&SwapBytes(&Truncate(64, &Load(Size::B8, B, O)))))],
        native: &[
            Native { needs: &[Feature::Movbe], ..native(X86_64, &[insn("movbe64", &[reg(D), LOADED])]) },
            native(Aarch64, &[insn("ldr64", &[reg(D), LOADED]), insn("rev64", &[reg(D), reg(D)])]),
        ],
        ..LOAD_SWAPPED
    },
    Operation {
        name: "store_swapped_16",
        doc: "Stores the lowest 2 bytes of s in reverse order.",
        effects: &[Memory(place(Size::B2), SwapBytes(&Truncate(16, &Expr::Reg(S))))],
        native: &[
            Native { needs: &[Feature::Movbe], ..native(X86_64, &[insn("movbestorew32", &[STORED, reg(S)])]) },
            native(Aarch64, &[insn("reverse16", &[REVERSED, reg(S)]), insn("strh32", &[STORED, REVERSED])]),
        ],
        ..StoreSwapped::<16>::FAMILY
    },
    Operation {
        name: "store_swapped_32",
        doc: "Stores the lowest 4 bytes of s in reverse order.",
        effects: &[Memory(place(Size::B4), SwapBytes(&Truncate(32, &Expr::Reg(S))))],
        native: &[
            Native { needs: &[Feature::Movbe], ..native(X86_64, &[insn("movbestore32", &[STORED, reg(S)])]) },
            native(Aarch64, &[insn("rev32", &[REVERSED, reg(S)]), insn("str32", &[STORED, REVERSED])]),
        ],
        ..StoreSwapped::<32>::FAMILY
    },
    Operation {
        name: "store_swapped_64",
        doc: "Stores the bytes of s in reverse order.",
        effects: &[Memory(place(Size::B8), SwapBytes(&Truncate(64, &Expr::Reg(S))))],
        native: &[
            Native { needs: &[Feature::Movbe], ..native(X86_64, &[insn("movbestore64", &[STORED, reg(S)])]) },
            native(Aarch64, &[insn("rev64", &[REVERSED, reg(S)]), insn("str64", &[STORED, REVERSED])]),
        ],
        ..StoreSwapped::<64>::FAMILY
    },
    Operation {
        name: "add_memory_32",
        doc: "Adds what memory holds to d.",
        forms: &[loaded(&[LOAD_32, alu(ADD, W32, D, Reg(T))])],
        effects: &[Register(D, ZeroExtend(&Add(&LOW, &HALF)))],
        native: &[native(X86_64, &[insn("addm32", &[reg(D), LOADED])])],
        ..WITH_MEMORY
    },
    Operation {
        name: "add_memory_64",
        doc: "Adds what memory holds to d.",
        forms: &[loaded(&[LOAD_64, alu(ADD, W64, D, Reg(T))])],
        effects: &[Register(D, Add(&Expr::Reg(D), &WORD))],
        native: &[native(X86_64, &[insn("addm64", &[reg(D), LOADED])])],
        ..WITH_MEMORY
    },
    Operation {
        name: "sub_memory_32",
        doc: "Subtracts what memory holds from d.",
        forms: &[loaded(&[LOAD_32, alu(SUB, W32, D, Reg(T))])],
        effects: &[Register(D, ZeroExtend(&Sub(&LOW, &HALF)))],
        native: &[native(X86_64, &[insn("subm32", &[reg(D), LOADED])])],
        ..WITH_MEMORY
    },
    Operation {
        name: "sub_memory_64",
        doc: "Subtracts what memory holds from d.",
        forms: &[loaded(&[LOAD_64, alu(SUB, W64, D, Reg(T))])],
        effects: &[Register(D, Sub(&Expr::Reg(D), &WORD))],
        native: &[native(X86_64, &[insn("subm64", &[reg(D), LOADED])])],
        ..WITH_MEMORY
    },
    Operation {
        name: "mul_memory_32",
        doc: "Multiplies d by what memory holds.",
        forms: &[loaded(&[LOAD_32, alu(MUL, W32, D, Reg(T))])],
        effects: &[Register(D, ZeroExtend(&Mul(&LOW, &HALF)))],
        native: &[native(X86_64, &[insn("imulm32", &[reg(D), LOADED])])],
        ..WITH_MEMORY
    },
    Operation {
        name: "mul_memory_64",
        doc: "Multiplies d by what memory holds.",
        forms: &[loaded(&[LOAD_64, alu(MUL, W64, D, Reg(T))])],
        effects: &[Register(D, Mul(&Expr::Reg(D), &WORD))],
        native: &[native(X86_64, &[insn("imulm64", &[reg(D), LOADED])])],
        ..WITH_MEMORY
    },
    Operation {
        name: "and_memory_32",
        doc: "Keeps the bits of d that memory holds, too.",
        forms: &[loaded(&[LOAD_32, alu(AND, W32, D, Reg(T))])],
        effects: &[Register(D, ZeroExtend(&And(&LOW, &HALF)))],
        native: &[native(X86_64, &[insn("andm32", &[reg(D), LOADED])])],
        ..WITH_MEMORY
    },
    Operation {
        name: "and_memory_64",
        doc: "Keeps the bits of d that memory holds, too.",
        forms: &[loaded(&[LOAD_64, alu(AND, W64, D, Reg(T))])],
        effects: &[Register(D, And(&Expr::Reg(D), &WORD))],
        native: &[native(X86_64, &[insn("andm64", &[reg(D), LOADED])])],
        ..WITH_MEMORY
    },
    Operation {
        name: "or_memory_32",
        doc: "Sets the bits of d that memory holds.",
        forms: &[loaded(&[LOAD_32, alu(OR, W32, D, Reg(T))])],
        effects: &[Register(D, ZeroExtend(&Or(&LOW, &HALF)))],
        native: &[native(X86_64, &[insn("orm32", &[reg(D), LOADED])])],
        ..WITH_MEMORY
    },
    Operation {
        name: "or_memory_64",
        doc: "Sets the bits of d that memory holds.",
        forms: &[loaded(&[LOAD_64, alu(OR, W64, D, Reg(T))])],
        effects: &[Register(D, Or(&Expr::Reg(D), &WORD))],
        native: &[native(X86_64, &[insn("orm64", &[reg(D), LOADED])])],
        ..WITH_MEMORY
    },
    Operation {
        name: "xor_memory_32",
        doc: "Inverts the bits of d that memory holds.",
        forms: &[loaded(&[LOAD_32, alu(XOR, W32, D, Reg(T))])],
        effects: &[Register(D, ZeroExtend(&Xor(&LOW, &HALF)))],
        native: &[native(X86_64, &[insn("xorm32", &[reg(D), LOADED])])],
        ..WITH_MEMORY
    },
    Operation {
        name: "xor_memory_64",
        doc: "Inverts the bits of d that memory holds.",
        forms: &[loaded(&[LOAD_64, alu(XOR, W64, D, Reg(T))])],
        effects: &[Register(D, Xor(&Expr::Reg(D), &WORD))],
        native: &[native(X86_64, &[insn("xorm64", &[reg(D), LOADED])])],
        ..WITH_MEMORY
    },
];
