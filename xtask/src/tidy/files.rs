//! Rules about tracked files of any kind.

use std::collections::BTreeSet;

use super::finding::Finding;
use crate::workspace::{Package, Workspace};

/// First folders of paths that exist on one machine only.
const MACHINE_FOLDERS: [&str; 4] = ["work", "home", "root", "Users"];
/// Where crates come from; anything else in the lock file or in cargo's configuration is somebody's mirror.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// No absolute path of a machine, no package mirror.
pub fn machine_paths(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in workspace.texts(|_| true) {
        for (index, line) in text.lines().enumerate() {
            if let Some(folder) = MACHINE_FOLDERS.iter().find(|folder| names_folder(line, folder)) {
                findings.push(Finding::line(path, index + 1, format!("names a path under /{folder} of some machine")));
            }
            let foreign_source = path == "Cargo.lock" && line.starts_with("source = ") && !line.contains(REGISTRY);
            let mirror = path.starts_with(".cargo/") && ["[source", "[registr"].iter().any(|it| line.starts_with(it));
            if foreign_source || mirror {
                findings.push(Finding::line(path, index + 1, "names another registry than crates.io"));
            }
        }
    }
    findings
}

/// Whether a line holds an absolute path that begins with this folder.
fn names_folder(line: &str, folder: &str) -> bool {
    let path = format!("/{folder}/");
    let part_of_path = |character: char| character.is_alphanumeric() || "/._-}$)*<>".contains(character);
    line.match_indices(&path).any(|(at, _)| !line[..at].ends_with(part_of_path))
}

/// No binary file is tracked: objects and images are built, not kept.
pub fn binaries(workspace: &Workspace) -> Vec<Finding> {
    let binary = |bytes: &[u8]| bytes.contains(&0) || std::str::from_utf8(bytes).is_err();
    let found = workspace.files.iter().filter(|(_, bytes)| binary(bytes));
    found.map(|(path, _)| Finding::file(path, "a binary file; keep its source or its recipe")).collect()
}

/// A phony target of the Makefile without a rule would do nothing, and say so to nobody.
pub fn targets(workspace: &Workspace) -> Vec<Finding> {
    let text = workspace.text("Makefile");
    let phony = text.lines().filter_map(|line| line.strip_prefix(".PHONY:")).flat_map(str::split_whitespace);
    let rules: BTreeSet<&str> =
        text.lines().filter_map(|line| line.split_once(':')).flat_map(|(names, _)| names.split_whitespace()).collect();
    let without = phony.filter(|name| !rules.contains(name));
    without.map(|name| Finding::file("Makefile", format!("`{name}` has no rule"))).collect()
}

/// Folders of `tests/filetests` are named after rooms, and hold `.bpf` files.
pub fn filetest_folders(workspace: &Workspace) -> Vec<Finding> {
    let rooms: BTreeSet<&str> = workspace.packages.iter().map(Package::room).collect();
    let mut findings = Vec::new();
    for path in workspace.files.keys() {
        let Some((room, _)) = path.strip_prefix("tests/filetests/").and_then(|rest| rest.split_once('/')) else {
            continue;
        };
        if !rooms.contains(room) {
            findings.push(Finding::file(path, format!("no room is called '{room}'")));
        }
        if !path.ends_with(".bpf") && !path.ends_with(".md") {
            findings.push(Finding::file(path, "a filetest is a .bpf file"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_without_a_rule_are_found() {
        let found =
            targets(&file("Makefile", b".PHONY: demo kernel dist test\ndemo: test ## Run\n\t@true\ntest dist:\n"));
        let found: Vec<String> = found.iter().map(Finding::to_string).collect();
        assert_eq!(found, ["Makefile: `kernel` has no rule"]);
    }

    fn file(path: &str, bytes: &[u8]) -> Workspace {
        Workspace { files: [(path.to_owned(), bytes.to_vec())].into(), packages: Vec::new() }
    }

    #[test]
    fn machine_paths_are_found() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(machine_paths(&file("a.md", format!("see /{folder}/x").as_bytes())).len(), 1);
            assert_eq!(machine_paths(&file("a.md", format!("see crates/{folder}/x").as_bytes())), []);
        }
        let lock = b"source = \"registry+https://mirror.example/index\"\n";
        assert_eq!(machine_paths(&file("Cargo.lock", lock)).len(), 1);
        assert_eq!(machine_paths(&file(".cargo/config.toml", b"[source.crates-io]\n")).len(), 1);
    }

    #[test]
    fn binaries_are_found() {
        assert_eq!(binaries(&file("a.o", b"\x7fELF\0")).len(), 1);
        assert_eq!(binaries(&file("a.txt", b"\xff\xfe")).len(), 1);
        assert_eq!(binaries(&file("a.txt", "käse".as_bytes())), []);
    }

    #[test]
    fn strange_filetest_folders_are_found() {
        assert_eq!(filetest_folders(&file("tests/filetests/cellar/a.bpf", b"")).len(), 1);
        assert_eq!(filetest_folders(&file("tests/filetests/README.md", b"")), []);
    }
}
