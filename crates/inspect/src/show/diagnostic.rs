//! A rejection as data, and as the text that a compiler would print.
//!
//! ```text
//!   error[possibly-null]: r0 (map_value) may be null here: it was not compared with 0 on this path
//!     --> count.c:31:5
//!      |
//!   28 |     value = bpf_map_lookup_elem(&counters, &key);
//!      |             ------------------- 1: bpf_map_lookup_elem returns a pointer to ..., or null
//!   31 |     *value += 1;
//!      |     ^^^^^^ here, in program count: *(u64 *)(r0 + 0x0) = 0x1
//!      |
//!      = note: the kernel prints: R0 invalid mem access 'map_value_or_null'
//!      = help: check it before this line: `if (!value) return XDP_PASS;`
//! ```
//!
//! Steps are numbered in the order of the path, which a loop may lead through the same line several times. Lines come
//! from the object's BTF; where it has none, the listing takes their place.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::lint::Finding;
use crate::show::place::Place;
use crate::show::shown::Shown;
use crate::show::word::{self, Word};
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Renderer, Snippet};
use kiln_program::Object;
use kiln_program::shown::is_visible;
use kiln_program::text::{Labels, node_text};
use kiln_verifier::Rejection;
use serde::{Deserialize, Serialize};

/// A rejection, for `--format json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Diagnosis {
    /// What is wrong, with registers and numbers.
    pub message: Shown,
    /// What the kernel prints for it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_message: Option<Shown>,
    /// Whether the kernel is known to accept it all the same, by a bug.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel_accepts: bool,
    /// What fixes it.
    pub help: Shown,
    /// The numbers and names of the help.
    #[serde(skip)]
    pub wanted: kiln_verifier::Wanted,
    /// Where.
    pub place: Place,
    /// How it came to this, in the order of the path.
    pub story: Vec<Step>,
}

/// One step on the way to a rejection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Step {
    /// `origin`, `copy`, `moved`, `bounded`, `lost`, `branch` or `call`.
    #[serde(deserialize_with = "word::read")]
    pub part: Word,
    /// What happens.
    pub text: Shown,
    /// Where.
    pub place: Place,
    /// Whether it says only what led up to the rejection, so that no edit is placed by it.
    #[serde(skip)]
    pub aside: bool,
}

impl Diagnosis {
    /// Makes the diagnostic of a rejection of one of the object's programs.
    pub fn new(object: &Object, rejection: &Rejection) -> Diagnosis {
        let line = rejection.line.as_ref().filter(|line| line.line != 0);
        let step = |step: &kiln_verifier::StoryStep| Step {
            part: step.part.name(),
            text: step.text.as_str().into(),
            place: Place::new(object, step.insn, &step.position, step.line.as_ref()),
            aside: step.aside,
        };
        Diagnosis {
            message: rejection.message.as_str().into(),
            kernel_message: rejection.kernel_message.as_deref().map(Shown::from),
            kernel_accepts: rejection.kernel_accepts(),
            help: rejection.help.as_str().into(),
            wanted: rejection.wanted.clone(),
            place: Place::new(object, rejection.insn, &rejection.position, line),
            story: rejection.story.iter().map(step).collect(),
        }
    }
}

/// What lines are shown from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Page {
    /// A source file.
    Source(Shown),
    /// A function's instructions.
    Listing(Shown),
}

/// The page it is shown on and the line there.
fn page_of(place: &Place) -> (Page, usize) {
    match (&place.file, place.line, &place.source) {
        (Some(file), Some(line), Some(_)) => (Page::Source(file.clone()), line as usize),
        _ => (Page::Listing(place.function.clone()), place.slot),
    }
}

/// One mark on a page.
struct Mark {
    line: usize,
    kind: AnnotationKind,
    label: String,
    place: Place,
}

/// How text looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// With colours.
    pub colours: bool,
    /// Columns of the terminal, if it is one: notes are broken there.
    pub width: Option<usize>,
}

