//! What an event costs beside what was estimated, with the prices of this machine at this moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln_driver::calibrate::passings;
use kiln_driver::query::cost::{Time, parts};
use kiln_driver::query::live::{self, Watch};
use kiln_driver::query::{Limits, Session, Settings, plan};

use super::{may_load, session};

/// Of the estimate: how far a busy machine may be away. `cargo xtask bench query` tells how near it is.
const NEAR: f64 = 0.4;
/// How often each query is measured; the median counts.
const ROUNDS: usize = 5;

/// Makes system calls for a while.
fn work() {
    let end = Instant::now() + Duration::from_millis(150);
    while Instant::now() < end {
        (0..1000).for_each(|_| _ = std::hint::black_box(rustix::process::getppid()));
    }
}

/// Nanoseconds that each program of a query took for an event, and what was estimated for them.
fn measured(session: &Session) -> Vec<(f64, Time)> {
    let plan = plan::plan(session, &Settings::default(), None).expect("a plan");
    let cheapest = plan.all().flat_map(plan::Plan::cheapest);
    let estimates: Vec<Time> = cheapest.filter_map(|program| Some(program.estimate?.program_ns)).collect();
    let limits = Limits::default();
    let worked = std::cell::Cell::new(false);
    let stop = || {
        if !worked.replace(true) {
            work();
            return false;
        }
        true
    };
    let watch = Watch {
        duration: None,
        stop: &stop,
        interrupt: Arc::default(),
        limits,
        measure: true,
        max_overhead: None,
        status: None,
    };
    let summary = live::run(session, plan, &watch, &mut |_, _| {}, &mut |_| true).expect("it runs");
    let each = summary.programs.iter().map(|program| program.ns as f64 / program.events.max(1) as f64);
    each.zip(estimates).collect()
}

#[test]
fn dropped_events_cost_what_is_estimated() {
    if !may_load() {
        return;
    }
    let hooks = passings();
    for (sql, hook) in [
        ("SELECT name, count(*) FROM syscalls WHERE pid = 1 GROUP BY name", 0),
        ("SELECT tid, id, ret FROM tracepoint.raw_syscalls.sys_exit WHERE id = 99999", 1),
    ] {
        let Some(mut session) = session(sql) else { return };
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            // Prices right before: the machine is as busy then.
            let Ok(prices) = hooks[hook].measure() else { return println!("skipped: {hook} is not measured here") };
            let own = parts(&hooks[hook].hooks[0]).into_iter().zip(prices);
            own.for_each(|(part, ns)| session.model.set_event(part, (1000.0 * ns) as u64));
            let programs = measured(&session);
            let (ns, estimated) = programs.iter().fold((0.0, 0.0), |sum, (ns, time)| (sum.0 + ns, sum.1 + time.least));
            println!("{sql}: {ns:.0} ns measured, {estimated:.0} estimated");
            rounds.push(ns / estimated);
        }
        rounds.sort_by(f64::total_cmp);
        let median = rounds[ROUNDS / 2];
        assert!((1.0 - NEAR..=1.0 + NEAR).contains(&median), "{sql}: {rounds:?}");
    }
}

#[test]
fn conditions_are_decided_before_the_clock_is_read() {
    let Some(session) = session("SELECT name, max(latency_ns) FROM syscalls WHERE pid = 1 GROUP BY name") else {
        return;
    };
    let plan = plan::plan(&session, &Settings::default(), None).expect("a plan");
    for generated in &plan.accepted {
        let text = kiln_program::text::print(&generated.object);
        let begin = text.split("; function").nth(1).expect("the beginning's program");
        let clock = begin.find("ktime_get_ns").expect("it reads the clock");
        let condition = begin[..clock].contains("!= 0x1 goto");
        let decides = generated.split >= kiln_driver::query::Split::Filter;
        assert_eq!(condition, decides, "{:?}\n{begin}", generated.split);
    }
}
