//! The operating system's clocks.

/// A clock of the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// Since some time in the past, without the time that the machine slept (`CLOCK_MONOTONIC`).
    Monotonic,
    /// The same to the last tick (`CLOCK_MONOTONIC_COARSE`).
    MonotonicCoarse,
    /// The same with the time that the machine slept (`CLOCK_BOOTTIME`).
    Boot,
    /// Atomic time (`CLOCK_TAI`).
    Tai,
    /// The processor time of this thread (`CLOCK_THREAD_CPUTIME_ID`).
    Processor,
}

/// A clock's time in nanoseconds; `None` when there is no such clock.
#[cfg(unix)]
pub fn now_ns(timer: Timer) -> Option<u64> {
    #[cfg(target_os = "linux")]
    let clock = match timer {
        // Miri has no other clock.
        _ if cfg!(miri) => libc::CLOCK_MONOTONIC,
        Timer::Monotonic => libc::CLOCK_MONOTONIC,
        Timer::MonotonicCoarse => libc::CLOCK_MONOTONIC_COARSE,
        Timer::Boot => libc::CLOCK_BOOTTIME,
        Timer::Tai => libc::CLOCK_TAI,
        Timer::Processor => libc::CLOCK_THREAD_CPUTIME_ID,
    };
    #[cfg(not(target_os = "linux"))]
    let clock = match timer {
        Timer::Monotonic | Timer::MonotonicCoarse | Timer::Boot => libc::CLOCK_MONOTONIC,
        Timer::Tai => libc::CLOCK_REALTIME,
        Timer::Processor => libc::CLOCK_THREAD_CPUTIME_ID,
    };
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then(|| (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64))
}

/// A clock's time in nanoseconds; 0 where the system has no clock, as WebAssembly without WASI.
#[cfg(not(unix))]
pub fn now_ns(timer: Timer) -> Option<u64> {
    if cfg!(all(target_family = "wasm", target_os = "unknown")) {
        return Some(0);
    }
    match timer {
        Timer::Processor => None,
        _ => {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            since.ok().map(|since| since.as_nanos() as u64)
        }
    }
}
