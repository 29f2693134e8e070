//! The C interface of Kiln: `include/kiln.h`, made from this crate by cbindgen.
//!
//! ```text
//!   kiln_object_open ──> kiln_object ──> kiln_check_new ──> kiln_check: verdicts, explanations, JSON
//!                              └───────> kiln_vm_new ─────> kiln_vm: load, run, maps
//! ```
//!
//! Every function returns a [`kiln_status`] and gives its result through a pointer, or takes a handle that there is. A
//! null pointer, a misaligned pointer, a size that no memory has and a string that is not UTF-8 are
//! `KILN_INVALID_INPUT`; a panic inside Kiln is `KILN_PANIC` and does not reach the caller. What failed is said by
//! [`kiln_last_error`]. Not checked is what no library can: that a pointer is to live memory of the size given, that a
//! handle came from Kiln and was not freed, and that nobody else uses a handle that a function changes.
//!
//! Why there is `unsafe` here: docs/decisions/0011-a-c-interface.md.
#![allow(non_camel_case_types, reason = "the names that C sees")]

mod check;
mod failure;
mod helper;
mod object;
mod pointer;
mod vm;

pub use check::*;
pub use failure::*;
pub use helper::*;
pub use object::*;
pub use vm::*;
