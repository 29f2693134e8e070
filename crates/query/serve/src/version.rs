//! Versions of a query: the one before the present one, and the one that was withdrawn.

use serde::{Deserialize, Serialize};

use kiln_inspect::show::shown::Shown;

/// The latest version that a query can have: what any JSON reader knows exactly.
pub const LATEST: u64 = 1 << 53;

/// What a query was before its present version. It runs again if that is withdrawn.
#[derive(Clone, Debug, Serialize)]
pub struct Earlier {
    /// Its number.
    pub version: u64,
    /// The query.
    pub sql: Shown,
    /// The part of one processor's time that its programs may take.
    pub max_overhead: f64,
    /// How many rows it keeps.
    pub rows: usize,
}

/// A version that must not run any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Withdrawn {
    /// Its number.
    pub version: u64,
    /// Why.
    pub reason: Shown,
}
