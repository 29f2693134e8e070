//! `kiln verify-evidence`: another solver goes over the proofs of an optimization.
//!
//! ```text
//!   index.json --> every record makes its query again --> the same text as in queries/NNNN.smt2?
//!                                                          |
//!                  a process a query, bounded in time <----+--> unsat, or the rewrite is not proved
//! ```
//!
//! Everything in the folder is somebody else's word. The queries are made again from the index, so that a forged one is
//! noticed; the listings must be those of the record that the query is made of; and the slots that the rewrites save in
//! each function must be what the two objects differ by, so that none is missing. The solver is tried on a question
//! whose answer is `sat` and on one whose answer is `unsat` before it is believed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use kiln_equiv::RecordError;
use kiln_program::{FunctionId, Object};
use serde::Serialize;

use crate::error::Error;
use crate::evidence::{Entry, FORMAT, INDEX, Index, Kind, OPTIMIZED, ORIGINAL, QUERIES, SegmentEntry, SimulationEntry};
use crate::file;

/// The greatest file that is read.
const MAX_BYTES: u64 = 256 << 20;
/// Bytes of a solver's answer that are looked at.
const MAX_ANSWER: u64 = 4096;

/// How to check.
#[derive(Clone, Debug)]
pub struct Options {
    /// A solver that Kiln knows by name, or the path of any that takes a file in SMT-LIB 2; `None`: the first of the
    /// known ones that is installed.
    pub solver: Option<String>,
    /// Time for one query.
    pub timeout: Duration,
    /// Queries at a time.
    pub jobs: usize,
}

/// What became of one query, or of the whole check of a rewrite.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// `unsat`: there is no difference.
    Proved,
    /// `sat`: the solver sees a difference.
    Sat,
    /// The solver does not know, or says something else.
    Unknown,
    /// It took too long.
    TimedOut,
    /// The query's file is not there, or cannot be read.
    Missing,
    /// The query is not the one that the index makes, or a listing is not that of its record.
    Altered,
    /// The rewrite has no query: it rests on a law.
    NoQuery,
}

/// A rewrite that is not proved, or another fault of the folder.
#[derive(Clone, Debug, Serialize)]
pub struct Problem {
    /// The rewrite's number; none for a fault of the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewrite: Option<usize>,
    /// Its rule or law.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The file of its query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// More about it.
    pub detail: String,
}

/// The account of a check.
#[derive(Clone, Debug, Serialize)]
pub struct Recheck {
    /// The solver, as it names itself.
    pub solver: String,
    /// Rewrites in the index.
    pub rewrites: usize,
    /// How many became what, by outcome.
    pub proved: usize,
    /// See [`Outcome::Sat`].
    pub sat: usize,
    /// See [`Outcome::Unknown`].
    pub unknown: usize,
    /// See [`Outcome::TimedOut`].
    pub timed_out: usize,
    /// See [`Outcome::Missing`].
    pub missing: usize,
    /// See [`Outcome::Altered`].
    pub altered: usize,
    /// See [`Outcome::NoQuery`].
    pub without_query: usize,
    /// Different queries.
    pub queries: usize,
    /// Milliseconds for a query, half of them.
    pub median_ms: f64,
    /// Milliseconds for a query, 95 of 100.
    pub p95_ms: f64,
    /// Everything that is not as it should be.
    pub problems: Vec<Problem>,
}

impl Recheck {
    /// Whether every rewrite is proved and nothing else is wrong.
    pub fn is_proved(&self) -> bool {
        self.problems.is_empty()
    }
}

/// A solver as a command.
struct Solver {
    program: PathBuf,
    options: &'static [&'static str],
    version: String,
}

/// Solvers that Kiln knows, the first that is installed first: name, and options before the file.
const KNOWN: &[(&str, &[&str])] =
    &[("cvc5", &["--lang=smt2"]), ("bitwuzla", &[]), ("boolector", &["--smt2"]), ("z3", &["-smt2"])];

