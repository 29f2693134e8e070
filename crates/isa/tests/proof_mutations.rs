//! Mutation tests of the proofs: of a changed row, the statement must no longer follow by the row's proof.
//!
//! A mutant's check is one file: the changed row's definitions and statements, and the theorems about the row, as
//! `proofs/` has them. A mutant that passes is proved to be right, so it is no fault of the proof; it may be one of the
//! model. `proofs/survivors.txt` lists those that have been looked at, with the reason for each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kiln_isa::operation::{Operation, Registry, rocq};

mod mutants;

use mutants::Mutant;

fn proofs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proofs")
}

/// The compiled proofs, and their text by file.
struct Proofs {
    folder: PathBuf,
    files: BTreeMap<String, String>,
}

impl Proofs {
    /// `None` without coqc.
    fn compiled() -> Option<Proofs> {
        if Command::new("coqc").arg("--version").output().is_err() {
            println!("skipped: coqc is not installed, so the proofs are not checked");
            return None;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("proofs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the compiled proofs");
        let output = Command::new(proofs().join("check")).arg(&folder).output().expect("the check starts");
        assert!(output.status.success(), "{}{}", text_of(&output.stdout), text_of(&output.stderr));
        let files = std::fs::read_dir(proofs()).expect("the proofs").filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_stem()?.to_str()?.to_owned();
            (path.extension()? == "v").then(|| std::fs::read_to_string(&path).ok()).flatten().map(|text| (name, text))
        });
        let files = files.collect();
        Some(Proofs { folder, files })
    }

    /// The file that proves a row's statements, and its theorems about the row.
    fn of(&self, row: &str) -> (&str, &str, String) {
        let about = |text: &str| {
            let starts = text.match_indices("Theorem ").filter(|(at, _)| {
                let name = text[*at + 8..].split([' ', ':']).next().unwrap_or_default();
                ["_sequences", "_x86_does", "_a64_does", "_x86_agrees", "_a64_agrees"]
                    .iter()
                    .any(|end| name.strip_suffix(end) == Some(row))
            });
            let blocks = starts.map(|(at, _)| text[at..].split_inclusive("Qed.").next().unwrap_or_default());
            blocks.collect::<Vec<_>>().join("\n")
        };
        let found = self.files.iter().map(|(name, text)| (name.as_str(), text.as_str(), about(text)));
        found.into_iter().find(|(_, _, theorems)| !theorems.is_empty()).expect("the row has theorems")
    }

    /// Whether the theorems about a row prove the statements of this version of it.
    fn prove(&self, number: usize, row: &Operation) -> bool {
        let (file, text, theorems) = self.of(row.name);
        let head = text.lines().filter(|line| ["From ", "Import ", "Open "].iter().any(|word| line.starts_with(word)));
        let head = head.collect::<Vec<_>>().join("\n");
        let checks = rocq::theorems(row).map(|theorem| {
            let statement = theorem.replace("_agrees", "_statement");
            format!("Definition check_{theorem} : {statement} := {theorem}.\n")
        });
        let name = format!("Mutant{number}");
        let text = format!(
            "{head}\nFrom Kiln Require Import {file}.\nModule Mutant.\n{}\n{theorems}\n{}End Mutant.\n",
            rocq::row(row),
            checks.collect::<String>()
        );
        std::fs::write(self.folder.join(format!("{name}.v")), text).expect("the mutant is written");
        let mut coqc = Command::new("timeout");
        coqc.args(["60", "coqc", "-q", "-Q", ".", "Kiln", &format!("{name}.v")]).current_dir(&self.folder);
        let is_proved = coqc.output().expect("coqc starts").status.success();
        for end in ["v", "vo", "vok", "vos", "glob"] {
            let _ = std::fs::remove_file(self.folder.join(format!("{name}.{end}")));
        }
        is_proved
    }

    /// The names of the mutants that are proved.
    fn survivors(&self, mutants: &[Mutant]) -> BTreeSet<String> {
        let (next, survivors) = (AtomicUsize::new(0), Mutex::new(BTreeSet::new()));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(mutant) = mutants.get(at) else { return };
                        if self.prove(at, &mutant.row) {
                            survivors.lock().unwrap().insert(mutant.name.clone());
                        }
                    }
                });
            }
        });
        survivors.into_inner().unwrap()
    }
}

impl Drop for Proofs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn all_mutants() -> Vec<Mutant> {
    Registry::BUILTIN.operations().flat_map(mutants::of).collect()
}

/// The mutants that are known to be right, from the file that lists them.
fn known_survivors() -> BTreeSet<String> {
    let text = std::fs::read_to_string(proofs().join("survivors.txt")).expect("the list of survivors");
    text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect()
}

/// Some of the mutants: two of each kind, and the one that clears pairs elsewhere than on the stack.
fn few_mutants() -> Vec<Mutant> {
    let all = all_mutants();
    let mut by_kind: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, mutant) in all.iter().enumerate() {
        by_kind.entry(mutant.kind).or_default().push(at);
    }
    let of_kind = |of: &Vec<usize>| [of[of.len() / 3], of[of.len() * 2 / 3]];
    let mut chosen: BTreeSet<usize> = by_kind.values().flat_map(of_kind).collect();
    chosen
        .extend(all.iter().position(|mutant| mutant.name == "clear_pair: native code 0 (x86_64), without condition 0"));
    let is_chosen = all.into_iter().enumerate().filter(|(at, _)| chosen.contains(at));
    is_chosen.map(|(_, mutant)| mutant).collect()
}

#[test]
fn statements_of_all_rows_are_proved_and_those_of_mutants_are_not() {
    let Some(proofs) = Proofs::compiled() else { return };
    for row in ["rotate_left_64", "clear_pair"] {
        let row = Registry::BUILTIN.by_name(row).expect("the row");
        assert!(proofs.prove(usize::MAX, row), "{}: the row itself is not proved in the form of a mutant", row.name);
    }
    let few = few_mutants();
    let unknown: Vec<String> = proofs.survivors(&few).difference(&known_survivors()).cloned().collect();
    assert!(unknown.is_empty(), "{} mutants of {} are proved: {unknown:#?}", unknown.len(), few.len());
}

/// `make proofs-mutated`: all mutants. Prints how many of each kind are proved; these are the listed ones.
#[test]
#[ignore = "make proofs-mutated"]
fn figures_of_all_mutants() {
    let Some(proofs) = Proofs::compiled() else { return };
    for row in Registry::BUILTIN.operations() {
        assert!(proofs.prove(usize::MAX, row), "{}: the row itself is not proved in the form of a mutant", row.name);
    }
    let all = all_mutants();
    let survivors = proofs.survivors(&all);
    let mut kinds: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for mutant in &all {
        let (count, proved) = kinds.entry(mutant.kind).or_default();
        *count += 1;
        *proved += usize::from(survivors.contains(&mutant.name));
    }
    for (kind, (count, proved)) in &kinds {
        println!("{kind:28} {count:5} mutants, {proved:4} proved");
    }
    println!("{:28} {:5} mutants, {:4} proved", "all", all.len(), survivors.len());
    let known = known_survivors();
    let unknown: Vec<&String> = survivors.difference(&known).collect();
    let gone: Vec<&String> = known.difference(&survivors).collect();
    assert!(unknown.is_empty(), "proved, but not listed in proofs/survivors.txt: {unknown:#?}");
    assert!(gone.is_empty(), "listed, but not proved: {gone:#?}");
}
