//! What a query may cost: a plan that does not fit is sampled or refused before it runs.
//!
//! Events are counted for a moment by programs that do nothing. Their rate times what a plan costs an event
//! ([`crate::cost`]) is a part of one processor:
//!
//! ```text
//!   least > allowed    refused: even events that are not wanted cost too much
//!   most <= allowed    runs
//!   between            it depends on the conditions: runs, and ends when it takes too much (live::Budget); or a sample is
//!                      taken that fits whatever the conditions are, if the user agrees to samples
//! ```

use std::time::{Duration, Instant};

use kiln_linux::Statistics;
use kiln_plan::table::Hook;
use kiln_plan::{Settings, Split};
use serde::Serialize;

use crate::cost::Time;
use crate::live::Nothing;
use crate::plan::{self, Plan};
use crate::session::Session;
use kiln_program::Error;

/// How long events are counted.
const COUNTING: Duration = Duration::from_millis(200);
/// Of so many events at most one begins a row, as a power of two.
const MOST_SAMPLED_LOG2: u32 = 16;

/// Which events begin rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum Sample {
    /// All of them.
    All,
    /// One in this many.
    OneIn(u32),
    /// As many as the budget allows.
    Auto,
}

/// What a plan is expected to take, as parts of one processor.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Forecast {
    /// Events a second of each of the table's hooks.
    pub rates: Vec<f64>,
    /// The parts.
    pub parts: Time,
}

/// Plans a query within a budget, in parts of one processor.
///
/// # Errors
/// [`Error::Limit`] where no plan fits, with what it would take; those of [`plan::plan`].
pub fn plan_within(
    session: &Session,
    settings: &Settings,
    only: Option<Split>,
    allowed: Option<f64>,
    sample: Sample,
) -> Result<(Plan, Option<Forecast>), Error> {
    match allowed {
        None => Ok((sampled(session, settings, only, sample)?, None)),
        Some(allowed) => {
            let (plan, forecast) = plan_at(session, settings, only, allowed, sample, &rates(session)?)?;
            Ok((plan, Some(forecast)))
        }
    }
}

/// The same, with events a second of each of the table's hooks that are known.
///
/// # Errors
/// See [`plan_within`].
pub fn plan_at(
    session: &Session,
    settings: &Settings,
    only: Option<Split>,
    allowed: f64,
    sample: Sample,
    rates: &[f64],
) -> Result<(Plan, Forecast), Error> {
    let mut plan = sampled(session, settings, only, sample)?;
    let mut forecast = forecast(&plan, rates);
    let mut power = 0;
    while sample == Sample::Auto && forecast.parts.most > allowed && power < MOST_SAMPLED_LOG2 {
        power += 1;
        plan = sampled(session, settings, only, Sample::OneIn(1 << power))?;
        forecast = self::forecast(&plan, rates);
    }
    if forecast.parts.least > allowed || sample == Sample::Auto && forecast.parts.most > allowed {
        return Err(Error::Limit(too_dear(session, &forecast, allowed)));
    }
    Ok((plan, forecast))
}

fn sampled(session: &Session, settings: &Settings, only: Option<Split>, sample: Sample) -> Result<Plan, Error> {
    let sample = if let Sample::OneIn(number) = sample { number } else { 1 };
    plan::plan(session, &Settings { sample, ..*settings }, only)
}

fn too_dear(session: &Session, forecast: &Forecast, allowed: f64) -> String {
    let names: Vec<String> = hooks(session).into_iter().map(Hook::section).collect();
    let rate: f64 = forecast.rates.iter().sum();
    format!(
        "the query was not started: {rate:.0} events a second of {} take at least {:.2} % of one processor, and {} % are \
         allowed (--max-overhead); a rarer event costs less",
        names.join(" and "),
        100.0 * forecast.parts.least,
        100.0 * allowed,
    )
}

/// What the plan that is loaded first takes at these rates.
fn forecast(plan: &Plan, rates: &[f64]) -> Forecast {
    let estimates = plan.all().flat_map(Plan::cheapest).filter_map(|program| program.estimate);
    let parts = estimates.zip(rates).map(|(estimate, rate)| estimate.total_at(on_each(*rate)) * (rate / 1e9)).sum();
    Forecast { rates: rates.to_vec(), parts }
}

/// Of events a second, those of each processor.
pub fn on_each(rate: f64) -> f64 {
    rate / std::thread::available_parallelism().map_or(1.0, |processors| processors.get() as f64)
}

/// The hooks of the query's tables.
fn hooks(session: &Session) -> Vec<&Hook> {
    session.scans().into_iter().flat_map(|query| query.table.hooks()).collect()
}

/// Events a second of each hook of the query's tables.
fn rates(session: &Session) -> Result<Vec<f64>, Error> {
    let _statistics = Statistics::keep()?;
    let counters: Vec<Nothing> = hooks(session).into_iter().map(Nothing::at).collect::<Result<_, _>>()?;
    let begun = Instant::now();
    std::thread::sleep(COUNTING);
    let runs: Vec<u64> = counters.iter().map(Nothing::runs).collect::<Result<_, _>>()?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(runs.into_iter().map(|runs| runs as f64 / seconds).collect())
}
