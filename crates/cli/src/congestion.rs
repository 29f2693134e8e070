//! `kiln congestion`.

use std::sync::atomic::Ordering;

use kiln_driver::{Error, congestion};
use serde_json::{Map, Value, json};

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
    let plan = congestion::plan(&policy_text(policy)?)?;
    let Some(name) = &arguments.name else {
        if format == Format::Json {
            print::json(&json!({"programs": plan.programs}))?;
            return Ok(0);
        }
        for congestion::Program { section, slots, processed, .. } in &plan.programs {
            say!("accepted: {section}, {slots} slots, {processed} processed instructions");
        }
        return Ok(0);
    };
    let mut registered = congestion::register(&plan, name)?;
    anstream::eprintln!("registered as {name}; connections choose it with TCP_CONGESTION (Ctrl-C ends)");
    let interrupted = interrupt()?;
    let mut each = |report: Map<String, Value>| match format {
        Format::Json => print::json_line(&Value::Object(report)),
        _ => {
            let values = report.iter().map(|(name, value)| format!("{name}={value}"));
            say!("{}", values.collect::<Vec<_>>().join(" "));
        }
    };
    let count = registered.run(arguments.duration, &|| interrupted.load(Ordering::SeqCst), &mut each)?;
    anstream::eprintln!("{count} reports");
    Ok(0)
}
