//! When the events of a window have all been read, so that it is shown soon after its end.
//!
//! A program takes the time of its event and hands its record over later: the reader has to wait for programs that run at the
//! end of a window. Programs run inside of RCU read-side critical sections, and `membarrier(2)` returns when those that
//! began before it are over:
//!
//! ```text
//!   window's end ......... now: asked --membarrier, in a thread of its own--> done: records are read --> the window is closed
//!         programs before the end |--------------|            the reader goes on reading meanwhile
//! ```
//!
//! Where the kernel has no such call, or it takes longer, a window waits for [`kiln_plan::execute::Limits::late_ns`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use kiln_plan::query::Window;
use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};

/// How long records are waited for while programs are waited for.
const SHORT_WAIT: Duration = Duration::from_millis(1);

/// Waits for programs that run, in a thread of its own.
struct Fence {
    ask: SyncSender<u64>,
    /// The time for which this was asked when it was last done.
    done: Arc<AtomicU64>,
}

impl Fence {
    /// Begins a thread; `None` where the kernel cannot wait so.
    fn begin() -> Option<Fence> {
        if !membarrier_query().contains(MembarrierQuery::GLOBAL) {
            return None;
        }
        let (ask, asked) = sync_channel::<u64>(1);
        let done = Arc::new(AtomicU64::new(0));
        let own = Arc::clone(&done);
        let wait = move || {
            for time in asked {
                // A kernel that refuses lets windows wait for late rows.
                if membarrier(MembarrierCommand::Global).is_ok() {
                    own.store(time, Ordering::SeqCst);
                }
            }
        };
        std::thread::Builder::new().name("kiln-windows".into()).spawn(wait).ok()?;
        Some(Fence { ask, done })
    }
}

/// What is known of the time of events that were read.
pub(crate) struct Settled {
    /// Nanoseconds between the ends of windows.
    steps: Vec<u64>,
    late_ns: u64,
    fence: Option<Fence>,
    /// The time for which the fence is asked.
    asked_ns: Option<u64>,
    /// All events before this time were read.
    sure_ns: u64,
}

impl Settled {
    /// For windows, from now on.
    pub fn new(windows: &[Window], late_ns: u64, now_ns: u64) -> Settled {
        let fence = if windows.is_empty() { None } else { Fence::begin() };
        let steps = windows.iter().map(|window| window.step_ns.max(1)).collect();
        Settled { steps, late_ns, fence, asked_ns: None, sure_ns: now_ns.saturating_sub(late_ns) }
    }

    /// The next end of a window.
    fn next_end(&self) -> Option<u64> {
        self.steps.iter().map(|step| (self.sure_ns / step).saturating_add(1).saturating_mul(*step)).min()
    }

    /// How long records may be waited for, `longest` at most.
    pub fn wait(&self, longest: Duration, now_ns: u64) -> Duration {
        match (&self.fence, self.asked_ns, self.next_end()) {
            (Some(_), Some(_), _) => SHORT_WAIT.min(longest),
            // A wait is of whole milliseconds, so it ends after the window does.
            (Some(_), None, Some(end)) => {
                longest.min(Duration::from_nanos(end.saturating_sub(now_ns)) + Duration::from_micros(999))
            }
            _ => longest,
        }
    }

    /// Begins to wait for programs if a window has ended. Returns the time before which all programs that began are over, if
    /// it is later than what was known.
    pub fn over(&mut self, now_ns: u64) -> Option<u64> {
        let fence = self.fence.as_ref()?;
        if self.asked_ns.is_none() && self.next_end().is_some_and(|end| end <= now_ns) {
            self.asked_ns = fence.ask.try_send(now_ns).is_ok().then_some(now_ns);
        }
        self.asked_ns.filter(|asked| fence.done.load(Ordering::SeqCst) >= *asked)
    }

    /// Moves on: to a time before which all records were read, if there is one. Returns the clock for windows, which is
    /// ahead of what is sure by the time for late rows.
    pub fn advance(&mut self, read_ns: Option<u64>, now_ns: u64) -> u64 {
        let late = now_ns.saturating_sub(self.late_ns);
        self.sure_ns = self.sure_ns.max(late).max(read_ns.unwrap_or_default());
        // After a fence that took too long, the next one is asked for the next window.
        let is_done = self.asked_ns.zip(self.fence.as_ref()).is_some_and(|(asked, fence)| {
            fence.done.load(Ordering::SeqCst) >= asked && (read_ns.is_some() || self.sure_ns >= asked)
        });
        if is_done {
            self.asked_ns = None;
        }
        self.sure_ns.saturating_add(self.late_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_end_when_programs_are_over() {
        let window = Window { length_ns: 1_000, step_ns: 500 };
        let mut settled = Settled::new(&[window], 100_000, 1_000_000);
        if settled.fence.is_none() {
            return println!("skipped: this kernel has no membarrier");
        }
        assert_eq!(settled.sure_ns, 900_000);
        // The window's end is past: the fence is asked, and done soon.
        let mut over = None;
        for _ in 0..10_000 {
            over = settled.over(1_000_000);
            if over.is_some() {
                break;
            }
            assert_eq!(settled.advance(None, 1_000_000), 1_000_000);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(over, Some(1_000_000));
        // Records are not read yet.
        assert_eq!(settled.advance(None, 1_000_001), 1_000_001);
        assert_eq!(settled.over(1_000_002), Some(1_000_000));
        assert_eq!(settled.advance(Some(1_000_000), 1_000_003), 1_100_000);
        assert_eq!(settled.over(1_000_004), None, "the next window has not ended");
        assert!(settled.wait(Duration::from_secs(1), 1_000_004) < Duration::from_millis(2));
        // Without a fence in time, late rows are waited for.
        assert_eq!(settled.advance(None, 9_000_000), 9_000_000);
    }
}
