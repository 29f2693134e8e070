//! `kiln serve` on a folder of sockets, one for each host.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kiln_driver::serve::Install;
use kiln_driver::serve::client::Client;
use kiln_driver::serve::fleet::{Answered, Fleet};
use kiln_driver::{Error, Shown};
use serde_json::{Value as Json, json};

use super::{HEADER, queries, row};
use crate::arguments::{Format, InstallArguments, ServeCommand};
use crate::query::interrupt;
use crate::{print, say};

/// How long a version is on trial on several hosts.
const TRIAL: Duration = Duration::from_secs(10);

/// Asks all hosts.
pub fn ask(fleet: &Fleet, command: &ServeCommand, format: Format) -> Result<u8, Error> {
    match command {
        ServeCommand::Install(arguments) => {
            let InstallArguments { name, replace, trial, .. } = arguments;
            let (answers, version) = fleet.install(name, &request(arguments), *replace)?;
            say!("version {version} of query `{name}` runs on {} hosts", answers.len());
            watch(fleet, (name, version), trial.unwrap_or(TRIAL))
        }
        ServeCommand::List => list(&fleet.each(Client::list), format),
        ServeCommand::Rollback { name } => roll_back(fleet, name),
        ServeCommand::Stop { name } => {
            let answers = fleet.each(|client| client.stop(name));
            let stopped = answers.iter().filter(|(_, answer)| answer.is_ok()).count();
            say!("query `{name}` was stopped on {stopped} of {} hosts", answers.len());
            silent(&answers)
        }
        ServeCommand::Show { .. } => {
            let message = "a query is shown by one host: name its socket, a file of the folder (--socket)";
            Err(Error::InvalidInput(message.to_owned()))
        }
    }
}

/// What `kiln serve install` asks for.
pub fn request(arguments: &InstallArguments) -> Install {
    let InstallArguments { sql, max_overhead, rows, .. } = arguments;
    Install { sql: sql.as_str().into(), max_overhead: *max_overhead, rows: *rows, version: None }
}

/// Withdraws the latest version of a query.
pub fn roll_back(fleet: &Fleet, name: &str) -> Result<u8, Error> {
    let version = fleet.roll_back(name)?;
    say!("version {version} of query `{name}` was withdrawn");
    Ok(0)
}

/// Watches a version that was installed, until Ctrl-C.
pub fn watch(fleet: &Fleet, query: (&str, u64), time: Duration) -> Result<u8, Error> {
    if time.is_zero() {
        return Ok(0);
    }
    let interrupted = interrupt()?;
    let stop = || interrupted.load(Ordering::SeqCst);
    fleet.watch(query, time, &stop, &mut |news| anstream::eprintln!("{}", Shown::from(news)))?;
    Ok(0)
}

fn list(answers: &[Answered<'_>], format: Format) -> Result<u8, Error> {
    if format == Format::Json {
        let host = |(host, answer): &Answered<'_>| match answer {
            Ok(document) => (host.exact().to_owned(), document.clone()),
            Err(error) => (host.exact().to_owned(), json!({"error": error.to_string()})),
        };
        print::json(&json!({"hosts": answers.iter().map(host).collect::<serde_json::Map<String, Json>>()}))?;
        return silent(answers);
    }
    let mut table = print::fitted();
    table.set_header([["host"].as_slice(), &HEADER].concat());
    for (host, answer) in answers {
        for query in answer.iter().flat_map(queries) {
            table.add_row([[host.to_string()].as_slice(), &row(query)].concat());
        }
    }
    say!("{table}");
    silent(answers)
}

/// Names the hosts that did not answer as they should. Returns the exit code.
fn silent(answers: &[Answered<'_>]) -> Result<u8, Error> {
    let failed: Vec<_> = answers.iter().filter_map(|(host, answer)| Some((host, answer.as_ref().err()?))).collect();
    failed.iter().for_each(|(host, error)| anstream::eprintln!("host {host}: {error}"));
    Ok(u8::from(!failed.is_empty()))
}