/// Checks the evidence in a folder. `progress` is told how many queries are done, of how many, and answers whether to
/// go on.
///
/// # Errors
/// [`Error::InvalidInput`] when the folder holds no evidence that can be read, [`Error::Unsupported`] when there is no
/// solver, or it is none.
pub fn verify(
    folder: &Path,
    options: &Options,
    progress: &(dyn Fn(usize, usize) -> bool + Sync),
) -> Result<Recheck, Error> {
    let (index, original, optimized) = read(folder)?;
    let solver = solver(options.solver.as_deref(), options.timeout)?;
    let mut problems = whole(&index, &original, &optimized);
    let simulations: BTreeMap<usize, Result<Vec<String>, Fault>> =
        index.simulations.iter().map(|one| (one.number, examine_simulation(folder, one, &original))).collect();
    let mut outcomes: Vec<Result<Vec<String>, Fault>> =
        index.rewrites.iter().map(|entry| examine(folder, entry, &original, &simulations)).collect();
    let queries: BTreeSet<String> = outcomes.iter().flatten().flatten().cloned().collect();
    let queries: Vec<String> = queries.into_iter().collect();
    let answers = solve_all(folder, &queries, &solver, options, progress);
    let mut times: Vec<Duration> = answers.values().map(|(_, _, spent)| *spent).collect();
    for outcome in &mut outcomes {
        let Ok(queries) = outcome else { continue };
        let fault = queries.iter().find_map(|query| match answers.get(query) {
            Some((Outcome::Proved, ..)) => None,
            Some((answer, detail, _)) => Some((*answer, format!("{query}: {detail}"))),
            None => Some((Outcome::TimedOut, "interrupted before it was asked".to_owned())),
        });
        if let Some(fault) = fault {
            *outcome = Err(fault);
        }
    }
    let count = |wanted: Outcome| {
        outcomes
            .iter()
            .filter(|outcome| outcome.as_ref().map_or_else(|(own, _)| *own, |_| Outcome::Proved) == wanted)
            .count()
    };
    for (entry, outcome) in index.rewrites.iter().zip(&outcomes) {
        if let Err((outcome, detail)) = outcome {
            problems.push(Problem {
                rewrite: Some(entry.number),
                name: Some(entry.name.clone()),
                query: entry.query.clone(),
                outcome: *outcome,
                detail: detail.clone(),
            });
        }
    }
    times.sort_unstable();
    let at = |part: usize| match times.len() {
        0 => 0.0,
        count => times[(count - 1) * part / 100].as_secs_f64() * 1000.0,
    };
    Ok(Recheck {
        solver: solver.version,
        rewrites: index.rewrites.len(),
        proved: count(Outcome::Proved),
        sat: count(Outcome::Sat),
        unknown: count(Outcome::Unknown),
        timed_out: count(Outcome::TimedOut),
        missing: count(Outcome::Missing),
        altered: count(Outcome::Altered),
        without_query: count(Outcome::NoQuery),
        queries: queries.len(),
        median_ms: at(50),
        p95_ms: at(95),
        problems,
    })
}

/// A file's text. Nothing but a file is opened: a pipe that evidence brings would be waited for.
fn text(path: &Path) -> Result<String, Error> {
    if !path.is_file() {
        return Err(Error::InvalidInput(format!("{} is no file", path.display())));
    }
    file::text(path, MAX_BYTES)
}

fn read(folder: &Path) -> Result<(Index, Object, Object), Error> {
    if !folder.is_dir() {
        return Err(Error::InvalidInput(format!("{} is no folder", folder.display())));
    }
    let path = folder.join(INDEX);
    if !path.exists() {
        return Err(Error::InvalidInput(format!(
            "{} holds no {INDEX}: kiln optimize --evidence writes one",
            folder.display()
        )));
    }
    let wrong = |what: String| Error::InvalidInput(format!("{}: {what}", path.display()));
    let index: Index = serde_json::from_str(&text(&path)?).map_err(|error| wrong(error.to_string()))?;
    if index.format != FORMAT {
        return Err(wrong(format!("its format is {:?}, not {FORMAT:?}", index.format)));
    }
    let object = |name: &str| {
        let path = folder.join(name);
        kiln_program::text::parse(&text(&path)?)
            .map_err(|error| Error::InvalidInput(format!("{}: {error}", path.display())))
    };
    Ok((index, object(ORIGINAL)?, object(OPTIMIZED)?))
}

