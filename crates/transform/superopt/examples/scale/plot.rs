//! The plot: time against size of each family, and slots saved against seconds of each object.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::fit::Slope;

const COLOURS: [&str; 8] = ["#1b6ca8", "#d1495b", "#2e8b57", "#b8860b", "#7b4fa3", "#008b8b", "#8b4513", "#555555"];
const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 280.0;
const MARGIN: f64 = 60.0;

/// A named line of a panel.
struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

/// A panel: where it begins, its title, its axes' names, and whether they are logarithmic.
struct Panel<'a> {
    left: f64,
    title: &'a str,
    axes: [&'a str; 2],
    is_log: bool,
}

/// The plot as an SVG document.
pub fn svg(points: &[Value], slopes: &[Slope], curves: &[Value]) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let mut families: Vec<Line> = Vec::new();
    for point in points.iter().filter(|point| point["cut_short"] == json!(false)) {
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
    let (width, height) = (2.0 * (WIDTH + 2.0 * MARGIN) + 80.0, HEIGHT + 2.0 * MARGIN);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let time = Panel { left: MARGIN, title: "CPU seconds, and slopes", axes: ["slots", "s"], is_log: true };
    let saved = Panel {
        left: 3.0 * MARGIN + WIDTH + 80.0,
        title: "slots saved against CPU seconds a thread",
        axes: ["s", "slots"],
        is_log: false,
    };
    time.draw(&mut text, &families);
    saved.draw(&mut text, &curves);
    text + "</svg>\n"
}

impl Panel<'_> {
    fn draw(&self, text: &mut String, lines: &[Line]) {
        let scale = |value: f64| if self.is_log { value.max(1e-9).log10() } else { value };
        let all = || lines.iter().flat_map(|line| &line.points);
        let ends = |of: &dyn Fn(&(f64, f64)) -> f64| {
            let values = || all().map(|point| scale(of(point)));
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
        };
        let (x, y) = (ends(&|point| point.0), ends(&|point| point.1));
        let part = |value: f64, (low, high): (f64, f64)| (scale(value) - low) / (high - low).max(1e-9);
        let place =
            |point: &(f64, f64)| (self.left + WIDTH * part(point.0, x), MARGIN + HEIGHT * (1.0 - part(point.1, y)));
        let (left, bottom) = (self.left, MARGIN + HEIGHT);
        let _ = writeln!(
            text,
            "<text x=\"{left}\" y=\"{}\" font-size=\"14\">{}</text>\n<path d=\"M{left} {MARGIN}V{bottom}h{WIDTH}\" \
             stroke=\"black\" fill=\"none\"/>",
            MARGIN - 20.0,
            self.title
        );
        for (index, line) in lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let places: Vec<String> =
                line.points.iter().map(|at| place(at)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                text,
                "<polyline points=\"{}\" stroke=\"{colour}\" fill=\"none\" stroke-width=\"1.5\"/>\n<text x=\"{}\" \
                 y=\"{}\" fill=\"{colour}\">{}</text>",
                places.join(" "),
                left + 8.0,
                MARGIN + 14.0 * (index as f64 + 1.0),
                line.name
            );
        }
        self.ticks(text, x, y);
    }

    fn ticks(&self, text: &mut String, x: (f64, f64), y: (f64, f64)) {
        let (left, bottom) = (self.left, MARGIN + HEIGHT);
        for step in 0..=4 {
            let share = f64::from(step) / 4.0;
            let shown = |(low, high): (f64, f64)| {
                let value = low + share * (high - low);
                let value = if self.is_log { 10f64.powf(value) } else { value };
                if value.abs() < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") }
            };
            let _ = writeln!(
                text,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n<text x=\"{}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                left + share * WIDTH,
                bottom + 16.0,
                shown(x),
                left - 6.0,
                bottom - share * HEIGHT + 4.0,
                shown(y)
            );
        }
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\">{}</text>\n<text x=\"{}\" y=\"{}\">{}</text>",
            left + WIDTH + 4.0,
            bottom + 30.0,
            self.axes[0],
            left - 40.0,
            MARGIN - 6.0,
            self.axes[1]
        );
    }
}
