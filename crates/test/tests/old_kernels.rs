//! Compares the profiles of older releases with verdicts of those kernels that `scripts/other-kernel` recorded:
//!
//! ```text
//!   target/kernels/6.1/verdicts.jsonl, btf/vmlinux  -->  6.1: {"both accept": 513, "both reject": 505, ...}
//! ```
//!
//! Every recorded release is compared; without any, the test prints a skip. It fails if Kiln accepts more than
//! [`WRONGLY_ACCEPTED`] per cent of the programs that a kernel rejects.
//!
//! `tests/kernel-verdicts/7.2.tsv` has such answers about a few hundred programs of the core corpora, so that each
//! profile is compared without starting its kernel (`scripts/other-kernel 7.2 --record` writes it). Every difference needs
//! a reason in `tests/verdicts.toml`. With `BLESS=1`, the test writes their tables of `docs/measurements/agreement.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kiln_driver::input;
use kiln_platform::{KernelVersion, Profile};
use kiln_program::btf::Btf;
use kiln_test::agreement::report;
use kiln_test::corpus::{self, CorpusObject};
use kiln_test::verdicts::Verdicts;
use kiln_verifier::{Error, Options, verify};
use serde::Deserialize;

/// Per cent of programs that Kiln may accept although the kernel rejects them, because older verifiers are not modelled
/// completely.
const WRONGLY_ACCEPTED: usize = 2;

/// In how many per cent of the verdicts of all committed tables Kiln agrees, at least.
const AGREEMENT: f64 = 99.5;

/// How an entry of `tests/verdicts.toml` begins that is about a committed table: `table 6.1 OBJECT:PROGRAM`.
const PREFIX: &str = "table ";

/// A line of `verdicts.jsonl`.
#[derive(Deserialize)]
struct Said {
    program: String,
    group: String,
    says: String,
    #[serde(default)]
    why: String,
}

/// By group and program: what the kernel says, and why.
type Answers = BTreeMap<(String, String), (String, String)>;

/// What Kiln says of the programs of one object that the kernel was asked about, with the running kernel's configuration.
fn kiln_says(
    entry: &CorpusObject,
    types: &Arc<Btf>,
    profile: &Profile,
    asked: &Answers,
) -> Vec<((String, String), String)> {
    let file = entry.path.file_name().unwrap_or_default().to_string_lossy();
    let name = |program: &str| (entry.group.clone(), format!("{file}:{program}"));
    let Ok(mut input) = entry.read() else { return Vec::new() };
    if !input.object.programs.iter().any(|program| asked.contains_key(&name(&program.name))) {
        return Vec::new();
    }
    let version = profile.version();
    let config = input::running_kernel_config().cloned().unwrap_or_else(|| input::release_config(version));
    let config = input::with_loaders_values(config, [version.major.into(), version.minor.into(), 0]);
    kiln_elf::resolve_kconfig(&mut input.object, &config);
    if input.object.functions.iter().flat_map(|function| &function.nodes).any(|node| node.core.is_some()) {
        let _ = kiln_elf::resolve_core(&mut input.object, types);
    }
    let options = Options {
        skip_facts: true,
        kernel_types: Some(Arc::clone(types)),
        profile: profile.clone(),
        ..Options::default()
    };
    let verdict = |program| match verify(&input.object, program, &options) {
        Ok(_) => "accept".to_owned(),
        Err(Error::Rejected(rejection)) => format!("reject {}: {}", rejection.reason.code(), rejection.message),
        Err(error) => format!("unsupported {error}"),
    };
    let wanted = input.object.programs.iter().filter(|program| asked.contains_key(&name(&program.name)));
    wanted.map(|program| (name(&program.name), verdict(program))).collect()
}

fn read(folder: &Path) -> Option<(Answers, Arc<Btf>)> {
    let types = Btf::parse(&std::fs::read(folder.join("btf/vmlinux")).ok()?).ok()?;
    let text = std::fs::read_to_string(folder.join("verdicts.jsonl")).ok()?;
    let said = text.lines().filter_map(|line| serde_json::from_str::<Said>(line).ok());
    Some((said.map(|said| ((said.group, said.program), (said.says, said.why))).collect(), Arc::new(types)))
}

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Where `scripts/other-kernel` leaves its answers.
fn folder() -> PathBuf {
    std::env::var_os("KILN_KERNELS_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/kernels"), PathBuf::from)
}

