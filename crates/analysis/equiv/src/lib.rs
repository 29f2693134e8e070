//! Proves that one window of instructions may stand for another.
//!
//! ```text
//!   before                     after                      facts: r10 is the frame pointer
//!   w1 = 7                     *(u32 *)(r10 - 8) = 7      live after: nothing but stack byte -8
//!   *(u32 *)(r10 - 8) = r1
//! ```
//!
//! Both windows run symbolically on the shared semantics ([`machine`]), from the same initial state: registers and
//! memory bytes are named variables, constrained by the verifier's facts. What is live afterwards must be equal
//! ([`check()`]). Three judges are asked, the cheapest first:
//!
//! 1. [`concrete`]: runs on a few dozen inputs, among them corner values and old counterexamples. It refutes nearly
//!    every wrong candidate in well under a microsecond.
//! 2. [`normalize`]: terms are built in a normal form, so that most equal windows give the *same* term.
//! 3. [`solver`]: an SMT query over bit vectors (no arrays: memory was named byte by byte) with a short limit.
//!
//! What none of them settles is `Unknown`, and the original instructions stand.
//!
//! Rewrite rules, which hold for all registers and immediates, are proved by the same machinery with symbolic
//! immediates: [`rule`].
//!
//! A window may branch, forward inside and out of it: all ways are followed and joined where they meet ([`machine`]),
//! and each exit has its own live registers and stack bytes ([`Exit`]). It may call: calls are events that must be the
//! same in both windows, and what a helper reads and writes is known from its prototype (`calls`).
//!
//! What is not covered (`Unknown`): classic packet loads, address space casts, loops inside a window (their bodies, and
//! what is around them, are windows). What is trusted beside the normalizer and the solver: that the facts hold, that no two maps
//! of an object are the same kernel map (`bpf_map__reuse_fd` could make them so), the helper table.
//! `docs/internals/equivalence.md` has the decisions and the measurements.
//!
//! Reading order: [`term`], [`normalize`], [`window`], [`machine`], [`memory`], `calls`, [`shared`], [`concrete`],
//! [`check`](mod@window::check), [`answers`]; [`operation`] proves the rows of native operations.
#![forbid(unsafe_code)]

pub mod concrete;
pub mod helpers;
pub mod rule;
pub mod simulation;
pub mod term;
pub mod window;

pub use concrete::{Input, Tester};
pub use rule::text::{RuleError, parse_rules};
pub use rule::{Rule, RuleVerdict, prove_rule};
pub use term::{evaluate, normalize, smt, solver};
pub use window::answers::{Answers, Settled};
pub use window::calls::only_answers;
pub use window::check::{check, check_with, literal_query};
pub use window::limits::Limits;
pub use window::question::{Exit, Window};
pub use window::record::{RecordError, WindowRecord, listed};
pub use window::verdict::{Counterexample, Method, Proof, Verdict};
pub use window::{answers, machine, memory, operation, record, shared};
