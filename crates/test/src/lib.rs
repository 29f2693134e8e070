//! Code that tests of several crates share: the filetest runner and the oracles.
//!
//! A filetest is a program in Kiln's text form with expectations as directives:
//!
//! ```text
//! ; program xdp
//! ; check: reject possibly-null                what the kernel says, and why Kiln says so
//! ; run: packet 00*14 => return 2              on every engine
//!   r1 = map[counters]
//!   ...
//!   r0 = *(u64 *)(r0 + 0)                      ; error: possibly-null
//! ```
//!
//! ```text
//!   tests/filetests/<room>/*.bpf -- Filetest::read --> parts: round trip, check, run, optimize
//!                                                        |        |       |
//!              program text, encoding <------------------+        |       +--> reference, VM, JIT, kernel; optimized
//!              our verifier and the kernel's <--------------------+
//! ```
//!
//! - [`filetest`]: reading files and expectations, and rewriting listings (`BLESS=1`);
//! - [`boundary`]: one small function per boundary that a part crosses;
//! - [`verdicts`]: `tests/verdicts.toml`, where Kiln and the kernel may disagree, with a reason;
//! - [`agreement`]: comparison of verdicts with those of kernels, and its report;
//! - [`bare`]: the smallest environment for the reference interpreter;
//! - [`havoc`]: an environment whose helpers and maps return random results;
//! - [`engine`]: one interface to everything that runs a program;
//! - [`generate`]: random programs;
//! - [`oracle`]: properties of every program, each with a canary bug that it must find.
#![forbid(unsafe_code)]

/// What the `kiln` command has: tests that optimize take a third less time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub mod agreement;
pub mod bare;
pub mod boundary;
pub mod corpus;
pub mod engine;
pub mod filetest;
pub mod generate;
pub mod havoc;
pub mod messages;
pub mod mistakes;
pub mod oracle;
pub mod stack_objects;
pub mod sweep;
pub mod verdicts;
