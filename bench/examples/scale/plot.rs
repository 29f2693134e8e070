//! The plot: time against size of each family, and slots saved against seconds of each object.

use kiln_bench::plot::{Line, Panel};
use serde_json::Value;

use crate::fit::{Slope, counts};

/// The plot as an SVG document.
pub fn svg(points: &[Value], slopes: &[Slope], curves: &[Value]) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let mut families: Vec<Line> = Vec::new();
    for point in points.iter().filter(|point| counts(point)) {
        let name = point["name"].as_str().unwrap_or_default();
        let at = (number(&point["slots"]), number(&point["phases"]["total"]).max(0.001));
        match families.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(at),
            None => families.push(Line { name: name.to_owned(), points: vec![at] }),
        }
    }
    for line in &mut families {
        let slope = slopes.iter().find(|slope| slope.family == line.name && slope.phase == "total");
        line.name += &slope.map_or(String::new(), |slope| format!(" {:.2}", slope.slope));
    }
    let curve = |curve: &Value| {
        let file = curve["name"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        let threads = number(&curve["threads"]).max(1.0);
        let points: Vec<(f64, f64, f64)> = serde_json::from_value(curve["curve"].clone()).unwrap_or_default();
        let mut points: Vec<(f64, f64)> = points.into_iter().map(|(_, used, saved)| (used / threads, saved)).collect();
        points.push((number(&curve["phases"]["total"]) / threads, number(&curve["saved"])));
        Line { name: format!("{file}, {} threads", curve["threads"]), points }
    };
    let curves: Vec<Line> = curves.iter().map(curve).collect();
    let time = Panel { title: "CPU seconds, and slopes", axes: ["slots", "s"], is_log: true, lines: families };
    let title = "slots saved against CPU seconds a thread";
    let saved = Panel { title, axes: ["s", "slots"], is_log: false, lines: curves };
    kiln_bench::plot::svg(&[time, saved])
}
