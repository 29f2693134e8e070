//! One function per boundary that a filetest crosses. Each returns what it skipped, or what went wrong.

use std::collections::BTreeSet;
use std::time::Duration;

use kiln_driver::input::running_kernel_types;
use kiln_isa::encoding::{decode_all, encode_all};
use kiln_linux::LoadFailure;
use kiln_platform::Profile;
use kiln_program::text::{listing, parse, print};
use kiln_program::{InsnId, Object, Program, lower_function, validate};
use kiln_superopt::{Goal, Rewrite};
use kiln_verifier::Error;

use crate::engine::{Engine, NoRun, kernel_available, run};
use crate::filetest::{Check, Filetest};
use crate::oracle::{self, Finding};
use crate::verdicts::Verdicts;

/// What was skipped and why, or what went wrong.
pub type Outcome = Result<Vec<String>, String>;

/// isa, program: text and encoding lose nothing.
///
/// # Errors
/// What was lost.
pub fn round_trips(file: &Filetest) -> Outcome {
    let object = &file.object;
    let printed = print(object);
    let again = parse(&printed).map_err(|error| format!("printed text does not parse: {error}\n{printed}"))?;
    if again != *object {
        return Err(format!("printing and parsing changed the object:\n{printed}"));
    }
    let listed = listing(object);
    if listing(&parse(&listed).map_err(|error| format!("the listing does not parse: {error}\n{listed}"))?) != listed {
        return Err(format!("listing and parsing changed the object:\n{listed}"));
    }
    if validate(object).is_err() {
        return Ok(Vec::new()); // A file about a malformed program: the verifier's part will say so.
    }
    for function in &object.functions {
        let image = lower_function(function).map_err(|error| format!("{}: {error}", function.name))?;
        let insns =
            decode_all(&image.slots).map_err(|(slot, error)| format!("{}: slot {slot}: {error}", function.name))?;
        if encode_all(insns.iter().map(|(_, insn)| insn)) != image.slots {
            return Err(format!("{}: decoding and encoding changed the slots", function.name));
        }
    }
    Ok(Vec::new())
}

/// Whether the kernel did not look at a program: some let nobody load programs for some iterators (`EPERM`).
pub fn is_not_asked(failure: &LoadFailure) -> bool {
    const EPERM: i32 = 1;
    failure.error.errno() == Some(EPERM)
}

/// The kernel's verdict is the one in `check:`. There are no exceptions, because the kernel decides.
///
/// # Errors
/// Returns the kernel's log if it disagrees.
pub fn kernel_verdict(file: &Filetest) -> Outcome {
    let Some(check) = &file.expectations.check else { return Ok(Vec::new()) };
    if let Some(reason) = file.exception("kernel") {
        return Ok(vec![format!("kernel: {reason}")]);
    }
    if let Err(reason) = kernel_available() {
        return Ok(vec![format!("kernel: {reason}")]);
    }
    let program = the_program(file)?;
    match (kiln_linux::load_image(&file.object, program), check) {
        (Err(failure), _) if is_not_asked(&failure) => {
            Ok(vec!["kernel: it may not be asked about this program".to_owned()])
        }
        (Ok(loaded), Check::Accept) => kernel_processed(file, &loaded),
        (Err(failure), Check::Reject(_)) => kernel_reason(file, &failure),
        (Ok(_), Check::Reject(reason)) => Err(format!("the kernel accepts what is stated as rejected ({reason})")),
        (Err(failure), Check::Accept) => {
            Err(format!("the kernel rejects what is stated as accepted: {}", said(&failure)))
        }
    }
}

/// The kernel's verifier processed as many instructions as `processed:` states, if the kernel is of the release that
/// our verifier follows by default.
fn kernel_processed(file: &Filetest, loaded: &kiln_linux::LoadedImage) -> Outcome {
    let Some(wanted) = file.expectations.processed else { return Ok(Vec::new()) };
    let release = kiln_driver::running::release().map_err(|error| error.to_string())?;
    if release != Profile::default().version() {
        return Ok(vec![format!("kernel: Linux {release} may process other numbers of instructions")]);
    }
    let processed = loaded.prog.info().map_err(|error| error.to_string())?.verified_insns;
    if u64::from(processed) == wanted {
        Ok(Vec::new())
    } else {
        Err(format!("the kernel processes {processed} instructions, not {wanted}"))
    }
}

/// The kernel's log, or the call that fails, contains the text of `kernel:`, so that a file is rejected for the intended reason.
fn kernel_reason(file: &Filetest, failure: &LoadFailure) -> Outcome {
    let (said, call) = (said(failure), failure.error.to_string());
    match &file.expectations.kernel_says {
        Some(part) if failure.logs.iter().any(|log| log.log.contains(part)) || call.contains(part) => Ok(Vec::new()),
        Some(part) => Err(format!("the kernel's reason does not contain `{part}`: {said}")),
        None => Err(format!("a rejected file states the kernel's reason, such as `; kernel: {said}`")),
    }
}

fn said(failure: &LoadFailure) -> String {
    failure.why()
}

