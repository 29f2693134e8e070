//! `kiln check --flame-graph`: where the processed instructions of one or more programs went, as one SVG.
//!
//! ```text
//!   all
//!     a.o                           with several objects
//!       parse (xdp)                 the program
//!         a.c:12 parse(x)           the line of it that was processed, or called the next function
//!           parse                   a function
//! ```
//!
//! `inferno` lays the frames out and writes the script that zooms and searches. [`themed`] gives the graph colours of its
//! own: each of `inferno`'s is replaced by one of [`COLOURS`] variables, which have a value for light and for dark.

use inferno::flamegraph::{self, Direction, TextTruncateDirection};
use kiln_program::clean;

use kiln_inspect::cost::{Cost, frame};
use kiln_program::Error;

const STYLE: &str = include_str!("flame/style.css");
const THEME_SCRIPT: &str = include_str!("../../report/theme.js");
/// Colours of frames, `--f0` and so on in `flame/style.css`.
const COLOURS: u32 = 6;
/// Frames at most: those of the most expensive programs are drawn.
const MAX_LINES: usize = 20_000;

/// A program that was verified.
pub struct Verified<'a> {
    /// The object it is from, if there are several.
    pub object: Option<String>,
    /// The program.
    pub program: String,
    /// Where its processed instructions went.
    pub cost: &'a Cost,
}

/// Draws the flame graph of all programs under one root.
///
/// # Errors
/// Returns [`Error::Unsupported`] if nothing was processed.
pub fn graph(title: &str, programs: &[Verified<'_>]) -> Result<Vec<u8>, Error> {
    let mut lines: Vec<(u64, String)> = Vec::new();
    for verified in programs {
        let object = verified.object.as_ref().map_or_else(String::new, |name| frame(name) + ";");
        let head = format!("{object}{};", frame(&verified.program));
        // The outermost function is the program itself.
        let stacks =
            verified.cost.folded.iter().map(|(stack, count)| (stack.split_once(';').map_or("", |both| both.1), count));
        lines.extend(stacks.map(|(stack, count)| (*count, format!("{head}{stack} {count}"))));
    }
    lines.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    lines.truncate(MAX_LINES);
    lines.sort_by(|one, other| one.1.cmp(&other.1));
    let mut options = flamegraph::Options::default();
    options.title = clean(title);
    options.count_name = "instructions processed".to_owned();
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
