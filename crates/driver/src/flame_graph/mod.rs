//! Flame graphs as one SVG: it follows the light or dark theme, zooms and searches.
//!
//! `inferno` lays the frames out and writes the script that zooms and searches. [`themed`] gives the graph colours of its
//! own: each of `inferno`'s is replaced by one of [`COLOURS`] variables, which have a value for light and for dark.

use inferno::flamegraph::{self, Direction, TextTruncateDirection};
use kiln_program::{Error, clean};

const STYLE: &str = include_str!("style.css");
const THEME_SCRIPT: &str = include_str!("../report/theme.js");
/// Colours of frames, `--f0` and so on in `style.css`.
const COLOURS: u32 = 6;
/// Stacks at most: the heaviest are drawn.
const MAX_LINES: usize = 20_000;

/// What is drawn without stacks.
const EMPTY: &str = "<?xml version=\"1.0\" standalone=\"no\"?>\n\
    <svg version=\"1.1\" width=\"1200\" height=\"80\" xmlns=\"http://www.w3.org/2000/svg\">\
    <text x=\"600\" y=\"50\" text-anchor=\"middle\">No stacks: there was nothing to count.</text></svg>\n";

/// Draws stacks, each with its weight: frames with `;` between them, the outermost first. `counted` names the weight.
///
/// # Errors
/// Returns [`Error::Unsupported`] if `inferno` cannot draw them.
pub fn draw(title: &str, counted: &str, stacks: impl Iterator<Item = (String, u64)>) -> Result<Vec<u8>, Error> {
    let mut lines: Vec<(u64, String)> = stacks.map(|(stack, weight)| (weight, format!("{stack} {weight}"))).collect();
    lines.retain(|(weight, _)| *weight > 0);
    if lines.is_empty() {
        return Ok(themed(EMPTY).into_bytes());
    }
    lines.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    lines.truncate(MAX_LINES);
    lines.sort_by(|one, other| one.1.cmp(&other.1));
    let mut options = flamegraph::Options::default();
    options.title = clean(title);
    options.count_name = clean(counted);
    options.name_type = String::new();
    options.direction = Direction::Inverted;
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.hash = true;
    options.frame_height = 22;
    options.font_size = 13;
    options.min_width = 0.05;
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(|(_, line)| line.as_str()), &mut svg)
        .map_err(|error| Error::Unsupported(format!("drawing the flame graph: {error}")))?;
    Ok(themed(&String::from_utf8_lossy(&svg)).into_bytes())
}

/// Replaces the colours by those of the theme, and adds the switch.
fn themed(svg: &str) -> String {
    let mut out = String::with_capacity(svg.len() + STYLE.len() + THEME_SCRIPT.len());
    let mut rest = svg;
    while let Some((before, after)) = rest.split_once("fill=\"rgb(") {
        out += before;
        let (colour, after) = after.split_once(")\"").unwrap_or((after, ""));
        let sum: u32 = colour.split(',').filter_map(|part| part.trim().parse::<u32>().ok()).sum();
        out += &format!("fill=\"var(--f{})\"", sum % COLOURS);
        rest = after;
    }
    out += rest;
    let end = out.rfind("</svg>").unwrap_or(out.len());
    let additions = format!(
        "<style type=\"text/css\">\n{STYLE}</style><text id=\"theme\" x=\"10\" y=\"26\">Theme: auto</text>\
         <script type=\"text/ecmascript\"><![CDATA[\n{THEME_SCRIPT}]]></script>"
    );
    out.insert_str(end, &additions);
    out
}
