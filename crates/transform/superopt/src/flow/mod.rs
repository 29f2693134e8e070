//! What the graph of a program tells without a verifier: what is read later, and what may be there.

pub mod calls;
pub mod demand;
pub mod possible;
