//! `kiln serve`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kiln_driver::serve::client::{self, Client};
use kiln_driver::serve::listen::{Addresses, Doors};
use kiln_driver::serve::{Install, Limits, Service};
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
    if format == Format::Parquet {
        return Err(Error::InvalidInput("--format parquet is for kiln query".to_owned()));
    }
    let client = Client::new(&arguments.socket);
    match command {
        ServeCommand::Install(arguments) => install(&client, arguments, format),
        ServeCommand::List => list(&client, format),
        ServeCommand::Show { name } => shown(&client.show(name, 0)?, format),
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

fn install(client: &Client, arguments: &InstallArguments, format: Format) -> Result<u8, Error> {
    let InstallArguments { name, sql, max_overhead, rows } = arguments;
    let install = Install { sql: sql.as_str().into(), max_overhead: *max_overhead, rows: *rows };
    let document = client.install(name, &install)?;
    match format {
        Format::Json => print::json(&document)?,
        _ => {
            let split = document["summary"]["split"].as_str().unwrap_or_default();
            say!("query `{name}` runs; split {}", Shown::from(split));
        }
    }
    Ok(0)
}

fn list(client: &Client, format: Format) -> Result<u8, Error> {
    let document = client.list()?;
    if format == Format::Json {
        print::json(&document)?;
        return Ok(0);
    }
    let mut table = print::fitted();
    table.set_header(["name", "state", "of one CPU", "events", "rows", "lost", "query"]);
    let text = |json: &Json| Shown::from(json.as_str().unwrap_or_default()).to_string();
    for query in document["queries"].as_array().into_iter().flatten() {
        let reason = query["reason"].as_str().map(|reason| format!(" ({})", Shown::from(reason)));
        table.add_row([
            text(&query["query"]["name"]),
            text(&query["state"]),
            percent(&query["share"]),
            query["summary"]["events"].to_string(),
            query["summary"]["rows"].to_string(),
            query["lost"].to_string(),
            text(&query["query"]["sql"]) + &reason.unwrap_or_default(),
        ]);
    }
    say!("{table}");
    let all = percent(&document["share"]);
    let most = percent(&document["limits"]["overhead"]);
    anstream::eprintln!("all together take {all} of one CPU, and may take {most}");
    if let Some(page) = document["page"].as_str() {
        anstream::eprintln!("the page: {}", Shown::from(page));
    }
    Ok(0)
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
