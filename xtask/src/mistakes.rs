//! `cargo xtask mistakes`: writes docs/mistakes.md anew.
//!
//! The test of the page knows how each part comes about; told to bless, it writes what it finds. The kernel's parts change
//! only where `bpf(2)` works.

use crate::command::{Failure, cargo, run as run_command};

/// `cargo xtask mistakes`.
///
/// # Errors
/// When a program does not compile, or a verdict is not the one its file states.
pub fn run(_arguments: &[String]) -> Result<(), Failure> {
    run_command(
        cargo().args(["test", "--quiet", "--package", "kiln-test", "--test", "mistakes"]).env("BLESS", "1"),
        "writing docs/mistakes.md",
    )
}