#[test]
fn verdicts_for_older_releases_are_those_of_their_kernels() {
    let mut compared = 0;
    for entry in std::fs::read_dir(folder()).into_iter().flatten().flatten() {
        let Ok(release) = entry.file_name().to_string_lossy().parse::<KernelVersion>() else { continue };
        if !(Profile::OLDEST..=KernelVersion::NEWEST).contains(&release) {
            continue;
        }
        let Some((asked, types)) = read(&entry.path()) else { continue };
        let found = compare(release, &asked, &types);
        assert!(
            100 * found.wrong.len() <= WRONGLY_ACCEPTED * found.decided(),
            "{release}: Kiln alone accepts {} of {} programs",
            found.wrong.len(),
            found.decided()
        );
        compared += 1;
    }
    if compared == 0 {
        eprintln!("skipped: older kernels: no verdicts in {}; scripts/other-kernel 6.1 makes some", folder().display());
    }
}

/// `group/object:program<TAB>verdict`, of each line.
fn read_table(path: &Path) -> Answers {
    let text = std::fs::read_to_string(path).expect("a table");
    let row = |line: &str| {
        let (name, says) = line.split_once('\t')?;
        let (group, program) = name.split_once('/')?;
        Some(((group.to_owned(), program.to_owned()), (says.to_owned(), String::new())))
    };
    text.lines().map(|line| row(line).unwrap_or_else(|| panic!("{}: {line}", path.display()))).collect()
}

#[test]
fn verdicts_of_releases_are_those_of_the_committed_tables() {
    let Some(types) = input::running_kernel_types() else {
        eprintln!("skipped: tables of kernels: no BTF of a kernel");
        return;
    };
    let folder = in_repository("tests/kernel-verdicts");
    let mut rows = BTreeMap::new();
    let mut differing = BTreeMap::new();
    let mut all = Found::default();
    for entry in std::fs::read_dir(folder).expect("tables").flatten() {
        let path = entry.path();
        let release = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        let release: KernelVersion = release.expect("a table is named by its release");
        let found = compare(release, &read_table(&path), &types);
        assert!(
            corpus::objects().is_empty() || found.decided() >= 100,
            "{release}: only {} programs are compared",
            found.decided()
        );
        for (program, ours) in &found.differing {
            differing.insert(format!("{PREFIX}{release} {program}"), ours.clone());
        }
        rows.insert(release, found.row(release));
        all.add(found);
    }
    if !corpus::objects().is_empty() {
        assert_eq!(all.wrong, Vec::<String>::new(), "programs that a kernel rejects and Kiln accepts");
        assert!(all.share() >= AGREEMENT, "the tables agree with the profiles on {:.2} % only", all.share());
    }
    assert!(rows.len() >= 12, "only {} tables", rows.len());
    let reasons = if corpus::objects().is_empty() { String::new() } else { reasons(&differing) };
    if std::env::var_os("BLESS").is_some() {
        let path = in_repository("docs/measurements/agreement.md");
        let page = std::fs::read_to_string(&path).expect("the page");
        let rows = rows.into_values().collect::<String>() + &all.row("all");
        let table = format!("{}\n{TABLE}{rows}{REASONS}{reasons}", report::RELEASES);
        std::fs::write(path, report::with_section(&page, report::RELEASES, &table)).expect("the page can be written");
    }
}

