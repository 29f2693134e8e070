//! The clock by which items end: it goes on evenly, also while the machine sleeps and when somebody sets the wall clock.
//!
//! ```text
//!   seconds from now  --> now() + ...              a step of the wall clock changes nothing
//!   a date            --> the wall clock's step is added when the date is said, and taken off when it is told
//! ```

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds by which the two clocks may differ before dates are counted anew: so that a date is told as it was said while nobody
/// sets the clock.
const DRIFT_MOST: u64 = 100;

/// What has to be added to the time since the machine began, in milliseconds, to have the wall clock's at the first call.
static BEGUN: OnceLock<i64> = OnceLock::new();
/// What the wall clock is ahead, in milliseconds.
static AHEAD: AtomicI64 = AtomicI64::new(0);

fn system() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Milliseconds since 1970, as if nobody had set the wall clock since the process began.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let since = time.tv_sec * 1000 + time.tv_nsec / 1_000_000;
    (since + BEGUN.get_or_init(|| system() - since)).max(0) as u64
}

/// What the wall clock is ahead of [`now`], in milliseconds.
fn ahead() -> i64 {
    let (found, known) = (system() - now() as i64, AHEAD.load(Ordering::Relaxed));
    if found.abs_diff(known) <= DRIFT_MOST {
        return known;
    }
    AHEAD.store(found, Ordering::Relaxed);
    found
}

/// Milliseconds since 1970 by the wall clock.
pub fn wall() -> u64 {
    system().max(0) as u64
}

/// What a request's time is counted from, in milliseconds of [`now`]: a date from 1970 by the wall clock, anything else from now.
pub fn origin(is_date: bool) -> i64 {
    if is_date { -ahead() } else { now() as i64 }
}

/// The date of a time of [`now`].
pub fn date(at: u64) -> u64 {
    at.min(i64::MAX as u64).saturating_add_signed(ahead()).max(1)
}
