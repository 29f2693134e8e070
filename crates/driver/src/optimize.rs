//! `kiln optimize`: a smaller drop-in object, with evidence.
//!
//! ```text
//!   read -> passes, each accepted by our verifier -> write -> the kernel loads every program that it loaded before
//!                        ^                                        |
//!                        +- without the law or rule to blame <----+  (a refusal is kept and reported)
//! ```

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use kiln_platform::{Feature, Profile};
use kiln_program::{FunctionId, Object};
use kiln_superopt::{Because, Evidence, Progress, Rewrite};
use kiln_verifier::Prepared;
use serde::Serialize;

use crate::check::{self, KernelVerdict, Verdict};
use crate::error::Error;
use crate::input::Input;
use crate::output::write_whole;

/// How to optimize.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Time to spend at most on the search.
    pub budget: Duration,
    /// Whether the running kernel decides at the end, where it may be asked.
    pub ask_kernel: bool,
    /// Whether the evidence of each window carries its query in SMT-LIB2, for solvers outside Kiln.
    pub keep_queries: bool,
    /// The oldest kernel that the result is to load on, where that is not just the running one. What does not load there
    /// as it is stays as it is.
    pub profile: Option<Profile>,
    /// Programs to optimize, all when empty; what the others reach stays as it is.
    pub programs: Vec<String>,
}

/// What became of one program.
#[derive(Clone, Debug, Serialize)]
pub struct Optimized {
    /// The program.
    pub program: String,
    /// Slots before, subprograms included.
    pub slots_before: u32,
    /// Slots after.
    pub slots_after: u32,
    /// Our verdict before.
    pub before: Verdict,
    /// Our verdict after.
    pub after: Verdict,
    /// The kernel's verdict before, where it was asked.
    pub kernel_before: Option<KernelVerdict>,
    /// The kernel's verdict after, where it was asked.
    pub kernel_after: Option<KernelVerdict>,
    /// Why it was left as it is, if it was.
    pub skipped: Option<String>,
}

/// An optimized object and the account of it.
pub struct Outcome {
    /// The IR.
    pub object: Object,
    /// The object file; empty when the input was text.
    pub bytes: Vec<u8>,
    /// Program by program.
    pub programs: Vec<Optimized>,
    /// Rewrite by rewrite.
    pub evidence: Vec<Evidence>,
    /// What our verifier or the kernel refused.
    pub refused: Vec<String>,
    /// Time spent in the passes.
    pub spent: Duration,
}

/// Optimizes an object.
///
/// # Errors
/// [`Error::InvalidInput`] when the result cannot be written as an object file, or there is no such program.
pub fn optimize(input: &Input, options: &Options, progress: &mut dyn Progress) -> Result<Outcome, Error> {
    let asks = options.ask_kernel && input.elf.is_some() && kiln_linux::available().is_ok();
    let kernel = |bytes: &[u8], object: &Object| -> Vec<Option<KernelVerdict>> {
        let ask = |program| asks.then(|| check::kernel_verdict(bytes, object, program));
        object.programs.iter().map(ask).collect()
    };
    let kernel_before = kernel(&input.bytes, &input.object);
    let mut frozen = left_alone(input, &options.programs)?;
    frozen.extend(unjudged(&input.object, &kernel_before, &input.verifier_options()));
    let search = kiln_superopt::Options {
        budget: options.budget,
        frozen,
        keep_queries: options.keep_queries,
        // Windows need no facts to be proved; what our verifier does not support, the kernel can still judge.
        unverified: asks && options.profile.is_none(),
        kernel_types: input.kernel_types.clone(),
        isa: match &options.profile {
            Some(profile) if profile.has(Feature::CpuV4) => 4,
            _ => 3,
        },
        profile: options.profile.clone().unwrap_or_default(),
        ..Default::default()
    };
    let mut complaints = Vec::new();
    let mut judge = |rewrite: &Rewrite| {
        if !asks {
            return BTreeSet::new();
        }
        match write(input, &rewrite.object) {
            Ok(bytes) => blame(rewrite, &kernel_before, &kernel(&bytes, &rewrite.object), &mut complaints),
            // Writing is tried again below, where it can be reported.
            Err(_) => BTreeSet::new(),
        }
    };
    let rewrite = kiln_superopt::optimize_judged(&input.object, &search, progress, &mut judge);
    let bytes = write(input, &rewrite.object)?;
    let kernel_after = kernel(&bytes, &rewrite.object);
    complaints.dedup();
    let mut refused = complaints;
    refused.extend(rewrite.refused.iter().map(|(pass, function, why)| format!("{pass} in {function}: {why}")));
    let verifier =
        kiln_verifier::Options { profile: options.profile.clone().unwrap_or_default(), ..input.verifier_options() };
    let programs = account(input, &rewrite, &verifier, kernel_before, kernel_after);
    let (object, evidence, spent) = (rewrite.object, rewrite.evidence, rewrite.spent);
    Ok(Outcome { object, bytes, programs, evidence, refused, spent })
}

