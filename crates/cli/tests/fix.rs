//! `kiln check --fix`: each mistake of `tests/helps` is rejected at its line, and most have an edit that is accepted.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Mistakes for which no edit is known.
const WITHOUT: [&str; 6] = [
    "compared-with-local",
    "context-indexed",
    "dynptr-not-made",
    "function-table",
    "helper-of-other-hook",
    "two-locks",
];
/// Mistakes that a run of the tests takes: all of them take half a minute.
const STRIDE: usize = 9;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/helps")
}

fn kiln(arguments: &[&str]) -> (String, bool) {
    let output = Command::new(env!("CARGO_BIN_EXE_kiln")).args(arguments).output().expect("kiln runs");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
}

#[test]
fn a_mistake_is_mended_by_its_own_fix() {
    if Command::new("clang-19").arg("--version").output().is_err() {
        eprintln!("skipped: no clang-19");
        return;
    }
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder()).expect("tests/helps").flatten().map(|e| e.path()).collect();
    paths.sort();
    assert!(paths.len() >= 60);
    let copies = tempfile::tempdir().expect("a folder");
    for path in paths.iter().step_by(STRIDE) {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let copy = copies.path().join(path.file_name().expect("a name"));
        let original = std::fs::read_to_string(path).expect("a text");
        std::fs::write(&copy, &original).expect("a copy");
        let kernel = original.lines().find_map(|line| line.strip_prefix("// kernel: ")).unwrap_or("6.18");
        let file = copy.to_str().expect("a path");
        let (_, accepted) = kiln(&["check", file, "--kernel", kernel, "--fix", "--unsafe-fixes", "--dry-run"]);
        assert!(!accepted, "{name} is a mistake");
        assert_eq!(std::fs::read_to_string(&copy).expect("a text"), original, "{name}: --dry-run writes nothing");
        kiln(&["check", file, "--kernel", kernel, "--fix", "--unsafe-fixes"]);
        let (text, accepted) = kiln(&["check", file, "--kernel", kernel]);
        assert_eq!(accepted, !WITHOUT.contains(&name.as_str()), "{name}: {text}");
    }
}
