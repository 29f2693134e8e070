//! Which functions of an optimized object have a certificate, and what becomes of those that have none.
//!
//! ```text
//!   each changed function: certificate of the whole? -- yes --> as it was optimized
//!                          of a version in between?  -- yes --> that version, if its programs load with it
//!                                                    -- no  --> as it was before, like all that its programs share
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kiln_inspect::input::Input;
use kiln_inspect::show::shown::Shown;
use kiln_program::{FunctionId, InsnId, ProgramId};
use kiln_superopt::cost::frequency::{self, Frequencies};
use kiln_superopt::{Evidence, Judge, Progress, Rewrite};
use serde::Serialize;

use super::{MIN_CERTIFICATE, Options, changed, verifier_options};
use crate::evidence::{self, Clock, Deadline};

/// A function that is not as it was optimized: it is as it was before, or a version in between that has a certificate.
#[non_exhaustive]
#[derive(Clone, Debug, Serialize)]
pub struct Uncertified {
    /// The function.
    pub function: Shown,
    /// Slots that it would have been shorter by; negative where it would have been longer.
    pub slots: i64,
    /// Why it has no certificate; none where another function of its program has none.
    pub why: Option<Shown>,
}

/// The time for certificates, after `spent` of the budget: without a bound it is as long as optimizing took, and
/// [`MIN_CERTIFICATE`] at least.
pub(super) fn certificate_time(options: &Options, spent: Duration) -> Duration {
    match options.budget_bounds_certificate {
        true => options.budget.saturating_sub(spent),
        false => spent.max(MIN_CERTIFICATE),
    }
}

/// Finds the certificate of each function that changed. A function without one becomes the last version that has one, or
/// what it was before. If a program does not load with such functions, all its functions are restored.
pub(super) fn certify(
    input: &Input,
    rewrite: &mut Rewrite,
    options: &Options,
    time: Duration,
    judge: Option<&dyn Judge>,
    progress: &mut dyn Progress,
) -> (evidence::Proofs, Vec<Uncertified>) {
    let begun = Instant::now();
    let clock = if options.budget_bounds_certificate { Clock::Wall } else { Clock::Cpu };
    let (slots, spent) = (evidence::slots(&rewrite.object), rewrite.spent);
    let mut go_on = || progress.step("certificate", slots, spent + begun.elapsed());
    let search = evidence::Limits::time(time / 4 * 3, clock);
    let (mut proofs, without, _) =
        evidence::certify(&input.object, &rewrite.object, &rewrite.chain, search, &mut go_on);
    let optimized = rewrite.object.functions.clone();
    for number in without.keys().map(|number| *number as usize) {
        let part = proofs.get(&(number as u32)).and_then(|versions| versions.last());
        let own = part.map_or(&input.object.functions[number], |version| &version.function);
        rewrite.object.functions[number] = own.clone();
    }
    let mut wrong: BTreeSet<FunctionId> = BTreeSet::new();
    if !without.is_empty() {
        let rest = match clock {
            Clock::Wall => time.saturating_sub(begun.elapsed()),
            Clock::Cpu => time / 4,
        };
        let end = Deadline::after(clock, rest);
        wrong.extend(mixed_badly(input, rewrite, options, &without, judge, end.end()));
        // Their callers were proved with the optimized versions.
        let mixed = |function: FunctionId| without.contains_key(&function.0);
        let broken = evidence::broken([&input.object, &rewrite.object], &proofs, &mixed, &end);
        wrong.extend(broken.into_iter().map(FunctionId));
        // All functions of a program are restored together, so only a restored function calls a restored one.
        restore(input, rewrite, &mut wrong);
        proofs.retain(|number, _| !wrong.contains(&FunctionId(*number)));
        account_again(input, rewrite, options, &without);
    }
    rewrite.timings.add("certificate", begun.elapsed());
    let mut uncertified = Vec::new();
    for (index, old) in input.object.functions.iter().enumerate() {
        let (best, own) = (&optimized[index], &rewrite.object.functions[index]);
        if best.nodes != own.nodes {
            let why = without.get(&(index as u32)).map(|why| why.as_str().into());
            let slots = i64::from(own.slots()) - i64::from(best.slots());
            uncertified.push(Uncertified { function: old.name.as_str().into(), slots, why });
            let has = |id: &InsnId| own.position(*id).is_some();
            // A rewrite is kept if its result is in the function.
            let is_kept = |one: &Evidence| {
                let gone = one.before_ids.iter().filter(|id| !one.after_ids.contains(id)).all(|id| !has(id));
                own.nodes != old.nodes && gone && one.after_ids.iter().all(has)
            };
            rewrite.evidence.retain(|one| one.function.index() != index || is_kept(one));
        }
    }
    (proofs, uncertified)
}

/// The functions of the programs that do not load any more, now that some of their functions are other versions.
fn mixed_badly(
    input: &Input,
    rewrite: &Rewrite,
    options: &Options,
    without: &BTreeMap<u32, String>,
    judge: Option<&dyn Judge>,
    until: Option<Instant>,
) -> BTreeSet<FunctionId> {
    let verifier = kiln_verifier::Options { deadline: until, ..verifier_options(input, options) };
    let mut wrong = BTreeSet::new();
    for (index, program) in input.object.programs.iter().enumerate() {
        let reached = input.object.reachable_functions(program.entry);
        if !reached.iter().any(|function| without.contains_key(&function.0)) {
            continue;
        }
        let accepted = rewrite.programs[index].after.is_none()
            || kiln_verifier::verify(&rewrite.object, &rewrite.object.programs[index], &verifier).is_ok();
        let judged = judge.is_none_or(|judge| judge.judge(&rewrite.object, &[ProgramId(index as u32)]).is_empty());
        if !accepted || !judged {
            wrong.extend(reached);
        }
    }
    wrong
}

/// Restores functions, and every function that shares a program with one of them: they were accepted together only.
/// `wrong` then has all that were restored.
fn restore(input: &Input, rewrite: &mut Rewrite, wrong: &mut BTreeSet<FunctionId>) {
    loop {
        let before = wrong.len();
        for program in &input.object.programs {
            let reached = input.object.reachable_functions(program.entry);
            if reached.iter().any(|function| wrong.contains(function)) {
                wrong.extend(reached);
            }
        }
        if wrong.len() == before {
            break;
        }
    }
    for function in wrong.iter() {
        rewrite.object.functions[function.index()] = input.object.function(*function).clone();
    }
}

/// Estimates the programs again that have functions without a whole certificate, and forgets their verdicts.
fn account_again(input: &Input, rewrite: &mut Rewrite, options: &Options, without: &BTreeMap<u32, String>) {
    let frequencies = Frequencies::of_original(&input.object);
    let model = options.model.clone().unwrap_or_default();
    for (index, program) in input.object.programs.iter().enumerate() {
        let reached = input.object.reachable_functions(program.entry);
        if reached.iter().any(|function| without.contains_key(&function.0)) {
            rewrite.programs[index].after = None;
            let now = &rewrite.object.programs[index];
            rewrite.programs[index].picoseconds[1] = match changed(&input.object, &rewrite.object, program) {
                true => frequency::estimate(&rewrite.object, now, &frequencies, &model),
                false => rewrite.programs[index].picoseconds[0],
            };
        }
    }
}
