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
use kiln_checker::{output, say};

use arguments::{Cli, Color, Command, complete};

/// Terms, states and sets of facts are many small pieces, and the solver's are, too: it takes its memory from here as well.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A shell asks for words that complete a command line; this ends the process if it does.
    CompleteEnv::with_factory(arguments::command).var(complete::VARIABLE).complete();
    let (cli, command) = match parse() {
        Ok(parsed) => parsed,
        Err(error) => return ExitCode::from(kiln_checker::arguments::answer(&error)),
    };
    let format = cli.format;
    match cli.color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
    if let Err(message) = arguments::check_format(&command, format) {
        anstream::eprintln!("error: {message}");
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

/// Reads the command line; also returns the command's name.
fn parse() -> Result<(Cli, String), clap::Error> {
    let mut command = arguments::command();
    // Help is as wide as the terminal, which may not know how wide it is.
    if let Some(width) = print::terminal_width() {
        command = command.term_width(width);
    }
    let mut matches = command.clone().try_get_matches()?;
    let name = matches.subcommand_name().unwrap_or_default().to_owned();
    let cli = Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))?;
    Ok((cli, name))
}
