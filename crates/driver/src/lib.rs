//! The pass list: what the `kiln` command does, as a library.
//!
//! Every command is one function here, from an [`Input`] to a value that the command prints:
//!
//! | command | function |
//! |---|---|
//! | `kiln check` | [`check::check`] |
//! | `kiln optimize` | [`optimize::optimize`] |
//! | `kiln run` | [`run::run`] |
//! | `kiln bench` | [`bench::bench`] |
//! | `kiln dump` | [`dump::program`] |
//! | `kiln doctor` | [`doctor::examine`] |
#![forbid(unsafe_code)]

pub mod bench;
pub mod check;
pub mod compare;
pub mod doctor;
pub mod dump;
pub mod error;
pub mod input;
pub mod kernel;
pub mod optimize;
pub mod packets;
pub mod run;

pub use error::Error;
pub use input::Input;
pub use kiln_platform::ProgramType;
pub use kiln_program::Object;
pub use kiln_superopt::{Because, Evidence, Progress};
pub use kiln_vm::Engine;

/// Instructions that a run in the VM may take unless told otherwise.
pub const DEFAULT_BUDGET: u64 = 1_000_000_000;

/// Says why the kernel cannot be asked, if it cannot.
///
/// # Errors
/// [`Error::Unsupported`] with what is missing and what to do about it.
pub fn require_kernel() -> Result<(), Error> {
    kiln_linux::available().map_err(|error| Error::Unsupported(format!("the kernel cannot be asked: {error}")))
}
