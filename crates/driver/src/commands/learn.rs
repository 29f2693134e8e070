//! `kiln learn`: rules from the programs of objects, into a file that `kiln optimize --rules` takes.
//!
//! ```text
//!   objects, folders --> windows of their programs --> search, generalize, prove --> FILE, sorted, with what it had
//! ```

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kiln_equiv::rule::{RuleVerdict, prove_rule};
use kiln_equiv::{Limits, Rule, parse_rules};
use kiln_superopt::RuleSet;
use kiln_superopt::learn::{self, Harvest, LearnedRule, RuleFile, Watch};
use kiln_superopt::rules::data::SHIPPED;
use serde::Serialize;

use crate::objects::gather;
use kiln_inspect::show::shown::Shown;
use kiln_inspect::{file, input};
use kiln_program::Error;

/// How to learn.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time to spend at most.
    pub budget: Duration,
    /// Threads; as many as there are processors when 0.
    pub jobs: usize,
    /// The file to grow.
    pub file: RuleFile,
}

/// What was learned.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The whole file: what it had, and the new rules.
    #[serde(skip)]
    pub text: String,
    /// Names of the new rules.
    pub rules: Vec<Shown>,
    /// Objects read.
    pub objects: usize,
    /// Objects that could not be read, and why.
    pub unread: Vec<Shown>,
    /// Different windows in their programs.
    pub windows: usize,
    /// Windows gone through.
    pub searched: usize,
    /// Windows that something shorter was found for.
    pub shortened: usize,
    /// Rules dropped because others do the same.
    pub subsumed: usize,
    /// Rules dropped because fewer than two programs have a use for them.
    pub rare: usize,
    /// Time spent.
    pub spent_ms: u64,
}

/// Bytes of a rule file at most.
const MAX_RULE_FILE_BYTES: u64 = 16 << 20;
/// Steps that the solver may take for each case of a rule that others wrote: about five seconds.
const PROOF_STEPS: u32 = 12_500_000;

/// Reads a rule file; one that is not there is empty.
///
/// # Errors
/// [`Error::InvalidInput`] when it cannot be read or is not a rule file, with the line.
pub fn rule_file(path: &Path) -> Result<RuleFile, Error> {
    if !path.exists() {
        return Ok(RuleFile::default());
    }
    RuleFile::parse(&file::text(path, MAX_RULE_FILE_BYTES)?)
        .map_err(|error| Error::InvalidInput(format!("{}: {error}", path.display())))
}

/// Reads the rules of a file that is not trusted: each is proved before any is used.
///
/// # Errors
/// [`Error::InvalidInput`] when the file does not exist, is not a rule file, or has a rule that does not hold.
pub fn proved_rules(path: &Path) -> Result<RuleSet, Error> {
    std::fs::metadata(path).map_err(|error| Error::file(path, &error))?;
    let invalid = |error: String| Error::InvalidInput(format!("{}: {error}", path.display()));
    let file = rule_file(path)?;
    let limits = Limits { solver_steps: PROOF_STEPS, tests: 200, ..Limits::default() };
    for rule in &file.rules {
        match prove_rule(rule, &limits) {
            RuleVerdict::Proved { .. } => {}
            verdict => return Err(invalid(format!("rule {}: {verdict}", rule.name))),
        }
    }
    RuleSet::new(file.rules).map_err(|error| invalid(error.to_string()))
}

/// Learns from objects and the objects in folders.
///
/// # Errors
/// [`Error::InvalidInput`] when there are no objects, or none can be read.
pub fn learn(corpora: &[PathBuf], options: Options, watch: &mut dyn Watch) -> Result<Outcome, Error> {
    let begun = Instant::now();
    let paths = objects(corpora)?;
    let mut harvest = Harvest::default();
    let mut unread = Vec::new();
    let mut stopped = false;
    for (at, path) in paths.iter().enumerate() {
        // Half of the time is for the search.
        stopped |= !watch.learning(at, paths.len(), 0);
        if stopped || begun.elapsed() > options.budget / 2 {
            break;
        }
        match input::open(path, &[]) {
            Ok(input) => {
                let deadline = Some(begun + options.budget / 2);
                let verifying = kiln_verifier::Options { deadline, ..input.verifier_options() };
                learn::harvest(&mut harvest, &input.object, &verifying);
            }
            Err(error) => unread.push(error.to_string()),
        }
    }
    if unread.len() == paths.len() {
        let first = unread.first().map_or(String::new(), |first| format!(": {first}"));
        return Err(Error::InvalidInput(format!("nothing to learn from{first}")));
    }
    let jobs = match options.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    let learning = learn::Options {
        budget: if stopped { Duration::ZERO } else { options.budget.saturating_sub(begun.elapsed()) },
        jobs,
        ..learn::Options::default()
    };
    let learned = learn::learn(harvest, &known(&options.file), &learning, watch);
    Ok(Outcome {
        text: learn::merged(&options.file, &learned.rules),
        rules: learned.rules.iter().map(|LearnedRule { rule, .. }| rule.name.as_str().into()).collect(),
        objects: paths.len() - unread.len(),
        unread: Shown::all(unread),
        windows: learned.windows,
        searched: learned.searched,
        shortened: learned.shortened,
        subsumed: learned.subsumed,
        rare: learned.rare,
        spent_ms: begun.elapsed().as_millis() as u64,
    })
}

/// Rules that need not be learned: those written by hand, and those of the file.
fn known(file: &RuleFile) -> Vec<Rule> {
    let (_, written) = SHIPPED[0];
    let written = parse_rules(written).expect("shipped rules parse");
    let fresh = |rule: &&Rule| !file.rules.iter().any(|other| other.name == rule.name);
    written.iter().filter(fresh).chain(&file.rules).cloned().collect()
}

/// The object files: those named, and those ending in `.o` or `.bpf` anywhere in folders, in order.
fn objects(corpora: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    for path in corpora {
        std::fs::metadata(path).map_err(|error| Error::file(path, &error))?;
    }
    let mut found: Vec<PathBuf> = gather(corpora)?.objects.into_iter().map(|found| found.path).collect();
    found.sort();
    found.dedup();
    if found.is_empty() {
        return Err(Error::InvalidInput("no object files (.o, .bpf) there".to_owned()));
    }
    Ok(found)
}
