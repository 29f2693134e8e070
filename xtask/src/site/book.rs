//! The documents as a book: navigation, search, themes, by mdBook.
//!
//! Sources are laid out in `target/book/src` as they stand in the repository, so links between pages stay as they are.
//! Links to files that are not in the book, such as sources, become text. `docs/SUMMARY.md` is the table of contents.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Failure, root, run as run_command, target_dir};
use crate::tidy::documents::{CONTENTS, join, link_targets};
use crate::workspace::Workspace;

/// Pages outside of `docs/`.
const PAGES: [&str; 4] = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"];

/// Builds the book into a folder and returns how many pages it has.
///
/// # Errors
/// When mdBook is missing or fails, or a file cannot be written.
pub fn build(folder: &Path) -> Result<usize, Failure> {
    let workspace = Workspace::read()?;
    let source = target_dir().join("book");
    let pages: BTreeSet<&str> = workspace.files.keys().map(String::as_str).filter(|path| is_in_book(path)).collect();
    let _ = fs::remove_dir_all(source.join("src"));
    for path in &pages {
        let bytes = &workspace.files[*path];
        let laid_out = match std::str::from_utf8(bytes) {
            Ok(text) if path.ends_with(".md") => linked(path, text, &pages).into_bytes(),
            _ => bytes.clone(),
        };
        let to = if *path == CONTENTS { "SUMMARY.md" } else { path };
        super::write(&source.join("src").join(to), &laid_out)?;
    }
    super::write(&source.join("book.toml"), workspace.text("docs/book.toml").as_bytes())?;
    let mut command = Command::new(tool());
    command.current_dir(root()).arg("build").arg(&source).arg("--dest-dir").arg(folder);
    run_command(&mut command, "mdbook")
        .map_err(|failure| Failure::usage(format!("{failure}\n`make site` installs it: cargo install mdbook")))?;
    Ok(pages.iter().filter(|path| path.ends_with(".md")).count() - 1)
}

/// mdBook as `make site` installs it, or the one in `PATH`.
fn tool() -> PathBuf {
    let own = target_dir().join("tools/bin/mdbook");
    if own.exists() { own } else { "mdbook".into() }
}

fn is_in_book(path: &str) -> bool {
    PAGES.contains(&path) || (path.starts_with("docs/") && path != "docs/book.toml")
}

/// A page with the links that the book can follow. The table of contents moves up to the top.
fn linked(path: &str, text: &str, pages: &BTreeSet<&str>) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (number, target) in link_targets(text).into_iter().rev() {
        let line = &mut lines[number - 1];
        let (file, place) = target.split_once('#').map_or((target, ""), |(file, place)| (file, place));
        if file.is_empty() || target.contains("://") {
            continue;
        }
        let leads = join(path, file);
        let whole = format!("]({target})");
        if path == CONTENTS {
            *line = line.replace(&whole, &format!("]({leads})"));
        } else if leads == CONTENTS || !pages.contains(leads.as_str()) {
            debug_assert!(place.is_empty() || !file.ends_with(".md"), "{path}: {target}");
            *line = without_link(line, &whole);
        }
    }
    lines.join("\n") + "\n"
}

/// A line in which `[text](target)` is its text.
fn without_link(line: &str, whole: &str) -> String {
    let Some(end) = line.find(whole) else { return line.to_owned() };
    // A text that began on the line before keeps its bracket.
    let Some(start) = line[..end].rfind('[') else { return line.to_owned() };
    format!("{}{}{}", &line[..start], &line[start + 1..end], &line[end + whole.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_or_are_text() {
        let pages = ["docs/a.md", "docs/guide/b.md", "README.md", CONTENTS].into();
        assert_eq!(linked("docs/README.md", "[all](SUMMARY.md)", &pages), "all\n");
        let text = "[b](b.md#x) [up](../../README.md) [`code`](../../crates/a.rs) [out](https://example.org)\n";
        let expected = "[b](b.md#x) [up](../../README.md) `code` [out](https://example.org)\n";
        assert_eq!(linked("docs/guide/c.md", text, &pages), expected);
        assert_eq!(
            linked(CONTENTS, "- [b](guide/b.md)\n[k](../README.md)\n", &pages),
            "- [b](docs/guide/b.md)\n[k](README.md)\n"
        );
    }
}