impl Look {
    /// A note, broken at the terminal's width; `used` columns are taken by what stands before each of its lines.
    fn fitted(self, text: &str, used: usize) -> String {
        let Some(width) = self.width.map(|width| width.saturating_sub(used).max(LEAST_WIDTH)) else {
            return text.to_owned();
        };
        let mut lines: Vec<String> = Vec::new();
        for word in text.split(' ') {
            match lines.last_mut() {
                Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines.join("\n")
    }
}

/// Columns that a broken note has at least.
const LEAST_WIDTH: usize = 20;
/// Columns before a note: the numbers of lines, `   = note: `.
const BEFORE_NOTE: usize = 14;

/// The rejection as a compiler prints it.
pub fn render(object: &Object, program: &str, code: &str, diagnosis: &Diagnosis, look: Look) -> String {
    let mut pages: Vec<(Page, Vec<Mark>)> = Vec::new();
    let mut add = |place: &Place, kind: AnnotationKind, label: String| {
        let (page, line) = page_of(place);
        let mark = Mark { line, kind, label, place: place.clone() };
        match pages.iter_mut().find(|(known, _)| *known == page) {
            Some((_, marks)) => marks.push(mark),
            None => pages.push((page, vec![mark])),
        }
    };
    add(&diagnosis.place, AnnotationKind::Primary, "rejected here".to_owned());
    for (index, step) in diagnosis.story.iter().enumerate() {
        add(&step.place, AnnotationKind::Context, format!("{}: {}", index + 1, step.text));
    }
    let title = Level::ERROR.primary_title(diagnosis.message.to_string()).id(code.to_owned());
    let mut report = group_of(title, object, pages);
    let note = |text: &str| look.fitted(text, BEFORE_NOTE);
    report = report.element(Level::NOTE.message(note(&diagnosis.place.in_program(program))));
    if let Some(message) = &diagnosis.kernel_message {
        report = report.element(Level::NOTE.message(note(&format!("the kernel prints: {message}"))));
    }
    if diagnosis.kernel_accepts {
        report = report.element(Level::NOTE.message(note("kernels before 7.3 accept it: a bug")));
    }
    printed(report.element(Level::HELP.message(note(&diagnosis.help.to_string()))), look)
}

/// A warning of the lint as a compiler prints it.
pub fn render_finding(object: &Object, finding: &Finding, look: Look) -> String {
    let level = if finding.denied { Level::ERROR } else { Level::WARNING };
    let title = level.primary_title(finding.message.to_string()).id(finding.rule);
    let mut report = match &finding.place {
        None => Group::with_title(title),
        Some(place) => {
            let (page, line) = page_of(place);
            let mark = Mark { line, kind: AnnotationKind::Primary, label: String::new(), place: place.clone() };
            group_of(title, object, vec![(page, vec![mark])])
        }
    };
    let note = |text: &str| look.fitted(text, BEFORE_NOTE);
    if let (Some(place), Some(program)) = (&finding.place, &finding.program) {
        report = report.element(Level::NOTE.message(note(&place.in_program(program.exact()))));
    }
    printed(report.element(Level::HELP.message(note(&finding.help.to_string()))), look)
}

fn printed(report: Group<'_>, look: Look) -> String {
    let renderer = if look.colours { Renderer::styled() } else { Renderer::plain() };
    renderer.term_width(look.width.unwrap_or(WIDTH).min(WIDTH)).render(&[report]).to_string()
}

/// Source lines longer than this are cut around what is marked.
const WIDTH: usize = 160;
/// Lines between two marks from which on they are shown apart: all that lies between them is laid out before most of it
/// is left out, and line records may say any number.
const FAR_APART: usize = 4096;

fn group_of<'a>(title: annotate_snippets::Title<'a>, object: &Object, pages: Vec<(Page, Vec<Mark>)>) -> Group<'a> {
    let mut group = Group::with_title(title);
    for (page, mut marks) in pages {
        marks.sort_by_key(|mark| mark.line);
        for near in marks.chunk_by(|one, next| next.line - one.line < FAR_APART) {
            group = group.element(snippet(object, &page, near));
        }
    }
    group
}

/// Lines of a page with their marks, in the order of the lines.
fn snippet<'a>(object: &Object, page: &Page, marks: &[Mark]) -> Snippet<'a, Annotation<'a>> {
    let first = marks.first().map_or(0, |mark| mark.line);
    let last = marks.last().map_or(0, |mark| mark.line);
    let lines = lines(object, page, first..last + 1);
    let mut text = String::new();
    let mut starts = BTreeMap::new();
    for line in first..=last {
        starts.insert(line, text.len());
        text.push_str(lines.get(&line).map_or("", |text| text.as_str()));
        text.push('\n');
    }
    let path = match page {
        Page::Source(file) => file.to_string(),
        Page::Listing(function) => format!("instructions of {function}"),
    };
    // What is said of one place is one label, the rejection first.
    let mut folded: Vec<(Range<usize>, AnnotationKind, Vec<&str>)> = Vec::new();
    for mark in marks {
        let start = starts.get(&mark.line).copied().unwrap_or(0);
        let line = lines.get(&mark.line).map_or("", |text| text.as_str());
        let column = matches!(page, Page::Source(_)).then_some(mark.place.column).flatten();
        let span = span(line, column);
        let span = start + span.start..start + span.end;
        match folded.iter_mut().find(|(known, kind, _)| *known == span && *kind == mark.kind) {
            Some((_, _, labels)) => labels.push(&mark.label),
            None => folded.push((span, mark.kind, vec![&mark.label])),
        }
    }
    let annotations = folded.into_iter().map(|(span, kind, labels)| kind.span(span).label(one_label(&labels)));
    let annotations: Vec<_> = annotations.collect();
    Snippet::source(text).line_start(first).path(path).annotations(annotations)
}

