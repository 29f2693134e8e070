//! The checker of evidence: a small program that replays what the optimizer did, from the listings alone.
//!
//! ```text
//!   original.bpf --- stage 1 --- stage 2 --- optimized.bpf        listings, each a difference from the one before
//!                      |
//!                      +-- function f: meeting pairs, and what is claimed to hold at each
//!                            from each pair, all paths of both versions to the next ([`walk`]), by isa's semantics
//!                            the same branches, calls, stores and results, and the claims there: a query each
//! ([`prove`])
//! ```
//!
//! Nothing in a certificate is believed. A claim is assumed where paths begin because it is proved wherever they end; a
//! pair that is missing makes paths longer, not fewer; what both functions are handed is fixed
//! ([`relation::Relation::entry`]).
//! What is taken for granted is [`check::ASSUMPTIONS`], and nothing of it comes from the certificate or from Kiln's
//! verifier: where pointers lead is found again from the listing ([`provenance`]).
//!
//! The module [`find`] makes certificates and is not trusted: what it gets wrong is not proved. Of the workspace,
//! the checker
//! uses the instruction set, the tables of helpers and contexts, and the text of listings; nothing of the
//! optimizer, its
//! equivalence checker or the verifier.

#![forbid(unsafe_code)]

pub mod check;
mod event;
pub mod find;
pub mod format;
pub mod live;
pub mod prove;
pub mod provenance;
pub mod relation;
pub mod solver;
pub mod state;
pub mod term;
pub mod walk;
