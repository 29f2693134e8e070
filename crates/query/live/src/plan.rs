//! How much of a query runs in the kernel: DSL-guided iteration.
//!
//! The smallest split comes first, and is known to load. From there on each larger one is written, put to our verifier,
//! which answers in milliseconds, and kept if it is accepted. Of those kept the one is loaded that is expected to cost
//! least ([`crate::cost`]); where the kernel refuses it all the same, the next one is.

use std::sync::Arc;
use std::time::Instant;

use kiln_plan::expr::Expr;
use kiln_plan::generate::Failure;
use kiln_plan::query::{Output, Shape};
use kiln_plan::table::Table;
use kiln_plan::{Generated, Origin, Query, Settings, Split, generate};
use kiln_platform::Profile;
use kiln_program::Object;
use kiln_program::btf::Btf;
use kiln_verifier::Prepared;
use serde::Serialize;

use crate::cost::{self, Estimate, Time};
use crate::session::Session;
use kiln_inspect::show::shown::Shown;
use kiln_program::Error;

/// A split that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Which split it is.
    pub split: Split,
    /// Its programs, where they could be written.
    pub programs: Vec<StepProgram>,
    /// Why it was not taken.
    pub refused: Option<Shown>,
    /// Nanoseconds that a row's events are expected to cost in all: the tracepoints, the programs, and user space.
    pub expected_ns: Option<f64>,
    /// Microseconds that writing and verifying took.
    pub micros: u64,
}

/// A program of a split.
#[derive(Clone, Debug, Serialize)]
pub struct StepProgram {
    /// Its hook.
    pub section: Shown,
    /// Slots.
    pub slots: u32,
    /// Instructions that our verifier processed.
    pub processed: u64,
    /// What it costs an event; nothing for programs that are not at a hook of a query's table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Estimate>,
}

/// The splits that were tried, and those that may be loaded.
pub struct Plan {
    /// What was tried, in order.
    pub steps: Vec<Step>,
    /// What was accepted, the one that is expected to cost least last.
    pub accepted: Vec<Generated>,
    /// The plans of the query's other tables of events.
    pub others: Vec<Plan>,
}

impl Plan {
    /// The steps of all tables.
    pub fn all_steps(&self) -> Vec<Step> {
        self.steps.iter().cloned().chain(self.others.iter().flat_map(Plan::all_steps)).collect()
    }

    /// The programs of the accepted split that is expected to cost least, which is loaded first.
    pub fn cheapest(&self) -> &[StepProgram] {
        let split = self.accepted.last().map(|generated| generated.split);
        let step = self.steps.iter().find(|step| Some(step.split) == split);
        step.map_or(&[], |step| &step.programs)
    }

    /// The plans of all tables.
    pub fn all(&self) -> impl Iterator<Item = &Plan> {
        std::iter::once(self).chain(&self.others)
    }
}

/// What a table hands over whatever is asked of it; `with_stacks`, for queries that use stacks.
///
/// # Errors
/// What this kernel lacks.
pub fn mvsf(table: &Table, types: &Btf, with_stacks: bool) -> Result<Generated, Failure> {
    let columns = table.columns.iter().enumerate();
    let stacks = columns.filter(|(at, _)| with_stacks && table.is_stack(*at)).map(|(at, column)| Output {
        name: column.name.clone(),
        expr: Expr::Column(at),
        data_type: column.data_type,
    });
    let query = Query::new(table.clone(), Shape::Rows, stacks.collect());
    generate(&query, Split::Mvsf, Origin::Hooks(types), &Settings::default())
}

/// Tries the splits of a query, or only one.
///
/// # Errors
/// [`Error::Unsupported`] where the kernel that it is for lacks what the table needs; [`Error::InvalidInput`] for a split
/// that the query does not have.
pub fn plan(session: &Session, settings: &Settings, only: Option<Split>) -> Result<Plan, Error> {
    if settings.sample > 1 && session.parsed.flow.has_join() {
        let message = "a sample of two joined tables has few rows that match: leave out --sample".to_owned();
        return Err(Error::InvalidInput(message));
    }
    // A row of a sample stands for several, which an outer query over rows does not know.
    let groups = |query: &Query| matches!(query.shape, Shape::Groups(_));
    let counts_rows = session.stages().iter().any(groups) && !session.scans().into_iter().all(groups);
    if settings.sample > 1 && counts_rows {
        let message =
            "an outer query over rows cannot say how many there are of a sample: leave out --sample".to_owned();
        return Err(Error::InvalidInput(message));
    }
    if settings.sample > 1 && session.parsed.flow.engine().is_some() {
        let message = "the SQL engine does not know how many rows there are of a sample: leave out --sample".to_owned();
        return Err(Error::InvalidInput(message));
    }
    let scans = session.scans();
    if scans.is_empty() {
        return Ok(Plan { steps: Vec::new(), accepted: Vec::new(), others: Vec::new() });
    }
    let settings = &Settings { has_span: scans.len() > 1, ..*settings };
    let mut first = plan_scan(session, scans[0], settings, only)?;
    for scan in &scans[1..] {
        // Another table may not have this split; its largest that is not larger does less in the kernel.
        let only = only.and_then(|only| Split::of(scan).into_iter().rfind(|split| *split <= only));
        first.others.push(plan_scan(session, scan, settings, only)?);
    }
    Ok(first)
}

