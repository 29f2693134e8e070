//! Rules about what pages say of the code: files that they name are there, and numbers of files are counted.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use crate::workspace::Workspace;

/// The pages that are written for those who change the code.
const FOLDERS: [&str; 3] = ["docs/internals/", "docs/recipes/", "docs/decisions/"];
const RECIPES: &str = "docs/recipes/";
/// The page whose table says how many files each recipe changes.
const STRUCTURE: &str = "docs/internals/structure.md";

/// Tracked files, and the folders that they are in.
fn places(workspace: &Workspace) -> BTreeSet<&str> {
    workspace
        .files
        .keys()
        .flat_map(|path| path.match_indices('/').map(|(at, _)| &path[..at]).chain([path.as_str()]))
        .collect()
}

/// Words in backquotes, outside of fenced blocks.
struct Span<'t> {
    line: usize,
    text: &'t str,
    /// What a page says is in it: `X` in "`X` in `path`".
    holds: Option<&'t str>,
}

fn code_spans(text: &str) -> Vec<Span<'_>> {
    let (mut spans, mut fenced) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let parts: Vec<&str> = line.split('`').collect();
            for at in (1..parts.len()).step_by(2) {
                let holds = (at > 2 && parts[at - 1] == " in ").then(|| parts[at - 2]);
                spans.push(Span { line: index + 1, text: parts[at], holds });
            }
        }
    }
    spans
}

/// Paths that pages name are tracked, below the root or below `crates`, and hold the name that a page says is in them.
pub fn paths(workspace: &Workspace) -> Vec<Finding> {
    let places = places(workspace);
    let mut findings = Vec::new();
    let is_plain = |span: &str| span.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    for (path, text) in workspace.texts(|path| FOLDERS.iter().any(|folder| path.starts_with(folder))) {
        for Span { line, text: span, holds } in code_spans(text).into_iter().filter(|span| is_plain(span.text)) {
            let Some((top, _)) = span.split_once('/').filter(|(top, _)| !top.is_empty()) else { continue };
            let named = span.trim_end_matches('/');
            let below = format!("crates/{named}");
            let is_path = places.contains(top) || places.contains(format!("crates/{top}").as_str());
            if !is_path || is_written(workspace, named) {
                continue;
            }
            let Some(found) = [named, &below].into_iter().find(|path| places.contains(path)) else {
                findings.push(Finding::line(path, line, format!("`{span}` is not there")));
                continue;
            };
            let holds =
                holds.map(|name| name.trim_end_matches("()")).filter(|name| is_plain(name) && found.contains('.'));
            if let Some(name) = holds.filter(|name| !workspace.text(found).contains(name)) {
                findings.push(Finding::line(path, line, format!("`{name}` is not in `{span}`")));
            }
        }
    }
    findings
}

/// Whether Git ignores a path by a line of `.gitignore` that names it.
fn is_written(workspace: &Workspace, path: &str) -> bool {
    let lines = workspace.text(".gitignore").lines().map(|line| line.trim_matches('/'));
    lines.filter(|line| !line.is_empty()).any(|line| path == line || path.starts_with(&format!("{line}/")))
}

/// The files that the diffs of each recipe change, tests aside.
fn changed(workspace: &Workspace) -> BTreeMap<&str, usize> {
    let pages = workspace.texts(|path| path.starts_with(RECIPES));
    let count = |text: &str| {
        let files = text.lines().filter_map(|line| line.trim_start().strip_prefix("--- "));
        files.filter(|file| !file.contains("/tests/")).collect::<BTreeSet<_>>().len()
    };
    pages.map(|(path, text)| (path, count(text))).collect()
}

/// The last column of the table of extensions is the number of files that the diffs of the row's recipe change.
pub fn files_of_recipes(workspace: &Workspace) -> Vec<Finding> {
    let mut missing = changed(workspace);
    missing.retain(|_, files| *files > 0);
    let counted = missing.clone();
    let mut findings = Vec::new();
    for (index, line) in workspace.text(STRUCTURE).lines().enumerate().filter(|(_, line)| line.starts_with('|')) {
        let Some(name) = line.split("(../recipes/").nth(1).and_then(|rest| rest.split(')').next()) else { continue };
        let path = format!("{RECIPES}{name}");
        missing.remove(path.as_str());
        let told = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default().trim();
        let count = counted.get(path.as_str()).copied().unwrap_or(0);
        if told != count.to_string() {
            let message = format!("the diffs of {name} change {count} files besides tests, not {told}");
            findings.push(Finding::line(STRUCTURE, index + 1, message));
        }
    }
    findings.extend(missing.keys().map(|path| Finding::file(STRUCTURE, format!("no row for {path}"))));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(files: &[(&str, &str)]) -> Workspace {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
        Workspace { files: files.collect(), packages: Vec::new() }
    }

    #[test]
    fn paths_that_are_not_there_are_found() {
        let page = "`X` in `crates/isa/src/a.rs`, `isa/src/a.rs`, `crates/isa/`, `a/b`, `crates/{x}/y`, `crates/isa/kept/x`\n\
                    ```text\ncrates/isa/none\n```\n";
        let ignored = (".gitignore", "/crates/isa/kept\n");
        let mut files = [("docs/internals/a.md", page), ("crates/isa/src/a.rs", "const X"), ignored];
        assert_eq!(paths(&workspace(&files)), []);
        files[0].1 = "`crates/isa/src/b.rs`\n`isa/src/b.rs` and `Y` in `crates/isa/src/a.rs`";
        assert_eq!(paths(&workspace(&files)).len(), 3);
    }

    #[test]
    fn files_of_a_recipe_are_counted() {
        let recipe = "```diff\n--- crates/a/src/x.rs\n+x\n--- crates/a/tests/y.rs\n+y\n--- crates/b/src/x.rs\n```\n";
        let table = "| what | recipe | files |\n| law | [law](../recipes/law.md) | 2 |\n";
        let mut files = [("docs/recipes/law.md", recipe), (STRUCTURE, table)];
        assert_eq!(files_of_recipes(&workspace(&files)), []);
        files[1].1 = "| law | [law](../recipes/law.md) | 3 |\n";
        assert_eq!(files_of_recipes(&workspace(&files)).len(), 1);
        files[1].1 = "";
        assert_eq!(files_of_recipes(&workspace(&files)).len(), 1);
    }
}
