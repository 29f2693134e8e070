//! The row type of the table of operations.

use super::meaning::Expr;
use super::pattern::Operands;
use crate::insn::{Size, Width};
use crate::table::{AluOp, JumpOp};

/// The position of an operand in [`Operation::operands`].
pub type Index = u8;

/// Maximum number of operands of an operation: a mark has this many fields.
pub const MAX_OPERANDS: usize = 8;

/// What an operand is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperandKind {
    /// A register that holds the result.
    Result,
    /// A register that is read.
    Source,
    /// A register that the proof sequence overwrites and native code may not. It must be dead afterwards.
    Temporary,
    /// A number.
    Immediate {
        /// The smallest that is allowed.
        min: i32,
        /// The largest that is allowed.
        max: i32,
    },
    /// A comparison, by the code of its row in the instruction table; not the test for common bits.
    Comparison,
}

/// An operand: its name in listings, and what it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// One letter or word.
    pub name: &'static str,
    /// What it is.
    pub kind: OperandKind,
}

/// An immediate in a proof sequence or in native code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Imm {
    /// An immediate operand.
    Operand(Index),
    /// This number less an immediate operand.
    Complement(i32, Index),
    /// This number and an immediate operand.
    Sum(i32, Index),
    /// A constant.
    Constant(i32),
    /// The least of several immediate operands; in native code only.
    Least(&'static [Index]),
}

/// The second operand of an instruction of a proof sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    /// A register operand.
    Reg(Index),
    /// A number.
    Imm(Imm),
}

/// One instruction of a proof sequence. If it lists several operations or widths, the sequence has the operation's
/// meaning with each of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Template {
    /// `dst = dst op src`.
    Alu {
        /// The operations.
        ops: &'static [AluOp],
        /// The widths.
        widths: &'static [Width],
        /// The register.
        dst: Index,
        /// The second operand.
        src: From,
    },
    /// `dst = -dst`.
    Neg {
        /// The widths.
        widths: &'static [Width],
        /// The register.
        dst: Index,
    },
    /// `dst = *(size *)(base + offset)`, zero-extended.
    Load {
        /// How many bytes.
        size: Size,
        /// The register.
        dst: Index,
        /// The register that holds the address.
        base: Index,
        /// What is added to it.
        offset: Imm,
    },
    /// `*(size *)(base + offset) = src`.
    Store {
        /// How many bytes.
        size: Size,
        /// The register that holds the address.
        base: Index,
        /// What is added to it.
        offset: Imm,
        /// What is stored. A register that holds zero is a zero, too.
        src: From,
    },
    /// The lowest bytes of a register in reverse order, zero-extended: `be` on a little-endian machine, or `bswap`.
    Swap {
        /// How many bytes.
        size: Size,
        /// The register.
        dst: Index,
    },
    /// `if dst op src goto to`. All templates after it follow it side by side.
    Branch {
        /// The comparison.
        test: Test,
        /// The width.
        width: Width,
        /// The register that is compared.
        dst: Index,
        /// What it is compared with.
        src: From,
        /// Where it leads.
        to: Exit,
    },
}

/// What a branch of a proof sequence tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Test {
    /// A comparison operand.
    Operand(Index),
    /// The opposite of a comparison operand.
    Opposite(Index),
    /// This comparison.
    Is(JumpOp),
}

/// Where a branch of a proof sequence leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// To the instruction after the sequence.
    End,
    /// Out of the sequence, to the one place where the operation may leave to. The last template leads there, too.
    Out,
}

/// What must hold of the operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// Two operands are one register.
    Same(Index, Index),
    /// Two operands are different registers.
    Differ(Index, Index),
    /// An operand is this BPF register. Some machine instructions read one fixed register.
    Is(Index, u8),
    /// An operand is not this BPF register.
    IsNot(Index, u8),
    /// Immediate operands are less than this number apart.
    Within(i32, &'static [Index]),
}

/// A proof sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    /// One word for listings.
    pub name: &'static str,
    /// Conditions on the operands, in addition to their kinds.
    pub when: &'static [Condition],
    /// The instructions, in an order in which they have the operation's meaning. A program may have them in any order
    /// in which each reads the same values.
    pub code: &'static [Template],
}

/// A machine that a JIT emits code for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Arch {
    /// x86-64.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

impl Arch {
    /// Both.
    pub const ALL: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];

    /// Its name, as Rust writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
        }
    }
}

