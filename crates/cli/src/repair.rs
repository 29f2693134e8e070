//! `kiln repair`.

use std::time::Duration;

use kiln_driver::check::{Checked, KernelVerdict, Verdict};
use kiln_driver::repair::{Decision, Effort, Guards, Inserted, Options, Outcome, Repaired, Witness, repair as run};
use kiln_driver::target;
use kiln_driver::{Input, Shown, evidence, output};
use serde_json::json;

use crate::arguments::{Format, ObjectArguments, RepairArguments};
use crate::commands::{self, Code};
use crate::progress::Spinner;
use crate::{print, say};

/// `kiln repair`.
pub fn repair(object: &ObjectArguments, arguments: &RepairArguments, format: Format) -> Code {
    let choice = target::choose(&arguments.kernel, None)?;
    let to_standard_output = commands::is_standard_output(&arguments.output, format)?;
    let input = commands::open(&object.object, &object.types)?;
    output::check_writable(&arguments.output)?;
    arguments.evidence.as_deref().map_or(Ok(()), evidence::check_folder)?;
    let mut options = Options::default();
    options.profile = target::oldest(&choice.kernels, &input.object)?;
    options.programs = object.program.clone();
    options.ask_kernel = !arguments.offline && choice.kernels.is_empty();
    options.guards = match arguments.guards {
        None => Guards::None,
        Some(None) => Guards::ByType,
        Some(Some(value)) => Guards::Value(value),
    };
    if let Some(budget) = arguments.budget {
        options.budget = commands::seconds(budget)?;
    }
    let mut spinner = Spinner::new("repairing");
    let outcome = run(&input, &options, &mut spinner);
    spinner.finish();
    let outcome = outcome?;
    output::write_whole(&arguments.output, &outcome.bytes)?;
    if let Some(folder) = &arguments.evidence {
        evidence::write(folder, &input.object, &outcome.object, &outcome.proofs, [&input.bytes, &outcome.bytes])?;
    }
    match format {
        Format::Json => print::json(&json!({
            "schema": 1,
            "object": Shown::from(object.object.display().to_string().as_str()),
            "output": Shown::from(arguments.output.display().to_string().as_str()),
            "programs": outcome.programs,
            "cut_short": outcome.cut_short,
            "spent_ms": outcome.spent.as_millis() as u64,
        }))?,
        _ if to_standard_output => {}
        _ => text(&outcome),
    }
    Ok(outcome.exit_code())
}

/// The time for finding out whether a repair would help, after a check, where the work for it takes longer than it should.
const TRIAL: Duration = Duration::from_secs(1);

/// Names the rejected programs that `kiln repair` makes load. Each repair was made and proved to say so.
pub fn would_help(input: &Input, programs: &[Checked]) -> String {
    let rejected = programs.iter().filter(|own| matches!(own.verdict, Verdict::Rejected { .. }));
    let mut options = Options::default();
    options.programs = rejected.map(|own| own.program.exact().to_owned()).collect();
    options.budget = TRIAL;
    options.effort = Effort::TRIAL;
    options.find_input = false;
    if options.programs.is_empty() {
        return String::new();
    }
    let Ok(outcome) = run(input, &options, &mut ()) else { return String::new() };
    let repaired = outcome.programs.iter().filter(|own| own.decision == Decision::RepairedProved);
    let note = |own: &Repaired| {
        let object = Shown::from(input.object.name.as_str());
        format!("note: kiln repair {object} -o FILE makes {} load, proved to do the same\n", own.program)
    };
    repaired.map(note).collect()
}

fn text(outcome: &Outcome) {
    for own in &outcome.programs {
        match own.decision {
            Decision::Accepted => say!("{}: accepted as it is", own.program),
            Decision::RepairedProved => say!("{}: repaired, proved to do the same", own.program),
            Decision::RepairedGuarded => say!("{}: repaired, guarded", own.program),
            Decision::ReallyUnsafe => say!("{}: really unsafe", own.program),
            Decision::Forbidden => say!("{}: forbidden", own.program),
            Decision::NotDecided => say!("{}: not decided", own.program),
        }
        if let Some(rejected) = &own.rejected {
            say!("  rejected: {rejected}");
        }
        if let Some(reason) = &own.reason {
            say!("  reason: {reason}");
        }
        own.witness.iter().for_each(shown);
        if let Some(guard) = &own.guard {
            say!("  where it would be unsafe, it now returns {} ({})", guard.value, guard.meaning);
        }
        for change in &own.changes {
            said("", change);
        }
        if let Some(change) = &own.unproved {
            said("would be accepted, but may change what the program does: ", change);
        }
        match &own.kernel {
            Some(KernelVerdict::Accepted { processed_insns }) => {
                say!("  the running kernel loads it ({processed_insns} instructions processed)");
            }
            Some(KernelVerdict::Rejected { reason }) => say!("  the running kernel rejects it: {reason}"),
            Some(KernelVerdict::NotAsked { reason, .. }) => say!("  the running kernel was not asked: {reason}"),
            None => {}
        }
    }
    let ended = if outcome.cut_short { ", stopped early" } else { "" };
    say!("{:.2} s{ended}", outcome.spent.as_secs_f64());
}

/// A run that goes wrong, step by step.
fn shown(witness: &Witness) {
    let place = witness.place.as_ref().map_or_else(String::new, |place| format!(", {place}"));
    let what = if witness.rule.is_some() { "breaks a rule" } else { "goes wrong" };
    say!("  {what}: {} (slot {} of {}{place})", witness.what, witness.slot, witness.function);
    if let Some(line) = &witness.line {
        say!("    line: {line}");
    }
    if !witness.packet.is_empty() {
        say!("    packet: {}", witness.packet);
    }
    if let Some(context) = &witness.context {
        say!("    context: {context}");
    }
    let maps = match witness.filling {
        0 => "as the object has them".to_owned(),
        filling => format!("filled with entries (set {filling})"),
    };
    say!("    maps: {maps}; results of other helpers: seed {}", witness.seed);
    say!("    the last of {}:", print::count(witness.executed, "step"));
    let mut before = None;
    for step in &witness.steps {
        if let Some(place) = step.place.as_ref().filter(|place| before != Some(*place)) {
            say!("    {place}");
        }
        before = step.place.as_ref();
        let reads = if step.reads.is_empty() { String::new() } else { format!("   ; {}", step.reads.join(", ")) };
        say!("      {:>4}: {}{reads}", step.slot, step.text);
    }
}

fn said(prefix: &str, change: &Inserted) {
    let Inserted { means, by_hand, function, slot, .. } = change;
    let place = change.place.as_ref().map_or_else(String::new, |place| format!(", {place}"));
    match (&change.register, change.range) {
        (Some(register), Some([low, high])) => {
            say!("  {prefix}{means}: {register} is {low} to {high} before slot {slot} of {function}{place}");
        }
        (Some(register), None) => say!("  {prefix}{means}: {register} before slot {slot} of {function}{place}"),
        (None, _) => say!("  {prefix}{means}: {function}{place}"),
    }
    if let Some(line) = &change.line {
        say!("    line: {line}");
    }
    match change.register {
        _ if by_hand.is_empty() => {}
        Some(_) => say!("    by hand, before it: {by_hand}"),
        None => say!("    by hand: declare {function} `{by_hand}`"),
    }
}
