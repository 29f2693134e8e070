//! Concrete runs: the cheap judge that refutes.
//!
//! ```text
//!   Tester::new(&window, 24)     runs `before` on 24 inputs that the facts allow; keeps the final states
//!   tester.matches(&candidate)   runs the candidate on them, worst input first; stops at the first difference
//! ```
//!
//! An [`Input`] is registers and bytes at plain addresses, so that the reference interpreter can replay it. What the
//! original reads is invented when it reads it. A candidate may then touch only those bytes (and what the facts say
//! is readable), and store only where the original stored, or on the stack.

mod code;
mod invent;
mod random;
mod tester;

use std::collections::BTreeMap;

pub use code::{Code, Memory, Op, Registers, Segment, calculate};
use kiln_isa::Reg;
use kiln_program::Reference;
pub use random::Random;
pub use tester::{Case, Difference, Tester};

/// A state before a window.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Input {
    /// R0 to R10.
    pub registers: [u64; Reg::COUNT],
    /// Bytes by address.
    pub memory: BTreeMap<u64, u8>,
    /// What `ld_imm64`s with references give.
    pub references: Vec<(Reference, u64)>,
}

/// Why a concrete run stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It touched memory that it may not.
    Memory,
    /// It read a register that may be uninitialised, or wrote R10.
    Register,
    /// It holds an instruction that has no concrete meaning here.
    Unsupported,
}
