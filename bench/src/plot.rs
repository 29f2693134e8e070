//! Plots: lines in panels side by side, as an SVG document.

use std::fmt::Write as _;

const COLOURS: [&str; 8] = ["#1b6ca8", "#d1495b", "#2e8b57", "#b8860b", "#7b4fa3", "#008b8b", "#8b4513", "#555555"];
const WIDTH: f64 = 380.0;
const HEIGHT: f64 = 280.0;
const MARGIN: f64 = 60.0;
/// From the left edge of a panel to that of the next one.
const STEP: f64 = WIDTH + 2.0 * MARGIN + 80.0;

/// A named line of a panel.
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// A panel.
pub struct Panel<'a> {
    /// Its title.
    pub title: &'a str,
    /// What the axes show, or their units.
    pub axes: [&'a str; 2],
    /// Whether both axes are logarithmic.
    pub is_log: bool,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// Panels side by side as an SVG document.
pub fn svg(panels: &[Panel<'_>]) -> String {
    let (width, height) = (panels.len() as f64 * STEP, HEIGHT + 2.0 * MARGIN);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (number, panel) in panels.iter().enumerate() {
        panel.draw(&mut text, MARGIN + number as f64 * STEP);
    }
    text + "</svg>\n"
}

impl Panel<'_> {
    fn draw(&self, text: &mut String, left: f64) {
        let scale = |value: f64| if self.is_log { value.max(1e-9).log10() } else { value };
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let ends = |of: &dyn Fn(&(f64, f64)) -> f64| {
            let values = || all().map(|point| scale(of(point)));
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
        };
        let (x, y) = (ends(&|point| point.0), ends(&|point| point.1));
        let part = |value: f64, (low, high): (f64, f64)| (scale(value) - low) / (high - low).max(1e-9);
        let place = |point: &(f64, f64)| (left + WIDTH * part(point.0, x), MARGIN + HEIGHT * (1.0 - part(point.1, y)));
        let bottom = MARGIN + HEIGHT;
        let _ = writeln!(
            text,
            "<text x=\"{left}\" y=\"{}\" font-size=\"14\">{}</text>\n<path d=\"M{left} {MARGIN}V{bottom}h{WIDTH}\" \
             stroke=\"black\" fill=\"none\"/>",
            MARGIN - 20.0,
            self.title
        );
        for (index, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let places: Vec<String> = line.points.iter().map(&place).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
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
        self.ticks(text, left, x, y);
    }

    fn ticks(&self, text: &mut String, left: f64, x: (f64, f64), y: (f64, f64)) {
        let bottom = MARGIN + HEIGHT;
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
