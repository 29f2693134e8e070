//! Rules that hold whatever the instruction: of the kernel that the program is for, of programs without privilege.

mod hook;
pub(crate) mod profile;
mod program;
pub(crate) mod unprivileged;
