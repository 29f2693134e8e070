//! Where the time of an optimization went: by pass, and `verifier`, `simulation` and `judge`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Time and number of calls, by what was done. Parts that run in parallel are added up.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Timings(BTreeMap<&'static str, (Duration, u64)>);

impl Timings {
    /// Runs a function and counts its time.
    pub fn time<T>(&mut self, what: &'static str, run: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
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
