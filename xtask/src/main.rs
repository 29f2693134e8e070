//! The project's own tasks. `cargo xtask` lists them.
//!
//! ```text
//!   make test --> scripts/setup, scripts/corpus --> cargo xtask test --> cargo test (tidy among them), short fuzzing
//!   make demo --> scripts/setup, scripts/corpus --> cargo xtask demo --> kiln bench on real objects
//! ```
//!
//! Each task is a row of [`TASKS`] and a module.
#![forbid(unsafe_code)]

mod bench;
mod command;
mod demo;
mod dist;
mod fuzz;
mod manual;
mod mistakes;
mod publish;
mod site;
mod structure;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

use command::Failure;

struct Task {
    name: &'static str,
    arguments: &'static str,
    what: &'static str,
    run: fn(&[String]) -> Result<(), Failure>,
}

const TASKS: &[Task] = &[
    Task {
        name: "tidy",
        arguments: "",
        what: "check the house rules: dependency directions, unsafe code, documents, tracked files",
        run: tidy::run,
    },
    Task {
        name: "test",
        arguments: "[--quick]",
        what: "run all tests and a short fuzzing run; ends with `N passed, N failed, N skipped`",
        run: test::run,
    },
    Task {
        name: "demo",
        arguments: "[--quick]",
        what: "optimize and run real objects, in the VM and the kernel, and print one table",
        run: demo::run,
    },
    Task {
        name: "bench",
        arguments: "[NAME...] | heap | pool | kv | query | congestion | dispatch | verifier | optimizer | equiv | evidence | scale | native | peers",
        what: "compare the VM with the kernel on bench/programs, our verifier with the kernel's, programs before and \
               after optimizing, heaps with native C, queries with bpftrace, congestion control \
               policies with the kernel's algorithms, dispatch policies with its hash, how equivalence is settled, engines of \
               machine code with each other, or other runtimes",
        run: bench::run,
    },
    Task {
        name: "fuzz",
        arguments: "[coverage] [--seconds N] ...",
        what: "fuzz, and say what a run reaches; what else it takes is said by `cargo xtask fuzz --help`",
        run: fuzz::run,
    },
    Task {
        name: "mistakes",
        arguments: "",
        what: "write docs/reference/mistakes.md: what each verifier prints",
        run: mistakes::run,
    },
    Task {
        name: "messages",
        arguments: "",
        what: "write docs/reference/messages.md: what Kiln, Linux 6.18 and 7.3 say of the same programs",
        run: mistakes::messages,
    },
    Task {
        name: "structure",
        arguments: "[--format json]",
        what: "measure circles of imports, imports that run back up, long files and long functions",
        run: structure::run,
    },
    Task {
        name: "words",
        arguments: "[--pages]",
        what: "count the words of the documents: prose, code, and pages that a command writes",
        run: tidy::words::run,
    },
    Task {
        name: "dist",
        arguments: "[--without-solver | --other-systems] [--output FOLDER]",
        what: "build the static binary and pack it: tarball, .deb, manual pages, completions, SBOM, checksums",
        run: dist::run,
    },
    Task {
        name: "publish-check",
        arguments: "[--quick]",
        what: "pack every package that is published, and build each from what was packed (--quick: pack only)",
        run: publish::run,
    },
    Task {
        name: "site",
        arguments: "[--book]",
        what: "write the playground into target/site (needs the Rust target wasm32-wasip1), and the documents with mdBook",
        run: site::run,
    },
    Task {
        name: "manual",
        arguments: "",
        what: "print docs/reference/isa.md from the instruction table",
        run: manual::run,
    },
];

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask TASK\n\n");
    for task in TASKS {
        text += &format!("  {:9} {:31} {}\n", task.name, task.arguments, task.what);
    }
    text
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(task) = arguments.first().and_then(|name| TASKS.iter().find(|task| task.name == name)) else {
        eprint!("{}", usage());
        return ExitCode::from(2);
    };
    match (task.run)(&arguments[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask {}: {failure}", task.name);
            ExitCode::from(failure.code)
        }
    }
}
