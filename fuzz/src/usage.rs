//! Time and memory that an input takes.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Longest time of a processor that one input may take.
pub const SLOW: Duration = Duration::from_secs(5);

/// Runs something; also returns how many bytes of memory the process had at most beyond what it had before, where the
/// system tells (`VmHWM`), else 0.
pub fn peak_growth<T>(run: impl FnOnce() -> T) -> (T, u64) {
    let bytes = |name: &str| -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim_matches(|letter: char| !letter.is_ascii_digit()).parse::<u64>().ok()? << 10)
    };
    // 5 sets the peak back to what there is now.
    let reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    let before = bytes("VmRSS:").filter(|_| reset);
    let result = run();
    let grown = before.zip(bytes("VmHWM:")).map_or(0, |(before, peak)| peak.saturating_sub(before));
    (result, grown)
}

/// Time for which this thread ran: on a busy machine the clock on the wall says nothing. Where the system does not tell,
/// the clock all the same.
pub fn processor_time() -> Duration {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|text| text.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| BEGUN.get_or_init(Instant::now).elapsed(), Duration::from_nanos)
}
