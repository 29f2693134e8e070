//! Rules that no one instruction owns: of the program as a whole, of its hook, of the kernel that it is for, of programs
//! without privilege, of all memory.

mod externs;
mod hook;
pub(crate) mod memory;
pub(crate) mod profile;
mod program;
pub(crate) mod replaced;
pub(crate) mod unprivileged;
