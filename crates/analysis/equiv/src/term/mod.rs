//! Symbolic bit vectors: a hash-consed graph of terms.
//!
//! A [`Term`] is a small index into an [`Arena`]. Equal terms are the same index, so comparing two results is comparing
//! two numbers. The arena either normalizes while it builds (see [`crate::term::normalize`]) or keeps the terms as the
//! instructions wrote them, which is what an independent solver is shown as evidence.
//!
//! ```text
//!   zero_extend(truncate(r1, 32), 64)  =  Concat[ Extract(r1, 0) : 32, Constant 0 : 32 ]      (lowest part first)
//! ```

mod arena;
mod arithmetic;
mod bound;
mod comparison;
pub mod evaluate;
pub mod normalize;
pub mod smt;
pub mod solver;

pub(crate) use crate::term::arena::Graph;
pub use crate::term::arena::{Arena, Binary, Bitwise, QuickHasher, QuickMap, RegionStart, Shape, Symbol, Term, TermId};
