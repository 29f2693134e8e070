//! `cargo xtask publish-check`: every package that is published can be packed, and builds from what was packed.
//!
//! Cargo packs the packages of a workspace in the order of their dependencies and lets each find the others in a registry
//! on disk, so nothing has to be published for this. `--quick` packs without building, which shows missing metadata,
//! dependencies without versions, and dependencies on what is not published; files that a package lacks are found by
//! building.

use crate::command::{Failure, cargo, flags, run as run_command};

/// Packages that are not published: tests, measurements, tasks.
const PRIVATE: [&str; 5] = ["kiln-test", "kiln-bench", "kiln-fuzz", "kiln-own-operation", "xtask"];

/// `cargo xtask publish-check`.
///
/// # Errors
/// Returns a failure if a package cannot be packed or does not build.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let [quick] = flags(arguments, ["--quick"])?;
    let mut command = cargo();
    if quick {
        command.args(["package", "--no-verify", "--offline"]);
    } else {
        // The same as `cargo package`, and what the registry would be told.
        command.args(["publish", "--dry-run", "--keep-going"]);
    }
    command.args(["--workspace", "--locked", "--allow-dirty"]);
    for package in PRIVATE {
        command.args(["--exclude", package]);
    }
    run_command(&mut command, "cargo package")
}
