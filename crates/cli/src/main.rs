//! The `kiln` command: flags in, [`kiln_driver`] called, results printed.
//!
//! Results go to standard output, everything else to standard error; `--format json` prints one document, also for an
//! error: `{"error": {"kind", "message", "exit_code"}}` (with `"errno"` for a failed system call), beside the text on standard error. Exit
//! codes are stable: 0 done, 1 rejected or different, 2 bad input or usage, 3 not supported here.
#![forbid(unsafe_code)]

mod arguments;
mod build;
mod check;
mod commands;
mod congestion;
mod dispatch;
mod explain;
mod kv;
mod live;
mod measured;
mod optimize;
mod output;
mod print;
mod progress;
mod query;
mod repair;
mod rows;
mod serve;
mod tables;

use std::process::ExitCode;

use clap::FromArgMatches as _;
use clap_complete::CompleteEnv;

use arguments::{Cli, Color, Command, Format, complete};

/// Terms, states and sets of facts are many small pieces, and the solver's are, too: it takes its memory from here as well.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A shell asks for words that complete a command line; this ends the process if it does.
    CompleteEnv::with_factory(arguments::command).var(complete::VARIABLE).complete();
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, not errors; anything else is bad usage.
            let code = if error.use_stderr() { 2 } else { 0 };
            if let Err(failure) = error.print() {
                let failure = kiln_driver::Error::io("standard output", &failure);
                print::error(&failure, Format::Text);
                return ExitCode::from(failure.exit_code());
            }
            let wants = |format: &str| {
                std::env::args_os().any(|argument| argument == format || argument == *format!("--format={format}"))
            };
            let message = error.render().to_string();
            if code != 0 && wants("json") {
                print::error_document("usage", message.trim(), code, None);
            } else if code != 0 && wants("sarif") {
                print::failed_log(message.trim(), code);
            }
            return ExitCode::from(code);
        }
    };
    let format = cli.format;
    match cli.color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
    let of_reviews = matches!(format, Format::Sarif | Format::Github | Format::Gitlab);
    if of_reviews && !matches!(cli.command, Command::Check(_)) {
        anstream::eprintln!("error: --format sarif, github and gitlab are for kiln check");
        return ExitCode::from(2);
    }
    let of_rows = matches!(format, Format::Table | Format::Lines | Format::Csv | Format::Ndjson);
    if of_rows && !matches!(cli.command, Command::Query(_) | Command::Serve(_)) {
        anstream::eprintln!("error: --format table, lines, csv and ndjson are for kiln query and kiln serve show");
        return ExitCode::from(2);
    }
    let of_files = matches!(format, Format::Parquet | Format::Arrow | Format::FlameGraph | Format::Pprof);
    if of_files && !matches!(cli.command, Command::Query(_)) {
        anstream::eprintln!("error: --format parquet, arrow, flame-graph and pprof are for kiln query");
        return ExitCode::from(2);
    }
    let result = match cli.command {
        Command::Check(arguments) => check::check(&arguments, format),
        Command::Optimize(arguments) => optimize::optimize(&arguments, format),
        Command::Repair { object, arguments } => repair::repair(&object, &arguments, format),
        Command::Sandbox(arguments) => commands::sandbox(&arguments, format),
        Command::Build(arguments) => build::build(&arguments, format),
        Command::Cc(arguments) => commands::cc(&arguments),
        Command::VerifyEvidence(arguments) => commands::verify_evidence(&arguments, format),
        Command::Learn(arguments) => commands::learn(&arguments, format),
        Command::Run(arguments) => commands::run(&arguments, format),
        Command::Bench(arguments) => commands::bench(&arguments, format),
        Command::Dump(arguments) => commands::dump(&arguments, format),
        Command::Ops(arguments) => commands::ops(&arguments, format),
        Command::Explain(arguments) => explain::explain(&arguments, format),
        Command::Query(arguments) => query::query(&arguments, format),
        Command::Serve(arguments) => serve::serve(&arguments, format),
        Command::Kv(arguments) => kv::kv(&arguments, format),
        Command::Tables(arguments) => tables::tables(&arguments, format),
        Command::Congestion(arguments) => congestion::congestion(&arguments, format),
        Command::Dispatch(arguments) => dispatch::dispatch(&arguments, format),
        Command::Doctor { calibrate: true, output, .. } => commands::calibrate(output.as_deref(), format),
        Command::Doctor { dev, .. } => commands::doctor(dev, format),
        Command::Completions { shell } => commands::completions(shell),
        Command::Manual { folder } => commands::manual(&folder),
        Command::Lsp { stdio: _ } => kiln_lsp::run(),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            print::error(&error, format);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Reads the command line.
fn parse() -> Result<Cli, clap::Error> {
    let mut command = arguments::command();
    // Help is as wide as the terminal, which may not know how wide it is.
    if let Some(width) = print::terminal_width() {
        command = command.term_width(width);
    }
    let mut matches = command.clone().try_get_matches()?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}
