//! The effect of the optimizer, program by program over the corpora: `cargo xtask bench optimizer`.
//!
//! ```text
//!   corpora --optimize (a thread a job)--> before, after --time (one thread, in turns)--> rows --> tables
//!                                               |
//!                                               +--compare (10,000 inputs each, a thread a job)--> verdicts
//! ```
//!
//! With evidence, a second solver replays the certificate of each object as soon as it is optimized.
//!
//! Each program's row has its slots, its run time (estimated and in the kernel), the instructions that the kernel's
//! verifier processes, and how long optimizing its object took. A missing value is reported with its reason. Optimizing
//! and comparing use all jobs; timing runs alone.
//!
//! - [`equality`]: both forms of a program on ten thousand inputs;
//! - [`attached`]: programs that the kernel does not test-run;
//! - [`proofs`]: every rewrite, proved again by a second solver;
//! - [`stimulus`]: the input on which most of a program runs;
//! - [`timing`]: nanoseconds of two forms of a program, in turns, and how far noise reaches;
//! - `ranks`: whether predicted times are in the order of the measured ones;
//! - [`report`]: the tables, for a terminal and for `docs/measurements/superoptimizer-results.md`.

pub mod attached;
pub mod equality;
pub mod proofs;
mod ranks;
pub mod report;
pub mod stimulus;
pub mod timing;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kiln_driver::check::KernelVerdict;
use kiln_driver::optimize::{self, Optimized, Outcome};
use kiln_driver::{Error, Input, Object, Program, input};
use kiln_superopt::Goal;
use serde::Serialize;

use equality::Equality;
use kiln_test::corpus::{self, CorpusObject, PublishedProgram};
use proofs::Rechecked;
use timing::Timed;

/// Why a program is not timed that optimizing left as it is. Its ratio is 1.
pub const UNCHANGED: &str = "unchanged";

/// What to measure.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Groups, all when empty.
    pub only: Vec<String>,
    /// Parts of `group/object.o:program`; all programs when empty.
    pub names: Vec<String>,
    /// Time to optimize one object at most; the default of `kiln optimize` without.
    pub budget: Option<Duration>,
    /// What to optimize for.
    pub goal: Goal,
    /// Threads that optimize and compare.
    pub jobs: usize,
    /// Whether to time programs.
    pub time: bool,
    /// Whether a second solver proves every rewrite again.
    pub evidence: bool,
    /// Inputs on which both forms of each program are compared; 0 leaves that out.
    pub inputs: usize,
    /// Compare with deliberately wrong programs instead.
    pub canary: bool,
}

/// One program.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The corpus it is from.
    pub group: String,
    /// The object's path in the corpora.
    pub object: String,
    /// The program.
    pub program: String,
    /// Its name in K2's Table 1, with the paper's slots before and after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<PublishedProgram>,
    /// Slots before and after.
    pub slots: [u32; 2],
    /// Nanoseconds of a run before and after, as the cost model estimates.
    pub estimated_ns: [f64; 2],
    /// Instructions that the kernel's verifier processed, where it loads.
    pub processed: Option<[u32; 2]>,
    /// Why the kernel does not load it, original or optimized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Why it was left as it is, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Seconds that optimizing its object took, asking the kernel included.
    pub optimizing_s: f64,
    /// Nanoseconds of a run.
    pub timed: Result<Timed, String>,
    /// Both forms on the same inputs, where asked for and where they differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equality: Option<Equality>,
}

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Program by program, in the order of the corpora.
    pub rows: Vec<Row>,
    /// Objects that could not be read or optimized, and why.
    pub failed: Vec<(String, String)>,
    /// What a second solver says of each object's evidence, where it was asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Rechecked>,
    /// What was optimized for.
    pub goal: Goal,
    /// Seconds given to an object at most, where that is not the default of `kiln optimize`.
    pub budget_s: Option<f64>,
    /// Seconds the whole took.
    pub elapsed_s: f64,
    /// The kernel that was asked, where one was.
    pub kernel: Option<String>,
    /// Nanoseconds that the kernel's loop around a program takes.
    pub loop_ns: Option<f64>,
}

/// An object in both forms.
pub struct Pair {
    /// The corpus's entry.
    pub entry: CorpusObject,
    /// As it was.
    pub before: Input,
    /// As it became.
    pub after: Input,
    /// The account, a program each.
    programs: Vec<Optimized>,
    /// What optimizing it took.
    took: Duration,
    /// What a second solver says of it, where it was asked.
    rechecked: Option<Rechecked>,
}

/// Prints progress to standard error.
struct Progress {
    what: &'static str,
    all: usize,
    done: AtomicUsize,
}

impl Progress {
    fn new(what: &'static str, all: usize) -> Progress {
        Progress { what, all, done: AtomicUsize::new(0) }
    }

