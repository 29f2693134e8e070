//! The SQL engine for what Kiln's own plans cannot express, where it is built in (feature `engine`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use kiln_plan::execute::engine::Engine;
use kiln_plan::flow::EngineQuery;
use kiln_plan::lookup::Lookup;
use kiln_plan::programs::Known;
use kiln_program::btf::Btf;
use kiln_sql::Parsed;

use crate::files::Files;

/// Reads a query.
///
/// # Errors
/// The first error with its place, or what the engine says.
#[cfg(feature = "engine")]
pub fn parse(sql: &str, types: &Btf, lookups: &[Lookup]) -> Result<Parsed, kiln_sql::Error> {
    let parsed = kiln_sql::parse_for_engine(sql, known(types), lookups, kiln_engine::check_pattern)?;
    match parsed.flow.engine().map(kiln_engine::Sqlite::new) {
        Some(Err(why)) => Err(kiln_sql::Error::new(why)),
        _ => Ok(parsed),
    }
}

/// Reads a query.
///
/// # Errors
/// The first error with its place.
#[cfg(not(feature = "engine"))]
pub fn parse(sql: &str, types: &Btf, lookups: &[Lookup]) -> Result<Parsed, kiln_sql::Error> {
    kiln_sql::parse_with(sql, known(types), lookups)
}

fn known(types: &Btf) -> Known<'_> {
    Known { types: Some(types), programs: Some(&Files) }
}

/// Makes an engine for a query, whose answers fail soon after `interrupt` is set.
///
/// # Errors
/// Returns what the engine says is wrong with the query.
#[cfg(feature = "engine")]
pub fn make(query: &EngineQuery, interrupt: &Arc<AtomicBool>) -> Result<Box<dyn Engine>, String> {
    Ok(Box::new(kiln_engine::Sqlite::interrupted_by(query, Arc::clone(interrupt))?))
}

/// Says that there is no engine.
///
/// # Errors
/// Always.
#[cfg(not(feature = "engine"))]
pub fn make(query: &EngineQuery, _: &Arc<AtomicBool>) -> Result<Box<dyn Engine>, String> {
    kiln_plan::execute::flow::no_engine(query)
}
