//! Progress on a terminal, and Ctrl-C that keeps the best so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use kiln_driver::Progress;

/// A spinner that says what the passes do. Drawn only where standard error is a terminal.
pub struct Spinner {
    bar: ProgressBar,
    cancelled: Arc<AtomicBool>,
}

impl Spinner {
    /// Begins, and takes Ctrl-C: the first asks the work to end with what it has, the second ends the process.
    pub fn new(what: &str) -> Spinner {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix}: {msg} [{elapsed}]") {
            bar.set_style(style);
        }
        bar.set_prefix(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        let cancelled = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&cancelled);
        let handler = move || {
            if seen.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
            eprintln!("\nstopping: the best so far will be written (Ctrl-C again to give up)");
        };
        if let Err(error) = ctrlc::set_handler(handler) {
            eprintln!("warning: Ctrl-C will end the command at once ({error})");
        }
        Spinner { bar, cancelled }
    }

    /// Says something without counting it as a step.
    pub fn say(&self, what: String) {
        self.bar.set_message(what);
    }

    /// Whether Ctrl-C was pressed.
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// Takes it off the screen.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Spinner {
    fn step(&mut self, pass: &'static str, slots: u32, _spent: Duration) -> bool {
        self.bar.set_message(format!("{slots} slots, {pass}"));
        !self.cancelled.load(Ordering::SeqCst)
    }
}
