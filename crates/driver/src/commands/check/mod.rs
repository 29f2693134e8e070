//! `kiln check` on any number of objects ([`reports`]), and its verdicts for other programs: [`sarif`], [`forge`], [`flame`];
//! [`baseline`]: what is known and does not fail; [`cache`]: verdicts that are kept; [`fix`]: edits of the source that make rejected programs load.

pub mod baseline;
pub mod cache;
pub mod fix;
pub mod flame;
pub mod forge;
pub mod reports;
pub mod sarif;