/// How test programs are verified: against the running kernel's types, where they can be read.
pub fn verifier_options() -> kiln_verifier::Options {
    kiln_verifier::Options { kernel_types: running_kernel_types(), ..Default::default() }
}

/// Our verifier's verdict is the one in `check:`, and it points to the instruction with `error:`. If `verdicts.toml`
/// has an entry, the entry must be right instead.
///
/// # Errors
/// What it says instead.
pub fn verdict(file: &Filetest, verdicts: &Verdicts) -> Outcome {
    let Some(check) = &file.expectations.check else { return Ok(Vec::new()) };
    let program = the_program(file)?;
    for (release, check) in &file.expectations.on {
        let options = kiln_verifier::Options { profile: Profile::of(*release), ..verifier_options() };
        let (said, _, detail) = verdict_of(file, program, &options);
        if said != wanted(check) {
            return Err(format!("Kiln says `{said}` on {release}, not `{}`{detail}", wanted(check)));
        }
    }
    if let Some(wanted) = file.expectations.processed {
        let verified = kiln_verifier::verify(&file.object, program, &verifier_options());
        let processed = verified.map(|verified| verified.statistics.processed_insns);
        if !matches!(processed, Ok(count) if count == wanted) {
            return Err(format!("Kiln processes {processed:?} instructions, not {wanted}"));
        }
    }
    let (said, at, detail) = verdict_of(file, program, &verifier_options());
    let wanted = wanted(check);
    match verdicts.of(&file.name) {
        Some(_) if said == wanted => Err("its entry in verdicts.toml no longer disagrees: remove it".to_owned()),
        Some(entry) if entry.kiln == said => Ok(Vec::new()),
        Some(entry) => Err(format!("Kiln says `{said}`, verdicts.toml `{}`{detail}", entry.kiln)),
        None if said != wanted => Err(format!("Kiln says `{said}`, not `{wanted}`{detail}")),
        None => match (file.expectations.errors.first(), at) {
            (Some((insn, _)), Some(at)) if *insn != at => Err(format!("Kiln points elsewhere{detail}")),
            _ => Ok(Vec::new()),
        },
    }
}

fn wanted(check: &Check) -> String {
    match check {
        Check::Accept => "accept".to_owned(),
        Check::Reject(reason) => format!("reject {reason}"),
    }
}

/// What our verifier says, where, and in full.
fn verdict_of(
    file: &Filetest,
    program: &Program,
    options: &kiln_verifier::Options,
) -> (String, Option<InsnId>, String) {
    let result = kiln_verifier::verify(&file.object, program, options);
    let (said, at) = match &result {
        Ok(_) => ("accept".to_owned(), None),
        Err(Error::Rejected(rejection)) => (format!("reject {}", rejection.reason.code()), Some(rejection.insn)),
        Err(Error::Unsupported { .. }) => ("unsupported".to_owned(), None),
        Err(Error::Limit { .. }) => ("limit".to_owned(), None),
        Err(Error::Invalid(_)) => ("invalid".to_owned(), None),
    };
    let detail = result.as_ref().err().map_or_else(String::new, |error| format!("\n{error}"));
    (said, at, detail)
}

/// Every engine returns what `run:` states.
///
/// # Errors
/// What an engine gave instead.
pub fn runs(file: &Filetest) -> Outcome {
    let mut skipped = Vec::new();
    if file.expectations.runs.is_empty() {
        return Ok(skipped);
    }
    let program = the_program(file)?;
    for engine in Engine::ALL {
        if let Some(reason) = file.exception(engine.name()) {
            skipped.push(format!("{}: {reason}", engine.name()));
            continue;
        }
        for expected in &file.expectations.runs {
            let ran = match run(engine, &file.object, program, &expected.packet) {
                Ok(ran) => ran,
                Err(NoRun::Skipped(reason)) => {
                    skipped.push(reason);
                    break;
                }
                Err(NoRun::Failed(reason)) => {
                    return Err(format!("line {}: {}: {reason}", expected.line, engine.name()));
                }
            };
            let at = format!("line {}: {}", expected.line, engine.name());
            if ran.value != expected.value {
                return Err(format!("{at} returned {:#x}, not {:#x}", ran.value, expected.value));
            }
            let after = expected.packet_after.as_ref().unwrap_or(&expected.packet);
            if ran.packet != *after {
                return Err(format!("{at} left the packet {:02x?}, not {after:02x?}", ran.packet));
            }
        }
    }
    Ok(skipped)
}

/// The optimizer: for every goal, the optimized program loads, runs as stated, and does what the original does on other
/// packets. For the goal of the file it also has the stated listing and nothing of `not-rewritten:`. With `bless`, the
/// listing in the file is rewritten.
///
/// # Errors
/// What went wrong, with the evidence of the rewrite.
pub fn optimizes(file: &Filetest, bless: bool) -> Outcome {
    if file.expectations.check != Some(Check::Accept) {
        return Ok(Vec::new());
    }
    let optimized = |goal, without: &[&str]| {
        let options = kiln_superopt::Options {
            budget: BUDGET,
            search: EFFORTS,
            without: without.iter().map(|name| (*name).to_owned()).collect(),
            kernel_types: running_kernel_types(),
            goal,
            ..kiln_superopt::Options::default()
        };
        kiln_superopt::optimize(&file.object, &options, &mut ())
    };
    as_listed(file, &optimized(file.expectations.goal, &[kiln_superopt::search::NAME]), bless)?;
    for goal in Goal::ALL {
        let rewrite = optimized(goal, &[]);
        let right = as_allowed(file, goal, &rewrite).and_then(|()| still_right(file, &rewrite));
        right.map_err(|error| format!("optimized for {}: {error}", goal.name()))?;
    }
    Ok(Vec::new())
}

