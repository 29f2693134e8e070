//! Native operations: one instruction on a processor, several in BPF.
//!
//! An operation has two forms. Its **proof sequences** are plain BPF, which any verifier checks and any kernel runs.
//! Its **native code** is what a JIT emits instead if it knows the operation. A program contains proof sequences, not
//! operations, and marks outside the program name them.
//!
//! ```text
//!   rotate_left_32 d, s, k          proof sequence: t = s ; t >>= 32-k ; d = s ; d <<= k ; d |= t      (t dead)
//!                                   x86-64:  rorx d, s, 32-k   (BMI2),  or  mov d, s ; rol d, k
//!                                   aarch64: extr d, s, s, 32-k
//! ```
//!
//! Everything about an operation is data: operands, conditions, sequences, meaning, native code. So one row serves the
//! recognizer, the check of a mark, both JITs, the listing of `kiln ops` and the proofs. Another crate can declare an
//! [`Operation`] as a constant and add it to a [`Registry`].
//!
//! - [`Operation`] and its parts, in `row`; [`table`]: Kiln's own rows. A file per family (`rotate`, `arithmetic`, `memory`,
//!   `flag`, `select`, `chain`, `bits`, `pair`, `hint`) has what its rows share and the rows; `parts` has their words;
//! - [`rocq`]: the rows as definitions in Rocq, for the proofs; [`linux`]: as C data for a kernel module;
//! - [`pattern`]: matching instructions with a proof sequence; [`meaning`]: evaluating [`Expr`] over a [`BitVec`].
//!
//! [`BitVec`]: crate::semantics::BitVec

mod arithmetic;
mod bits;
mod chain;
mod flag;
mod hint;
pub mod linux;
pub mod meaning;
mod memory;
mod pair;
mod parts;
pub mod pattern;
pub mod rocq;
mod rotate;
mod row;
mod select;
pub mod table;

pub use meaning::Expr;
pub use pattern::{Binding, Operands};
pub use row::{
    Arch, Condition, Effect, Exit, Feature, Form, From, Imm, Index, MAX_OPERANDS, Native, NativeInsn, NativeOperand,
    Operand, OperandKind, Operation, Place, Template, Test,
};

/// The operations that marks can name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registry {
    operations: &'static [&'static Operation],
    /// The only machine that code is made for, if that is known.
    machine: Option<Arch>,
}

impl Registry {
    /// No operation: every proof sequence runs as it is.
    pub const EMPTY: Registry = Registry::new(&[]);
    /// Kiln's own.
    pub const BUILTIN: Registry = Registry::new(table::OPERATIONS);

    /// A registry of these operations. If two have the same name, the first counts.
    pub const fn new(operations: &'static [&'static Operation]) -> Registry {
        Registry { operations, machine: None }
    }

    /// Those of them that have native code on one machine. The others run as their proof sequences there, so what names
    /// them changes nothing.
    pub const fn on(self, machine: Arch) -> Registry {
        Registry { machine: Some(machine), ..self }
    }

    /// Whether both are one list of operations, for the same machine. `==` compares their rows, which takes longer.
    pub fn is(&self, other: &Registry) -> bool {
        std::ptr::eq(self.operations, other.operations) && self.machine == other.machine
    }

    /// The machines that code may be made for.
    pub fn machines(&self) -> impl Iterator<Item = Arch> {
        let own = self.machine;
        Arch::ALL.into_iter().filter(move |arch| own.is_none_or(|own| own == *arch))
    }

    /// All of them.
    pub fn operations(&self) -> impl Iterator<Item = &'static Operation> + use<> {
        let machine = self.machine;
        let is_native = move |operation: &&Operation| machine.is_none_or(|machine| operation.is_native_on(machine));
        self.operations.iter().copied().filter(is_native)
    }

    /// The operation of this name.
    pub fn by_name(&self, name: &str) -> Option<&'static Operation> {
        self.operations().find(|operation| operation.name == name)
    }
}

impl Default for Registry {
    fn default() -> Registry {
        Registry::BUILTIN
    }
}