/// The most labels of one place that are written out.
const LABELS_SHOWN: usize = 3;

/// Labels of one place as one: the last ones, where there are many, because they are nearest to the rejection.
fn one_label(labels: &[&str]) -> String {
    let left_out = labels.len().saturating_sub(LABELS_SHOWN);
    let shown = labels[left_out..].join("; ");
    match left_out {
        0 => shown,
        count => format!("({count} earlier steps) {shown}"),
    }
}

/// The lines of a page that are known.
fn lines(object: &Object, page: &Page, wanted: Range<usize>) -> BTreeMap<usize, String> {
    match page {
        Page::Source(file) => object
            .lines
            .iter()
            .filter(|line| *file == line.file.as_str() && wanted.contains(&(line.line as usize)))
            .map(|line| (line.line as usize, columns(&line.text)))
            .collect(),
        Page::Listing(name) => {
            let Some(function) = object.functions.iter().find(|function| *name == function.name.as_str()) else {
                return BTreeMap::new();
            };
            let labels = Labels::of(function);
            let slots = function.nodes.iter().scan(0, |next, node| {
                let slot = *next;
                *next += node.insn.slots() as usize;
                Some((slot, node))
            });
            slots
                .filter(|(slot, _)| wanted.contains(slot))
                .map(|(slot, node)| {
                    let label = labels.get(node.id).map_or(String::new(), |label| format!("{label}: "));
                    (slot, format!("{label}{}", node_text(object, node, &labels)))
                })
                .collect()
        }
    }
}

/// A source line of one character for each of its columns: line records count a tab, and what is not to be seen, as one.
fn columns(text: &str) -> String {
    text.chars().map(|letter| if is_visible(letter) { letter } else { ' ' }).collect()
}

/// What to underline: the expression that begins at the column, or the whole line.
fn span(line: &str, column: Option<u32>) -> Range<usize> {
    let whole = line.len() - line.trim_start().len()..line.trim_end().len().max(line.len() - line.trim_start().len());
    let Some(column) = column else { return whole };
    let Some((start, first)) = line.char_indices().nth(column as usize - 1) else { return whole };
    if first.is_whitespace() {
        return whole;
    }
    let name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let rest = &line[start..];
    if !name(first) {
        let operator = rest.find(|letter: char| name(letter) || letter.is_whitespace() || "()".contains(letter));
        return start..start + operator.unwrap_or(rest.len()).max(first.len_utf8());
    }
    // A name, then its members, elements and arguments.
    let mut end = start;
    let mut depth = 0_u32;
    for (at, letter) in rest.char_indices() {
        let next = rest[at + letter.len_utf8()..].chars().next().unwrap_or(' ');
        let before = rest[..at].chars().next_back().unwrap_or(' ');
        let inside = match letter {
            '(' | '[' => {
                depth += 1;
                true
            }
            ')' | ']' if depth > 0 => {
                depth -= 1;
                true
            }
            _ if depth > 0 => true,
            '-' => next == '>',
            '>' => before == '-',
            '.' => true,
            letter => name(letter),
        };
        if !inside {
            break;
        }
        end = start + at + letter.len_utf8();
    }
    if depth > 0 { start..line.trim_end().len() } else { start..end.max(start + first.len_utf8()) }
}

#[cfg(test)]
mod tests {
    use super::{Look, span};

    #[test]
    fn notes_are_broken_at_the_width_of_a_terminal() {
        let look = |width| Look { colours: false, width };
        assert_eq!(look(None).fitted("one two three", 0), "one two three");
        assert_eq!(
            look(Some(30)).fitted("a note that is longer than one line", 4),
            "a note that is longer than\none line"
        );
        assert_eq!(look(Some(5)).fitted("a word of its own and more words", 0), "a word of its own\nand more words");
    }

    #[test]
    fn the_expression_at_the_column_is_underlined() {
        let at = |line: &'static str, column| &line[span(line, Some(column))];
        assert_eq!(at("  value = lookup(&map, &key);", 11), "lookup(&map, &key)");
        assert_eq!(at("  value->packets += 1;", 3), "value->packets");
        assert_eq!(at("  value->packets += 1;", 18), "+=");
        assert_eq!(at("  if (!value)", 7), "!");
        assert_eq!(at("  if (x", 3), "if");
        assert_eq!(at("  call(x,", 3), "call(x,");
        assert_eq!(at("  short", 40), "short");
        assert_eq!(at("", 1), "");
    }
}
