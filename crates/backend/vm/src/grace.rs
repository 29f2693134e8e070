//! Grace periods: when no run can hold a pointer to a removed element any more.
//!
//! A program may hold the address of a map value until its run ends. Another CPU may delete the element meanwhile; its
//! memory is used again only when every run that had begun by then has ended, as RCU has it in the kernel:
//!
//! ```text
//!   CPU 0   |---- run, epoch 7 ----------|
//!   CPU 1        delete, stamped 7          |- run, epoch 9 -|
//!                                        ^ from here on the element's memory may be used again
//! ```

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The active runs, by CPU.
#[derive(Debug)]
pub(crate) struct Grace {
    /// The current epoch; each removal begins a new one.
    now: AtomicU64,
    /// The epoch in which each CPU's run began; 0 if no run is active.
    runs: Box<[AtomicU64]>,
}

impl Grace {
    /// For this many CPUs, with no run going on.
    pub fn new(cpus: u32) -> Grace {
        Grace { now: AtomicU64::new(1), runs: (0..cpus).map(|_| AtomicU64::new(0)).collect() }
    }

    /// A run begins on a CPU.
    #[inline]
    pub fn begin(&self, cpu: u32) {
        // Sequentially consistent: a thread that removed an element and does not see this run removed it before the
        // run's first lookup.
        self.runs[cpu as usize].swap(self.now.load(Ordering::Acquire), Ordering::SeqCst);
    }

    /// The run on a CPU has ended.
    #[inline]
    pub fn end(&self, cpu: u32) {
        self.runs[cpu as usize].store(0, Ordering::Release);
    }

    /// The stamp of an element that was just made unreachable.
    pub fn stamp(&self) -> u64 {
        self.now.fetch_add(1, Ordering::SeqCst)
    }

    /// Elements with stamps below this one can be used again.
    pub fn oldest(&self) -> u64 {
        fence(Ordering::SeqCst);
        let running = self.runs.iter().map(|run| run.load(Ordering::SeqCst)).filter(|epoch| *epoch != 0);
        running.min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_element_waits_for_the_runs_of_its_time() {
        let grace = Grace::new(2);
        grace.begin(0);
        let stamp = grace.stamp();
        assert!(stamp >= grace.oldest());
        grace.begin(1);
        assert!(stamp >= grace.oldest(), "the second run began later, the first goes on");
        grace.end(0);
        assert!(stamp < grace.oldest());
        grace.end(1);
        assert!(stamp < grace.oldest());
    }
}