/// What is wrong with the whole: rewrites that are missing or not of these objects.
fn whole(index: &Index, original: &Object, optimized: &Object) -> Vec<Problem> {
    let problem =
        |detail: String| Problem { rewrite: None, name: None, query: None, outcome: Outcome::Altered, detail };
    let mut problems = Vec::new();
    if original.functions.len() != optimized.functions.len() || original.maps != optimized.maps {
        problems.push(problem("the objects do not have the same functions and maps".to_owned()));
        return problems;
    }
    let mut saved: BTreeMap<u32, i64> = BTreeMap::new();
    for entry in &index.rewrites {
        let sum = saved.entry(entry.function).or_default();
        *sum = sum.saturating_add(entry.slots_saved);
    }
    for number in 0..original.functions.len() as u32 {
        let (old, new) = (original.function(FunctionId(number)), optimized.function(FunctionId(number)));
        let less = i64::from(old.slots()) - i64::from(new.slots());
        let told = saved.remove(&number);
        if told.is_none() && old.nodes != new.nodes {
            problems.push(problem(format!("{} is changed without a rewrite", old.name)));
        } else if told.unwrap_or(0) != less {
            problems.push(problem(format!(
                "{}: its rewrites save {} slots, but it has {less} less: rewrites are missing or added",
                old.name,
                told.unwrap_or(0)
            )));
        }
    }
    if let Some(number) = saved.keys().next() {
        problems.push(problem(format!("a rewrite names function {number}, which there is not")));
    }
    problems
}

/// What is wrong with a rewrite.
type Fault = (Outcome, String);

/// Whether a file holds a query.
fn holds(folder: &Path, file: &str, expected: Result<String, RecordError>) -> Result<(), Fault> {
    let altered = |what: String| (Outcome::Altered, what);
    let plain =
        file.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')) && !file.starts_with('.');
    if !plain {
        return Err(altered(format!("{file:?} is no name of a query")));
    }
    let found = text(&folder.join(QUERIES).join(file)).map_err(|error| (Outcome::Missing, error.to_string()))?;
    let expected = expected.map_err(|error| altered(error.to_string()))?;
    if expected == found { Ok(()) } else { Err(altered(format!("{file} is not the query that the index makes"))) }
}

/// The files of a simulation's queries, if each is the one that its record makes.
fn examine_simulation(folder: &Path, entry: &SimulationEntry, object: &Object) -> Result<Vec<String>, Fault> {
    let one = |entry: &SegmentEntry| {
        holds(folder, &entry.query, entry.segment.query(object))?;
        Ok(entry.query.clone())
    };
    entry.segments.iter().map(one).collect()
}

/// The files of a rewrite's queries, if each is the one that its record makes.
fn examine(
    folder: &Path,
    entry: &Entry,
    object: &Object,
    simulations: &BTreeMap<usize, Result<Vec<String>, Fault>>,
) -> Result<Vec<String>, Fault> {
    if let (Kind::Law, Some(number)) = (entry.kind, entry.simulation) {
        return match simulations.get(&number) {
            Some(Ok(queries)) if queries.is_empty() => Err((Outcome::NoQuery, "its simulation is empty".to_owned())),
            Some(found) => found.clone(),
            None => Err((Outcome::Missing, format!("there is no simulation {number}"))),
        };
    }
    let Some(file) = &entry.query else {
        let what = if entry.kind == Kind::Law { "a law: its condition was checked, not proved" } else { "no query" };
        return Err((Outcome::NoQuery, what.to_owned()));
    };
    let altered = |what: &str| (Outcome::Altered, what.to_owned());
    let Some(record) = &entry.window else {
        return Err(altered("the index does not say what its query is made of"));
    };
    holds(folder, file, record.query(object))?;
    let texts =
        |nodes: &[kiln_equiv::record::NodeRecord]| nodes.iter().map(|node| node.text.clone()).collect::<Vec<_>>();
    for (listing, nodes) in [(&entry.before, &record.before), (&entry.after, &record.after)] {
        // The proved window may go on behind the listing: with what both sides have in common.
        if !texts(nodes).starts_with(listing) {
            return Err(altered("the listing is not that of the proved window"));
        }
    }
    if entry.precondition != record.precondition(object) || entry.postcondition != record.postcondition() {
        return Err(altered("the conditions are not those of the proved window"));
    }
    Ok(vec![file.clone()])
}

type Answers = BTreeMap<String, (Outcome, String, Duration)>;

