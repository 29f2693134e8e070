//! The profiles of older releases against verdicts recorded under those kernels by `scripts/old-kernels`.
//!
//! `KILN_OLD_KERNELS` names the folder: in it, a folder a release with `verdicts.tsv` (see
//! `examples/record_verdicts.rs`) and `vmlinux.btf`. Without it, the test says that it was skipped. It fails where Kiln
//! accepts for a release what that kernel rejects, more often than [`WRONGLY_ACCEPTED`] in a hundred.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use kiln_platform::{KernelVersion, Profile};
use kiln_program::btf::Btf;
use kiln_test::corpus::{self, CorpusObject};
use kiln_verifier::{Error, Options, verify};

/// Programs of a hundred that Kiln may accept and the kernel reject: what of older verifiers is not modelled.
const WRONGLY_ACCEPTED: usize = 3;

type Verdicts = BTreeMap<String, (String, String)>;

/// What Kiln says of the programs of one object that the kernel was asked about.
fn kiln_says(entry: &CorpusObject, types: &Arc<Btf>, profile: &Profile, asked: &Verdicts) -> Vec<(String, String)> {
    let name = |program: &str| format!("{}:{program}", entry.path.display());
    let Ok(mut input) = entry.read() else { return Vec::new() };
    if !input.object.programs.iter().any(|program| asked.contains_key(&name(&program.name))) {
        return Vec::new();
    }
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

fn read(folder: &Path) -> Option<(Verdicts, Arc<Btf>)> {
    let types = Btf::parse(&std::fs::read(folder.join("vmlinux.btf")).ok()?).ok()?;
    let text = std::fs::read_to_string(folder.join("verdicts.tsv")).ok()?;
    let row = |line: &str| {
        let mut cells = line.split('\t').map(str::to_owned);
        Some((cells.next()?, (cells.next()?, cells.next()?)))
    };
    Some((text.lines().filter_map(row).collect(), Arc::new(types)))
}

#[test]
fn verdicts_for_older_releases_are_those_of_their_kernels() {
    let Some(folder) = std::env::var_os("KILN_OLD_KERNELS") else {
        eprintln!("skipped: older kernels: KILN_OLD_KERNELS names no folder (scripts/old-kernels makes one)");
        return;
    };
    let mut compared = 0;
    for entry in std::fs::read_dir(&folder).expect("KILN_OLD_KERNELS is a folder").flatten() {
        let Ok(release) = entry.file_name().to_string_lossy().parse::<KernelVersion>() else { continue };
        let Some((asked, types)) = read(&entry.path()) else { continue };
        compare(release, &asked, &types);
        compared += 1;
    }
    assert!(compared > 0, "no release with verdicts in {}", Path::new(&folder).display());
}

fn compare(release: KernelVersion, asked: &Verdicts, types: &Arc<Btf>) {
    let profile = Profile::of(release);
    let mut counts = BTreeMap::<&str, usize>::new();
    for entry in corpus::objects() {
        for (name, ours) in kiln_says(&entry, types, &profile, asked) {
            let (kernel, reason) = &asked[&name];
            // Loading is not attaching: the kernel takes attach types at loading that it does not know.
            let attaches = !ours.contains("the attach type");
            let column = match (ours.split(' ').next().unwrap_or_default(), kernel.as_str()) {
                (_, "nothing") => "not asked",
                (_, "accept") if !attaches => "loads, but cannot be attached",
                ("unsupported", _) => "unsupported",
                ("accept", "accept") => "both accept",
                ("reject", "reject") => "both reject",
                ("accept", _) => "only Kiln",
                _ => "only kernel",
            };
            *counts.entry(column).or_default() += 1;
            if column.starts_with("only") {
                eprintln!("{release} {column}: {name}: {ours} | {reason}");
            }
        }
    }
    eprintln!("{release}: {counts:?}");
    let of = |column: &str| counts.get(column).copied().unwrap_or(0);
    let decided = of("both accept") + of("both reject") + of("only Kiln") + of("only kernel");
    let wrong = of("only Kiln");
    assert!(100 * wrong <= WRONGLY_ACCEPTED * decided, "{release}: Kiln alone accepts {wrong} of {decided} programs");
}
