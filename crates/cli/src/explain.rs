//! `kiln explain`: reasons by their code, or the log of a kernel's verifier.

use std::path::Path;

use kiln_driver::check::{self, Checked};
use kiln_driver::explain::log::{self, LoggedRejection, LoggedSource};
use kiln_driver::{Error, Input, explain, file, input};
use serde::Serialize;

use crate::arguments::{ExplainArguments, Format};
use crate::commands::Code;
use crate::print::{self, BAD, GOOD, styled};
use crate::say;

/// A rejection in a log, and Kiln's own verdict on the program.
#[derive(Serialize)]
struct Logged<'a> {
    #[serde(flatten)]
    rejection: &'a LoggedRejection,
    /// Where an object was given that has the program.
    kiln: Option<&'a Checked>,
}

/// `kiln explain`.
pub fn explain(arguments: &ExplainArguments, format: Format) -> Code {
    let code = arguments.code.as_deref();
    let Some(path) = &arguments.log else {
        let reasons = explain::explain(code)?;
        match format {
            Format::Json => print::json(&reasons)?,
            _ => print::reasons(&reasons, code.is_some()),
        }
        return Ok(0);
    };
    // A log may have what a program printed, or bytes of a terminal.
    let text = file::read(path, log::MAX_BYTES)?;
    let rejections = log::explain_log(&String::from_utf8_lossy(&text)).map_err(|error| in_file(path, &error))?;
    let input = arguments.object.as_deref().map(|object| input::open(object, &[])).transpose()?;
    let verdicts = input.as_ref().map(|input| verdicts_on(input, &rejections)).transpose()?.unwrap_or_default();
    let own = |rejection: &LoggedRejection| {
        let named = |checked: &&Checked| rejection.program.as_ref().is_none_or(|name| checked.program == *name);
        verdicts.iter().find(named)
    };
    let all: Vec<Logged> = rejections.iter().map(|rejection| Logged { rejection, kiln: own(rejection) }).collect();
    if format == Format::Json {
        print::json(&all)?;
        return Ok(0);
    }
    for (at, logged) in all.iter().enumerate() {
        if at > 0 {
            say!("");
        }
        rejection(logged.rejection);
        match (&input, logged.kiln) {
            (Some(input), Some(kiln)) => {
                say!("\nKiln on {}:\n{}", input.object.name, print::verdict(input, kiln).trim_end())
            }
            (Some(input), None) => say!("\n{} has no such program", input.object.name),
            (None, _) => {}
        }
    }
    Ok(0)
}

fn in_file(path: &Path, error: &Error) -> Error {
    Error::InvalidInput(format!("{}: {error}", path.display()))
}

/// Kiln's verdicts on the programs of which the log speaks; on all where it does not name them.
fn verdicts_on(input: &Input, rejections: &[LoggedRejection]) -> Result<Vec<Checked>, Error> {
    let named = |name: &str| rejections.iter().any(|one| one.program.as_ref().is_none_or(|known| known == name));
    let programs: Vec<_> = input.select(&[])?.into_iter().filter(|program| named(&program.name)).collect();
    Ok(check::check(input, &programs))
}

/// One rejection: the message, where, what the registers held, the way there, what it means and what helps.
fn rejection(one: &LoggedRejection) {
    let name = one.program.as_ref().map_or_else(String::new, |name| format!(" {}", name));
    let code = one.code.map_or_else(String::new, |code| format!(" [{code}]"));
    say!("{}{name}{code}: {}", styled(BAD, "rejected by the kernel"), one.message);
    if let Some(source) = &one.source {
        say!("  --> {}", line(source));
    }
    match (one.slot, &one.instruction) {
        (Some(slot), Some(text)) => say!("  instruction {slot}: {}", text),
        (Some(slot), None) => say!("  instruction {slot}"),
        _ => {}
    }
    for register in &one.registers {
        say!("  {} is {}", register.name, register.words);
    }
    if one.way.len() > 1 {
        say!("  the way there, its last lines:");
        for source in &one.way {
            say!("    {}", line(source));
        }
    }
    if let Some(account) = &one.account {
        for (head, text) in
            [("the kernel", &account.headline), ("its reason", &account.reason), ("it suggests", &account.suggestion)]
        {
            if !text.is_empty() {
                say!("  {head}: {}", text);
            }
        }
    }
    match (one.code, one.meaning, one.fix) {
        (Some(code), Some(meaning), Some(fix)) => {
            say!("{meaning}\n    {} {fix}\n    more: kiln explain {code}", styled(GOOD, "usually:"));
        }
        _ => say!("Kiln does not know this message. `kiln check` on the object explains the program itself."),
    }
}

fn line(source: &LoggedSource) -> String {
    let place = source.place.as_ref().map_or_else(String::new, |place| format!("{}  ", place));
    format!("{place}{}", source.text)
}
