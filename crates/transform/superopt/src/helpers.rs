//! Processors that no part of the object uses: a part may use them for work that does not decide the result.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Instructions of a function from which on a helper is worth its thread.
pub const WORTH_A_HELPER: usize = 256;

/// How many threads have nothing to do.
#[derive(Default)]
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

    /// Takes a thread, if there is one for work on so many instructions.
    pub fn take(&self, instructions: usize) -> Option<Helper<'_>> {
        let less = |idle: usize| idle.checked_sub(1);
        let taken =
            instructions >= WORTH_A_HELPER && self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
        taken.then_some(Helper(self))
    }
}

/// The permission to start one thread. It ends when this is dropped.
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
