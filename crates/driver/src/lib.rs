//! The pass list: what the `kiln` command does, as a library.
//!
//! Every command is one function here, from an [`Input`] to a value that the command prints:
//!
//! | command | function |
//! |---|---|
//! | `kiln check` | [`check::check`] |
//! | `kiln optimize` | [`optimize::optimize`] |
//! | `kiln dump` | [`dump::program`] |
//! | `kiln doctor` | [`doctor::examine`] |
#![forbid(unsafe_code)]

pub mod check;
pub mod compare;
pub mod doctor;
pub mod dump;
pub mod error;
pub mod input;
pub mod kernel;
pub mod optimize;
pub mod packets;

pub use error::Error;
pub use input::Input;
pub use kiln_platform::ProgramType;
pub use kiln_program::Object;