const TABLE: &str = "
Verdicts of the profiles against those that other kernels gave in a virtual machine (`tests/kernel-verdicts/`, programs of the
corpora's core). `BLESS=1 cargo test -p kiln-test --test old_kernels committed` writes the tables.

| kernel | objects | programs | agreement | only kernel | only Kiln | unsupported |
|---|--:|--:|--:|--:|--:|--:|
";

const REASONS: &str = "
| kernel | program | Kiln | reason |
|---|---|---|---|
";

/// The rows of the differences, each with its reason. Every one must have a reason, and no other program.
fn reasons(differing: &BTreeMap<String, String>) -> String {
    let known = Verdicts::read(&in_repository("tests/verdicts.toml")).expect("tests/verdicts.toml");
    let outdated: Vec<_> = known
        .program
        .iter()
        .filter(|entry| entry.program.starts_with(PREFIX) && differing.get(&entry.program) != Some(&entry.kiln))
        .collect();
    assert!(outdated.is_empty(), "tests/verdicts.toml is out of date: {outdated:?}");
    let row = |(name, ours): (&String, &String)| {
        let entry =
            known.of_program(name).unwrap_or_else(|| panic!("no reason in tests/verdicts.toml: {name}: {ours}"));
        let (release, program) = name.trim_start_matches(PREFIX).split_once(' ').expect("it was joined");
        format!("| {release} | `{program}` | {ours} | {} |\n", entry.reason)
    };
    differing.iter().map(row).collect()
}

/// How Kiln's verdicts compare with a kernel's.
#[derive(Default)]
struct Found {
    counts: BTreeMap<&'static str, usize>,
    objects: BTreeSet<String>,
    /// Programs that only Kiln accepts.
    wrong: Vec<String>,
    /// Programs on which they differ, and Kiln's verdict.
    differing: Vec<(String, String)>,
}

impl Found {
    fn of(&self, column: &str) -> usize {
        self.counts.get(column).copied().unwrap_or(0)
    }

    fn agreed(&self) -> usize {
        self.of("both accept") + self.of("both reject") + self.of(UNATTACHED)
    }

    /// How many programs both decide.
    fn decided(&self) -> usize {
        self.of("both accept") + self.of("both reject") + self.of("only Kiln") + self.of("only kernel")
    }

    fn compared(&self) -> usize {
        self.agreed() + ["only kernel", "only Kiln", "unsupported"].map(|column| self.of(column)).iter().sum::<usize>()
    }

    /// Per cent of the programs on which both agree.
    fn share(&self) -> f64 {
        100.0 * self.agreed() as f64 / self.compared().max(1) as f64
    }

    /// Adds what was found of another release.
    fn add(&mut self, other: Found) {
        for (column, count) in other.counts {
            *self.counts.entry(column).or_default() += count;
        }
        self.objects.extend(other.objects);
        self.wrong.extend(other.wrong);
    }

    fn row(&self, release: impl std::fmt::Display) -> String {
        let [kernel, kiln, unsupported] = ["only kernel", "only Kiln", "unsupported"].map(|column| self.of(column));
        let (objects, all, share) = (self.objects.len(), self.compared(), self.share());
        format!("| {release} | {objects} | {all} | {share:.2} % | {kernel} | {kiln} | {unsupported} |\n")
    }
}

/// The kernel accepts unknown attach types when it loads a program, and Kiln tells that it cannot be attached.
const UNATTACHED: &str = "loads, but cannot be attached";

fn compare(release: KernelVersion, asked: &Answers, types: &Arc<Btf>) -> Found {
    let profile = Profile::of(release);
    let mut found = Found::default();
    for entry in corpus::objects() {
        for (name, ours) in kiln_says(&entry, types, &profile, asked) {
            let (kernel, reason) = &asked[&name];
            let attaches = !ours.contains("the attach type");
            let column = match (ours.split(' ').next().unwrap_or_default(), kernel.as_str()) {
                (_, "not asked") => "not asked",
                (_, "accept") if !attaches => UNATTACHED,
                ("unsupported", _) => "unsupported",
                ("accept", "accept") => "both accept",
                ("reject", "reject") => "both reject",
                ("accept", _) => "only Kiln",
                _ => "only kernel",
            };
            *found.counts.entry(column).or_default() += 1;
            found.objects.insert(entry.path.display().to_string());
            if column == "only Kiln" {
                found.wrong.push(name.1.clone());
            }
            if column.starts_with("only") || column == "unsupported" {
                let verdict = ours.split(": ").next().unwrap_or_default();
                found.differing.push((name.1.clone(), verdict.to_owned()));
                eprintln!("{release} {column}: {}/{}: {ours} | {reason}", name.0, name.1);
            }
        }
    }
    eprintln!("{release}: {:?}", found.counts);
    found
}
