//! A state before a window, and why a run from it stopped.

use std::collections::BTreeMap;

use kiln_isa::Reg;
use kiln_program::Reference;

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
