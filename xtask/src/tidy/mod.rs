//! The house rules, as checks that a machine can make.
//!
//! A rule that only a document states is soon broken. Each rule of `docs/internals/architecture.md` and of the house style that
//! can be told from the files is a row of [`CHECKS`], a function from a [`Workspace`] to what is wrong with it:
//!
//! ```text
//!   crates/frontend/elf/Cargo.toml: elf may not depend on vm (docs/internals/architecture.md, "may use")
//!   crates/isa/src/text.rs:1: a module begins with `//!` and what it is about
//! ```
//!
//! The test below runs all of them on this repository, so `cargo test` fails when one does; the other tests show each
//! check a small workspace that breaks its rule.

mod directions;
pub mod documents;
mod files;
mod finding;
mod lexer;
mod pages;
mod sources;
mod structure;
pub mod words;

use crate::command::{Failure, flags};
use crate::workspace::Workspace;
use finding::Finding;

struct Check {
    what: &'static str,
    run: fn(&Workspace) -> Vec<Finding>,
}

const CHECKS: &[Check] = &[
    Check { what: "dependencies go the way that architecture.md says", run: directions::allowed },
    Check { what: "front ends, transforms and back ends do not import one another", run: directions::rooms },
    Check { what: "every package is in architecture.md's table, and no other", run: directions::listed },
    Check { what: "unsafe code is where it may be, each with its reason", run: sources::unsafe_code },
    Check { what: "every other crate forbids unsafe code", run: sources::forbids_unsafe },
    Check { what: "modules begin with what they are about", run: sources::module_documents },
    Check { what: "no file is too long", run: sources::length },
    Check { what: "no circle of imports has more than three files", run: structure::circles },
    Check { what: "nothing is left for later in the text", run: sources::unfinished },
    Check { what: "no machine's paths or package mirrors", run: files::machine_paths },
    Check { what: "no binary files", run: files::binaries },
    Check { what: "every phony target of the Makefile has a rule", run: files::targets },
    Check { what: "filetest folders are named after rooms", run: files::filetest_folders },
    Check { what: "every dependency has its row in dependencies.md, and no other", run: documents::dependencies },
    Check { what: "links in documents lead somewhere", run: documents::links },
    Check { what: "every page is in the table of contents, once", run: documents::contents },
    Check { what: "pages have no more words than their rooms may", run: words::ceilings },
    Check { what: "no page has too many words", run: words::long_pages },
    Check { what: "files that pages about the code name are there", run: pages::paths },
    Check { what: "structure.md counts the files that each recipe changes", run: pages::files_of_recipes },
];

/// `cargo xtask tidy`.
///
/// # Errors
/// When a check finds something.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let [] = flags(arguments, [])?;
    let workspace = Workspace::read()?;
    let mut count = 0;
    for check in CHECKS {
        let findings = (check.run)(&workspace);
        println!("{} {}", if findings.is_empty() { "ok  " } else { "FAIL" }, check.what);
        for finding in &findings {
            println!("     {finding}");
        }
        count += findings.len();
    }
    if count == 0 { Ok(()) } else { Err(Failure::failed(format!("{count} findings"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_is_tidy() {
        let workspace = Workspace::read().unwrap();
        assert!(workspace.files.len() > 100, "git ls-files lists too little to be this repository");
        let findings: Vec<String> =
            CHECKS.iter().flat_map(|check| (check.run)(&workspace)).map(|finding| finding.to_string()).collect();
        assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
    }
}
