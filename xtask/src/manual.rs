//! Prints the instruction manual from the instruction table.
//!
//! The test that compares `docs/reference/isa.md` with the table can also write it; this runs that test with `BLESS=1`.

use crate::command::{self, Failure, cargo, flags};

/// `cargo xtask manual`.
///
/// # Errors
/// Returns a failure if the isa crate does not build.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let [] = flags(arguments, [])?;
    let mut command = cargo();
    command.args(["test", "--quiet", "--package", "kiln-isa", "--test", "manual"]).env("BLESS", "1");
    command::run(&mut command, "writing docs/reference/isa.md")
}
