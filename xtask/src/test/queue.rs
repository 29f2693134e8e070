//! The test binaries and the other things that must hold, a core each at a time.
//!
//! `cargo test` runs one binary after the other, and many have one long test: the second core waits. Here every core
//! takes the next job of one queue. The jobs that took longest come first, so that none of them is alone at the end.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::Instant;

use serde_json::Value;

use super::output::{Filter, Sum};
use crate::command::{Failure, cargo, root, target_dir};

/// Sources of the binaries that take longest, the longest first. Only the order depends on them.
const LONGEST: [&str; 14] = [
    "crates/transform/sandbox/tests/heaps/main.rs",
    "crates/cli/tests/pages/main.rs",
    "crates/test/tests/corpus.rs",
    "crates/cli/tests/install.rs",
    "crates/isa/tests/proof_mutations.rs",
    "crates/test/tests/recipes.rs",
    "bench/tests/heaps.rs",
    "crates/c-api/tests/python_module.rs",
    "fuzz/tests/canaries.rs",
    "crates/test/tests/filetests.rs",
    "crates/test/tests/oracles.rs",
    "crates/transform/superopt/tests/random.rs",
    "crates/cli/tests/repair/main.rs",
    "crates/cli/tests/limits.rs",
];

/// A test binary that cargo built.
pub struct Binary {
    /// Its source below the workspace, such as `crates/isa/tests/llvm.rs`.
    source: String,
    path: PathBuf,
    /// The folder of its package, where cargo runs it.
    folder: PathBuf,
}

/// Something that is run to its end and prints what a test harness prints.
pub struct Job {
    name: String,
    command: Command,
}

/// Builds all test binaries, and says where they are.
///
/// # Errors
/// When they do not compile.
pub fn built() -> Result<Vec<Binary>, Failure> {
    let not_started = |error: std::io::Error| Failure::usage(format!("cargo test does not start: {error}"));
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(not_started)?;
    let mut binaries = Vec::new();
    if let Some(output) = child.stdout.take() {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        binaries.extend(lines.filter_map(|line| binary(&serde_json::from_str(&line).ok()?, &root())));
    }
    if child.wait().map_err(not_started)?.success() {
        Ok(binaries)
    } else {
        Err(Failure::failed("the tests do not compile"))
    }
}

