//! Slots saved against seconds.

use std::fmt::Write as _;
use std::time::Duration;

use kiln_superopt::Progress;
use serde_json::Value;

/// The best result so far, over time.
#[derive(Default)]
pub struct Account {
    first: Option<u32>,
    /// Seconds, processor seconds, and slots saved by then; only where that changed.
    points: Vec<(f64, f64, i64)>,
}

impl Account {
    /// Seconds, processor seconds, and slots saved by then.
    pub fn points(&self) -> &[(f64, f64, i64)] {
        &self.points
    }
}

impl Progress for Account {
    fn step(&mut self, _: &'static str, slots: u32, spent: Duration) -> bool {
        let first = *self.first.get_or_insert(slots);
        let saved = i64::from(first) - i64::from(slots);
        if self.points.last().is_none_or(|(.., last)| *last != saved) {
            self.points.push((spent.as_secs_f64(), crate::processor_time().as_secs_f64(), saved));
        }
        true
    }
}

/// What had been saved after some processor time a thread: that is what the clock says if nothing else runs.
pub fn table(curves: &[Value]) -> String {
    let mut text = String::new();
    for curve in curves {
        let points: Vec<(f64, f64, i64)> = serde_json::from_value(curve["curve"].clone()).unwrap_or_default();
        let name = curve["name"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        let [seconds, cpu, memory] = [&curve["seconds"], &curve["phases"]["total"], &curve["memory_kib"]]
            .map(|value| value.as_f64().unwrap_or(f64::NAN));
        let threads = curve["threads"].as_f64().unwrap_or(1.0);
        let _ = writeln!(
            text,
            "\n{name}, {} threads: {} of {} slots saved in {seconds:.1} s, {cpu:.1} CPU-s, {:.0} MiB",
            curve["threads"],
            curve["saved"],
            curve["slots"],
            memory / 1024.0
        );
        for at in [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0, 600.0] {
            let saved =
                points.iter().take_while(|(_, used, _)| *used <= at * threads).last().map_or(0, |(.., saved)| *saved);
            let _ = writeln!(text, "  {at:5.0} s  {saved}");
            if at * threads >= cpu {
                break;
            }
        }
    }
    text
}
