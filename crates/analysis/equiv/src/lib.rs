//! Proves that one straight-line window of instructions may stand for another.
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
//! A window may branch: out of it, and then the truth values that decide must be equal; or over some of its own
//! instructions that compute registers, and then both ways are joined where they meet ([`machine`]).
//!
//! What is not covered: windows with calls, classic packet loads, address space casts or other branches (`Unknown`). What is
//! trusted beside the normalizer and the solver: that the facts hold, and that no two maps of an object are the same
//! kernel map (`bpf_map__reuse_fd` could make them so).
//!
//! Reading order: [`term`], [`normalize`], [`window`], [`machine`], [`memory`], [`shared`], [`concrete`],
//! [`check`](mod@check).
#![forbid(unsafe_code)]

mod arithmetic;
pub mod check;
pub mod concrete;
pub mod evaluate;
pub mod machine;
pub mod memory;
pub mod normalize;
pub mod rule;
pub mod rule_text;

pub mod shared;
pub mod smt;
pub mod solver;
pub mod term;
pub mod window;

pub use check::{check, check_with, literal_query};
pub use concrete::{Input, Tester};

pub use rule::{Rule, RuleVerdict, prove_rule};
pub use rule_text::{RuleError, parse_rules};
pub use window::{Counterexample, Limits, Method, Proof, Verdict, Window};
