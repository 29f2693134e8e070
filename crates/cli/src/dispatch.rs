//! `kiln dispatch`.

use std::path::Path;
use std::sync::atomic::Ordering;

use comfy_table::{CellAlignment, Table, presets};
use kiln_driver::dispatch::{self, Dispatched, Plan};
use kiln_driver::{Error, capture, file, input};
use serde_json::json;

use crate::arguments::{DispatchArguments, Format};
use crate::query::interrupt;
use crate::{print, say};

/// Bytes of a file with a policy at most.
const MAX_POLICY_BYTES: u64 = 64 << 10;

/// `kiln dispatch`.
pub fn dispatch(arguments: &DispatchArguments, format: Format) -> Result<u8, Error> {
    let Some(policy) = &arguments.policy else { return fields(format) };
    let text = policy_text(policy)?;
    if let (Some(path), Some(executors)) = (&arguments.replay, arguments.executors) {
        let policy = dispatch::policy(&text, executors)?;
        let name = path.display().to_string();
        let frames = capture::packets(&name, &file::read(path, input::MAX_FILE_BYTES)?)?;
        let frames = frames.ok_or_else(|| Error::InvalidInput(format!("{name}: neither pcap nor pcapng")))?;
        shown(&dispatch::replay(&policy, &frames), None, format)?;
        return Ok(0);
    }
    let Some(processors) = &arguments.processors else {
        // Without processors there is nothing to plan for: the policy is read, for its errors.
        dispatch::policy(&text, arguments.executors.unwrap_or(1))?;
        let message = "where to? --interface NAME --processors LIST, --processors LIST, or --replay FILE --executors N";
        return Err(Error::InvalidInput(message.to_owned()));
    };
    let plan = dispatch::plan(&text, &processors.0)?;
    let Some(interface) = &arguments.interface else { return planned(&plan, format) };
    let loaded = dispatch::load(plan)?;
    let interrupted = interrupt()?;
    let stop = || interrupted.load(Ordering::SeqCst);
    let elapsed = loaded.run(interface, arguments.mode.into(), arguments.duration, &stop)?;
    shown(&loaded.dispatched()?, Some((&processors.0, elapsed.as_secs_f64())), format)?;
    Ok(0)
}

/// A policy as text: what has a parenthesis is one, anything else is a file.
pub fn policy_text(policy: &str) -> Result<String, Error> {
    if policy.contains('(') {
        return Ok(policy.to_owned());
    }
    let bytes = file::read(Path::new(policy), MAX_POLICY_BYTES)?;
    String::from_utf8(bytes).map_err(|_| Error::InvalidInput(format!("{policy}: not text")))
}

fn table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// A list of names, with what each of them is.
pub fn named(what: &str, rows: &[(String, &str)], format: Format) -> Result<u8, Error> {
    if format == Format::Json {
        let rows: Vec<_> = rows.iter().map(|(name, about)| json!({"name": name, "about": about})).collect();
        print::json(&rows)?;
        return Ok(0);
    }
    let mut table = table();
    table.set_header([what, "what it is"]);
    for (name, about) in rows {
        table.add_row([name, *about]);
    }
    say!("{table}");
    Ok(0)
}

fn fields(format: Format) -> Result<u8, Error> {
    named("field", &dispatch::fields().collect::<Vec<_>>(), format)?;
    if format != Format::Json {
        say!(
            "\nAs udp.NAME or tcp.NAME, the policy decides packets of that protocol only; others are left to the kernel."
        );
    }
    Ok(0)
}

/// A policy's program that is not loaded.
fn planned(plan: &Plan, format: Format) -> Result<u8, Error> {
    if format == Format::Json {
        print::json(&json!({"executors": plan.processors, "program": plan.program}))?;
        return Ok(0);
    }
    let dispatch::Program { section, slots, processed, .. } = &plan.program;
    say!(
        "accepted: {section}, {slots} slots, {processed} processed instructions; executors on processors {:?}",
        plan.processors
    );
    Ok(0)
}

/// Where packets went, and how evenly.
fn shown(dispatched: &Dispatched, ran: Option<(&[u32], f64)>, format: Format) -> Result<(), Error> {
    let processors = ran.map(|(processors, _)| processors);
    if format == Format::Json {
        let seconds = ran.map(|(_, seconds)| seconds);
        return print::json(&json!({"processors": processors, "seconds": seconds, "dispatched": dispatched}));
    }
    let mut table = table();
    table.set_header(["executor", "processor", "packets", "share"]);
    let all: u64 = dispatched.packets.iter().sum();
    for (executor, packets) in dispatched.packets.iter().enumerate() {
        let processor = processors.map_or(String::new(), |processors| processors[executor].to_string());
        let share = format!("{:.1} %", 100.0 * *packets as f64 / all.max(1) as f64);
        table.add_row([executor.to_string(), processor, packets.to_string(), share]);
    }
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    say!("{table}");
    let seconds = ran.map_or(String::new(), |(_, seconds)| format!(" in {seconds:.1} s"));
    anstream::eprintln!("{all} packets dispatched{seconds}, {} left to the kernel", dispatched.left);
    Ok(())
}
