//! Compares the kernel message that Kiln predicts with the actual one, for every program of the corpora that both
//! reject.
//!
//! ```text
//!   literally   R1 invalid mem access 'scalar'                 the same text
//!   by class    R1 min value is negative, ...  (R2 there)      the same but for numbers
//!   other       another message                                `KILN_WORDS_ROWS=1` prints each
//!   none        Kiln does not know one
//! ```
//!
//! The shares must not fall below what is stated here. Raise them when they rise.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_driver::explain::log::explain_log;
use kiln_driver::kernel;
use kiln_linux::LoadFailure;
use kiln_program::Object;
use kiln_test::corpus::{self, CorpusObject};
use kiln_test::engine::kernel_available;
use kiln_verifier::{Error, verify};

/// Minimum per cent of messages with the same text.
const LITERALLY: usize = 85;
/// Minimum per cent of messages that are the same except for numbers.
const BY_CLASS: usize = 87;
/// Minimum per cent of reasons that the log alone tells.
const OF_LOGS: usize = 97;

/// One program that both reject.
struct Row {
    name: String,
    reason: &'static str,
    ours: Option<String>,
    kernels: String,
    /// The reason that `kiln explain --log` reads out of the kernel's log, without the program.
    of_log: Option<&'static str>,
}

/// The similarity of two messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Near {
    Literally,
    ByClass,
    Other,
    None,
}

/// The message without its numbers, which is what people search for.
fn class(message: &str) -> String {
    let mut class = String::new();
    let mut number = false;
    for letter in message.chars() {
        let digit = letter.is_ascii_hexdigit() && (number || letter.is_ascii_digit());
        if digit && !number {
            class.push('N');
        }
        if !(digit || letter == 'x' && number) {
            class.push(letter);
        }
        number = digit || letter == 'x' && number;
    }
    class.replace('-', "")
}

impl Row {
    fn near(&self) -> Near {
        match &self.ours {
            None => Near::None,
            Some(ours) if *ours == self.kernels => Near::Literally,
            Some(ours) if class(ours) == class(&self.kernels) => Near::ByClass,
            // The kernel prints two states after this message.
            Some(ours) if ours.starts_with("infinite loop") && self.kernels.starts_with("old state:") => Near::ByClass,
            Some(_) => Near::Other,
        }
    }
}

fn has_core(object: &Object) -> bool {
    object.functions.iter().flat_map(|function| &function.nodes).any(|node| node.core.is_some())
}

fn rows_of(entry: &CorpusObject) -> Vec<Row> {
    let Ok(mut input) = entry.read() else { return Vec::new() };
    let bytes = std::mem::take(&mut input.bytes);
    if has_core(&input.object) {
        // libbpf's message for a failed relocation is not the verifier's.
        return Vec::new();
    }
    let file = entry.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut rows = Vec::new();
    for program in input.object.programs.iter().filter(|program| !entry.leaves_out(&program.name)) {
        let options = kiln_verifier::Options { skip_facts: true, ..input.verifier_options() };
        let Err(Error::Rejected(rejection)) = verify(&input.object, program, &options) else { continue };
        let Err(failure) = kernel::load(&bytes, &input.object, program) else { continue };
        let Some(kernels) = failure.reason() else { continue };
        rows.push(Row {
            name: format!("{file}:{}", program.name),
            reason: rejection.reason.code(),
            ours: rejection.kernel_message.clone(),
            kernels: kernels.to_owned(),
            of_log: reason_of_log(&failure),
        });
    }
    rows
}

/// The reason that the log of the program that failed gives.
fn reason_of_log(failure: &LoadFailure) -> Option<&'static str> {
    let log = &failure.logs.last()?.log;
    explain_log(log).ok()?.first()?.code
}

fn all_rows() -> Vec<Row> {
    let objects = corpus::objects();
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(entry) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if entry.refused().is_none() {
                        let found = rows_of(entry);
                        rows.lock().expect("no thread panics while it adds").extend(found);
                    }
                }
            });
        }
    });
    rows.into_inner().expect("no thread panics while it adds")
}

#[test]
fn the_kernels_words_are_known() {
    if let Err(reason) = kernel_available() {
        eprintln!("skipped: kernel: {reason}");
        return;
    }
    let rows = all_rows();
    if rows.is_empty() {
        return;
    }
    let mut counts = BTreeMap::<&str, [usize; 4]>::new();
    for row in &rows {
        for key in [row.reason, "~ all"] {
            counts.entry(key).or_default()[row.near() as usize] += 1;
        }
    }
    eprintln!("{:28}{:>10}{:>10}{:>8}{:>8}", "reason", "literally", "by class", "other", "none");
    for (reason, [literally, by_class, other, none]) in &counts {
        eprintln!("{:28}{literally:>10}{by_class:>10}{other:>8}{none:>8}", reason.trim_start_matches("~ "));
    }
    if std::env::var_os("KILN_WORDS_ROWS").is_some() {
        for row in rows.iter().filter(|row| row.of_log != Some(row.reason)) {
            eprintln!("{} {}\n    of its log {:?}: {:?}", row.reason, row.name, row.of_log, row.kernels);
        }
        for row in rows.iter().filter(|row| row.near() >= Near::Other) {
            eprintln!("{} {}\n    ours   {:?}\n    kernel {:?}", row.reason, row.name, row.ours, row.kernels);
        }
    }
    let [literally, by_class, ..] = counts["~ all"];
    let share = |count: usize| 100 * count / rows.len();
    let of_logs = rows.iter().filter(|row| row.of_log == Some(row.reason)).count();
    let without = rows.iter().filter(|row| row.of_log.is_none()).count();
    eprintln!(
        "{of_logs} of {} reasons are read out of the kernel's log alone, {without} logs are not understood",
        rows.len()
    );
    assert!(share(of_logs) >= OF_LOGS, "{}% of the reasons are read out of logs", share(of_logs));
    eprintln!("{}% literally, {}% by class, of {}", share(literally), share(literally + by_class), rows.len());
    assert!(share(literally) >= LITERALLY, "{}% of the messages are the kernel's literally", share(literally));
    assert!(share(literally + by_class) >= BY_CLASS, "{}% are the kernel's", share(literally + by_class));
}

#[test]
fn classes_leave_numbers_out() {
    assert_eq!(class("R1 off=-16 size=0x1f"), class("R10 off=8 size=0x2"));
    assert_ne!(class("R1 invalid mem access 'scalar'"), class("R1 invalid mem access 'fp'"));
}
