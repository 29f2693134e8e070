//! How many words the documents have, and how many they may have.
//!
//! ```text
//!   docs/guide/lint.md --lines--+--> fenced or indented four columns: code
//!                               +--> page in WRITTEN, or after <!-- written -->: written by a command
//!                               +--> all else, tables too: prose --> its room, whose ceiling is in CEILINGS
//! ```
//!
//! A word is what stands between blanks and has a letter, so the figures of a table are not words.

use std::collections::BTreeMap;

use super::finding::Finding;
use crate::command::{Failure, flags};
use crate::workspace::Workspace;

/// Words of prose that the pages of a room may have. A ceiling only falls: [`ceilings`] reports one that is too high.
const CEILINGS: [(&str, usize); 8] = [
    ("guide", 14_600),
    ("reference", 3_700),
    ("internals", 12_500),
    ("recipes", 2_600),
    ("decisions", 3_200),
    ("measurements", 5_700),
    ("project", 3_550),
    ("beside the code", 1_800),
];

/// Words of prose that one page may have.
const PAGE: usize = 1_500;

/// Pages that have more, and how many they may have. The list only shrinks.
const LONGER: [(&str, usize); 2] = [("CHANGELOG.md", 2_000), ("docs/guide/repair.md", 2_000)];

/// A ceiling may be higher than the room's words by one part in this many.
const SLACK: usize = 10;

/// Comments after which a command writes the rest of a page, or all up to the next comment.
const MARKS: [&str; 2] = ["<!-- written -->", "<!-- survivors -->"];

/// Pages that a command writes.
const WRITTEN: [&str; 8] = [
    "docs/measurements/agreement.md",
    "docs/measurements/superoptimizer-results.md",
    "docs/reference/flags.md",
    "docs/reference/isa.md",
    "docs/reference/messages.md",
    "docs/reference/mistakes.md",
    "docs/reference/rules.md",
    "crates/transform/superopt/src/rules/data/README.md",
];

/// The words of a page or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Words {
    prose: usize,
    code: usize,
    written: usize,
}

impl Words {
    fn add(&mut self, other: Words) {
        self.prose += other.prose;
        self.code += other.code;
        self.written += other.written;
    }
}

fn words(line: &str) -> usize {
    line.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count()
}

fn count(path: &str, text: &str) -> Words {
    let (mut all, mut fenced, mut is_written) = (Words::default(), false, false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if line.starts_with("<!--") {
            is_written = MARKS.contains(&line);
        } else if is_written {
            all.written += words(line);
        } else if fenced || line.starts_with("    ") {
            all.code += words(line);
        } else if !line.trim_start().starts_with("<!--") {
            all.prose += words(line);
        }
    }
    if WRITTEN.contains(&path) {
        all = Words { written: all.prose + all.code + all.written, ..Words::default() };
    }
    all
}

/// The room of a page: its folder in `docs`.
fn room(path: &str) -> &str {
    match path.strip_prefix("docs/") {
        Some(page) => page.split_once('/').map_or("project", |(folder, _)| folder),
        None if path.contains('/') => "beside the code",
        None => "project",
    }
}

/// The words of every page, by path.
fn pages(workspace: &Workspace) -> BTreeMap<&str, Words> {
    workspace.texts(|path| path.ends_with(".md")).map(|(path, text)| (path, count(path, text))).collect()
}

fn rooms(workspace: &Workspace) -> BTreeMap<&str, Words> {
    let mut rooms = BTreeMap::<&str, Words>::new();
    for (path, words) in pages(workspace) {
        rooms.entry(room(path)).or_default().add(words);
    }
    rooms
}

/// No room has more words of prose than its ceiling, and no ceiling is much higher than its room.
pub fn ceilings(workspace: &Workspace) -> Vec<Finding> {
    let here = "xtask/src/tidy/words.rs";
    let mut findings = Vec::new();
    for (room, Words { prose, .. }) in rooms(workspace) {
        let Some((_, ceiling)) = CEILINGS.iter().find(|(name, _)| *name == room) else {
            findings.push(Finding::file(here, format!("the room {room} has no ceiling")));
            continue;
        };
        if prose > *ceiling {
            findings.push(Finding::file(
                here,
                format!("{room} has {prose} words of prose, more than {ceiling}: say less, or say it once"),
            ));
        } else if ceiling - prose > ceiling / SLACK {
            findings
                .push(Finding::file(here, format!("{room} has {prose} words of prose: lower its ceiling {ceiling}")));
        }
    }
    findings
}

