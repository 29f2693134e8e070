//! Work on runs before their turn, by threads that have nothing to do.
//!
//! ```text
//!   runs:     0  1  2  3  4  5  6  7  8  9
//!   helper:   *  *  *  *                        in rising order, with what is known when it begins
//!   pass:                 *  *  *  *  *  *      in falling order; from 3 on it takes what the helper found, unless
//!                                               something on which that depends has changed
//! ```

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::windows::Found;

/// Runs that are left from which on a helper is worth its thread.
const LEAST_RUNS: usize = 4;

/// What helpers do and have done.
pub(super) struct Ahead {
    /// The next run for a helper.
    next: AtomicUsize,
    /// The run that the pass has come to; helpers end there.
    turn: AtomicUsize,
    found: Mutex<BTreeMap<usize, Found>>,
}

/// Ends the work of helpers when it is dropped.
pub(super) struct Ends<'a>(&'a Ahead);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.turn.store(0, Ordering::SeqCst);
    }
}

impl Ahead {
    /// Nothing is done yet.
    pub fn new() -> Ahead {
        Ahead { next: AtomicUsize::new(0), turn: AtomicUsize::new(usize::MAX), found: Mutex::default() }
    }

    /// Ends helpers at the end of a scope, also if it panics.
    pub fn ends(&self) -> Ends<'_> {
        Ends(self)
    }

    /// Whether enough runs are left before one for a helper.
    pub fn is_worth(&self, turn: usize) -> bool {
        self.next.load(Ordering::SeqCst) + LEAST_RUNS <= turn
    }

    /// What a helper found in a run whose turn it is.
    pub fn take(&self, turn: usize) -> Option<Found> {
        self.turn.store(turn, Ordering::SeqCst);
        self.found.lock().unwrap_or_else(PoisonError::into_inner).remove(&turn)
    }

    /// Looks at runs until they meet the turn of the pass.
    pub fn work(&self, look: impl Fn(usize) -> Option<Found>) {
        loop {
            let index = self.next.fetch_add(1, Ordering::SeqCst);
            if index >= self.turn.load(Ordering::SeqCst) {
                return;
            }
            if let Some(found) = look(index) {
                self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(index, found);
            }
        }
    }
}
