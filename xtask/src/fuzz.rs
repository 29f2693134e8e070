//! `cargo xtask fuzz`: builds the fuzzer and runs it; `cargo xtask fuzz coverage`: says what a run reaches.
//!
//! The fuzzer is the package `kiln-fuzz`, built with optimization and with overflow checks, so that no wrap-around by
//! hostile input goes unnoticed.
//!
//! ```text
//!   cargo build -C instrument-coverage --> target/coverage/fuzz/kiln-fuzz --> *.profraw, one a worker
//!   llvm-profdata merge, llvm-cov export (rustup component add llvm-tools) --> lines and regions by room
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::command::{Failure, cargo, root, run as run_command, target_dir};

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
/// Returns a failure if it does not build or a target finds something.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    if let [first, rest @ ..] = arguments
        && first == "coverage"
    {
        return coverage(rest);
    }
    let mut command = built()?;
    command.current_dir(crate::command::root());
    run_command(command.arg("run").args(arguments), "fuzzing")
}

/// The fuzzing that is part of the tests: all targets, with this total time. It takes the binary that was built with
/// the tests, which also checks for overflow: a build with more optimization takes longer than it saves here.
///
/// # Errors
/// Returns a failure if it does not start.
pub fn short_run(seconds: u64) -> Result<Outcome, Failure> {
    let mut command = Command::new(target_dir().join("debug").join("kiln-fuzz"));
    command.current_dir(crate::command::root()).args(["run", "--seconds", &seconds.to_string()]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Failure::usage(format!("the fuzzer does not start: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let count = |mark: &str| text.lines().filter(|line| line.starts_with(mark)).count() as u64;
    let (passed, failed) = (count("ok   "), count("FAIL "));
    // A fuzzer that dies without output also failed.
    let died = u64::from(!output.status.success() && failed == 0);
    Ok(Outcome { passed, failed: failed + died })
}

/// Rooms whose coverage is reported.
const ROOMS: [&str; 6] = [
    "crates/isa",
    "crates/program/src/btf",
    "crates/program",
    "crates/frontend/elf",
    "crates/analysis/verifier",
    "crates/analysis/verifier/src/domain",
];

/// `cargo xtask fuzz coverage`: a run of the fuzzer, and how much of the rooms it reached.
fn coverage(arguments: &[String]) -> Result<(), Failure> {
    let folder = target_dir().join("coverage");
    let profiles = folder.join("profiles");
    // What an earlier run left would be counted too.
    let _ = std::fs::remove_dir_all(&profiles);
    let mut build = cargo();
    build.args(["build", "--quiet", "--profile", "fuzz", "--package", "kiln-fuzz", "--target-dir"]).arg(&folder);
    // Build scripts have counters too, and would leave them where they run.
    build.env("RUSTFLAGS", "-C instrument-coverage").env("LLVM_PROFILE_FILE", folder.join("build.profraw"));
    run_command(&mut build, "building the fuzzer with counters")?;
    let fuzzer = folder.join("fuzz").join("kiln-fuzz");
    let mut fuzz = Command::new(&fuzzer);
    fuzz.current_dir(root()).arg("run").args(arguments);
    fuzz.env("LLVM_PROFILE_FILE", profiles.join("%p.profraw"));
    run_command(&mut fuzz, "fuzzing")?;
    let merged = folder.join("merged.profdata");
    let mut merge = Command::new(llvm_tool("llvm-profdata")?);
    merge.args(["merge", "--sparse", "--output"]).arg(&merged).arg(&profiles);
    run_command(&mut merge, "merging the counters")?;
    let mut export = Command::new(llvm_tool("llvm-cov")?);
    export.args(["export", "--summary-only", "--instr-profile"]).arg(&merged).arg(&fuzzer);
    let output = export.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| Failure::usage(format!("llvm-cov does not start: {error}")))?;
    let summary: Value =
        serde_json::from_slice(&output.stdout).map_err(|error| Failure::failed(format!("llvm-cov: {error}")))?;
    print!("{}", covered(&summary, &root()));
    Ok(())
}

/// A tool of the LLVM that this rustc is built on; others may not read its counters.
fn llvm_tool(name: &str) -> Result<PathBuf, Failure> {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output();
    let output = output.map_err(|error| Failure::usage(format!("rustc does not start: {error}")))?;
    let libraries = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let tool = libraries.with_file_name("bin").join(name);
    if tool.exists() {
        return Ok(tool);
    }
    Err(Failure::usage(format!("{name} is not there: rustup component add llvm-tools")))
}

/// Lines and regions reached, a row a room.
fn covered(summary: &Value, root: &Path) -> String {
    let mut text = format!("{:38} {:>8} {:>8} {:>8} {:>8}\n", "room", "lines", "reached", "regions", "reached");
    let files = summary["data"][0]["files"].as_array().cloned().unwrap_or_default();
    for room in ROOMS {
        let own = files.iter().filter(|file| {
            let path = file["filename"].as_str().unwrap_or_default();
            Path::new(path).starts_with(root.join(room))
        });
        let (mut lines, mut regions) = ([0, 0], [0, 0]);
        for file in own {
            for (sum, what) in [(&mut lines, "lines"), (&mut regions, "regions")] {
                sum[0] += file["summary"][what]["count"].as_u64().unwrap_or(0);
                sum[1] += file["summary"][what]["covered"].as_u64().unwrap_or(0);
            }
        }
        let share = |[all, reached]: [u64; 2]| format!("{:.1} %", 100.0 * reached as f64 / all.max(1) as f64);
        text += &format!("{room:38} {:>8} {:>8} {:>8} {:>8}\n", lines[0], share(lines), regions[0], share(regions));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_is_summed_by_room() {
        let file = |name: &str, covered: u64| {
            let counts = serde_json::json!({"count": 10, "covered": covered});
            serde_json::json!({"filename": format!("/kiln/{name}"), "summary": {"lines": counts, "regions": counts}})
        };
        let files = [file("crates/isa/src/a.rs", 5), file("crates/isa/src/b.rs", 10), file("fuzz/src/c.rs", 0)];
        let text = covered(&serde_json::json!({"data": [{"files": files}]}), Path::new("/kiln"));
        let row = text.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(row, "crates/isa 20 75.0 % 20 75.0 %");
    }
}
