//! The table of rows in `docs/reference/operations.md` has the rows of the operation table, and their machines.

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