/// Tries the splits of a query of one table, or only one.
fn plan_scan(session: &Session, query: &Query, settings: &Settings, only: Option<Split>) -> Result<Plan, Error> {
    let mut splits = Split::of(query);
    if settings.sample > 1 && query.table.is_pair() {
        // A beginning that is not in the sample has no end, which only programs that store beginnings know.
        splits.retain(|split| *split >= Split::Pair);
    }
    if let Some(only) = only {
        if !splits.contains(&only) {
            let known: Vec<_> = splits.iter().map(|split| split.name()).collect();
            let message = format!("this query has no split `{}`; it has {}", only.name(), known.join(", "));
            return Err(Error::InvalidInput(message));
        }
        splits = vec![only];
    }
    let mut plan = Plan { steps: Vec::new(), accepted: Vec::new(), others: Vec::new() };
    let mut accepted = Vec::new();
    for split in splits {
        let begun = Instant::now();
        let mut step = Step { split, programs: Vec::new(), refused: None, expected_ns: None, micros: 0 };
        match tried(session, query, split, settings) {
            Ok((generated, programs)) => {
                let estimates = programs.iter().filter_map(|program| program.estimate);
                let total = estimates.map(|estimate| estimate.total()).sum::<Time>().expected;
                step.programs = programs;
                step.expected_ns = Some(total);
                accepted.push((total, generated));
            }
            Err(reason) => step.refused = Some(reason.into()),
        }
        step.micros = begun.elapsed().as_micros() as u64;
        plan.steps.push(step);
    }
    // Of two that cost the same the larger split comes last.
    accepted.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    plan.accepted = accepted.into_iter().map(|(_, generated)| generated).collect();
    if plan.accepted.is_empty() {
        let reason = plan.steps.iter().find_map(|step| step.refused.clone()).unwrap_or_default();
        return Err(Error::Unsupported(reason.exact().to_owned()));
    }
    Ok(plan)
}

/// Writes a split and puts it to our verifier: its programs, with what each costs an event.
///
/// # Errors
/// A sentence, where it cannot be written or is refused.
fn tried(
    session: &Session,
    query: &Query,
    split: Split,
    settings: &Settings,
) -> Result<(Generated, Vec<StepProgram>), String> {
    let generated =
        generate(query, split, Origin::Hooks(&session.types), settings).map_err(|failure| failure.to_string())?;
    let object = &generated.object;
    let mut programs = verified(object, Some(&session.types))?;
    for ((step, program), hook) in programs.iter_mut().zip(&object.programs).zip(query.table.hooks()) {
        step.estimate = Some(cost::estimate(&generated, program, hook, &session.model));
    }
    Ok((generated, programs))
}

/// Puts programs to our verifier, for the newest kernel that it describes.
///
/// # Errors
/// A sentence, where it refuses one.
pub fn verified(object: &Object, types: Option<&Arc<Btf>>) -> Result<Vec<StepProgram>, String> {
    verified_for(object, types, Profile::default())
}

/// Puts programs to our verifier, for a kernel.
///
/// # Errors
/// A sentence, where it refuses one.
pub fn verified_for(object: &Object, types: Option<&Arc<Btf>>, profile: Profile) -> Result<Vec<StepProgram>, String> {
    let options = kiln_verifier::Options {
        profile,
        kernel_types: types.cloned(),
        skip_facts: true,
        ..kiln_verifier::Options::default()
    };
    let prepared = Prepared::new(object, &options);
    let verify = |program: &kiln_program::Program| {
        let verified = prepared.verify(program, &options).map_err(|error| format!("{}: {error}", program.section))?;
        Ok(StepProgram {
            section: program.section.as_str().into(),
            slots: object.program_slots(program),
            processed: verified.statistics.processed_insns,
            estimate: None,
        })
    };
    object.programs.iter().map(verify).collect()
}
