//! The loop: make an input, pass it to a target, save failing ones.
//!
//! ```text
//!   parent                                  worker (one process a target, memory limited)
//!     starts, watches the input's number <--- number i -- input(seed, i) -- check -- ok, or: minimize, save
//!     stands still or died: makes input i
//!     again from its number, saves it
//! ```
//!
//! A failed check and a panic are found by the worker itself. A hang, a crash and running out of memory end the worker;
//! the parent then knows the input by its number.

use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};

use kiln_driver::packets::Random;

use crate::minimize::minimize;
use crate::subject::Subject;
use crate::targets::{Depth, Target};
use crate::usage::{SLOW, processor_time};

/// Time for making one failing input smaller.
const MINIMIZE: Duration = Duration::from_secs(3);

/// A failure and the input that shows it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What went wrong, in one line.
    pub message: String,
    /// The input, minimized.
    pub input: Vec<u8>,
}

/// What a run of a target did.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Inputs tried.
    pub executions: u64,
    /// Inputs that reached the code under test.
    pub deep: u64,
    /// Time taken, minimizing not counted.
    pub spent: Duration,
    /// Failures, one input per kind.
    pub failures: Vec<Failure>,
}

/// Input number `index` of a seed.
pub fn input(target: &Target, seeds: &[Vec<u8>], seed: u64, index: u64) -> Vec<u8> {
    let mut hasher = DefaultHasher::new();
    (target.name, seed, index).hash(&mut hasher);
    (target.input)(&mut Random::new(hasher.finish()), seeds)
}

/// Runs a target for a time, or until a number of different findings. `begun` gets each input's number before it is
/// tried.
pub fn run(
    target: &Target,
    subject: &Subject,
    seed: u64,
    time: Duration,
    findings: usize,
    mut begun: impl FnMut(u64),
) -> Summary {
    let seeds = (target.seeds)();
    let started = Instant::now();
    let mut summary = Summary::default();
    let mut minimizing = Duration::ZERO;
    let mut kinds: Vec<String> = Vec::new();
    while started.elapsed() < time + minimizing && kinds.len() < findings {
        let index = summary.executions;
        begun(index);
        let bytes = input(target, &seeds, seed, index);
        summary.executions += 1;
        match check(target, subject, &bytes) {
            Ok(depth) => summary.deep += u64::from(depth == Depth::Deep),
            Err(message) if kinds.contains(&kind(&message)) => {}
            Err(message) => {
                let begin = Instant::now();
                kinds.push(kind(&message));
                summary.failures.push(smaller(target, subject, message, bytes));
                minimizing += begin.elapsed();
            }
        }
    }
    summary.spent = started.elapsed().saturating_sub(minimizing);
    summary
}

fn smaller(target: &Target, subject: &Subject, message: String, bytes: Vec<u8>) -> Failure {
    let wanted = kind(&message);
    let same = |bytes: &[u8]| check(target, subject, bytes).is_err_and(|message| kind(&message) == wanted);
    let input = minimize(&bytes, MINIMIZE, same);
    let message = check(target, subject, &input).err().unwrap_or(message);
    Failure { message, input }
}

/// A failure's message without numbers: failures with the same one are one finding.
fn kind(message: &str) -> String {
    let head = message.lines().next().unwrap_or_default();
    let head = head.split_once(": ").map_or(head, |(head, _)| head);
    head.chars().filter(|character| !character.is_ascii_digit()).collect()
}

/// Hands one input to a target.
///
/// # Errors
/// What went wrong: the target's own words, a panic with its place, or that it took too long.
pub fn check(target: &Target, subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    static QUIET: Once = Once::new();
    QUIET.call_once(remember_panics);
    let begun = processor_time();
    CHECKING.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| (target.check)(subject, bytes)));
    CHECKING.set(false);
    let result = result.unwrap_or_else(|_| Err(PANIC.with_borrow(Clone::clone)));
    let spent = processor_time().saturating_sub(begun);
    if result.is_ok() && spent > SLOW {
        return Err(format!("slow: took {:.1} s", spent.as_secs_f64()));
    }
    result
}

thread_local! {
    static CHECKING: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics of a target are reported with the input that caused them; others end as they always do.
fn remember_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !CHECKING.get() {
            return before(info);
        }
        let place = info.location().map_or(String::new(), |place| format!("{}:{}", place.file(), place.line()));
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("a panic without words");
        PANIC.set(format!("panic at {place}: {}", text.lines().next().unwrap_or_default()));
    }));
}

/// Where failing inputs are kept.
pub fn artifacts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts")
}

/// Saves a failing input; returns its path below the workspace.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn save(target: &Target, input: &[u8]) -> std::io::Result<String> {
    save_as(&name(target, input), input)
}

/// Saves the filetest that a failing input became; returns its path below the workspace.
///
/// # Errors
/// Returns an error if the file cannot be written.
pub fn save_text(target: &Target, input: &[u8], text: &str) -> std::io::Result<String> {
    save_as(&format!("{}.bpf", name(target, input)), text.as_bytes())
}

fn name(target: &Target, input: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    format!("{}-{:016x}", target.name, hasher.finish())
}

fn save_as(name: &str, bytes: &[u8]) -> std::io::Result<String> {
    std::fs::create_dir_all(artifacts())?;
    std::fs::write(artifacts().join(name), bytes)?;
    Ok(format!("fuzz/artifacts/{name}"))
}
