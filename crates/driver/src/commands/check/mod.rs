//! `kiln check` on any number of objects ([`reports`]).
//!
//! For other programs: [`sarif`], [`forge`], [`flame`]. Between runs: [`baseline`], what is known and does not fail, and [`cache`],
//! verdicts that are kept. For the author: [`fix`], edits of the source that make rejected programs load.

pub mod cache;
pub mod fix;
pub mod flame;
pub mod reports;

pub use kiln_checker::{baseline, forge, sarif};
