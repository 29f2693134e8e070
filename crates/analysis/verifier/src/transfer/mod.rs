//! What one instruction does to a path.

pub(crate) mod alu;
pub(crate) mod branch;
mod context;
mod hook_arguments;
mod indirect;
mod kernel_data;
pub(crate) mod memory;
pub(crate) mod outcome;
pub(crate) mod stack;
mod structure;
