//! Analyses of a program's graph that need no verifier: what is read later, and which bits may be one.

pub mod calls;
pub mod demand;
pub mod possible;