    fn done(&self, entry: &CorpusObject, how: &str) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        eprintln!("{} {done}/{}: {}{how}", self.what, self.all, entry.path.display());
    }
}

/// Whole programs, without the verifier's own selftests of a few instructions each and without objects that cannot be
/// loaded.
fn takes_part(entry: &CorpusObject, options: &Options) -> bool {
    let path = entry.path.to_string_lossy();
    let of_group = options.only.is_empty() || options.only.iter().any(|group| entry.is_of(group));
    let named = options.names.is_empty() || options.names.iter().any(|part| path.contains(object_part(part)));
    entry.refused().is_none() && !path.contains("/verifier_") && of_group && named
}

/// The part of `object.o:program` that names the object.
fn object_part(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

/// Optimizes all objects that take part; objects that cannot be read or optimized are told apart.
pub fn optimize_all(options: &Options) -> (Vec<Pair>, Vec<(String, String)>) {
    let entries: Vec<CorpusObject> = corpus::objects().into_iter().filter(|entry| takes_part(entry, options)).collect();
    let progress = Progress::new("optimized", entries.len());
    let results = in_parallel(options.jobs, &entries, |entry| {
        let result = optimize_one(entry, options);
        let rechecked = result.as_ref().ok().and_then(|pair| pair.rechecked.as_ref());
        progress.done(entry, &rechecked.map_or(String::new(), |own| format!(": {}", own.line())));
        result
    });
    let (mut pairs, mut failed) = (Vec::new(), Vec::new());
    for (entry, result) in entries.iter().zip(results) {
        match result {
            Ok(pair) => pairs.push(pair),
            Err(error) => failed.push((entry.path.display().to_string(), error.to_string())),
        }
    }
    (pairs, failed)
}

fn optimize_one(entry: &CorpusObject, options: &Options) -> Result<Pair, Error> {
    let before = entry.read()?;
    let budget = options.budget.unwrap_or_else(|| optimize::default_budget(&before.object));
    let mut search = optimize::Options::default();
    search.budget = budget;
    search.goal = options.goal;
    search.ask_kernel = true;
    search.certify = options.evidence;
    let begun = Instant::now();
    let outcome = optimize::optimize(&before, &search, &mut ())?;
    let took = begun.elapsed();
    let rechecked = options.evidence.then(|| proofs::recheck(entry, &before.object, &outcome));
    let Outcome { bytes, object, programs, .. } = outcome;
    let after = Input { bytes, ..input::of_object(object) };
    Ok(Pair { entry: entry.clone(), before, after, programs, took, rechecked })
}

/// Keeps this thread on one CPU: test runs happen on the caller's, and programs count by CPU.
fn stay_on_one_cpu(job: usize) {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(job % count);
    // Where that is not allowed, what differs by CPU is masked more often.
    let _ = rustix::thread::sched_setaffinity(None, &cpus);
}

/// What `work` makes of each item, in order.
pub fn in_parallel<T: Sync, R: Send>(jobs: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for job in 0..jobs.max(1) {
            let (next, results, work) = (&next, &results, &work);
            scope.spawn(move || {
                stay_on_one_cpu(job);
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(item);
                    results.lock().expect("no thread panics").push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no thread panics");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Measures everything that takes part.
pub fn measure(options: &Options) -> Measured {
    let begun = Instant::now();
    let (pairs, failed) = optimize_all(options);
    let published = corpus::published();
    let timed = Progress::new("timed", pairs.len());
    let rows_of = |pair: &Pair| {
        let rows = pair.rows(options, &published);
        if options.time {
            timed.done(&pair.entry, "");
        }
        rows
    };
    let mut rows: Vec<Row> = pairs.iter().flat_map(rows_of).collect();
    if options.inputs > 0 {
        let progress = Progress::new("compared", pairs.len());
        let compared = in_parallel(options.jobs, &pairs, |pair| {
            let compared = pair.compare(options);
            progress.done(&pair.entry, "");
            compared
        });
        for (pair, compared) in pairs.iter().zip(compared) {
            let path = pair.entry.path.display().to_string();
            for (program, equality) in compared {
                if let Some(row) = rows.iter_mut().find(|row| row.object == path && row.program == program) {
                    row.equality = Some(equality);
                }
            }
        }
    }
    let kernel = kiln_driver::require_kernel().ok().and_then(|()| kiln_driver::running::release().ok());
    Measured {
        rows,
        failed,
        evidence: pairs.iter().filter_map(|pair| pair.rechecked.clone()).collect(),
        goal: options.goal,
        budget_s: options.budget.map(|budget| budget.as_secs_f64()),
        elapsed_s: begun.elapsed().as_secs_f64(),
        loop_ns: kernel.filter(|_| options.time).and_then(|_| timing::loop_ns()),
        kernel: kernel.map(|release| release.to_string()),
    }
}

impl Pair {
    /// Whether a program of it takes part.
    pub fn wants(&self, program: &str, options: &Options) -> bool {
        let name = format!("{}:{program}", self.entry.path.display());
        !self.entry.leaves_out(program)
            && (options.names.is_empty() || options.names.iter().any(|part| name.contains(part.as_str())))
    }

    /// Whether a program's instructions are what they were.
    fn is_unchanged(&self, program: &Program) -> bool {
        let Some(after) = self.after.object.program(&program.name) else { return false };
        let code = |object: &Object, program: &Program| -> Vec<_> {
            let functions = object.reachable_functions(program.entry);
            functions.into_iter().map(|id| object.function(id).nodes.clone()).collect()
        };
        code(&self.before.object, program) == code(&self.after.object, after)
    }

    /// Compares its programs that changed.
    fn compare(&self, options: &Options) -> Vec<(String, Equality)> {
        let mut compared = Vec::new();
        for program in &self.before.object.programs {
            if !self.wants(&program.name, options) {
                continue;
            }
            let spoilt = options.canary.then(|| self.spoilt(program)).flatten();
            let after = match (options.canary, &spoilt) {
                (false, _) if !self.is_unchanged(program) => &self.after,
                (true, Some(spoilt)) => spoilt,
                _ => continue,
            };
            let equality = equality::compare(&self.before, after, program, options.inputs);
            compared.push((program.name.clone(), equality));
        }
        compared
    }

    /// The optimized object with a program that is wrong on purpose.
    fn spoilt(&self, program: &Program) -> Option<Input> {
        let mut object = self.after.object.clone();
        if !equality::spoil(&mut object, program) {
            return None;
        }
        let bytes = self.before.elf.as_ref()?.write(&object).ok()?;
        Some(Input { bytes, ..input::of_object(object) })
    }

    fn rows(&self, options: &Options, published: &[PublishedProgram]) -> Vec<Row> {
        let path = self.entry.path.display().to_string();
        let mut rows = Vec::new();
        for (program, own) in self.before.object.programs.iter().zip(&self.programs) {
            let published = published.iter().find(|row| row.is(&path, &program.name)).cloned();
            let unpublished = options.only.iter().all(|group| group == "k2") && !options.only.is_empty();
            if !self.wants(&program.name, options) || unpublished && published.is_none() {
                continue;
            }
            let (processed, refused) = verdicts(own);
            let timed = match (options.time, &refused) {
                (false, _) => Err("not asked for".to_owned()),
                (true, Some(reason)) => Err(format!("does not load: {reason}")),
                (true, None) if self.is_unchanged(program) => Err(UNCHANGED.to_owned()),
                (true, None) => timing::time(&self.before, &self.after, program),
            };
            rows.push(Row {
                group: self.entry.group.clone(),
                published,
                object: path.clone(),
                program: program.name.clone(),
                slots: [own.slots_before, own.slots_after],
                estimated_ns: [own.estimated_ns_before, own.estimated_ns_after],
                processed,
                refused,
                skipped: own.skipped.as_ref().map(ToString::to_string),
                optimizing_s: self.took.as_secs_f64(),
                timed,
                equality: None,
            });
        }
        rows
    }
}

/// Processed instructions where the kernel takes both forms, and why it does not take one of them.
fn verdicts(own: &Optimized) -> (Option<[u32; 2]>, Option<String>) {
    use KernelVerdict::{Accepted, Rejected};
    match (&own.kernel_before, &own.kernel_after) {
        (Some(Accepted { processed_insns: old }), Some(Accepted { processed_insns: new })) => {
            (Some([*old, *new]), None)
        }
        (Some(Rejected { reason }), _) => (None, Some(reason.to_string())),
        (_, Some(Rejected { reason })) => (None, Some(format!("only the optimized program: {reason}"))),
        _ => (None, Some("the kernel was not asked".to_owned())),
    }
}

impl Row {
    /// The share of slots saved.
    pub fn saved(&self) -> f64 {
        1.0 - f64::from(self.slots[1]) / f64::from(self.slots[0].max(1))
    }

    /// The optimized program's time over the original's, where that is known.
    pub fn time_ratio(&self) -> Option<f64> {
        match &self.timed {
            Ok(timed) => Some(timed.ratio()),
            Err(reason) if reason == UNCHANGED => Some(1.0),
            Err(_) => None,
        }
    }

    /// The same of the estimates.
    pub fn estimated_ratio(&self) -> Option<f64> {
        let [before, after] = self.estimated_ns;
        (before > 0.0 && after > 0.0).then(|| after / before)
    }

    /// Whether the kernel loads it, before and after.
    pub fn loads(&self) -> bool {
        self.processed.is_some()
    }

    /// `object.o:program`.
    pub fn name(&self) -> String {
        let file = self.object.rsplit('/').next().unwrap_or(&self.object);
        format!("{file}:{}", self.program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(in_parallel(3, &items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
    }
}
