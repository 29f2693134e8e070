//! `kiln serve`.

mod hosts;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kiln_driver::serve::client::{self, Client};
use kiln_driver::serve::fleet::Fleet;
use kiln_driver::serve::listen::{Addresses, Doors};
use kiln_driver::serve::{Limits, Service};
use kiln_driver::{Error, Shown, query};
use serde_json::Value as Json;

use crate::arguments::{Format, InstallArguments, ServeArguments, ServeCommand};
use crate::query::{format_of_rows, interrupt};
use crate::rows::{Printer, told_exported};
use crate::{print, say};

/// How often queries are held to what they may take together.
const SUPERVISED: Duration = Duration::from_millis(500);

/// `kiln serve`.
pub fn serve(arguments: &ServeArguments, format: Format) -> Result<u8, Error> {
    let Some(command) = &arguments.command else { return run(arguments) };
    if arguments.listen.is_some() || arguments.postgres.is_some() || arguments.otlp.is_some() {
        let message = "--listen, --postgres and --otlp are for the service itself, not for what it is asked";
        return Err(Error::InvalidInput(message.to_owned()));
    }
    if arguments.socket.is_dir() {
        return hosts::ask(&Fleet::of_folder(&arguments.socket)?, command, format);
    }
    let client = Client::new(&arguments.socket);
    match command {
        ServeCommand::Install(own) => install(&Fleet::of_socket(&arguments.socket), own, format),
        ServeCommand::List => list(&client, format),
        ServeCommand::Show { name } => shown(&client.show(name, 0)?, format),
        ServeCommand::Rollback { name } => hosts::roll_back(&Fleet::of_socket(&arguments.socket), name),
        ServeCommand::Stop { name } => shown(&client.stop(name)?, format),
    }
}

/// The service itself.
fn run(arguments: &ServeArguments) -> Result<u8, Error> {
    let limits = Limits {
        queries: arguments.max_queries,
        overhead: arguments.max_total_overhead,
        query_overhead: arguments.max_overhead,
        rows: arguments.max_rows,
        query_rows: arguments.rows.min(arguments.max_rows),
        ring_bytes: arguments.ring_bytes,
    };
    // Said before a socket is made.
    kiln_driver::require_kernel()?;
    let tls = arguments.tls.read()?;
    if tls.is_some() && arguments.listen.is_none() && arguments.postgres.is_none() {
        let message = "--tls-cert encrypts what --listen and --postgres serve: give one of them";
        return Err(Error::InvalidInput(message.to_owned()));
    }
    let addresses = Addresses {
        page: arguments.listen.as_deref(),
        postgres: arguments.postgres.as_deref(),
        anywhere: arguments.listen_anywhere,
        tls: tls.as_ref(),
    };
    let doors = Doors::open(&arguments.socket, addresses)?;
    let service = Arc::new(Service::new(limits, arguments.otlp.clone(), doors.page())?);
    let interrupted = interrupt()?;
    anstream::eprintln!("queries are installed at {}", Shown::from(arguments.socket.display().to_string()));
    if let Some(page) = doors.page() {
        anstream::eprintln!("the page: {page}");
    }
    if let Some(postgres) = doors.postgres() {
        anstream::eprintln!("PostgreSQL's clients: {postgres}");
    }
    crate::tables::of_this_kernel()?.iter().for_each(|line| anstream::eprintln!("{line}"));
    let answering = doors.answer(&service);
    while !interrupted.load(Ordering::SeqCst) {
        std::thread::sleep(SUPERVISED);
        service.supervise().iter().for_each(|news| anstream::eprintln!("{news}"));
    }
    drop(answering);
    let count = service.stop_all();
    anstream::eprintln!("the service ended; {count} queries were stopped");
    Ok(0)
}

fn install(service: &Fleet, arguments: &InstallArguments, format: Format) -> Result<u8, Error> {
    let InstallArguments { name, replace, trial, .. } = arguments;
    let (answers, version) = service.install(name, &hosts::request(arguments), *replace)?;
    for document in answers.iter().flat_map(|(_, answer)| answer) {
        match format {
            Format::Json => print::json(document)?,
            _ => {
                let split = document["summary"]["split"].as_str().unwrap_or_default();
                say!("version {version} of query `{name}` runs; split {}", Shown::from(split));
            }
        }
    }
    hosts::watch(service, (name, version), trial.unwrap_or_default())
}

fn list(client: &Client, format: Format) -> Result<u8, Error> {
    let document = client.list()?;
    if format == Format::Json {
        print::json(&document)?;
        return Ok(0);
    }
    let mut table = print::fitted();
    table.set_header(HEADER);
    queries(&document).for_each(|query| _ = table.add_row(row(query)));
    say!("{table}");
    let all = percent(&document["share"]);
    let most = percent(&document["limits"]["overhead"]);
    anstream::eprintln!("all together take {all} of one CPU, and may take {most}");
    if let Some(page) = document["page"].as_str() {
        anstream::eprintln!("the page: {}", Shown::from(page));
    }
    Ok(0)
}

/// What [`row`] has of a query.
const HEADER: [&str; 8] = ["name", "version", "state", "of one CPU", "events", "rows", "lost", "query"];

fn queries(document: &Json) -> impl Iterator<Item = &Json> {
    document["queries"].as_array().into_iter().flatten()
}

/// A query's line in a list.
fn row(query: &Json) -> [String; 8] {
    let text = |json: &Json| Shown::from(json.as_str().unwrap_or_default()).to_string();
    let reason = query["reason"].as_str().map(|reason| format!(" ({})", Shown::from(reason)));
    let withdrawn = &query["query"]["withdrawn"];
    let withdrawn = withdrawn["reason"]
        .as_str()
        .map(|reason| format!(" (version {} was withdrawn: {})", withdrawn["version"], Shown::from(reason)));
    [
        text(&query["query"]["name"]),
        query["query"]["version"].to_string(),
        text(&query["state"]),
        percent(&query["share"]),
        query["summary"]["events"].to_string(),
        query["summary"]["rows"].to_string(),
        query["lost"].to_string(),
        text(&query["query"]["sql"]) + &reason.or(withdrawn).unwrap_or_default(),
    ]
}

fn percent(json: &Json) -> String {
    format!("{:.2} %", 100.0 * json.as_f64().unwrap_or_default())
}

/// A query and its last windows.
fn shown(document: &Json, format: Format) -> Result<u8, Error> {
    if format == Format::Json {
        print::json(document)?;
        return Ok(0);
    }
    let (columns, rows) = client::result(document);
    let windowed = document["windowed"] == true;
    let mut printer = Printer::new(columns, windowed, format_of_rows(format));
    printer.rows(rows);
    let summary: query::Summary = serde_json::from_value(document["summary"].clone())
        .map_err(|error| Error::InvalidInput(format!("the service answers in another form: {error}")))?;
    let code = printer.finish(&summary, None)?;
    if let Ok(Some(exported)) = serde_json::from_value(document["exported"].clone()) {
        told_exported(&exported);
    }
    let state = document["state"].as_str().unwrap_or_default();
    let reason = document["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
    anstream::eprintln!("{}", Shown::from(format!("state: {state}{reason}")));
    Ok(code)
}
