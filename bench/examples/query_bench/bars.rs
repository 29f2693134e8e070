//! What is asked of queries, and whether what was measured here meets it.

use std::time::Duration;

use kiln_bench::bar::{Bar, Verdict};

use crate::tracer::{Kind, Query};
use crate::{Failure, Measured, groups, latency, quartiles};

/// Records a second of one thread, whatever the query, with [`GROUPS`].
const RECORDS_PER_SECOND: f64 = 2e6;
const GROUPS: u64 = 1_000;
/// The 99th percentile of how long after its end a window is handed over.
const LATENCY_MS: f64 = 50.0;
const LATENCY_OVER: Duration = Duration::from_secs(30);
/// Groups that are asked for, and those that there is not room for all of.
const MANY: u64 = 1_000_000;
const TOO_MANY: u64 = 4_000_000;

/// Added time at most that of C by hand, by the median of the rounds' differences; with what the load itself varies by, and what
/// empty programs add. Where the differences' quartiles are on both sides of 0, neither is faster.
pub fn probe_effects(all: &[Measured]) -> Vec<Bar> {
    let rounds = |query, kind| {
        let one = all.iter().find(|one| (one.query, one.kind) == (query, kind));
        one.map_or(&[][..], |one| &one.added)
    };
    let of = |query, kind| quartiles(rounds(query, kind)).map(|part| 100.0 * part);
    let bar = |query: Query| {
        let both = rounds(query, Kind::Ours).iter().zip(rounds(query, Kind::Hand));
        let more = quartiles(&both.map(|(ours, hand)| 100.0 * (ours - hand)).collect::<Vec<_>>());
        let [ours, hand, none, empty] = [Kind::Ours, Kind::Hand, Kind::None, Kind::Empty].map(|kind| of(query, kind));
        let mut measured = format!(
            "{:+.1} %, C {:+.1} %, difference by rounds {:+.1} % ({:+.1} to {:+.1})",
            ours[1], hand[1], more[1], more[0], more[2],
        );
        // Pairs are measured without them.
        if !none[1].is_nan() {
            measured += &format!(
                "; empty programs {:+.1} %, the load's own time {:+.1} to {:+.1} %",
                empty[1], none[0], none[2],
            );
        }
        Bar {
            what: format!("{}: adds at most what C by hand does", query.name()),
            measured,
            verdict: match more {
                [_, middle, _] if middle <= 0.0 => Verdict::Met,
                [low, ..] if low <= 0.0 => Verdict::Even,
                _ => Verdict::Missed,
            },
        }
    };
    Query::ALL.map(bar).into()
}

/// The rates of user space's half, and the bar.
pub fn rates() -> Result<(String, Bar), Failure> {
    let rates = groups::rates()?;
    let mut text = "GROUP BY in user space, million records a second of one thread's processor time\n".to_owned();
    for rate in &rates {
        text += &format!("{:>9} processes  {:16} {:.1}\n", rate.processes, rate.query, rate.records_per_second / 1e6);
    }
    let own = rates.iter().filter(|rate| rate.processes == GROUPS).map(|rate| rate.records_per_second);
    let least = own.fold(f64::INFINITY, f64::min);
    let bar = Bar {
        what: format!("{:.0} M records/s of one thread, {GROUPS} processes", RECORDS_PER_SECOND / 1e6),
        measured: format!("{:.1} M/s, the slowest of {} queries", least / 1e6, rates.len() / 4),
        verdict: Verdict::of(least >= RECORDS_PER_SECOND),
    };
    Ok((text, bar))
}

/// The latency of windows.
pub fn latency() -> Result<Bar, Failure> {
    let all = latency::milliseconds(LATENCY_OVER)?;
    let part = |part: usize| all[(all.len() - 1) * part / 100];
    Ok(Bar {
        what: format!("windows are handed over {LATENCY_MS:.0} ms after their end, p99"),
        measured: format!("{:.1} ms (p50 {:.1}, longest {:.1}, {} windows)", part(99), part(50), part(100), all.len()),
        verdict: Verdict::of(part(99) < LATENCY_MS),
    })
}

/// The memory of groups.
pub fn memory() -> Result<Bar, Failure> {
    let [many, too_many] = [groups::memory_of_process(MANY)?, groups::memory_of_process(TOO_MANY)?];
    let mib = |bytes: u64| bytes >> 20;
    Ok(Bar {
        what: format!("{MANY} groups, and {TOO_MANY} asked for, within {} MiB", mib(many.limit)),
        measured: format!(
            "{} of {} groups in {} MiB, {} of {} in {} MiB",
            many.kept,
            many.asked,
            mib(many.bytes),
            too_many.kept,
            too_many.asked,
            mib(too_many.bytes),
        ),
        verdict: Verdict::of(many.kept == many.asked && many.bytes.max(too_many.bytes) <= many.limit),
    })
}