fn solve_all(
    folder: &Path,
    queries: &[String],
    solver: &Solver,
    options: &Options,
    progress: &(dyn Fn(usize, usize) -> bool + Sync),
) -> Answers {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let answers = Mutex::new(Answers::new());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.clamp(1, queries.len().max(1)) {
            scope.spawn(|| {
                while let Some(query) = queries.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !progress(done.load(Ordering::Relaxed), queries.len()) {
                        return;
                    }
                    let begun = Instant::now();
                    let (outcome, detail) = ask(solver, &folder.join(QUERIES).join(query), options.timeout);
                    done.fetch_add(1, Ordering::Relaxed);
                    let answer = (outcome, detail, begun.elapsed());
                    answers.lock().expect("no thread panics with it").insert(query.clone(), answer);
                }
            });
        }
    });
    answers.into_inner().expect("no thread panics with it")
}

/// What a solver says about a file.
fn ask(solver: &Solver, file: &Path, timeout: Duration) -> (Outcome, String) {
    let mut command = Command::new(&solver.program);
    command.args(solver.options).arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return (Outcome::Unknown, format!("{}: {error}", solver.program.display())),
    };
    let output = child.stdout.take().expect("it was asked for");
    let (sender, receiver) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut answer = Vec::new();
        let _ = output.take(MAX_ANSWER).read_to_end(&mut answer);
        let _ = sender.send(answer);
    });
    let answer = receiver.recv_timeout(timeout);
    // It has answered, said too much, or run out of time: in each case it is no longer needed.
    let _ = child.kill();
    let _ = child.wait();
    let Ok(answer) = answer else {
        // What it started itself may keep the pipe open: the reader then ends with it.
        return (Outcome::TimedOut, format!("no answer in {} ms", timeout.as_millis()));
    };
    let _ = reader.join();
    let answer = String::from_utf8_lossy(&answer);
    match answer.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some("unsat") => (Outcome::Proved, String::new()),
        Some("sat") => (Outcome::Sat, "the solver sees a difference".to_owned()),
        Some(line) => (Outcome::Unknown, format!("the solver says {:?}", line.chars().take(200).collect::<String>())),
        None => (Outcome::Unknown, "the solver says nothing".to_owned()),
    }
}

/// The solver to use, after it has shown that it is one.
fn solver(wanted: Option<&str>, timeout: Duration) -> Result<Solver, Error> {
    let found = match wanted {
        None => KNOWN.iter().find_map(|(name, options)| installed(Path::new(name), options)).ok_or_else(|| {
            Error::Unsupported("no SMT solver is installed: apt-get install cvc5, or name one with --solver".to_owned())
        })?,
        Some(name) => {
            let stem = Path::new(name).file_name().unwrap_or_default();
            let options = KNOWN.iter().find(|(known, _)| *known == stem).map_or(&[][..], |(_, options)| *options);
            installed(Path::new(name), options).ok_or_else(|| {
                let known: Vec<_> = KNOWN.iter().map(|(name, _)| *name).collect();
                Error::Unsupported(format!(
                    "{name} cannot be run: name one of {} (apt-get install cvc5) or the path of a solver",
                    known.join(", ")
                ))
            })?
        }
    };
    let folder = tempfile::tempdir().map_err(|error| Error::file(&std::env::temp_dir(), &error))?;
    // Twice a number is the number shifted by one, and is not the number itself.
    for (same, expected) in [("(bvshl x (_ bv1 8))", Outcome::Proved), ("x", Outcome::Sat)] {
        let file = folder.path().join("question.smt2");
        let question = format!(
            "(set-logic QF_BV)\n(declare-fun x () (_ BitVec 8))\n(define-fun t1 () (_ BitVec 8) (bvadd x x))\n\
             (assert (distinct t1 {same}))\n(check-sat)\n"
        );
        std::fs::write(&file, question).map_err(|error| Error::file(&file, &error))?;
        let (outcome, detail) = ask(&found, &file, timeout.max(Duration::from_secs(2)));
        if outcome != expected {
            return Err(Error::Unsupported(format!(
                "{} is no SMT solver that can be used: it answers a simple question wrongly ({outcome:?}) {detail}",
                found.program.display()
            )));
        }
    }
    Ok(found)
}

/// The command, if it can be run.
fn installed(program: &Path, options: &'static [&'static str]) -> Option<Solver> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().map(str::trim).find(|line| line.chars().any(|c| c.is_ascii_digit()));
    let line: Option<String> = line.map(|line| line.chars().take(80).collect());
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let version = match line {
        // `This is cvc5 version 1.0.3 [git ...]`
        Some(line) => match line.find(&name) {
            Some(at) => line[at..].to_owned(),
            None => format!("{name} {line}"),
        },
        None => name,
    };
    Some(Solver { program: program.to_owned(), options, version })
}