/// Functions of programs that the kernel does not load and our verifier does not accept: nobody could judge a rewrite.
fn unjudged(
    object: &Object,
    kernel: &[Option<KernelVerdict>],
    options: &kiln_verifier::Options,
) -> BTreeSet<FunctionId> {
    let prepared = Prepared::new(object, options);
    let unjudged = object.programs.iter().zip(kernel).filter(|(program, verdict)| {
        matches!(verdict, Some(KernelVerdict::Rejected { .. }))
            && !check::verdict(&prepared, program, options).is_accepted()
    });
    unjudged.flat_map(|(program, _)| object.reachable_functions(program.entry)).collect()
}

/// Functions of programs that are not to be optimized.
fn left_alone(input: &Input, names: &[String]) -> Result<BTreeSet<FunctionId>, Error> {
    let chosen: Vec<&str> = input.select(names)?.into_iter().map(|program| program.name.as_str()).collect();
    let others = input.object.programs.iter().filter(|program| !chosen.contains(&program.name.as_str()));
    Ok(others.flat_map(|program| input.object.reachable_functions(program.entry)).collect())
}

/// Functions with rewrites, of programs that the kernel took before and refuses now or finds harder.
fn blame(
    rewrite: &Rewrite,
    before: &[Option<KernelVerdict>],
    after: &[Option<KernelVerdict>],
    complaints: &mut Vec<String>,
) -> BTreeSet<FunctionId> {
    let object = &rewrite.object;
    let changed: BTreeSet<_> = rewrite.evidence.iter().map(|one| one.function).collect();
    let mut blamed = BTreeSet::new();
    for ((program, old), new) in object.programs.iter().zip(before).zip(after) {
        let why = match (old, new) {
            (Some(KernelVerdict::Accepted { .. }), Some(KernelVerdict::Rejected { reason })) => reason.clone(),
            (
                Some(KernelVerdict::Accepted { processed_insns: old }),
                Some(KernelVerdict::Accepted { processed_insns: new }),
            ) if *new > *old + tolerated_insns(*old) => {
                format!("its verifier would process {new} instructions instead of {old}")
            }
            _ => continue,
        };
        let reached = object.reachable_functions(program.entry);
        complaints.push(format!("the kernel on {}: {why}", program.name));
        blamed.extend(reached.into_iter().filter(|function| changed.contains(function)));
    }
    blamed
}

/// Processed instructions that a program may cost the kernel's verifier beyond what it did: one in fifty, and eight in
/// any case. Eight take it less than a microsecond, which no load is measured to.
pub fn tolerated_insns(before: u32) -> u32 {
    (before / 50).max(8)
}

fn account(
    input: &Input,
    rewrite: &Rewrite,
    verifier: &kiln_verifier::Options,
    kernel_before: Vec<Option<KernelVerdict>>,
    kernel_after: Vec<Option<KernelVerdict>>,
) -> Vec<Optimized> {
    let prepared = [&input.object, &rewrite.object].map(|object| Prepared::new(object, verifier));
    let kernels = kernel_before.into_iter().zip(kernel_after);
    let pairs = input.object.programs.iter().zip(&rewrite.object.programs).zip(kernels);
    pairs
        .enumerate()
        .map(|(index, ((old, new), (kernel_before, kernel_after)))| Optimized {
            program: old.name.clone(),
            slots_before: input.object.program_slots(old),
            slots_after: rewrite.object.program_slots(new),
            before: check::verdict(&prepared[0], old, verifier),
            after: check::verdict(&prepared[1], new, verifier),
            kernel_before,
            kernel_after,
            skipped: match old.program_type {
                None => Some(check::no_type(old)),
                Some(_) => {
                    let skipped = rewrite.skipped.iter().find(|(id, _)| id.index() == index);
                    skipped.map(|(_, reason)| reason.clone())
                }
            },
        })
        .collect()
}

fn write(input: &Input, object: &Object) -> Result<Vec<u8>, Error> {
    match &input.elf {
        Some(elf) => elf.write(object).map_err(|error| Error::InvalidInput(error.to_string())),
        None => Ok(kiln_program::text::print(object).into_bytes()),
    }
}

impl Outcome {
    /// The account as data, for `--format json`.
    pub fn report(&self) -> Report<'_> {
        Report {
            programs: &self.programs,
            evidence: &self.evidence,
            refused: &self.refused,
            spent_ms: self.spent.as_millis() as u64,
        }
    }
}

/// See [`Outcome::report`].
#[derive(Serialize)]
pub struct Report<'a> {
    programs: &'a [Optimized],
    evidence: &'a [Evidence],
    refused: &'a [String],
    spent_ms: u64,
}

/// Writes each rewrite into a folder: `0001.json`, and `0001.smt2` for a window (`unsat` means equal; laws
/// of control flow and liveness have no query).
///
/// # Errors
/// [`Error::InvalidInput`] when the folder or a file cannot be written.
pub fn write_evidence(folder: &Path, evidence: &[Evidence]) -> Result<(), Error> {
    std::fs::create_dir_all(folder).map_err(|error| Error::file(folder, &error))?;
    for (index, one) in evidence.iter().enumerate() {
        let text = serde_json::to_vec_pretty(one).map_err(|error| Error::InvalidInput(error.to_string()))?;
        write_whole(&folder.join(format!("{:04}.json", index + 1)), &text)?;
        if let Because::Window { query: Some(query), .. } = &one.because {
            write_whole(&folder.join(format!("{:04}.smt2", index + 1)), query.as_bytes())?;
        }
    }
    Ok(())
}
