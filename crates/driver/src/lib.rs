//! `kiln`'s commands as a library.
//!
//! Every command is one function here, from an [`Input`] to a value that the command prints:
//!
//! | command | function |
//! |---|---|
//! | `kiln check` | [`check::check`], [`profiles::check`] with `--kernel`, [`lint::lint`] with `--lint` |
//! | `kiln optimize` | [`optimize::optimize`], [`report::page`] with `--report` |
//! | `kiln sandbox` | [`sandbox::sandbox`] |
//! | `kiln cc` | [`compile::compile`] |
//! | `kiln run` | [`run::run`] |
//! | `kiln bench` | [`bench::bench_all`], [`profile::profile`] with `--profile` |
//! | `kiln build` | [`native::build`] |
//! | `kiln dump` | [`dump::program`] |
//! | `kiln verify-evidence` | [`recheck::verify`] |
//! | `kiln query` | [`query::plan::plan`], then [`query::live::run`] or [`query::replay::run`] |
//! | `kiln serve` | [`serve::Service`], [`serve::listen::Doors`], [`serve::client::Client`] |
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
//! let verdicts = kiln_driver::check::check(&input, &input.select(&[])?, false);
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

pub mod commands;

pub mod file;
pub mod folders;
pub mod input;
pub mod lint;
pub mod show;

#[cfg(not(target_family = "wasm"))]
pub mod clang;
#[cfg(not(target_family = "wasm"))]
pub mod http;
#[cfg(not(target_family = "wasm"))]
pub mod inputs;
#[cfg(not(target_family = "wasm"))]
pub mod kernel;
#[cfg(not(target_family = "wasm"))]
pub mod output;
#[cfg(not(target_family = "wasm"))]
pub mod target;
#[cfg(not(target_family = "wasm"))]
pub use commands::run::DEFAULT_BUDGET;
#[cfg(not(target_family = "wasm"))]
pub use commands::{
    bench, calibrate, check_objects, compare, compile, congestion, dispatch, doctor, evidence, examples, explain, heap,
    learn, machine, native, objects, optimize, packets, profile, profiles, query, recheck, replay, run, sandbox, serve,
};
#[cfg(not(target_family = "wasm"))]
pub use inputs::{capture, feed};
#[cfg(not(target_family = "wasm"))]
pub use kernel::running;
#[cfg(not(target_family = "wasm"))]
pub use kernel::running::require_kernel;
#[cfg(not(target_family = "wasm"))]
pub use kiln_native::Setting;
#[cfg(not(target_family = "wasm"))]
pub use kiln_superopt::learn::Watch;
#[cfg(not(target_family = "wasm"))]
pub use kiln_superopt::{Because, Evidence, Goal, Progress};
/// The embedded VM.
#[cfg(not(target_family = "wasm"))]
pub use kiln_vm as vm;
#[cfg(not(target_family = "wasm"))]
pub use kiln_vm::Engine;
#[cfg(not(target_family = "wasm"))]
pub use show::{report, sarif};

pub use commands::{cancellation, check, cost, dump, operations};
pub use input::Input;
pub use kiln_platform::{ArgKind, Helper, KernelVersion, MapType, Memory, ProgramType};
pub use kiln_program::{Error, error};
pub use kiln_program::{MapId, Object, Program, bytecode};
pub use kiln_verifier::Reason;
pub use show::shown::Shown;
pub use show::{diagnostic, flame, shown};
