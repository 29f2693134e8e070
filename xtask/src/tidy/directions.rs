//! Who may depend on whom.
//!
//! `docs/internals/architecture.md` has one table with a row a package and a column "may use". That table is the rule: a package
//! may depend on what its row names, and on what those rows name in turn. So a reader and the check look at one text.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use crate::workspace::{Package, Workspace, room};

const ARCHITECTURE: &str = "docs/internals/architecture.md";

struct Row {
    line: usize,
    folder: String,
    package: String,
    uses: String,
}

fn rows(workspace: &Workspace) -> Vec<Row> {
    let lines = workspace.text(ARCHITECTURE).lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, folder, package, _, uses, _] = cells[..] else { return None };
            let quoted = |cell: &str| Some(cell.strip_prefix('`')?.strip_suffix('`')?.to_owned());
            Some(Row { line: index + 1, folder: quoted(folder)?, package: quoted(package)?, uses: uses.to_owned() })
        })
        .collect()
}

/// What each room may use, by its row and the rows it names; also the words that are no room.
fn allowed_rooms(rows: &[Row]) -> (BTreeMap<String, BTreeSet<String>>, Vec<Finding>) {
    let mut allowed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut findings = Vec::new();
    for row in rows {
        let mut own = BTreeSet::new();
        for word in row.uses.split(',').map(str::trim) {
            match word {
                "nothing of ours" | "-" | "" => {}
                "all of the above" => own.extend(allowed.keys().cloned()),
                word => match allowed.get(word) {
                    Some(further) => {
                        own.extend(further.iter().cloned());
                        own.insert(word.to_owned());
                    }
                    None => findings.push(Finding::line(
                        ARCHITECTURE,
                        row.line,
                        format!("\"may use\" names '{word}', which no row above is about"),
                    )),
                },
            }
        }
        allowed.insert(room(&row.package).to_owned(), own);
    }
    (allowed, findings)
}

/// Dependencies on packages of the workspace, those of tests left out.
fn local(package: &Package) -> impl Iterator<Item = &str> {
    package.dependencies.iter().filter(|it| it.local && !it.development).map(|it| room(&it.name))
}

/// Each package depends only on what its row allows.
pub fn allowed(workspace: &Workspace) -> Vec<Finding> {
    let (allowed, mut findings) = allowed_rooms(&rows(workspace));
    for package in &workspace.packages {
        let Some(own) = allowed.get(package.room()) else { continue };
        for used in local(package).filter(|used| !own.contains(*used)) {
            findings.push(Finding::file(
                &format!("{}/Cargo.toml", package.folder),
                format!("{} may not depend on {used} ({ARCHITECTURE}, \"may use\")", package.room()),
            ));
        }
    }
    findings
}

/// Front ends, transforms and back ends never import one another, except that the VM runs what
/// the JIT and the native compiler make. Holds whatever the table says.
pub fn rooms(workspace: &Workspace) -> Vec<Finding> {
    const SIDES: [&str; 3] = ["crates/frontend/", "crates/transform/", "crates/backend/"];
    let on_a_side = |package: &Package| SIDES.iter().any(|side| package.folder.starts_with(side));
    let sides: BTreeSet<&str> = workspace.packages.iter().filter(|it| on_a_side(it)).map(Package::room).collect();
    let mut findings = Vec::new();
    for package in workspace.packages.iter().filter(|package| sides.contains(package.room())) {
        for used in local(package).filter(|used| sides.contains(used)) {
            if package.room() != "vm" || !["jit", "native"].contains(&used) {
                findings.push(Finding::file(
                    &format!("{}/Cargo.toml", package.folder),
                    format!("{} imports {used}: front ends, transforms and back ends stay apart", package.room()),
                ));
            }
        }
    }
    findings
}

/// The table's rows and the packages are the same.
pub fn listed(workspace: &Workspace) -> Vec<Finding> {
    let rows = rows(workspace);
    let mut findings = Vec::new();
    for package in &workspace.packages {
        if !rows.iter().any(|row| row.package == package.name && row.folder == package.folder) {
            findings.push(Finding::file(ARCHITECTURE, format!("no row for `{}` (`{}`)", package.folder, package.name)));
        }
    }
    for row in &rows {
        if !workspace.packages.iter().any(|package| package.name == row.package) {
            findings.push(Finding::line(ARCHITECTURE, row.line, format!("there is no package {}", row.package)));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn workspace(dependencies: &[(&str, &str, &[&str])]) -> Workspace {
        let table = "| folder | package | what | may use |\n|---|---|---|---|\n\
            | `crates/isa` | `kiln-isa` | x | nothing of ours |\n\
            | `crates/frontend/elf` | `kiln-elf` | x | isa |\n\
            | `crates/backend/jit` | `kiln-jit` | x | isa |\n\
            | `crates/backend/vm` | `kiln-vm` | x | jit |\n\
            | `crates/driver` | `kiln-driver` | x | all of the above |\n";
        let packages = dependencies.iter().map(|(name, folder, uses)| Package {
            name: (*name).to_owned(),
            folder: (*folder).to_owned(),
            roots: Vec::new(),
            dependencies: uses
                .iter()
                .map(|name| Dependency { name: (*name).to_owned(), local: true, development: false })
                .collect(),
        });
        Workspace { files: [(ARCHITECTURE.to_owned(), table.as_bytes().to_vec())].into(), packages: packages.collect() }
    }

    #[test]
    fn rows_allow_what_they_name_and_what_that_names() {
        let good = workspace(&[
            ("kiln-isa", "crates/isa", &[]),
            ("kiln-elf", "crates/frontend/elf", &["kiln-isa"]),
            ("kiln-jit", "crates/backend/jit", &["kiln-isa"]),
            ("kiln-vm", "crates/backend/vm", &["kiln-jit", "kiln-isa"]),
            ("kiln-driver", "crates/driver", &["kiln-vm", "kiln-isa"]),
        ]);
        for check in [allowed, rooms, listed] {
            assert_eq!(check(&good), []);
        }
    }

    #[test]
    fn a_wrong_direction_is_found() {
        let wrong = workspace(&[("kiln-isa", "crates/isa", &["kiln-driver"]), ("kiln-driver", "crates/driver", &[])]);
        assert_eq!(allowed(&wrong).len(), 1);
        let wrong =
            workspace(&[("kiln-elf", "crates/frontend/elf", &["kiln-vm"]), ("kiln-vm", "crates/backend/vm", &[])]);
        assert_eq!((allowed(&wrong).len(), rooms(&wrong).len()), (1, 1));
    }

    #[test]
    fn a_package_without_a_row_is_found() {
        let wrong = workspace(&[("kiln-new", "crates/new", &[])]);
        assert!(listed(&wrong).iter().any(|finding| finding.message.contains("crates/new")));
    }
}
