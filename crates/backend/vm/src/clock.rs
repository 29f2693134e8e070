//! The operating system's clocks.

/// A clock's time in nanoseconds; `None` when there is no such clock.
pub fn now_ns(clock: libc::clockid_t) -> Option<u64> {
    // Miri has no other clock.
    let clock = if cfg!(miri) { libc::CLOCK_MONOTONIC } else { clock };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then(|| (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64))
}
