//! The embedded VM: runs verified programs where there is no kernel to run them, or no need for it.
//!
//! ```text
//!   prepare(object)           sizes that were left to the loader, native operations recognized
//!   Vm::new(&object)          maps, at addresses that never change
//!     .load_needed("prog")    it and where its tail calls lead: verified, checked for what the VM lacks, compiled
//!     .run("prog", input)     packet + context -> R0, packet, maps
//!           |
//!           +-- interpreter: every access checked        both call the same helpers, on the same memory
//!           +-- machine code from kiln-jit: none checked
//! ```
//!
//! A run changes packet, context and maps exactly as `BPF_PROG_TEST_RUN` does, including the space before and after the
//! packet, so that each can be compared with the other. Features that only a kernel has are refused. [`stand_in`]
//! replaces them, only to compare two forms of a program.
//!
//! Threads share a VM: each run occupies one of its CPUs, and maps are shared as the kernel's are
//! (`docs/decisions/0006-maps-shared-between-threads.md`).
//!
//! Reading order: [`mod@prepare`], [`memory`] (addresses and their owners), [`packet`] (contexts), [`map`], [`state`],
//! [`helper`], [`vm`], [`observe`]; `admit` refuses some verified programs; [`stand_in`]. `unsafe` is in a few small modules:
//! [`exec`] (running code), `places` (mapping memory), [`memory`] (owning it), `block` (sharing it between threads),
//! `arena`, `trampoline` (from compiled code into helpers), `perf` (files for profilers) and `clock`; `vm` calls compiled
//! code.
#![deny(unsafe_op_in_unsafe_fn)]

mod abi;
mod admit;
mod arena;
mod block;
mod bounded;
mod budget;
mod clock;
mod cpu;
pub mod errno;
#[cfg_attr(not(all(unix, any(target_arch = "x86_64", target_arch = "aarch64"))), path = "exec_absent.rs")]
pub mod exec;
mod grace;
mod handle;
#[allow(missing_docs, reason = "helpers are documented where they are declared: in kiln_platform")]
pub mod helper;
mod interface;
mod interpreter;
mod jump_tables;
mod load;
mod loaded;
mod locks;
mod machine_code;
pub mod map;
pub mod memory;
#[cfg(feature = "native")]
mod native;
pub mod observe;
mod own;
mod own_operations;
pub mod packet;
#[cfg_attr(not(unix), path = "perf_absent.rs")]
mod perf;
mod places;
mod prepare;
mod private_memory;
pub mod stand_in;
pub mod state;
mod symbols;
mod trampoline;
mod user;
pub mod vm;

pub use arena::Heap;
pub use budget::ASKS as KEEPS_QUANTA;
pub use errno::Errno;
pub use handle::{HeldProgram, ProgramHandle};
pub use interface::{Engine, Error, Input, Options, RunResult};
#[cfg(feature = "native")]
pub use kiln_native::{Setting, Toolchain};
pub use machine_code::{HERE, MachineCode};
pub use map::{Definition, Entries, UpdateFlag, Walked};
#[cfg(feature = "native")]
pub use native::NativeCode;
pub use observe::Observed;
pub use own::{Call, OwnHelper};
pub use perf::PerfFiles;
pub use prepare::{marked, prepare, with_sized_maps};
pub use state::{Clock, Device, MAX_OWN_HELPERS, Output, PerfEvent, Redirect, Route, Socket, Surroundings, Task};
pub use vm::Vm;
