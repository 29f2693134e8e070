//! The page about rules as data: `cargo run -p kiln-superopt --example rules -- FOLDER... > docs/reference/rules.md`
//!
//! Proves every shipped rule, optimizes every object of the folders without search, and prints what each rule gave.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln_equiv::rule::{RuleVerdict, prove_rule};
use kiln_equiv::{Limits, Method, parse_rules};
use kiln_program::btf::Btf;
use kiln_superopt::rules::data::SHIPPED;
use kiln_superopt::{Because, Evidence, Options, RuleSet, optimize};

/// Time for one object: more than any takes without search, so that it does not decide.
const BUDGET: Duration = Duration::from_secs(600);

/// Slots saved and uses.
type Gain = (i64, u64);

fn main() {
    let folders: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    let begun = Instant::now();
    let count = RuleSet::parse(&SHIPPED.map(|(_, text)| text).join("\n")).expect("shipped rules").rules().len();
    let parsing = begun.elapsed();
    let used = Used::measure(&folders);
    println!("{}", include_str!("../src/rules/data/README.md").trim_end());
    println!("\n## The rules\n\nBoth files have {count} rules, parsed in {:.1} ms. ", parsing.as_secs_f64() * 1000.0);
    println!(
        "Of their uses here, {} were confirmed by the normal form of the very window, {} rest on the rule's own proof.\n",
        used.by_normal_form, used.by_rule
    );
    print_table(&folders, &used);
}

/// What the rules gave.
#[derive(Default)]
struct Used {
    /// The gain of each rule in each folder.
    gains: BTreeMap<String, Vec<Gain>>,
    /// Uses that the normal form of the window confirmed.
    by_normal_form: u64,
    /// Uses that rest on the rule's own proof.
    by_rule: u64,
}

impl Used {
    /// Optimizes every object of the folders without search.
    fn measure(folders: &[PathBuf]) -> Used {
        let kernel_types = std::fs::read("/sys/kernel/btf/vmlinux").ok();
        let kernel_types = kernel_types.and_then(|bytes| Btf::parse(&bytes).ok()).map(Arc::new);
        let options = Options { budget: BUDGET, search: 0, kernel_types, ..Options::default() };
        let mut used = Used::default();
        for (index, folder) in folders.iter().enumerate() {
            for path in objects(folder) {
                let Ok(bytes) = std::fs::read(&path) else { continue };
                let Ok(elf) = kiln_elf::read(&file_name(&path), &bytes) else { continue };
                for one in optimize(&elf.object, &options, &mut ()).evidence {
                    used.add(&one, index, folders.len());
                }
            }
        }
        used
    }

    fn add(&mut self, one: &Evidence, folder: usize, folders: usize) {
        let name = one.because.name();
        if RuleSet::shipped().rule(name).is_none() {
            return;
        }
        let gained = self.gains.entry(name.to_owned()).or_insert_with(|| vec![(0, 0); folders]);
        gained[folder].0 += one.slots_saved;
        gained[folder].1 += 1;
        match &one.because {
            Because::Window { proved_by: "rule", .. } => self.by_rule += 1,
            _ => self.by_normal_form += 1,
        }
    }
}

/// Proves every shipped rule, and prints it with its gains.
fn print_table(folders: &[PathBuf], used: &Used) {
    print!("| rule | file | proved by | cases | ms |");
    folders.iter().for_each(|folder| print!(" {} |", file_name(folder)));
    println!("\n|---|---|---|--:|--:|{}", "--:|".repeat(folders.len()));
    let limits = Limits { solver_steps: 12_500_000, tests: 200, ..Limits::default() };
    let mut sums: Vec<Gain> = vec![(0, 0); folders.len()];
    for (file, text) in SHIPPED {
        for rule in parse_rules(text).expect("shipped rules") {
            let begun = Instant::now();
            let verdict = prove_rule(&rule, &limits);
            let spent = begun.elapsed().as_secs_f64() * 1000.0;
            let RuleVerdict::Proved { cases, method } = verdict else { panic!("{}: {verdict}", rule.name) };
            let how = match method {
                Method::Smt { .. } => "solver",
                Method::Normalized | Method::Rule => "normal form",
            };
            print!("| `{}` | {file} | {how} | {cases} | {spent:.1} |", rule.name);
            for (index, sum) in sums.iter_mut().enumerate() {
                let (slots, times) = used.gains.get(&rule.name).map_or((0, 0), |gained| gained[index]);
                *sum = (sum.0 + slots, sum.1 + times);
                print!(" {slots} ({times}) |");
            }
            println!();
        }
    }
    print!("| all | | | | |");
    sums.iter().for_each(|(slots, times)| print!(" {slots} ({times}) |"));
    println!();
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn objects(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|extension| extension == "o"));
    found.sort();
    found
}
