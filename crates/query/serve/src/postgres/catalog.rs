//! Catalogs.

use kiln_plan::lookup::Lookup;

/// A query of catalogs as one of Kiln's SQL; `None` for another query.
pub fn rewritten(_: &str) -> Option<String> {
    None
}

/// The catalogs.
pub fn lookups() -> Vec<Lookup> {
    Vec::new()
}
