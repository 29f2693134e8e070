//! `cargo xtask test`: everything that must hold, in one run with one sum.
//!
//! ```text
//!   scripts/setup, scripts/corpus core --> cargo test --workspace (tidy is one of its tests) --> cargo doc --> short fuzzing
//!
//!   kiln-isa tests/llvm.rs                            5 passed                     1.2 s
//!   skipped: kernel: bpf(2) is not allowed here
//!   ...
//!   1234 passed, 0 failed, 3 skipped
//! ```
//!
//! A test that cannot run here (no `bpf(2)`, no kernel BTF) prints a line `skipped: ...` and passes; the test harness
//! hides what passing tests print, so it is run with `--show-output` and its output is filtered: what failed is
//! shown whole, what passed is one line a test binary, and every skip is shown and counted. The unfiltered output is
//! kept in `target/test.log`.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Instant;

use crate::command::{Failure, cargo, flags, run as run_command, script, target_dir};
use crate::fuzz;

/// Seconds of fuzzing, over all targets, that the tests include.
const FUZZ_SECONDS: u64 = 45;
const QUICK_FUZZ_SECONDS: u64 = 10;

/// What ran.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Sum {
    passed: u64,
    failed: u64,
    skipped: u64,
}

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
    let mut sum = cargo_test()?;
    match documents() {
        Ok(()) => sum.passed += 1,
        Err(failure) => {
            println!("cargo doc: {failure}");
            sum.failed += 1;
        }
    }
    let fuzzing = fuzz::short_run(if quick { QUICK_FUZZ_SECONDS } else { FUZZ_SECONDS })?;
    sum.passed += fuzzing.passed;
    sum.failed += fuzzing.failed;
    println!("test run: {:.0} s", started.elapsed().as_secs_f64());
    println!("{} passed, {} failed, {} skipped", sum.passed, sum.failed, sum.skipped);
    if sum.failed == 0 { Ok(()) } else { Err(Failure::failed("not all tests passed")) }
}

/// The documentation of every package, without warnings such as links that lead nowhere.
fn documents() -> Result<(), Failure> {
    let begun = Instant::now();
    let mut command = cargo();
    command.args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-Dwarnings");
    run_command(&mut command, "cargo doc")?;
    println!("{:50} without warnings  {:>6.2}s", "cargo doc", begun.elapsed().as_secs_f64());
    Ok(())
}

fn cargo_test() -> Result<Sum, Failure> {
    let not_started = |error: std::io::Error| Failure::usage(format!("cargo test does not start: {error}"));
    // One pipe for both streams keeps cargo's headings before what they head.
    let (reader, writer) = std::io::pipe().map_err(not_started)?;
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast", "--", "--show-output"]);
    command.stdin(Stdio::null()).stdout(writer.try_clone().map_err(not_started)?).stderr(writer);
    let mut child = command.spawn().map_err(not_started)?;
    // The command holds the pipe's writing end: without this the reading end never sees the end.
    drop(command);
    let mut filter = Filter::default();
    let mut log = File::create(target_dir().join("test.log")).ok();
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        if let Some(log) = &mut log {
            // The log is a convenience; tests go on without it.
            let _ = log.write_all(&line);
        }
        if let Some(shown) = filter.line(String::from_utf8_lossy(&line).trim_end()) {
            println!("{shown}");
        }
        line.clear();
    }
    let status = child.wait().map_err(not_started)?;
    Ok(filter.finish(status.success()))
}

/// Takes the output of `cargo test -- --show-output` line by line, shows what matters and adds up.
#[derive(Default)]
struct Filter {
    sum: Sum,
    /// The test binary that is running.
    binary: Option<String>,
    /// Whether its result has been seen.
    ended: bool,
    section: Section,
}

#[derive(Default, PartialEq, Eq, Clone, Copy)]
enum Section {
    /// cargo's own lines: compiling, warnings, errors.
    #[default]
    Cargo,
    /// One line a test.
    Tests,
    /// What passing tests printed.
    Successes,
    /// What failing tests printed.
    Failures,
}

