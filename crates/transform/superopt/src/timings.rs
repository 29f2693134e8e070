//! Where the time of an optimization went: by pass, and `verifier`, `simulation` and `judge`.
//!
//! Processor time counts, so that other work on the machine changes nothing.

use std::collections::BTreeMap;
use std::time::Duration;

/// Processor time of the calling thread.
#[cfg(not(target_family = "wasm"))]
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Time of the clock: a browser does not say a thread's processor time.
#[cfg(target_family = "wasm")]
fn thread_time() -> Duration {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// Measures processor time of the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Duration);

impl Stopwatch {
    /// Begins now.
    pub fn start() -> Stopwatch {
        Stopwatch(thread_time())
    }

    /// Processor time of this thread since then.
    pub fn elapsed(self) -> Duration {
        Stopwatch::start().0.saturating_sub(self.0)
    }
}

/// Processor time and number of calls, by what was done. Parts that run in parallel are added up.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Timings(BTreeMap<&'static str, (Duration, u64)>);

impl Timings {
    /// Runs a function and counts its time.
    pub fn time<T>(&mut self, what: &'static str, run: impl FnOnce() -> T) -> T {
        let begun = Stopwatch::start();
        let result = run();
        self.add(what, begun.elapsed());
        result
    }

    /// Counts a time.
    pub fn add(&mut self, what: &'static str, time: Duration) {
        let entry = self.0.entry(what).or_default();
        entry.0 += time;
        entry.1 += 1;
    }

    /// Adds the times of others.
    pub fn add_all(&mut self, other: &Timings) {
        for (what, (time, calls)) in &other.0 {
            let entry = self.0.entry(what).or_default();
            entry.0 += *time;
            entry.1 += calls;
        }
    }

    /// What was done, for how long and how often; the longest first.
    pub fn rows(&self) -> Vec<(&'static str, Duration, u64)> {
        let mut rows: Vec<_> = self.0.iter().map(|(what, (time, calls))| (*what, *time, *calls)).collect();
        rows.sort_by_key(|(what, time, _)| (std::cmp::Reverse(*time), *what));
        rows
    }
}
