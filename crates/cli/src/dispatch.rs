//! `kiln dispatch`.

use std::path::Path;
use std::sync::atomic::Ordering;

use comfy_table::{CellAlignment, Table, presets};
use kiln_driver::dispatch::sockets::{Found, Sockets};
use kiln_driver::dispatch::{self, Dispatched, Executors, Hook, Plan, Transport};
use kiln_driver::{Error, capture, file, input};
use serde_json::json;

use crate::arguments::{DispatchArguments, Format, SocketHook};
use crate::query::interrupt;
use crate::{print, say};

/// Bytes of a file with a policy at most.
const MAX_POLICY_BYTES: u64 = 64 << 10;

/// `kiln dispatch`.
pub fn dispatch(arguments: &DispatchArguments, format: Format) -> Result<u8, Error> {
    let Some(policy) = &arguments.policy else { return fields(format) };
    let text = policy_text(policy)?;
    if let (Some(path), Some(executors)) = (&arguments.replay, arguments.executors) {
        let at = arguments.hook.map_or(dispatch::in_front_of(&[]), |hook| hook_at(arguments, hook, &text));
        let policy = dispatch::policy(&text, executors, at)?;
        let name = path.display().to_string();
        let frames = capture::packets(&name, &file::read(path, input::MAX_FILE_BYTES)?)?;
        let frames = frames.ok_or_else(|| Error::InvalidInput(format!("{name}: neither pcap nor pcapng")))?;
        shown(&dispatch::replay(&policy, &frames), None, format)?;
        return Ok(0);
    }
    if arguments.ports.is_some() && arguments.hook != Some(SocketHook::Lookup) {
        let message = "--ports is for --hook sk_lookup: a group of sockets has one port";
        return Err(Error::InvalidInput(message.to_owned()));
    }
    let plan = match (&arguments.processors, arguments.sockets, arguments.hook, arguments.executors) {
        (Some(processors), ..) => dispatch::plan(&text, &processors.0)?,
        (None, Some(wanted), hook, wished) => {
            let at = hook_at(arguments, hook.unwrap_or(SocketHook::Reuseport), &text);
            // The policy's own errors come before those of the machine.
            dispatch::policy(&text, wished.unwrap_or(1), at)?;
            let sockets = Sockets::find(wanted, arguments.pid)?;
            if let Some(wished) = wished.filter(|wished| *wished as usize != sockets.found.len()) {
                let found = sockets.found.len();
                let message = format!("{wished} executors are wanted, and {found} sockets are on {wanted}");
                return Err(Error::InvalidInput(message));
            }
            dispatch::plan_for(&text, at, Executors::Sockets(sockets))?
        }
        (None, None, Some(hook), Some(executors)) => {
            dispatch::plan_for(&text, hook_at(arguments, hook, &text), Executors::Unknown(executors))?
        }
        (None, None, ..) => {
            // Without executors there is nothing to plan for: the policy is read, for its errors.
            dispatch::policy(&text, arguments.executors.unwrap_or(1), dispatch::in_front_of(&[]))?;
            let message = "where to? --interface NAME --processors LIST, --processors LIST, --sockets udp:PORT, \
                           --hook HOOK --executors N, or --replay FILE --executors N";
            return Err(Error::InvalidInput(message.to_owned()));
        }
    };
    if arguments.interface.is_none() && arguments.sockets.is_none() {
        return planned(&plan, format);
    }
    let loaded = dispatch::load(plan)?;
    let interrupted = interrupt()?;
    let stop = || interrupted.load(Ordering::SeqCst);
    let elapsed = match &arguments.interface {
        Some(interface) => loaded.run(interface, arguments.mode.into(), arguments.duration, &stop)?,
        None => loaded.run_sockets(arguments.duration, &stop)?,
    };
    shown(&loaded.dispatched()?, Some((&loaded.executors, elapsed.as_secs_f64())), format)?;
    Ok(0)
}

/// The hook that is asked for. Without sockets, what they would speak is said by the policy.
fn hook_at(arguments: &DispatchArguments, hook: SocketHook, text: &str) -> Hook {
    let named = if text.contains("tcp.") { Transport::Tcp } else { Transport::Udp };
    let transport = arguments.sockets.map_or(named, |wanted| wanted.transport);
    let ports = arguments.ports.or(arguments.sockets.map(|wanted| wanted.ports)).unwrap_or([1, u16::MAX]);
    match hook {
        SocketHook::Reuseport => Hook::Reuseport(transport),
        SocketHook::Lookup => Hook::Lookup { transport, ports },
    }
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
    let executors = match &plan.executors {
        Executors::Processors(numbers) => json!(numbers),
        Executors::Unknown(count) => json!(count),
        Executors::Sockets(sockets) => json!(sockets.found),
    };
    if format == Format::Json {
        print::json(&json!({"executors": executors, "program": plan.program}))?;
        return Ok(0);
    }
    let dispatch::Program { section, slots, processed, .. } = &plan.program;
    let whose = match &plan.executors {
        Executors::Processors(numbers) => format!("executors on processors {numbers:?}"),
        Executors::Unknown(_) | Executors::Sockets(_) => format!("{executors} executors"),
    };
    say!("accepted: {section}, {slots} slots, {processed} processed instructions; {whose}");
    Ok(0)
}

/// Where packets went, and how evenly.
fn shown(dispatched: &Dispatched, ran: Option<(&Executors, f64)>, format: Format) -> Result<(), Error> {
    let executors = ran.map(|(executors, _)| executors);
    if format == Format::Json {
        let seconds = ran.map(|(_, seconds)| seconds);
        let (processors, sockets) = match executors {
            Some(Executors::Processors(numbers)) => (Some(numbers), None),
            Some(Executors::Sockets(sockets)) => (None, Some(&sockets.found)),
            Some(Executors::Unknown(_)) | None => (None, None),
        };
        let value = json!({"processors": processors, "sockets": sockets, "seconds": seconds, "dispatched": dispatched});
        return print::json(&value);
    }
    let mut table = table();
    let what = if matches!(executors, Some(Executors::Sockets(_))) { "socket" } else { "processor" };
    table.set_header(["executor", what, "packets", "share"]);
    let all: u64 = dispatched.packets.iter().sum();
    for (executor, packets) in dispatched.packets.iter().enumerate() {
        let target = match executors {
            Some(Executors::Processors(numbers)) => numbers[executor].to_string(),
            Some(Executors::Sockets(sockets)) => {
                let Found { address, pid, process, descriptor } = &sockets.found[executor];
                format!("{address}, {descriptor} of {process} ({pid})")
            }
            Some(Executors::Unknown(_)) | None => String::new(),
        };
        let share = format!("{:.1} %", 100.0 * *packets as f64 / all.max(1) as f64);
        table.add_row([executor.to_string(), target, packets.to_string(), share]);
    }
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    say!("{table}");
    let seconds = ran.map_or(String::new(), |(_, seconds)| format!(" in {seconds:.1} s"));
    anstream::eprintln!("{all} packets dispatched{seconds}, {} left to the kernel", dispatched.left);
    Ok(())
}
