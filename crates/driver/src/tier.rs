//! Which code of a program is fastest: the JIT's, or clang's with one of its settings.
//!
//! ```text
//!   jit, fast, scalar --in turns, on the same inputs--> medians --> the fastest; the JIT's if nothing was measured
//! ```
//!
//! No setting is best for all programs and machines: with a switch, `fast` took 2.4 times the time of the kernel's code on
//! one machine, and `scalar` 0.7 times.

use std::time::{Duration, Instant};

use kiln_native::Setting;
use serde::Serialize;

use crate::timing::Timing;

/// Rounds in which codes take turns.
const ROUNDS: usize = 31;

/// Code of a program in the VM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// The JIT's.
    Jit,
    /// clang's.
    Native(Setting),
}

impl Code {
    /// What `kiln run --native` chooses from.
    pub const CHOICES: [Code; 3] = [Code::Jit, Code::Native(Setting::Fast), Code::Native(Setting::Scalar)];

    /// `jit`, or the setting's name.
    pub fn name(self) -> &'static str {
        match self {
            Code::Jit => "jit",
            Code::Native(setting) => setting.name(),
        }
    }

    /// The engine that runs it.
    pub fn engine(self) -> kiln_vm::Engine {
        match self {
            Code::Jit => kiln_vm::Engine::Jit,
            Code::Native(_) => kiln_vm::Engine::Native,
        }
    }
}

/// Time of code.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timed {
    /// Whose.
    #[serde(skip)]
    pub code: Code,
    /// `jit`, or a setting's name.
    pub engine: &'static str,
    /// Of a run, averaged over some of the inputs.
    pub time: Timing,
}

/// Measures codes in turns, so that what slows the machine down slows all of them down. `sample` returns the nanoseconds of
/// a run of the code at an index, or `None` if it does not run. After `limit` no further round begins, but one is always
/// measured.
pub(crate) fn measure(codes: &[Code], limit: Duration, sample: &mut dyn FnMut(usize) -> Option<f64>) -> Vec<Timed> {
    let end = Instant::now() + limit;
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); codes.len()];
    for round in 0..=ROUNDS {
        for turn in 0..codes.len() {
            let at = (turn + round) % codes.len();
            let time = sample(at);
            // The first round fills caches.
            samples[at].extend(time.filter(|_| round > 0));
        }
        if round > 0 && Instant::now() >= end {
            break;
        }
    }
    let timed = codes.iter().zip(samples);
    timed
        .filter_map(|(code, samples)| Some(Timed { code: *code, engine: code.name(), time: Timing::of(samples)? }))
        .collect()
}

/// The code with the shortest median; of equal ones the first.
pub(crate) fn fastest<'t>(times: impl IntoIterator<Item = &'t Timed>) -> Option<Code> {
    let shortest = times.into_iter().min_by(|a, b| a.time.median_ns.total_cmp(&b.time.median_ns));
    shortest.map(|timed| timed.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMIT: Duration = Duration::from_secs(3600);

    fn chosen(run_ns: [Option<f64>; 3]) -> Option<Code> {
        fastest(&measure(&Code::CHOICES, NO_LIMIT, &mut |at| run_ns[at]))
    }

    /// The figures are those of a switch: `fast` at 2.4 times the kernel's code, `scalar` at 0.7.
    #[test]
    fn no_setting_is_taken_that_is_slower_than_the_jit() {
        assert_eq!(chosen([Some(100.0), Some(240.0), Some(70.0)]), Some(Code::Native(Setting::Scalar)));
        assert_eq!(chosen([Some(100.0), Some(240.0), Some(101.0)]), Some(Code::Jit));
        assert_eq!(chosen([Some(100.0), Some(60.0), None]), Some(Code::Native(Setting::Fast)));
        assert_eq!(chosen([Some(100.0); 3]), Some(Code::Jit));
        assert_eq!(chosen([None; 3]), None);
    }

    #[test]
    fn the_first_round_does_not_count_and_one_after_the_limit_does() {
        let mut runs = [0; 3];
        let times = measure(&Code::CHOICES, Duration::ZERO, &mut |at| {
            runs[at] += 1;
            Some(if runs[at] == 1 { 1e9 } else { 10.0 + at as f64 })
        });
        assert_eq!(runs, [2; 3]);
        let medians: Vec<f64> = times.iter().map(|timed| timed.time.median_ns).collect();
        assert_eq!(medians, [10.0, 11.0, 12.0]);
    }
}
