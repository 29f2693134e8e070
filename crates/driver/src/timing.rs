//! A time as median and quartiles of samples.

use serde::Serialize;

/// A time from several samples.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timing {
    /// Nanoseconds, median.
    pub median_ns: f64,
    /// Nanoseconds, quarter of the samples below.
    pub low_ns: f64,
    /// Nanoseconds, quarter of the samples above.
    pub high_ns: f64,
}

impl Timing {
    /// The median and quartiles of samples; `None` without any.
    pub fn of(mut samples: Vec<f64>) -> Option<Timing> {
        samples.sort_by(f64::total_cmp);
        let at = |part: usize| samples.get((samples.len() - 1) * part / 4).copied();
        if samples.is_empty() {
            return None;
        }
        Some(Timing { median_ns: at(2)?, low_ns: at(1)?, high_ns: at(3)? })
    }
}
