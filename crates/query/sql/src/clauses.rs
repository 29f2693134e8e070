//! Clauses that the parser reads and nothing here understands. They are refused: a clause that is ignored gives a wrong answer.
//!
//! Patterns below name every field, so that a clause which a later parser reads does not compile until it is decided on.

use sqlparser::ast::{self, SelectFlavor, TableFactor};

use crate::error::Error;

/// A clause: whether it is there, its name, and what to write instead.
type Clause<'c> = (bool, &'c str, &'c str);

fn refuse(clauses: &[Clause<'_>]) -> Result<(), Error> {
    let Some((_, name, instead)) = clauses.iter().find(|(is_there, ..)| *is_there) else { return Ok(()) };
    let error = Error::new(format!("{name} is not understood"));
    Err(if instead.is_empty() { error } else { error.help(*instead) })
}

/// Refuses the clauses of a `SELECT` that are not understood.
///
/// # Errors
/// Returns one that names the first of them.
pub fn of_select(select: &ast::Select) -> Result<(), Error> {
    let ast::Select {
        select_token: _,
        optimizer_hints: _,
        distinct: _,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection: _,
        exclude,
        into,
        from: _,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by: _,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window: _,
        qualify,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    refuse(&[
        (top.is_some(), "TOP", "... ORDER BY 2 DESC LIMIT 10"),
        (qualify.is_some(), "QUALIFY", "SELECT ... FROM (SELECT ..., rank() OVER (...) AS r FROM ...) WHERE r = 1"),
        (prewhere.is_some(), "PREWHERE", "WHERE"),
        (!sort_by.is_empty(), "SORT BY", "ORDER BY"),
        (!cluster_by.is_empty() || !distribute_by.is_empty(), "CLUSTER BY", "GROUP BY"),
        (into.is_some(), "INTO", "`--output FILE` writes the rows to a file"),
        (!lateral_views.is_empty(), "LATERAL VIEW", ""),
        (!connect_by.is_empty(), "CONNECT BY", ""),
        (exclude.is_some(), "EXCLUDE", "name the columns"),
        (value_table_mode.is_some(), "AS VALUE", ""),
        (select_modifiers.is_some(), "a word between SELECT and the columns", ""),
        (matches!(flavor, SelectFlavor::FromFirstNoSelect), "FROM without SELECT", "SELECT * FROM ..."),
    ])
}

/// Refuses the clauses around a `SELECT` that are not understood.
///
/// # Errors
/// As [`of_select`].
pub fn of_query(query: &ast::Query) -> Result<(), Error> {
    let ast::Query {
        with: _,
        body: _,
        order_by,
        limit_clause: _,
        fetch: _,
        locks,
        for_clause,
        settings,
        format_clause,
        pipe_operators,
    } = query;
    refuse(&[
        (order_by.as_ref().is_some_and(|order| order.interpolate.is_some()), "INTERPOLATE", ""),
        (!locks.is_empty() || for_clause.is_some(), "FOR", "leave it out: rows of events are never locked"),
        (settings.is_some(), "SETTINGS", "`kiln query --help` lists the options"),
        (format_clause.is_some(), "FORMAT", "`--format` chooses how rows are printed"),
        (!pipe_operators.is_empty(), "|>", "SELECT ... FROM (SELECT ...) ..."),
    ])
}

/// Refuses what stands behind a table's name and is not understood.
///
/// # Errors
/// As [`of_select`].
pub fn of_table(factor: &TableFactor) -> Result<(), Error> {
    const SAMPLE: &str = "`--sample 100` takes one event in 100";
    match factor {
        TableFactor::Table {
            name: _,
            alias,
            args: _,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } => refuse(&[
            (sample.is_some(), "TABLESAMPLE", SAMPLE),
            (!with_hints.is_empty() || !index_hints.is_empty(), "a hint behind a table", ""),
            (version.is_some(), "a version of a table", "`--replay FILE` asks a recording"),
            (!partitions.is_empty(), "PARTITION", "WHERE"),
            (*with_ordinality || json_path.is_some(), "what stands behind this table", ""),
            (alias.as_ref().is_some_and(|alias| alias.at.is_some()), "AT", ""),
        ]),
        TableFactor::Derived { lateral: _, subquery: _, alias: _, sample } => {
            refuse(&[(sample.is_some(), "TABLESAMPLE", SAMPLE)])
        }
        _ => Ok(()),
    }
}

/// Refuses what a function of single values does not have.
///
/// # Errors
/// As [`of_select`].
pub fn of_function(function: &ast::Function) -> Result<(), Error> {
    let is_distinct = match &function.args {
        ast::FunctionArguments::List(list) => list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct),
        _ => false,
    };
    let of = |clause: &str| format!("{clause} is for aggregates, and `{}`", function.name);
    let (filter, within, distinct) = (of("FILTER"), of("WITHIN GROUP"), of("DISTINCT"));
    refuse(&[
        (function.filter.is_some(), &filter, "CASE WHEN ... THEN ... END"),
        (!function.within_group.is_empty(), &within, ""),
        (is_distinct, &distinct, ""),
        (function.null_treatment.is_some(), "IGNORE NULLS", "WHERE ... IS NOT NULL"),
    ])
}
