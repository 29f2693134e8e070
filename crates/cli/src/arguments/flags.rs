//! `docs/reference/flags.md`: every flag with the commands that take it, and the law that one flag means one thing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Arg, Command};

use super::command;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/flags.md");
const HEAD: &str = "# Flags\n\nEvery flag of every command, written from the command line itself:\n\
    `BLESS=1 cargo test -p kiln-cli --bin kiln flags`. Where commands differ in what a flag says, each has a row.\n\
    `kiln COMMAND --help` says more. `--format` and `--color` are flags of all commands.\n\n";

/// Flags whose value differs between commands, and why.
const DIFFER: &[(&str, &str)] = &[
    ("btf", "a folder has the types of several kernels, and `tables` says so as PATH"),
    ("native", "`build` has two ways to make native code, `dump` shows the one there is"),
    ("output", "`build` writes several files, all others one"),
];

/// What one flag is called and takes, and what it does: its first sentence.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    short: Option<char>,
    value: String,
    about: String,
}

impl Use {
    fn of(flag: &Arg) -> Use {
        let takes = flag.get_action().takes_values();
        let names = flag.get_value_names().unwrap_or_default().iter().map(|name| name.to_string());
        let value = if takes { names.collect::<Vec<_>>().join(" ") } else { String::new() };
        let about = flag.get_help().map(ToString::to_string).unwrap_or_default();
        let sentence = about.split(". ").next().unwrap_or_default();
        Use { short: flag.get_short(), value, about: sentence.trim_end_matches('.').to_owned() }
    }
}

/// A command, and the commands below it, with the words that lead to each.
fn commands<'c>(command: &'c Command, words: &str, found: &mut Vec<(String, &'c Command)>) {
    for own in command.get_subcommands().filter(|own| own.get_name() != "help") {
        let words = format!("{words} {}", own.get_name()).trim_start().to_owned();
        commands(own, &words, found);
        found.push((words, own));
    }
}

/// The commands of each use of each flag.
fn flags(all: &Command) -> BTreeMap<String, BTreeMap<Use, Vec<String>>> {
    let mut found = Vec::new();
    commands(all, "", &mut found);
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let mut flags: BTreeMap<_, BTreeMap<_, Vec<String>>> = BTreeMap::new();
    for (words, command) in found {
        let own = command.get_arguments().filter(|own| !own.is_hide_set() && !own.is_global_set());
        for flag in own {
            let Some(long) = flag.get_long().filter(|long| !["help", "version", "format"].contains(long)) else {
                continue;
            };
            flags.entry(long.to_owned()).or_default().entry(Use::of(flag)).or_default().push(words.clone());
        }
    }
    flags
}

fn page(flags: &BTreeMap<String, BTreeMap<Use, Vec<String>>>) -> String {
    let mut page = format!("{HEAD}| flag | commands | what it says |\n|---|---|---|\n");
    for (long, uses) in flags {
        for (own, commands) in uses {
            let short = own.short.map_or(String::new(), |short| format!("`-{short}`, "));
            let value = if own.value.is_empty() { String::new() } else { format!(" {}", own.value) };
            let commands = commands.iter().map(|words| format!("`{words}`")).collect::<Vec<_>>().join(", ");
            let about = own.about.replace('|', "\\|");
            let _ = writeln!(page, "| {short}`--{long}{value}` | {commands} | {about} |");
        }
    }
    page
}

#[test]
fn a_flag_takes_the_same_in_every_command() {
    let all = command();
    let flags = flags(&all);
    for (long, uses) in &flags {
        let mut takes: Vec<_> = uses.keys().map(|own| (own.short, &own.value)).collect();
        takes.dedup();
        let may = DIFFER.iter().any(|(own, _)| own == long);
        assert_eq!(takes.len() > 1, may, "--{long}: {takes:?}; DIFFER names the flags that may differ");
    }
    assert!(flags.len() > 80, "{} flags", flags.len());
}

#[test]
fn the_page_of_flags_is_that_of_the_command_line() {
    let made = page(&flags(&command()));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(PAGE, &made).expect("the page is written");
    }
    let kept = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(kept == made, "docs/reference/flags.md: BLESS=1 cargo test -p kiln-cli --bin kiln flags");
}