impl Filter {
    fn line(&mut self, line: &str) -> Option<String> {
        if let Some(binary) = heading(line) {
            self.lost();
            (self.binary, self.ended, self.section) = (Some(binary), false, Section::Tests);
            return None;
        }
        if line.starts_with("skipped: ") {
            self.sum.skipped += 1;
            return Some(format!("  {line}"));
        }
        if let Some(result) = line.strip_prefix("test result: ") {
            return Some(self.result(result));
        }
        match line {
            "successes:" if self.section != Section::Cargo => self.section = Section::Successes,
            "failures:" if self.section != Section::Cargo => self.section = Section::Failures,
            _ => {}
        }
        match self.section {
            Section::Cargo | Section::Failures => (!line.is_empty()).then(|| line.to_owned()),
            // A crash has no section of its own.
            Section::Tests if line.starts_with("error: ") || line.contains("signal: ") => Some(line.to_owned()),
            Section::Tests | Section::Successes => None,
        }
    }

    /// `ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.03s`
    fn result(&mut self, result: &str) -> String {
        let number = |what: &str| -> u64 {
            let mut parts = result.split([';', '.']).map(str::trim);
            let count = parts.find_map(|part| part.strip_suffix(what)?.trim().parse().ok());
            count.unwrap_or(0)
        };
        let [passed, failed, ignored] = ["passed", "failed", "ignored"].map(number);
        self.sum.passed += passed;
        self.sum.failed += failed;
        self.sum.skipped += ignored;
        self.ended = true;
        self.section = Section::Cargo;
        let time = result.rsplit("finished in ").next().unwrap_or_default();
        let mut text = format!("{:50} {passed:>5} passed", self.binary.as_deref().unwrap_or_default());
        for (count, what) in [(failed, "FAILED"), (ignored, "ignored")] {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        text + &format!("  {time:>8}")
    }

    /// A test binary that ended without a result crashed: one failure.
    fn lost(&mut self) {
        if self.binary.is_some() && !self.ended {
            self.sum.failed += 1;
            println!("{} ended without a result", self.binary.as_deref().unwrap_or_default());
        }
        self.ended = true;
    }

    fn finish(mut self, success: bool) -> Sum {
        self.lost();
        // What did not even compile is a failure too.
        if !success && self.sum.failed == 0 {
            self.sum.failed = 1;
        }
        self.sum
    }
}

/// The name in `Running tests/llvm.rs (target/debug/deps/llvm-0123456789abcdef)` or `Doc-tests kiln_isa`.
fn heading(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(package) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{package} documentation"));
    }
    let (source, binary) = line.strip_prefix("Running ")?.split_once(" (")?;
    let source = source.strip_prefix("unittests ").unwrap_or(source);
    let file = binary.trim_end_matches(')').rsplit('/').next()?;
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    Some(if source.starts_with("src/") { format!("{name} {source}") } else { source.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "   Compiling kiln-isa v0.1.0
     Running unittests src/lib.rs (target/debug/deps/kiln_isa-0123456789abcdef)

running 2 tests
test a ... ok
test b ... ok

successes:

---- a stdout ----
skipped: no bpf(2) here
not shown

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.03s

     Running tests/llvm.rs (target/debug/deps/llvm-0123456789abcdef)
running 1 test
test c ... FAILED

failures:

---- c stdout ----
thread panicked: the reason

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s

   Doc-tests kiln_isa
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    fn filtered(output: &str, success: bool) -> (Sum, String) {
        let mut filter = Filter::default();
        let shown: Vec<String> = output.lines().filter_map(|line| filter.line(line)).collect();
        (filter.finish(success), shown.join("\n"))
    }

    #[test]
    fn adds_up_and_shows_what_matters() {
        let (sum, shown) = filtered(OUTPUT, false);
        assert_eq!(sum, Sum { passed: 3, failed: 1, skipped: 2 });
        for wanted in ["skipped: no bpf(2) here", "the reason", "tests/llvm.rs", "kiln_isa documentation", "1 FAILED"] {
            assert!(shown.contains(wanted), "{wanted} in {shown}");
        }
        assert!(!shown.contains("not shown"));
    }

    #[test]
    fn a_crash_and_a_failed_build_are_failures() {
        let crash = "     Running tests/a.rs (target/debug/deps/a-01)\nerror: test failed (signal: 11, SIGSEGV)\n";
        assert_eq!(filtered(crash, false).0.failed, 1);
        assert_eq!(filtered("error: could not compile\n", false).0.failed, 1);
        assert_eq!(filtered("", true).0, Sum::default());
    }
}
