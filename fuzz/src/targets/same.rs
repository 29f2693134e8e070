//! Programs that the verifier accepts, each against itself optimized for every goal.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use kiln_program::Object;
use kiln_program::text::listing;

use super::target::{Depth, ensure};
use crate::c_programs::{Source, compiled, source};
use crate::choices::Choices;
use crate::composed::scalars;
use crate::coverage;
use crate::differential::{GOALS, Plan, compare, options};
use crate::shrink::{filetest, shrink};
use crate::subject::{Subject, Verdict};

/// Time for making a failing program smaller.
const SHRINKING: Duration = Duration::from_secs(60);

/// What the optimizer is asked for: the first choices of an input.
fn plan(choices: &mut Choices<'_>) -> Plan {
    let goals = if choices.one_in(4) { GOALS.to_vec() } else { vec![choices.pick(&GOALS)] };
    Plan {
        // Search takes far longer than all passes.
        search: choices.one_in(64) && goals.len() == 1,
        goals,
        without: BTreeSet::new(),
        isa: if choices.one_in(3) { 4 } else { 3 },
        interpreter: choices.one_in(4),
        kernel: choices.one_in(8) && kiln_test::engine::kernel_available().is_ok(),
    }
}

fn number_task(bytes: &[u8]) -> (Plan, Object, Vec<&'static str>) {
    let mut choices = Choices::new(bytes);
    let plan = plan(&mut choices);
    let (object, idioms) = scalars(&mut choices);
    (plan, object, idioms)
}

fn source_task(bytes: &[u8]) -> (Plan, Source) {
    let mut choices = Choices::new(bytes);
    let plan = plan(&mut choices);
    // There are several programs: one goal each time, and no search.
    let plan = Plan { search: false, goals: plan.goals[..1].to_vec(), ..plan };
    (plan, source(&mut choices))
}

/// Short programs of numbers do the same when optimized.
pub fn numbers(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    let (plan, object, idioms) = number_task(bytes);
    same(subject, &object, &plan, &idioms)
}

/// Small C programs, compiled, do the same when optimized.
pub fn c(subject: &Subject, bytes: &[u8]) -> Result<Depth, String> {
    let (plan, source) = source_task(bytes);
    let mut depth = Depth::Shallow;
    for object in compiled(&source).map_err(|error| format!("it does not compile: {error}"))? {
        if same(subject, &object, &plan, &[])? == Depth::Deep {
            depth = Depth::Deep;
        }
    }
    Ok(depth)
}

/// One program, compared and counted.
fn same(subject: &Subject, object: &Object, plan: &Plan, idioms: &[&'static str]) -> Result<Depth, String> {
    if let Verdict::Refused(_) | Verdict::Unanswered(_) = (subject.verify)(object, &object.programs[0]) {
        return Ok(Depth::Shallow);
    }
    let Some(compared) = compare(subject, object, plan) else { return Ok(Depth::Shallow) };
    let compared = compared.map_err(|difference| difference.to_string())?;
    idioms.iter().for_each(|idiom| coverage::count("fragments", idiom));
    coverage::count_many("work", "optimizer runs", compared.optimized);
    coverage::count_many("work", "changed", compared.changed);
    coverage::count_many("work", "kernel runs", compared.in_kernel);
    for one in compared.rewrites.iter().flat_map(|rewrite| &rewrite.evidence) {
        coverage::count(if one.because.is_law() { "laws" } else { "rules" }, one.because.name());
    }
    for (goal, rewrite) in plan.goals.iter().zip(&compared.rewrites) {
        let slots = |object: &Object| object.program_slots(&object.programs[0]);
        ensure(goal.may_grow() || slots(&rewrite.object) <= slots(object), || {
            "the optimized program is larger".to_owned()
        })?;
    }
    Ok(if compared.changed > 0 { Depth::Deep } else { Depth::Shallow })
}

/// The program of an input, and what becomes of it for each goal.
pub fn show_numbers(subject: &Subject, bytes: &[u8]) -> String {
    let (plan, object, _) = number_task(bytes);
    show(subject, &object, &plan)
}

/// The C text of an input, its programs, and what becomes of those that differ.
pub fn show_c(subject: &Subject, bytes: &[u8]) -> String {
    let (plan, source) = source_task(bytes);
    let mut text = format!("{}\n/* {} */\n", source.text, source.flags.join(" "));
    match compiled(&source) {
        Ok(objects) => {
            let wrong =
                objects.iter().filter(|object| compare(subject, object, &plan).is_some_and(|same| same.is_err()));
            wrong.for_each(|object| text.push_str(&show(subject, object, &plan)));
        }
        Err(error) => text.push_str(&error),
    }
    text
}

fn show(subject: &Subject, object: &Object, plan: &Plan) -> String {
    let mut text = listing(object);
    for goal in &plan.goals {
        let rewrite = (subject.optimize)(object, &options(*goal, plan));
        let _ = writeln!(text, "; goal {}:\n{}", goal.name(), listing(&rewrite.object));
    }
    text
}

/// The program of an input, made smaller.
pub fn shrink_numbers(subject: &Subject, bytes: &[u8]) -> Option<String> {
    let (plan, object, _) = number_task(bytes);
    smaller(subject, &object, &plan)
}

/// The first program of an input that differs, made smaller.
pub fn shrink_c(subject: &Subject, bytes: &[u8]) -> Option<String> {
    let (plan, source) = source_task(bytes);
    compiled(&source).ok()?.iter().find_map(|object| smaller(subject, object, &plan))
}

fn smaller(subject: &Subject, object: &Object, plan: &Plan) -> Option<String> {
    let (object, difference) = shrink(subject, object, plan, SHRINKING)?;
    Some(filetest(subject, &object, plan, &difference))
}