/// The binary that a message of cargo announces, if it is one that `cargo test` would run.
fn binary(message: &Value, root: &Path) -> Option<Binary> {
    let tested = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let path = tested.then(|| message["executable"].as_str())??;
    let source = Path::new(message["target"]["src_path"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some(Binary {
        source: source.strip_prefix(root).unwrap_or(source).display().to_string(),
        path: path.into(),
        folder: folder.into(),
    })
}

/// All that is run: the binaries, and the documentation of libraries with the tests in it, without warnings such as links
/// that lead nowhere.
pub fn jobs(mut binaries: Vec<Binary>) -> Vec<Job> {
    let rank = |binary: &Binary| LONGEST.iter().position(|source| *source == binary.source).unwrap_or(LONGEST.len());
    binaries.sort_by_key(rank);
    let binaries = binaries.into_iter().map(|binary| {
        let mut command = Command::new(binary.path);
        command.arg("--show-output").current_dir(&binary.folder).env("CARGO_MANIFEST_DIR", &binary.folder);
        Job { name: binary.source, command }
    });
    let mut examples = cargo();
    examples.args(["test", "--workspace", "--doc", "--no-fail-fast", "--", "--show-output"]);
    examples.env("RUSTDOC", root().join("scripts/rustdoc")).env("KILN_DOCUMENTS", target_dir().join("doc"));
    let examples = Job { name: "documentation and its examples".into(), command: examples };
    std::iter::once(examples).chain(binaries).collect()
}

/// Tests that may fail beside other work and still count if they pass alone. When more fail, it is the change.
const MAX_UNSTEADY: usize = 4;

/// Runs all jobs, as many at a time as there are cores, and the few tests that failed once more, alone. Prints what each
/// leaves to say when it ends.
///
/// # Errors
/// When a job does not start.
pub fn run(jobs: Vec<Job>) -> Result<Sum, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let queue = Mutex::new(jobs.into_iter());
    // The log is a convenience; tests go on without it.
    let mut log = File::create(target_dir().join("test.log")).ok();
    let mut sum = Sum::default();
    let mut failed = Vec::new();
    let sum = std::thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        for _ in 0..cores {
            let (sender, queue) = (sender.clone(), &queue);
            scope.spawn(move || {
                // A panic holding the lock is a bug that has been printed already.
                while let Some(job) = queue.lock().ok().and_then(|mut jobs| jobs.next()) {
                    if sender.send(outcome(job)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for outcome in ended {
            let Outcome { sum: counted, shown, output, failed: names } = outcome?;
            sum += counted;
            failed.extend(names);
            println!("{}", shown.join("\n"));
            if let Some(log) = &mut log {
                let _ = log.write_all(&output);
            }
        }
        Ok::<_, Failure>(sum)
    })?;
    if failed.len() > MAX_UNSTEADY { Ok(sum) } else { again(failed, sum) }
}

/// Runs tests that failed once more, one at a time with nothing beside them. One that passes now is `unsteady`: it is
/// shown and counted, and is a defect of the test or of what it tests, but not a reason to refuse a change.
fn again(failed: Vec<Failed>, mut sum: Sum) -> Result<Sum, Failure> {
    for Failed { test, mut command } in failed {
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| Failure::usage(format!("{test} does not run: {error}")))?;
        let mut filter = Filter::new(&test);
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let _ = filter.line(line.trim_end());
        }
        let (alone, _) = filter.finish(output.status.success(), 0.0);
        if alone.passed == 1 && alone.failed == 0 {
            sum.failed -= 1;
            sum.unsteady += 1;
            println!("unsteady: {test} failed beside other work and passed alone");
        } else {
            println!("{test} failed again, alone");
        }
    }
    Ok(sum)
}

/// What a job left.
struct Outcome {
    sum: Sum,
    /// Lines for the reader.
    shown: Vec<String>,
    /// All that it printed.
    output: Vec<u8>,
    /// The tests that failed, if they are all that failed.
    failed: Vec<Failed>,
}

/// A test that failed, and the command that runs only this test.
struct Failed {
    test: String,
    command: Command,
}

/// The tests that a harness says failed, each with a command like the one that ran them all.
fn failed_tests(command: &Command, text: &str) -> Vec<Failed> {
    let names = text.lines().filter_map(|line| line.strip_prefix("test ")?.trim_end().strip_suffix(" ... FAILED"));
    let alone = |test: &str| {
        let mut alone = Command::new(command.get_program());
        alone.args(command.get_args()).args(["--exact", test]);
        alone.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(folder) = command.get_current_dir() {
            alone.current_dir(folder);
        }
        Failed { test: test.to_owned(), command: alone }
    };
    names.map(alone).collect()
}

fn outcome(mut job: Job) -> Result<Outcome, Failure> {
    let not_run = |error: std::io::Error| Failure::usage(format!("{} does not run: {error}", job.name));
    let begun = Instant::now();
    // One pipe for both streams keeps what failed beside what it printed.
    let (mut reader, writer) = std::io::pipe().map_err(not_run)?;
    job.command.stdin(Stdio::null()).stdout(writer.try_clone().map_err(not_run)?).stderr(writer);
    let mut child = job.command.spawn().map_err(not_run)?;
    // The command holds the pipe's writing end: without this the reading end never sees the end.
    job.command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut output = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut output).map_err(not_run)?;
    let success = child.wait().map_err(not_run)?.success();
    let text = String::from_utf8_lossy(&output);
    let seconds = begun.elapsed().as_secs_f64();
    let mut filter = Filter::new(&job.name);
    let mut shown: Vec<String> = text.lines().filter_map(|line| filter.line(line.trim_end())).collect();
    let (sum, summary) = filter.finish(success, seconds);
    shown.insert(0, summary);
    // What crashed has no test to run again.
    let mut failed = failed_tests(&job.command, &text);
    if failed.len() as u64 != sum.failed {
        failed.clear();
    }
    let heading = format!("==== {}\n", job.name).into_bytes();
    Ok(Outcome { sum, shown, output: [heading, output].concat(), failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_announces_binaries() {
        let message = |test: bool, executable: Value| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "manifest_path": "/kiln/crates/isa/Cargo.toml",
                "target": {"src_path": "/kiln/crates/isa/tests/llvm.rs"},
                "profile": {"test": test},
                "executable": executable,
            })
        };
        let found = binary(&message(true, "/kiln/target/debug/deps/llvm-01".into()), Path::new("/kiln")).unwrap();
        assert_eq!(
            (found.source.as_str(), found.folder.to_str()),
            ("crates/isa/tests/llvm.rs", Some("/kiln/crates/isa"))
        );
        assert!(binary(&message(false, "/kiln/target/debug/kiln".into()), Path::new("/kiln")).is_none());
        assert!(binary(&message(true, Value::Null), Path::new("/kiln")).is_none());
    }

    #[test]
    fn the_longest_binaries_exist() {
        let missing: Vec<&str> = LONGEST.into_iter().filter(|source| !root().join(source).exists()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn jobs_are_counted_by_what_they_print() {
        let shell = |name: &str, script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Job { name: name.into(), command }
        };
        let result = "echo 'test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured'";
        let jobs = vec![
            shell("tests", result),
            shell("a crash", "echo 'running 1 test'; kill -SEGV $$"),
            shell("broken links", &format!("{result}; echo error: unresolved; exit 1")),
        ];
        assert_eq!(run(jobs).unwrap(), Sum { passed: 4, failed: 2, skipped: 2, unsteady: 0 });
    }

    #[test]
    fn what_fails_beside_others_runs_again_alone() {
        // A harness of one test, which fails when all tests are asked for. Asked for alone, it fails if `fails_alone`.
        let harness = |fails_alone: bool| {
            let script = format!(
                "case \"$*\" in *--exact*) again={fails_alone};; *) again=true;; esac\n\
                 if $again; then echo 'test one ... FAILED'; echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored;'; exit 1; fi\n\
                 echo 'test one ... ok'; echo 'test result: ok. 1 passed; 0 failed; 0 ignored;'"
            );
            let mut command = Command::new("sh");
            command.args(["-c", &script, "sh"]);
            Job { name: "a harness".into(), command }
        };
        assert_eq!(run(vec![harness(false)]).unwrap(), Sum { passed: 0, failed: 0, skipped: 0, unsteady: 1 });
        assert_eq!(run(vec![harness(true)]).unwrap(), Sum { passed: 0, failed: 1, skipped: 0, unsteady: 0 });
        let many = (0..=MAX_UNSTEADY).map(|_| harness(false)).collect();
        assert_eq!(run(many).unwrap().failed, MAX_UNSTEADY as u64 + 1);
    }
}
