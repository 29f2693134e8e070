//! Rules about Rust sources: unsafe code, module documents, length, nothing left for later.

use super::finding::Finding;
use super::lexer::code_only;
use crate::workspace::Workspace;

/// The only folders whose sources may say `unsafe`.
const UNSAFE_FOLDERS: [&str; 4] = ["crates/backend/vm/", "crates/backend/linux/", "crates/c-api/", "bench-compare/"];
/// Lines that a source may have.
const MAX_LINES: usize = 1000;
/// Sources that are one flat table and may be longer.
const TABLES: [&str; 0] = [];
/// How many lines above `unsafe` its reason may begin.
const REASON_REACH: usize = 12;

fn may_be_unsafe(path: &str) -> bool {
    UNSAFE_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// `unsafe` only in its folders, and each use with its reason.
pub fn unsafe_code(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in workspace.rust() {
        let code = code_only(source);
        let lines: Vec<&str> = source.lines().collect();
        for (index, line) in code.lines().enumerate() {
            for rest in words_after(line, "unsafe") {
                // `unsafe fn(` is a type; `unsafe_code` is another word.
                if !may_be_unsafe(path) {
                    findings.push(Finding::line(path, index + 1, format!("unsafe code belongs in {UNSAFE_FOLDERS:?}")));
                } else if !is_function_type(rest) && !has_reason(&lines, index) {
                    findings.push(Finding::line(path, index + 1, "unsafe code without a `SAFETY:` comment"));
                }
            }
        }
    }
    findings
}

/// What follows each occurrence of a whole word.
fn words_after<'a>(line: &'a str, word: &'static str) -> impl Iterator<Item = &'a str> {
    let inside = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).filter_map(move |(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        (!before.ends_with(inside) && !after.starts_with(inside)).then_some(after)
    })
}

fn is_function_type(rest: &str) -> bool {
    let rest = rest.trim_start();
    let rest = rest.strip_prefix("extern").map_or(rest, str::trim_start);
    rest.strip_prefix("fn").is_some_and(|rest| rest.trim_start().starts_with('('))
}

/// A `SAFETY:` comment (or a `# Safety` section) on the line, or above it in the same paragraph.
fn has_reason(lines: &[&str], index: usize) -> bool {
    let says = |line: &&str| line.contains("SAFETY:") || line.contains("# Safety");
    let above = lines[..index].iter().rev().take(REASON_REACH).take_while(|line| !line.trim().is_empty());
    lines.get(index).into_iter().chain(above).any(says)
}

/// Every library and command outside those folders says `#![forbid(unsafe_code)]`.
pub fn forbids_unsafe(workspace: &Workspace) -> Vec<Finding> {
    let roots = workspace.packages.iter().flat_map(|package| &package.roots);
    roots
        .filter(|path| !may_be_unsafe(path) && workspace.files.contains_key(*path))
        .filter(|path| !workspace.text(path).lines().any(|line| line.trim() == "#![forbid(unsafe_code)]"))
        .map(|path| Finding::file(path, "a crate outside the unsafe folders says `#![forbid(unsafe_code)]`"))
        .collect()
}

/// Every source begins with `//!`.
pub fn module_documents(workspace: &Workspace) -> Vec<Finding> {
    let missing = workspace.rust().filter(|(_, source)| !source.starts_with("//!"));
    missing.map(|(path, _)| Finding::line(path, 1, "a module begins with `//!` and what it is about")).collect()
}

/// No source is longer than [`MAX_LINES`] unless it is a listed table; a listed table is.
pub fn length(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, source) in workspace.rust() {
        let lines = source.lines().count();
        match (lines > MAX_LINES, TABLES.contains(&path)) {
            (true, false) => findings.push(Finding::file(path, format!("{lines} lines; {MAX_LINES} is the most"))),
            (false, true) => findings.push(Finding::file(path, "listed as a long table, but it is not long")),
            _ => {}
        }
    }
    findings
}

/// Marks of work left for later.
const UNFINISHED: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("HA", "CK"),
    concat!("todo", "!"),
    concat!("unimplemented", "!"),
];

/// Nothing is left for later in sources, scripts and documents: what is missing is an issue, not a comment.
pub fn unfinished(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in workspace.texts(|path| path != "Cargo.lock") {
        for (index, line) in text.lines().enumerate() {
            for mark in UNFINISHED {
                let inside = |character: char| character.is_alphanumeric() || character == '_';
                let found = line
                    .match_indices(mark)
                    .any(|(at, _)| !line[..at].ends_with(inside) && !line[at + mark.len()..].starts_with(inside));
                if found {
                    findings.push(Finding::line(path, index + 1, format!("says {mark}")));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    fn source(path: &str, text: &str) -> Workspace {
        Workspace { files: [(path.to_owned(), text.as_bytes().to_vec())].into(), packages: Vec::new() }
    }

    #[test]
    fn unsafe_code_is_found_outside_its_folders() {
        assert_eq!(unsafe_code(&source("crates/isa/src/a.rs", "fn f() { unsafe { g() } }")).len(), 1);
        assert_eq!(unsafe_code(&source("crates/isa/src/a.rs", "#![forbid(unsafe_code)] // unsafe\n\"unsafe\"")), []);
    }

    #[test]
    fn unsafe_code_needs_a_reason() {
        let path = "crates/backend/vm/src/a.rs";
        assert_eq!(unsafe_code(&source(path, "fn f() {\n    unsafe { g() }\n}")).len(), 1);
        assert_eq!(unsafe_code(&source(path, "// SAFETY: of another function.\n\nunsafe impl Send for X {}")).len(), 1);
        for good in [
            "// SAFETY: g is fine.\nunsafe { g() }",
            "// SAFETY: g is fine,\n// and so is h.\nlet x =\n    unsafe { g() };",
            "type F = unsafe extern \"C\" fn(u64) -> u64;",
            "/// # Safety\n/// The caller says so.\npub unsafe fn f() {}",
        ] {
            assert_eq!(unsafe_code(&source(path, good)), [], "{good}");
        }
    }

    #[test]
    fn a_crate_that_allows_unsafe_code_is_found() {
        let mut workspace = source("crates/isa/src/lib.rs", "//! Text.\n");
        workspace.packages.push(Package {
            name: "kiln-isa".to_owned(),
            folder: "crates/isa".to_owned(),
            roots: vec!["crates/isa/src/lib.rs".to_owned()],
            dependencies: Vec::new(),
        });
        assert_eq!(forbids_unsafe(&workspace).len(), 1);
    }

    #[test]
    fn modules_without_documents_and_long_ones_are_found() {
        assert_eq!(module_documents(&source("a.rs", "fn f() {}\n")).len(), 1);
        assert_eq!(module_documents(&source("a.rs", "//! Text.\n")), []);
        assert_eq!(length(&source("a.rs", &"x\n".repeat(MAX_LINES + 1))).len(), 1);
        assert_eq!(length(&source("a.rs", &"x\n".repeat(MAX_LINES))), []);
    }

    #[test]
    fn what_is_left_for_later_is_found() {
        for mark in UNFINISHED {
            assert_eq!(unfinished(&source("a.md", &format!("a {mark}: b"))).len(), 1, "{mark}");
            assert_eq!(unfinished(&source("a.md", &format!("a{mark}b"))), [], "{mark}");
        }
    }
}
