//! `kiln check` on any number of objects ([`reports`]), and its verdicts for other programs: [`sarif`], [`flame`]; [`baseline`]: what is known and does not fail.

pub mod baseline;
pub mod flame;
pub mod reports;
pub mod sarif;
