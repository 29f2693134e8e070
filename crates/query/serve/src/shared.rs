//! Locks and percentages, as the service and its queries have them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, also after a thread that held it panicked.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a thread that panicked left is whole: each change under these locks is one assignment or insertion.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A part as a percentage.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.4}", 100.0 * part).trim_end_matches('0').trim_end_matches('.').to_owned() + " %"
}
