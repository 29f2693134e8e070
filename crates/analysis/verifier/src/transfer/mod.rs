//! What one instruction does to a path.

pub(crate) mod alu;
pub(crate) mod branch;
pub(crate) mod memory;
