//! Threads that have nothing to do: work may use them where they do not decide its result.
//!
//! ```text
//!   items:   0  1  2  3  4  5  6  7            results, in order:  0  1  2  3  4
//!   caller:  0  2  3     5                     4 ends it, so what a helper did of 5 is not told
//!   helper:     1     4
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Instructions of a function from which on a helper is worth its thread.
pub const WORTH_A_HELPER: usize = 256;
/// Small items that are left from which on a helper is worth its thread.
pub const LEAST_ITEMS: usize = 4;
/// Large items, such as segments and whole attempts of a proof, from which on it is.
pub(crate) const LEAST_LARGE_ITEMS: usize = 2;

/// How many threads have nothing to do.
#[derive(Default, Debug)]
pub struct Helpers(AtomicUsize);

impl Helpers {
    /// So many threads have nothing to do now.
    pub fn set(&self, idle: usize) {
        self.0.store(idle, Ordering::SeqCst);
    }

    /// One more thread has nothing to do.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether a thread has nothing to do.
    pub fn is_any_idle(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    /// Takes a thread, if there is one for work on so many instructions.
    pub fn take(&self, instructions: usize) -> Option<Helper<'_>> {
        let less = |idle: usize| idle.checked_sub(1);
        let taken =
            instructions >= WORTH_A_HELPER && self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
        taken.then(|| Helper(self))
    }

    /// Does the work for each item until a result ends it. Returns the results in order; one that ends it is the last.
    /// Threads that have nothing to do help, also those that become idle meanwhile, so `work` must not depend on who does
    /// what. `instructions` is how large the function is that it is about, `least` how many items must be left for a helper
    /// to be worth its thread.
    pub fn each<T: Sync, R: Send>(
        &self,
        items: &[T],
        instructions: usize,
        least: usize,
        work: impl Fn(&T) -> R + Sync,
        ends: impl Fn(&R) -> bool + Sync,
    ) -> Vec<R> {
        let next = AtomicUsize::new(0);
        let last = AtomicUsize::new(items.len());
        let results = Mutex::new(BTreeMap::new());
        let one = || {
            let at = next.fetch_add(1, Ordering::SeqCst);
            if at > last.load(Ordering::SeqCst) {
                return false;
            }
            let Some(item) = items.get(at) else { return false };
            let result = work(item);
            if ends(&result) {
                last.fetch_min(at, Ordering::SeqCst);
            }
            results.lock().unwrap_or_else(PoisonError::into_inner).insert(at, result);
            true
        };
        let is_worth = || next.load(Ordering::SeqCst) + least <= items.len();
        std::thread::scope(|scope| {
            loop {
                if let Some(helper) = is_worth().then(|| self.take(instructions)).flatten() {
                    scope.spawn(|| {
                        let _until_done = helper;
                        while one() {}
                    });
                }
                if !one() {
                    break;
                }
            }
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let last = last.into_inner();
        results.into_iter().filter(|(at, _)| *at <= last).map(|(_, result)| result).collect()
    }
}

/// The permission to start one thread. It ends when this is dropped.
#[derive(Debug)]
pub struct Helper<'a>(&'a Helpers);

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        self.0.add();
    }
}

/// The result of a thread; a panic goes on in the caller.
pub fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::{Helpers, LEAST_ITEMS};

    #[test]
    fn results_are_in_order_and_end_with_the_first_that_ends() {
        for idle in [0, 1, 3] {
            let helpers = Helpers::default();
            helpers.set(idle);
            let items: Vec<u32> = (0..1000).collect();
            let done = helpers.each(&items, 1000, LEAST_ITEMS, |item| *item, |result| *result % 700 == 699);
            assert_eq!(done, (0..700).collect::<Vec<u32>>(), "with {idle} idle threads");
            assert_eq!(helpers.take(1000).is_some(), idle > 0, "helpers are given back");
        }
    }
}
