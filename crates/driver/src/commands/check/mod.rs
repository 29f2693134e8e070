//! `kiln check` on any number of objects ([`reports`]), and its verdicts for other programs: [`sarif`], [`flame`].

pub mod flame;
pub mod reports;
pub mod sarif;
