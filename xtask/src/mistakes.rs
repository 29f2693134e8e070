//! `cargo xtask mistakes` and `cargo xtask messages`: write docs/reference/mistakes.md and messages.md anew.
//!
//! The tests of the pages generate each part; with `BLESS=1` they write the pages. The kernel's parts of the first change
//! only if `bpf(2)` works; those of the second are recorded data.

use crate::command::{Failure, cargo, run as run_command};

/// `cargo xtask mistakes`.
///
/// # Errors
/// Returns a failure if a program does not compile, or a verdict differs from the one in its file.
pub fn run(_arguments: &[String]) -> Result<(), Failure> {
    run_command(
        cargo().args(["test", "--quiet", "--package", "kiln-test", "--test", "mistakes"]).env("BLESS", "1"),
        "writing docs/reference/mistakes.md",
    )
}

/// `cargo xtask messages`.
///
/// # Errors
/// Returns a failure if a program does not compile, or the corpora are not there.
pub fn messages(_arguments: &[String]) -> Result<(), Failure> {
    run_command(
        cargo().args(["test", "--quiet", "--package", "kiln-test", "--test", "messages"]).env("BLESS", "1"),
        "writing docs/reference/messages.md",
    )
}
