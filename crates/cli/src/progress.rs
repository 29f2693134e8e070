//! Progress on a terminal, and Ctrl-C that keeps the best so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use kiln_driver::shown::clean;
use kiln_driver::{Progress, Watch};

/// A spinner that says what the passes do. Drawn only where standard error is a terminal.
pub struct Spinner {
    bar: ProgressBar,
    stage: Arc<AtomicU8>,
}

/// Stages of the work.
const WORKING: u8 = 0;
const ENDING: u8 = 1;
/// The result is being written, which takes a moment and is not interrupted.
const WRITING: u8 = 2;

/// Exit code of a command that was interrupted, as shells have it (128 + SIGINT).
const INTERRUPTED: i32 = 130;

impl Spinner {
    /// Begins, and takes Ctrl-C: the first asks the work to end with what it has, the second ends the process.
    pub fn new(what: &str) -> Spinner {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix}: {msg} [{elapsed}]") {
            // ASCII: not every terminal has another character set.
            bar.set_style(style.tick_chars("|/-\\ "));
        }
        bar.set_prefix(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        let stage = Arc::new(AtomicU8::new(WORKING));
        let seen = Arc::clone(&stage);
        let handler = move || match seen.compare_exchange(WORKING, ENDING, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => eprintln!("\nstopping: the best so far will be kept (Ctrl-C again to give up)"),
            Err(WRITING) => {}
            Err(_) => std::process::exit(INTERRUPTED),
        };
        if let Err(error) = ctrlc::set_handler(handler) {
            eprintln!("warning: Ctrl-C will end the command at once ({error})");
        }
        Spinner { bar, stage }
    }

    /// Says something without counting it as a step.
    pub fn say(&self, what: String) {
        self.bar.set_message(clean(&what));
    }

    /// Whether Ctrl-C was pressed.
    pub fn cancelled(&self) -> bool {
        self.stage.load(Ordering::SeqCst) != WORKING
    }

    /// Takes it off the screen; from now on Ctrl-C is not heard.
    pub fn finish(&self) {
        self.stage.store(WRITING, Ordering::SeqCst);
        self.bar.finish_and_clear();
    }
}

impl Progress for Spinner {
    fn step(&mut self, pass: &'static str, slots: u32, _spent: Duration) -> bool {
        self.bar.set_message(format!("{slots} slots, {pass}"));
        !self.cancelled()
    }
}

impl Watch for Spinner {
    fn learning(&mut self, done: usize, all: usize, rules: usize) -> bool {
        self.bar.set_message(format!("{done} of {all}, {rules} rules"));
        !self.cancelled()
    }
}
