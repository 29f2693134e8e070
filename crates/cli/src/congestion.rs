//! `kiln congestion`.

use std::sync::atomic::Ordering;

use kiln_driver::congestion::{Plan, Report};
use kiln_driver::{Error, congestion};
use serde_json::json;

use crate::arguments::{CongestionArguments, Format};
use crate::dispatch::{named, policy_text};
use crate::query::interrupt;
use crate::{print, say};

/// `kiln congestion`.
pub fn congestion(arguments: &CongestionArguments, format: Format) -> Result<u8, Error> {
    let Some(policy) = &arguments.policy else {
        let rows: Vec<_> = congestion::signals().map(|(name, about)| (name.to_owned(), about)).collect();
        return named("signal", &rows, format);
    };
    let plan = congestion::plan(&policy_text(policy)?, arguments.connections)?;
    let Some(name) = &arguments.name else { return planned(&plan, format) };
    let mut registered = congestion::register(&plan, name)?;
    anstream::eprintln!("registered as {name}; connections choose it with TCP_CONGESTION (Ctrl-C ends)");
    let interrupted = interrupt()?;
    let mut each = |report: Report| match format {
        Format::Json => print::json_line(&json!(report)),
        _ => {
            let values = report.values.iter().map(|(name, value)| format!("{name}={value}"));
            let Report { connection, local, remote, .. } = report;
            say!("#{connection} {local} > {remote} {}", values.collect::<Vec<_>>().join(" "));
        }
    };
    let counts = registered.run(arguments.duration, &|| interrupted.load(Ordering::SeqCst), &mut each)?;
    let congestion::Counts { connections, reports, answered, lost, without_room } = counts;
    anstream::eprintln!("{connections} connections, {reports} reports, {answered} answered, {lost} lost");
    if without_room > 0 {
        anstream::eprintln!("{without_room} connections found no room for a part in user space (--connections)");
    }
    Ok(0)
}

/// A policy that is not registered: its programs, and what runs where.
fn planned(plan: &Plan, format: Format) -> Result<u8, Error> {
    let placements = plan.placements();
    let place = |placement: &congestion::Placement| if placement.in_kernel { "kernel" } else { "user space" };
    if format == Format::Json {
        let row = |at: &congestion::Placement| json!({"runs": place(at), "why": at.why});
        let on_report: Vec<_> = placements.iter().map(row).collect();
        print::json(&json!({"programs": plan.programs, "on_report": on_report}))?;
        return Ok(0);
    }
    for congestion::Program { section, slots, processed, .. } in &plan.programs {
        say!("accepted: {section}, {slots} slots, {processed} processed instructions");
    }
    say!("kernel: {} clauses at each acknowledgement", plan.policy.clauses.len());
    for (number, placement) in (1..).zip(&placements) {
        say!("{}: clause {number} at each report: {}", place(placement), placement.why);
    }
    Ok(0)
}
