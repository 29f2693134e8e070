//! Rules that hold whatever the instruction: of the kernel that the program is for, of programs without privilege.

pub(crate) mod profile;
pub(crate) mod unprivileged;
