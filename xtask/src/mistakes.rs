//! `cargo xtask mistakes`: writes docs/reference/mistakes.md anew.
//!
//! The test of the page generates each part; with `BLESS=1` it writes the page. The kernel's parts change only if
//! `bpf(2)` works.

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