/// No page has more than [`PAGE`] words of prose, or than [`LONGER`] says, and no page is in that list for nothing.
pub fn long_pages(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, Words { prose, .. }) in pages(workspace) {
        let longer = LONGER.iter().find(|(page, _)| *page == path).map(|(_, most)| *most);
        let most = longer.unwrap_or(PAGE);
        if prose > most {
            findings.push(Finding::file(path, format!("{prose} words of prose, more than {most}: split it")));
        } else if longer.is_some() && prose <= PAGE {
            findings.push(Finding::file(path, format!("{prose} words of prose: take it out of LONGER in words.rs")));
        }
    }
    findings
}

fn row(name: &str, Words { prose, code, written }: Words) {
    println!("{name:52} {prose:>7} {code:>7} {written:>7}");
}

/// `cargo xtask words`: words by room, with `--pages` by page.
///
/// # Errors
/// Returns an error if the files cannot be listed.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let [by_page] = flags(arguments, ["--pages"])?;
    let workspace = Workspace::read()?;
    println!("{:52} {:>7} {:>7} {:>7}", "", "prose", "code", "written");
    let mut all = Words::default();
    for (name, total) in rooms(&workspace) {
        row(name, total);
        for (path, words) in pages(&workspace).into_iter().filter(|(path, _)| by_page && room(path) == name) {
            row(&format!("  {path}"), words);
        }
        all.add(total);
    }
    row("all", all);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(path: &str, text: &str) -> Workspace {
        Workspace { files: [(path.to_owned(), text.as_bytes().to_vec())].into(), packages: Vec::new() }
    }

    #[test]
    fn prose_code_and_written_pages_are_counted_apart() {
        let text = "# Two words\n\n<!-- run -->\n```sh\nkiln check\n```\n\n    code\n\n| a | 12 |\n";
        assert_eq!(count("docs/guide/a.md", text), Words { prose: 3, code: 3, written: 0 });
        assert_eq!(count(WRITTEN[0], text), Words { prose: 0, code: 0, written: 6 });
        let marked = format!("one\n{}\nseven words\n<!-- /survivors -->\ntwo\n{}\nthree\n", MARKS[1], MARKS[0]);
        assert_eq!(count("docs/guide/a.md", &marked), Words { prose: 2, code: 0, written: 3 });
        let rooms = ["docs/guide/a.md", "docs/README.md", "README.md", "proofs/README.md"].map(room);
        assert_eq!(rooms, ["guide", "project", "project", "beside the code"]);
    }

    #[test]
    fn too_many_words_are_found() {
        let (name, ceiling) = CEILINGS[0];
        let page = |words: usize| workspace(&format!("docs/{name}/a.md"), &"word ".repeat(words));
        assert_eq!(ceilings(&page(ceiling)), []);
        assert_eq!(ceilings(&page(ceiling + 1)).len(), 1);
        assert_eq!(ceilings(&page(ceiling / 2)).len(), 1);
        assert_eq!(ceilings(&workspace("docs/another/a.md", "")).len(), 1);
        assert_eq!(long_pages(&page(PAGE)), []);
        assert_eq!(long_pages(&page(PAGE + 1)).len(), 1);
        let (path, most) = LONGER[0];
        let listed = |words: usize| long_pages(&workspace(path, &"word ".repeat(words))).len();
        assert_eq!([PAGE, most, most + 1].map(listed), [1, 0, 1]);
    }

    #[test]
    fn written_pages_are_there() {
        let workspace = Workspace::read().unwrap();
        assert_eq!(WRITTEN.into_iter().find(|path| !workspace.files.contains_key(*path)), None);
    }
}
