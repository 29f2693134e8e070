//! The values of `--format` that each command takes: its help and the shells' completions list these and no others.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command, CommandFactory as _, Error, ValueEnum as _};

use super::{Cli, Format};

/// What commands print unless [`OTHERS`] names them.
const USUAL: &[Format] = &[Format::Text, Format::Json];
/// For the rows of queries.
const ROWS: &[Format] = &[Format::Text, Format::Json, Format::Table, Format::Lines, Format::Csv, Format::Ndjson];
/// For the rows of queries that end: files, too.
const FILES: &[Format] = &[
    Format::Text,
    Format::Json,
    Format::Table,
    Format::Lines,
    Format::Csv,
    Format::Ndjson,
    Format::Parquet,
    Format::Arrow,
    Format::FlameGraph,
    Format::Pprof,
];
/// Commands with other formats; an empty list stands for a command that prints in one way only.
const OTHERS: &[(&str, &[Format])] = &[
    ("check", &[Format::Text, Format::Json, Format::Sarif, Format::Github, Format::Gitlab]),
    ("query", FILES),
    ("serve", ROWS),
    ("cc", &[]),
    ("lsp", &[]),
    ("completions", &[]),
    ("manual", &[]),
];

/// The command line, with the formats of each command.
pub fn command() -> Command {
    let mut command = Cli::command();
    let format = command.get_arguments().find(|argument| argument.get_id() == "format").cloned();
    let format = format.unwrap_or_else(|| Arg::new("format"));
    let names: Vec<String> = command.get_subcommands().map(|own| own.get_name().to_owned()).collect();
    for name in names {
        let formats = of(&name);
        let own = format.clone().value_parser(Parser(formats)).hide(formats.is_empty());
        command = command.mut_subcommand(name, |sub| sub.arg(own));
    }
    command.mut_arg("format", |all| all.value_parser(Parser(USUAL)))
}

/// The formats of a command.
fn of(command: &str) -> &'static [Format] {
    OTHERS.iter().find(|(own, _)| *own == command).map_or(USUAL, |(_, formats)| *formats)
}

/// Checks that a format is one of a command's. Errors may be printed in the usual ones whatever the command prints.
///
/// # Errors
/// Returns a sentence with the commands that have the format.
pub fn check(command: &str, format: Format) -> Result<(), String> {
    if USUAL.contains(&format) || of(command).contains(&format) {
        return Ok(());
    }
    let name = format.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let owners = OTHERS.iter().filter(|(_, formats)| formats.contains(&format));
    let owners: Vec<String> = owners.map(|(owner, _)| format!("kiln {owner}")).collect();
    Err(format!("--format {name} is for {}", owners.join(" and ")))
}

/// Takes every format, so that the command can say whose it is, and lists those of one command.
#[derive(Clone, Debug)]
struct Parser(&'static [Format]);

impl TypedValueParser for Parser {
    type Value = Format;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<Format, Error> {
        if let Some(format) = value.to_str().and_then(|value| Format::from_str(value, false).ok()) {
            return Ok(format);
        }
        let listed = PossibleValuesParser::new(self.0.iter().filter_map(Format::to_possible_value));
        listed.parse_ref(command, argument, value).map(|_| Format::Text)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().filter_map(Format::to_possible_value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_of_their_commands() {
        for (command, format, owners) in [
            ("check", Format::Sarif, None),
            ("dump", Format::Sarif, Some("--format sarif is for kiln check")),
            ("serve", Format::Csv, None),
            ("kv", Format::Csv, Some("--format csv is for kiln query and kiln serve")),
            ("serve", Format::FlameGraph, Some("--format flame-graph is for kiln query")),
            ("cc", Format::Json, None),
        ] {
            assert_eq!(check(command, format).err().as_deref(), owners, "{command}");
        }
    }
}
