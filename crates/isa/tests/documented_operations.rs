//! The table of rows in `docs/reference/operations.md` has the rows of the operation table, and their machines. Its list of mutants
//! is `proofs/survivors.txt` (`BLESS=1` writes it).

use std::collections::BTreeSet;

use kiln_isa::operation::{Arch, Registry};

#[test]
fn the_documentation_lists_every_row() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/operations.md");
    let text = std::fs::read_to_string(path).expect("the page");
    let lines = text.lines().skip_while(|line| !line.starts_with("| rows |")).skip(2);
    let mut listed = BTreeSet::new();
    for line in lines.take_while(|line| line.starts_with('|')) {
        // A bar inside of a cell is escaped.
        let line = line.replace("\\|", "");
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [names, _, machines @ ..] = &cells[..] else { panic!("a row without cells: {line}") };
        assert_eq!(machines.len(), Arch::ALL.len(), "{line}");
        for name in names.split(", ").map(|name| name.trim_matches('`')) {
            let operation = Registry::BUILTIN.by_name(name).unwrap_or_else(|| panic!("there is no row {name}"));
            for (arch, says) in Arch::ALL.into_iter().zip(machines) {
                assert_eq!(*says != "none", operation.is_native_on(arch), "{name} on {}", arch.name());
            }
            assert!(listed.insert(name.to_owned()), "{name} is listed twice");
        }
    }
    let all: BTreeSet<String> = Registry::BUILTIN.operations().map(|operation| operation.name.to_owned()).collect();
    assert_eq!(listed, all);
}

/// The mutants of `proofs/survivors.txt`, counted by the reason that the comment before them says, with the first of each.
fn survivors() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proofs/survivors.txt");
    let text = std::fs::read_to_string(path).expect("the list of survivors");
    let (_, listed) = text.split_once("\n\n").expect("the list begins after an empty line");
    let mut table = String::from("| why they are right | mutants | such as |\n|---|--:|---|\n");
    for group in listed.split("\n\n") {
        let (reason, mutants): (Vec<&str>, Vec<&str>) = group.lines().partition(|line| line.starts_with("# "));
        let reason: Vec<&str> = reason.iter().map(|line| &line[2..]).collect();
        assert!(!reason.is_empty() && !mutants.is_empty(), "a reason, then its mutants: {group}");
        table += &format!("| {} | {} | `{}` |\n", reason.join(" "), mutants.len(), mutants[0]);
    }
    table
}

#[test]
fn the_documentation_lists_every_mutant_that_is_proved() {
    const MARKS: [&str; 2] = ["<!-- survivors -->\n", "<!-- /survivors -->"];
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/operations.md");
    let text = std::fs::read_to_string(path).expect("the page");
    let (before, rest) = text.split_once(MARKS[0]).expect("the list begins");
    let (listed, after) = rest.split_once(MARKS[1]).expect("the list ends");
    let survivors = survivors();
    if std::env::var_os("BLESS").is_some() {
        let page = format!("{before}{}{survivors}{}{after}", MARKS[0], MARKS[1]);
        return std::fs::write(path, page).expect("the page is written");
    }
    assert!(listed == survivors, "docs/reference/operations.md lists other mutants: BLESS=1 writes them");
}
