//! `cargo xtask fuzz`: builds the fuzzer and runs it.
//!
//! The fuzzer is the package `kiln-fuzz`, built with optimization and with overflow checks, for hostile input must not
//! even wrap around unseen.

use std::process::{Command, Stdio};

use crate::command::{Failure, cargo, run as run_command, target_dir};

/// Targets that ran and whether they found anything.
pub struct Outcome {
    /// Targets that found nothing.
    pub passed: u64,
    /// Targets that found something.
    pub failed: u64,
}

fn built() -> Result<Command, Failure> {
    run_command(
        cargo().args(["build", "--quiet", "--profile", "fuzz", "--package", "kiln-fuzz"]),
        "building the fuzzer",
    )?;
    Ok(Command::new(target_dir().join("fuzz").join("kiln-fuzz")))
}

/// `cargo xtask fuzz`.
///
/// # Errors
/// When it does not build or a target finds something.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut command = built()?;
    command.current_dir(crate::command::root());
    run_command(command.arg("run").args(arguments), "fuzzing")
}

/// The fuzzing that is part of the tests: all targets, together this long.
///
/// # Errors
/// When it does not build or does not start.
pub fn short_run(seconds: u64) -> Result<Outcome, Failure> {
    let mut command = built()?;
    command.current_dir(crate::command::root()).args(["run", "--seconds", &seconds.to_string()]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Failure::usage(format!("the fuzzer does not start: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let count = |mark: &str| text.lines().filter(|line| line.starts_with(mark)).count() as u64;
    let (passed, failed) = (count("ok   "), count("FAIL "));
    // A fuzzer that dies without a word failed as well.
    let died = u64::from(!output.status.success() && failed == 0);
    Ok(Outcome { passed, failed: failed + died })
}
