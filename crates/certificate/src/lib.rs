//! The checker of evidence: replays what the optimizer did, from the listings alone.
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
//! Nothing in a certificate is trusted. A claim is assumed where paths begin, because it is proved wherever paths end.
//! A missing pair makes paths longer, not fewer. The arguments of both functions are fixed
//! ([`relation::Relation::entry`]). The assumptions are [`check::ASSUMPTIONS`]; none of them comes from the certificate
//! or from Kiln's verifier. The checker finds again from the listing where pointers lead ([`provenance`]).
//!
//! The module [`find`] makes certificates and is not trusted: its errors are not proved. From the workspace, the
//! checker uses the instruction set, the tables of helpers and contexts, and the text of listings. It uses nothing of
//! the optimizer, its equivalence checker or the verifier.

#![forbid(unsafe_code)]

mod algebra;
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