/// A feature that only some processors of a machine have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Feature {
    /// x86-64: `andn` and others.
    Bmi1,
    /// x86-64: `rorx`, `shlx` and others.
    Bmi2,
    /// x86-64: byte-swapping loads and stores.
    Movbe,
}

impl Feature {
    /// Its name, as `/proc/cpuinfo` writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Feature::Bmi1 => "bmi1",
            Feature::Bmi2 => "bmi2",
            Feature::Movbe => "movbe",
        }
    }
}

/// An operand of a machine instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NativeOperand {
    /// The machine register that holds a register operand.
    Reg(Index),
    /// One of the two registers that a JIT keeps free within an instruction.
    Scratch(u8),
    /// The machine register that holds this BPF register, whatever the operands are.
    Bpf(u8),
    /// A number.
    Imm(Imm),
    /// The memory at a register operand plus a number.
    Memory(Index, Imm),
    /// A comparison.
    Comparison(Index),
    /// This comparison.
    Is(JumpOp),
    /// Several immediate operands as a set of 64 bits: bit `n` is set if their least plus `n` is one of them.
    Set(&'static [Index]),
}

/// A machine instruction: a name from the JIT's table for the machine, and its operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NativeInsn {
    /// Its name, such as `rorx32`.
    pub name: &'static str,
    /// Its operands, destination first.
    pub operands: &'static [NativeOperand],
}

/// One native implementation of an operation on one machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Native {
    /// The machine.
    pub arch: Arch,
    /// What the processor must have.
    pub needs: &'static [Feature],
    /// What must hold of the operands.
    pub when: &'static [Condition],
    /// The instructions.
    pub code: &'static [NativeInsn],
}

/// A native operation: one row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Its name, by which marks refer to it. It never changes its meaning.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// Its operands.
    pub operands: &'static [Operand],
    /// Its proof sequences. Marks refer to them by position, so new ones go to the end.
    pub forms: &'static [Form],
    /// Its meaning: all that it changes, from what the operands and memory held before.
    pub effects: &'static [Effect],
    /// The native implementations, best first. If none applies, the proof sequence is compiled.
    pub native: &'static [Native],
    /// Where it pays, measured; for `kiln ops`.
    pub pays: &'static str,
}

/// What an operation changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// A result register holds these 64 bits afterwards.
    Register(Index, Expr),
    /// Memory holds the lowest bytes of this value afterwards. Places of several effects are disjoint.
    Memory(Place, Expr),
    /// Control leaves to the place outside if this is 1, and not if it is 0.
    Leave(Expr),
}

/// Bytes of memory that an operation writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// How many.
    pub size: Size,
    /// The register operand that holds the address.
    pub base: Index,
    /// What is added to it.
    pub offset: Imm,
}

impl Form {
    /// Whether control may leave to another place than the end.
    pub fn leaves(&self) -> bool {
        self.code.iter().any(|template| matches!(template, Template::Branch { to: Exit::Out, .. }))
    }

    /// How many of its templates are side by side at the end: those from the first branch on.
    pub fn tail(&self) -> usize {
        let branch = self.code.iter().position(|template| matches!(template, Template::Branch { .. }));
        branch.map_or(1, |first| self.code.len() - first)
    }
}

impl Operation {
    /// The best native implementation on a machine with these features; `None` if none applies.
    pub fn native(&self, arch: Arch, has: impl Fn(Feature) -> bool, operands: &Operands) -> Option<&'static Native> {
        self.native.iter().find(|native| {
            native.arch == arch
                && native.needs.iter().all(|feature| has(*feature))
                && native.when.iter().all(|condition| operands.satisfies(*condition))
        })
    }

    /// Whether it has native code for a machine.
    pub fn is_native_on(&self, arch: Arch) -> bool {
        self.native.iter().any(|native| native.arch == arch)
    }

    /// The positions of the results among the operands.
    pub fn results(&self) -> impl Iterator<Item = Index> {
        let results = self.operands.iter().zip(0..).filter(|(operand, _)| operand.kind == OperandKind::Result);
        results.map(|(_, index)| index)
    }

    /// Whether a proof sequence accesses memory more than once.
    pub fn has_several_accesses(&self) -> bool {
        let accesses = |form: &Form| form.code.iter().filter(|template| template.accesses_memory()).count();
        self.forms.iter().any(|form| accesses(form) > 1)
    }
}
