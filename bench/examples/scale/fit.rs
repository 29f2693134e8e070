//! The power of the size with which a time grows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

/// Shorter times say nothing: seconds.
const SHORTEST: f64 = 0.01;
/// Points that a slope needs.
const FEWEST: usize = 3;

/// How one phase grows in one family.
#[derive(Serialize)]
pub struct Slope {
    pub family: String,
    pub phase: String,
    pub slope: f64,
    pub r2: f64,
    pub points: usize,
    /// The largest size that was done in time, and the phase's seconds there.
    pub largest: f64,
    pub seconds: f64,
}

/// The line through the logarithms of points: its slope, and the share of the variance that it explains.
pub fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
    let xx = mean(&|point| (point.0 - x).powi(2));
    let yy = mean(&|point| (point.1 - y).powi(2));
    let xy = mean(&|point| (point.0 - x) * (point.1 - y));
    (xy / xx, if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 })
}

/// Whether a point was done in time, and its programs were verified: what the kernel does not allow is left as it is.
pub fn counts(point: &Value) -> bool {
    point["cut_short"] == json!(false) && point["accepted"] == point["programs"]
}

/// The slopes of all phases in all families, and of memory.
pub fn slopes(points: &[Value]) -> Vec<Slope> {
    let mut series: BTreeMap<(String, String), Vec<(f64, f64)>> = BTreeMap::new();
    for point in points.iter().filter(|point| counts(point)) {
        let family = point["name"].as_str().unwrap_or_default();
        let slots = point["slots"].as_f64().unwrap_or_default();
        for (phase, seconds) in point["phases"].as_object().into_iter().flatten() {
            let own = series.entry((family.to_owned(), phase.clone())).or_default();
            own.extend(seconds.as_f64().filter(|seconds| *seconds >= SHORTEST).map(|seconds| (slots, seconds)));
        }
        let memory = point["memory_kib"].as_f64().unwrap_or_default();
        series.entry((family.to_owned(), "memory".to_owned())).or_default().push((slots, memory));
    }
    let slope = |((family, phase), points): ((String, String), Vec<(f64, f64)>)| {
        let (largest, seconds) = *points.last()?;
        let (slope, r2) = line(&points);
        let enough = points.len() >= FEWEST;
        enough.then_some(Slope { family, phase, slope, r2, points: points.len(), largest, seconds })
    };
    series.into_iter().filter_map(slope).collect()
}

/// A row a phase, a column a family.
pub fn table(slopes: &[Slope]) -> String {
    let families: BTreeSet<&str> = slopes.iter().map(|slope| slope.family.as_str()).collect();
    let phases: BTreeSet<&str> = slopes.iter().map(|slope| slope.phase.as_str()).collect();
    let mut text = format!("{:22}", "slope (r^2)");
    families.iter().for_each(|family| text += &format!(" {family:>12}"));
    text.push('\n');
    for phase in phases {
        let _ = write!(text, "{phase:22}");
        for family in &families {
            let own = slopes.iter().find(|slope| slope.family == *family && slope.phase == phase);
            let shown = own.map_or("-".to_owned(), |slope| format!("{:.2} ({:.2})", slope.slope, slope.r2));
            let _ = write!(text, " {shown:>12}");
        }
        text.push('\n');
    }
    text
}