fn evidence(rewrite: &Rewrite) -> String {
    rewrite.evidence.iter().map(|one| format!("\n  {:?}", one.because)).collect()
}

/// The result of the passes for the file's goal, without search, is as its directives state.
fn as_listed(file: &Filetest, rewrite: &Rewrite, bless: bool) -> Result<(), String> {
    let wanted = &file.expectations;
    as_allowed(file, wanted.goal, rewrite)?;
    let (before, after) = (reached_slots(&file.object), reached_slots(&rewrite.object));
    let code = code_lines(&rewrite.object);
    if let Some(saves) = wanted.saves.filter(|saves| before < after + *saves) {
        return Err(format!("optimized, it has {after} slots of {before}, saving {saves}:\n{}", code.join("\n")));
    }
    if wanted.wants_listing && code != wanted.optimized {
        if !bless {
            return Err(format!("the optimized listing differs (BLESS=1 rewrites it):\n{}", code.join("\n")));
        }
        file.bless(&code).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Slots of functions that some program still runs.
fn reached_slots(object: &Object) -> u32 {
    let entries = object.programs.iter().map(|program| program.entry);
    let reached: BTreeSet<_> = entries.flat_map(|entry| object.reachable_functions(entry)).collect();
    reached.into_iter().map(|id| object.function(id).slots()).sum()
}

/// With search: no forbidden rewrite, each rewrite has a reason, and for the file's goal nothing grew.
fn as_allowed(file: &Filetest, goal: Goal, rewrite: &Rewrite) -> Result<(), String> {
    let wanted = &file.expectations;
    if rewrite.object.functions != file.object.functions && rewrite.evidence.is_empty() {
        return Err("it was rewritten without evidence".to_owned());
    }
    if goal != wanted.goal {
        return Ok(());
    }
    let (before, after) = (reached_slots(&file.object), reached_slots(&rewrite.object));
    if after > before {
        return Err(format!("optimized, it grew from {before} to {after} slots{}", evidence(rewrite)));
    }
    let code = code_lines(&rewrite.object);
    if let Some(line) = code.iter().find(|line| wanted.not_rewritten.iter().any(|text| line.contains(text))) {
        return Err(format!("it was rewritten to `{line}`{}", evidence(rewrite)));
    }
    for (count, text) in &wanted.keeps {
        let kept = code.iter().filter(|line| line.contains(text)).count();
        if kept < *count {
            let code = code.join("\n");
            return Err(format!("it keeps {kept} of {count} lines with `{text}`:\n{code}{}", evidence(rewrite)));
        }
    }
    Ok(())
}

/// The optimized program meets the file's expectations of the original, and does the same on packets that the file does
/// not name.
fn still_right(file: &Filetest, rewrite: &Rewrite) -> Result<(), String> {
    let mut optimized = Filetest { object: rewrite.object.clone(), ..file.clone() };
    optimized.expectations.processed = None;
    let explained = |error: String| format!("{error}{}\n{}", evidence(rewrite), code_lines(&rewrite.object).join("\n"));
    // What was skipped was counted for the original.
    for part in [round_trips(&optimized), kernel_verdict(&optimized), runs(&optimized)] {
        part.map_err(explained)?;
    }
    if file.expectations.runs.is_empty() || file.exception(Engine::Jit.name()).is_some() {
        return Ok(());
    }
    let packets = kiln_driver::packets::corpus(PACKET_SEED, OTHER_PACKETS);
    match oracle::rewrite::same(&file.object, &rewrite.object, the_program(file)?, &packets, Engine::Jit) {
        Finding::Broken(what) => Err(explained(what)),
        _ => Ok(()),
    }
}

/// Packets that a file does not name.
const OTHER_PACKETS: usize = 24;
/// Which.
const PACKET_SEED: u64 = 11;

/// Time for one filetest: more than it takes on the slowest machine.
const BUDGET: Duration = Duration::from_secs(600);
/// How hard filetests are searched: the least, which takes a fraction of a second.
const EFFORTS: usize = 1;

/// A listing's labels and instructions.
fn code_lines(object: &Object) -> Vec<String> {
    let text = listing(object);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(';'));
    lines.map(str::to_owned).collect()
}

/// The only program of a file.
///
/// # Errors
/// There is none, or more than one.
pub fn the_program(file: &Filetest) -> Result<&Program, String> {
    match file.object.programs.as_slice() {
        [program] => Ok(program),
        programs => Err(format!("expected one `; program` directive, found {}", programs.len())),
    }
}
