//! `kiln`'s commands as a library.
//!
//! Every command is one function here, from an [`Input`] to a value that the command prints:
//!
//! | command | function |
//! |---|---|
//! | `kiln check` | [`commands::check::reports`]; [`check::check`], [`kernels::check`] with `--kernel`, [`lint::lint`] with `--lint` |
//! | `kiln optimize` | [`optimize::optimize`], [`report::page`] with `--report` |
//! | `kiln repair` | [`repair::repair`] |
//! | `kiln sandbox` | [`sandbox::sandbox`] |
//! | `kiln cc` | [`cc::compile`] |
//! | `kiln run` | [`run::run`] |
//! | `kiln bench` | [`bench::bench_all`], [`profile::profile`] with `--profile` |
//! | `kiln build` | [`build::build`] |
//! | `kiln dump` | [`dump::program`]; [`commands::dump`] with `--native` |
//! | `kiln verify-evidence` | [`verify_evidence::verify`] |
//! | `kiln query` | [`query::plan::plan`], then [`query::live::run`] or [`query::replay::run`] |
//! | `kiln serve` | [`serve::Service`], [`serve::listen::Doors`], [`serve::client::Client`] |
//! | `kiln kv` | [`kv::serve`] |
//! | `kiln explain` | [`explain::explain`] |
//! | `kiln doctor` | [`doctor::examine`] |
//!
//! The main job in a few lines; `input::open` reads object files the same way:
//!
//! ```
//! use kiln_driver::{Engine, input, optimize, output, run};
//! # fn main() -> Result<(), kiln_driver::Error> {
//! let text = "; program xdp\n r1 = 1\n r0 = 1\n r0 += r1\n exit\n";
//! let input = input::parse("pass.bpf", text.into(), &[])?;
//! let verdicts = kiln_driver::check::check(&input, &input.select(&[])?);
//! assert!(verdicts[0].verdict.is_accepted());
//!
//! let mut options = optimize::Options::default();
//! options.budget = std::time::Duration::from_secs(1);
//! let smaller = optimize::optimize(&input, &options, &mut ())?;
//! assert!(smaller.programs[0].slots_after < smaller.programs[0].slots_before);
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("pass.opt.bpf");
//! output::write_whole(&path, &smaller.bytes)?;
//!
//! let smaller = input::open(&path, &[])?;
//! let stimulus = run::Stimulus::packet([0; 64]);
//! let ran = run::run(&smaller, smaller.single(&[])?, &stimulus, run::Place::Vm(Engine::Jit))?;
//! assert_eq!(ran.action, Some("XDP_PASS"));
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod clang;
pub mod commands;
pub mod compare;
mod disassembly;
pub mod empty;
pub mod evidence;
pub mod flame_graph;
pub mod heap;
pub mod inputs;
pub mod kernel;
pub mod loading;
pub mod output;
pub mod packets;
pub mod profile;
pub mod report;
pub mod source;
pub mod stack_files;
pub mod target;
pub mod tier;
pub mod timing;

pub use commands::check::{fix, flame, forge, sarif};
pub use commands::doctor::calibrate;
pub use commands::run::replay;
pub use commands::{bench, build, cc, doctor, kv, learn, optimize, repair, run, sandbox, tables, verify_evidence};
pub use inputs::{capture, feed};
pub use kiln_checker::objects;
pub use kiln_inspect::show::{diagnostic, shown};
pub use kiln_inspect::{
    Error, Input, Shown, check, cost, dump, explain, file, folders, hex, input, kernels, lint, ops, sandboxed,
};
pub use kiln_linux::running;
pub use kiln_linux::running::require_kernel;
pub use kiln_live as query;
pub use kiln_live::http;
pub use kiln_native::Setting;
pub use kiln_platform::{ArgKind, Helper, KernelVersion, MapType, Memory, ProgramType};
pub use kiln_policy::{congestion, dispatch};
pub use kiln_program::{MapId, Object, Program, bytecode};
pub use kiln_serve as serve;
pub use kiln_superopt::learn::Watch;
pub use kiln_superopt::{Because, Evidence, Goal, Progress};
pub use kiln_tls as tls;
pub use kiln_verifier::Reason;
/// The embedded VM.
pub use kiln_vm as vm;
pub use kiln_vm::Engine;
pub use loading::DEFAULT_BUDGET;
