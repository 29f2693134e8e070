//! The kernel's clock, and the time of day.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The monotonic clock, as programs see it. In a time namespace this process sees another one.
pub fn now_ns() -> u64 {
    static OFFSET: OnceLock<u64> = OnceLock::new();
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let own = nanoseconds(time.tv_sec, time.tv_nsec);
    own.wrapping_sub(
        *OFFSET.get_or_init(|| {
            monotonic_offset(&std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default())
        }),
    )
}

/// Nanoseconds since the Unix epoch.
pub(crate) fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_nanos() as u64
}

/// Nanoseconds from the Unix epoch to the beginning of the monotonic clock. It changes when the time of day is set.
pub(crate) fn boot_ns() -> u64 {
    unix_ns().saturating_sub(now_ns())
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> u64 {
    (seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(nanoseconds as u64)
}

/// What the time namespace of a process adds to the monotonic clock, by the text of its `timens_offsets`; 0 where the kernel
/// has no time namespaces.
fn monotonic_offset(text: &str) -> u64 {
    let offset = text.lines().find_map(|line| {
        let mut words = line.strip_prefix("monotonic")?.split_whitespace();
        Some(nanoseconds(words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    });
    offset.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::monotonic_offset;

    #[test]
    fn offsets_of_time_namespaces_are_read() {
        let of =
            |seconds: i64, more: i64| monotonic_offset(&format!("monotonic {seconds:>11} {more:>9}\nboottime 7 7\n"));
        assert_eq!(of(0, 0), 0);
        assert_eq!(of(3, 5), 3_000_000_005);
        assert_eq!(of(-2, 500_000_000) as i64, -1_500_000_000);
        assert_eq!(monotonic_offset(""), 0);
        assert_eq!(monotonic_offset("monotonic x y"), 0);
    }
}
