//! Rules about documents: links lead somewhere, and the list of dependencies is the list of dependencies.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use crate::workspace::Workspace;

const DEPENDENCIES: &str = "docs/internals/dependencies.md";
/// The table of contents of the book.
pub const CONTENTS: &str = "docs/SUMMARY.md";

/// Names under `[workspace.dependencies]` that are not packages of ours.
fn external(workspace: &Workspace) -> BTreeSet<String> {
    let lines = workspace.text("Cargo.toml").lines();
    let section = lines.skip_while(|line| line.trim() != "[workspace.dependencies]").skip(1);
    section
        .take_while(|line| !line.starts_with('['))
        .filter(|line| !line.contains("path ="))
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name.trim().to_owned())
        .filter(|name| !name.starts_with('#'))
        .collect()
}

/// Every external dependency is one of the workspace's, and each of those has a row; every row is one of them.
pub fn dependencies(workspace: &Workspace) -> Vec<Finding> {
    let shared = external(workspace);
    let table = workspace.text(DEPENDENCIES).lines();
    let rows: BTreeSet<String> =
        table.filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned())).collect();
    let mut findings = Vec::new();
    for name in shared.difference(&rows) {
        findings.push(Finding::file(DEPENDENCIES, format!("no row for `{name}`: say what it is for and why this one")));
    }
    for name in rows.difference(&shared) {
        findings.push(Finding::file(DEPENDENCIES, format!("`{name}` is no dependency of the workspace")));
    }
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for package in &workspace.packages {
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.local) {
            used.insert(&dependency.name);
            if !shared.contains(&dependency.name) {
                let path = format!("{}/Cargo.toml", package.folder);
                let message = format!("{} belongs in [workspace.dependencies] first", dependency.name);
                findings.push(Finding::file(&path, message));
            }
        }
    }
    for name in shared.iter().filter(|name| !used.contains(name.as_str())) {
        findings.push(Finding::file("Cargo.toml", format!("no package uses {name}")));
    }
    findings
}

/// Links between documents lead to a tracked file, and to a heading it has.
pub fn links(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in workspace.texts(|path| path.ends_with(".md")) {
        for (line, target) in link_targets(text) {
            if let Err(message) = resolve(workspace, path, target) {
                findings.push(Finding::line(path, line, message));
            }
        }
    }
    findings
}

/// Every page is in the table of contents, and once: mdBook writes no page that is not.
pub fn contents(workspace: &Workspace) -> Vec<Finding> {
    let mut listed: BTreeMap<String, usize> = BTreeMap::new();
    for (_, target) in link_targets(workspace.text(CONTENTS)).into_iter().filter(|(_, target)| !target.is_empty()) {
        *listed.entry(join(CONTENTS, target)).or_default() += 1;
    }
    let pages = workspace.texts(|path| path.starts_with("docs/") && path.ends_with(".md") && path != CONTENTS);
    let missing = pages.filter(|(path, _)| !listed.contains_key(*path));
    let mut findings: Vec<Finding> =
        missing.map(|(path, _)| Finding::file(CONTENTS, format!("{path} is not in it"))).collect();
    let twice = listed.iter().filter(|(_, count)| **count > 1);
    findings.extend(twice.map(|(path, _)| Finding::file(CONTENTS, format!("{path} is in it twice"))));
    findings
}

/// The targets of `[text](target)` outside code, with their lines.
pub fn link_targets(text: &str) -> Vec<(usize, &str)> {
    let mut targets = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let inside_code = line[..at].matches('`').count() % 2 == 1;
            let target = line[at + 2..].split_once(')').map(|(target, _)| target);
            targets.extend(target.filter(|_| !inside_code).map(|target| (index + 1, target)));
        }
    }
    targets
}

fn resolve(workspace: &Workspace, from: &str, target: &str) -> Result<(), String> {
    if ["https://", "http://", "mailto:"].iter().any(|scheme| target.starts_with(scheme)) {
        return Ok(());
    }
    let (file, heading) = target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading)));
    let path = if file.is_empty() { from.to_owned() } else { join(from, file) };
    let folder = format!("{}/", path.trim_end_matches('/'));
    let exists = workspace.files.contains_key(&path) || workspace.files.keys().any(|it| it.starts_with(&folder));
    if !exists {
        return Err(format!("links to {target}, which is not there"));
    }
    match heading {
        Some(heading) if path.ends_with(".md") && !headings(workspace.text(&path)).contains(heading) => {
            Err(format!("links to {target}, but {path} has no such heading"))
        }
        _ => Ok(()),
    }
}

/// `target` as seen from the folder of `from`.
pub fn join(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Headings as links name them: lower case, spaces as dashes, without other signs.
fn headings(text: &str) -> BTreeSet<String> {
    let titles = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    titles
        .map(|title| {
            let kept = title.to_lowercase();
            kept.chars()
                .filter_map(|character| match character {
                    ' ' => Some('-'),
                    '-' | '_' => Some(character),
                    character => character.is_alphanumeric().then_some(character),
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Dependency, Package};

    fn workspace(files: &[(&str, &str)]) -> Workspace {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
        Workspace { files: files.collect(), packages: Vec::new() }
    }

    #[test]
    fn dead_links_are_found() {
        let mut files =
            vec![("docs/a.md", "[x](b.md) [y](../README.md#two-words) [z](https://a.example) `[n](no.md)`\n")];
        files.extend([("docs/b.md", ""), ("README.md", "## Two words\n")]);
        assert_eq!(links(&workspace(&files)), []);
        files[0].1 = "[x](c.md)\n```\n[n](no.md)\n```\n[y](b.md#heading)";
        assert_eq!(links(&workspace(&files)).len(), 2);
    }

    #[test]
    fn pages_outside_of_the_contents_are_found() {
        let mut files = [(CONTENTS, "- [a](guide/a.md)\n- [Part]()\n  - [r](../README.md)\n"), ("docs/guide/a.md", "")];
        assert_eq!(contents(&workspace(&files)), []);
        files[0].1 = "- [r](../README.md)\n";
        assert_eq!(contents(&workspace(&files)).len(), 1);
        files[0].1 = "- [a](guide/a.md)\n- [again](guide/a.md)\n";
        assert_eq!(contents(&workspace(&files)).len(), 1);
    }

    #[test]
    fn rows_and_dependencies_are_the_same() {
        let manifest =
            "[workspace.dependencies]\nkiln-isa = { path = \"x\" }\nlibc = \"1\"\nz3 = \"1\"\n[profile.dev]\n";
        let mut all = workspace(&[("Cargo.toml", manifest), (DEPENDENCIES, "| `libc` | x |\n| `serde` | x |\n")]);
        let names = ["libc", "z3", "clap"];
        all.packages.push(Package {
            name: "kiln-vm".to_owned(),
            folder: "crates/backend/vm".to_owned(),
            roots: Vec::new(),
            dependencies: names
                .iter()
                .map(|name| Dependency { name: (*name).to_owned(), local: false, development: false })
                .collect(),
        });
        // z3 has no row, serde is not there, clap is used past the workspace's list.
        assert_eq!(dependencies(&all).len(), 3);
    }
}
