//! Fuzzers in three tiers, and the canary bugs that they must find.
//!
//! ```text
//!   tier        input                              what must hold
//!   bytes       files and texts, mutated           an answer: no panic, no hang, no huge allocation; what was read
//!                                                  can be written again
//!   decodable   random valid instructions          text and encoding lose nothing; the verifier ends with a verdict
//!   accepted    programs the verifier accepts      no run faults; every concrete state lies within the Facts;
//!                                                  interpreter = JIT = kernel; original = optimized
//! ```
//!
//! Every input is a byte string: a program is *grown* from one ([`choices`], [`program`]), so that one mutator, one
//! minimizer and one file format serve all tiers. Input number `i` of a seed is a pure function of both, so a run can
//! be repeated, and an input that killed the process can be made again from its number alone.
//!
//! The harness is ours and runs on stable Rust; docs/decisions/0001-fuzzing-in-process.md says why.
//!
//! Reading order: [`engine`] (the loop), [`targets`] (what is fuzzed), [`subject`] (Kiln, and Kiln with a canary bug in
//! it), [`program`] and [`composed`] (how programs grow), [`coverage`] (what of them does what).
#![forbid(unsafe_code)]

pub mod c_programs;
pub mod change;
pub mod choices;
pub mod composed;
pub mod coverage;
pub mod differential;
pub mod engine;
pub mod minimize;
pub mod mutate;
pub mod originals;
mod part;
pub mod program;
pub mod seeds;
pub mod shrink;
pub mod subject;
pub mod targets;
pub mod usage;
mod wrong_rewrites;
