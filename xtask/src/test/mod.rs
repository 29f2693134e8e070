//! `cargo xtask test`: everything that must hold, in one run with one sum.
//!
//! ```text
//!   scripts/setup, scripts/corpus core
//!     --> cargo test --no-run: all test binaries
//!     --> a queue of the binaries and the documentation with its tests; each core takes the next (tidy is one of them)
//!     --> short fuzzing
//!
//!   kiln-isa tests/llvm.rs                            5 passed                     1.2 s
//!   skipped: kernel: bpf(2) is not allowed here
//!   ...
//!   1234 passed, 0 failed, 3 skipped, 0 unsteady
//! ```
//!
//! A few tests that failed run once more, alone, when all others have ended. One that passes then is `unsteady`: the run
//! does not fail for it, but it is printed and counted, and its cause is to be found.
//!
//! A test that cannot run here (no `bpf(2)`, no kernel BTF) prints a line `skipped: ...` and passes; the test harness
//! hides what passing tests print, so it is run with `--show-output` and its output is filtered: what failed is
//! shown whole, what passed is one line a test binary, and every skip is shown and counted. The unfiltered output is
//! kept in `target/test.log`.

mod output;
mod queue;

use std::process::Command;
use std::time::Instant;

use crate::command::{Failure, flags, run as run_command, script};
use crate::fuzz;

/// Seconds of fuzzing, over all targets, that the tests include.
const FUZZ_SECONDS: u64 = 60;
const QUICK_FUZZ_SECONDS: u64 = 10;

/// `cargo xtask test`.
///
/// # Errors
/// When anything failed.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let [quick] = flags(arguments, ["--quick"])?;
    if !quick {
        run_command(script("setup").arg("--tests"), "scripts/setup")?;
        run_command(script("corpus").arg("core"), "scripts/corpus")?;
    }
    let started = Instant::now();
    // What does not compile is the failure to read: nothing may be printed after it. A full disk looks the same.
    let binaries = queue::built().inspect_err(|_| {
        let _ = Command::new("df").args(["-h", "."]).status();
    })?;
    println!("built in {:.0} s: {} test binaries", started.elapsed().as_secs_f64(), binaries.len());
    let mut sum = queue::run(queue::jobs(binaries))?;
    let fuzzing = fuzz::short_run(if quick { QUICK_FUZZ_SECONDS } else { FUZZ_SECONDS })?;
    sum.passed += fuzzing.passed;
    sum.failed += fuzzing.failed;
    println!("test run: {:.0} s", started.elapsed().as_secs_f64());
    println!("{} passed, {} failed, {} skipped, {} unsteady", sum.passed, sum.failed, sum.skipped, sum.unsteady);
    if sum.failed == 0 { Ok(()) } else { Err(Failure::failed("not all tests passed")) }
}
