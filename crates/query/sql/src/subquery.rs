//! Subqueries in `FROM`.
//!
//! A subquery that only filters and computes is merged with the outer query, so that all of it may run in the kernel:
//!
//! ```text
//!   SELECT max(us) FROM (SELECT latency_ns / 1000 AS us FROM syscalls WHERE pid = 7) WHERE us > 5
//!   SELECT max(latency_ns / 1000) FROM syscalls WHERE pid = 7 AND latency_ns / 1000 > 5
//! ```
//!
//! For any other subquery, the outer query runs in user space, as a stage of [`kiln_plan::execute::stages`].

use kiln_plan::expr::Expr;
use kiln_plan::query::{Output, Query, Shape};
use kiln_plan::table::{Column, Scan, Source, Table};

/// Maximum number of nodes of a merged query's expressions: merging copies a subquery's expression to each use of its
/// column.
pub const MAX_NODES: usize = 4096;

/// The result of a query as a table.
pub fn table(query: &Query, name: Option<&str>) -> Table {
    let column = |output: &Output| Column {
        name: output.name.clone(),
        data_type: output.data_type,
        about: "of the subquery".to_owned(),
        source: Source::Given,
        listed: true,
    };
    Table {
        name: name.unwrap_or("the subquery").to_owned(),
        about: "a row of the subquery".to_owned(),
        scan: Scan::Rows,
        columns: query.outputs.iter().map(column).collect(),
        only: None,
        interrupts: false,
    }
}

/// Whether a query's rows come in windows.
pub fn has_windows(query: &Query) -> bool {
    query.of_windows || matches!(&query.shape, Shape::Groups(groups) if groups.window.is_some())
}

/// Merges `outer` and `inner` into one query. Returns `None` if the inner query does more than filter and compute, or
/// the result would be too large.
pub fn merged(inner: &Query, outer: &Query) -> Option<Query> {
    let is_plain = matches!(inner.shape, Shape::Rows)
        && inner.order.is_empty()
        && inner.limit.is_none()
        && inner.offset == 0
        && !inner.distinct
        && inner.matches.is_empty()
        && !inner.of_windows;
    if !is_plain || !keeps_time(inner, outer) {
        return None;
    }
    let mut merging = Merging { inner: &inner.outputs, nodes: 0 };
    let filter = outer.filter.as_ref().map(|filter| merging.expr(filter));
    let filter = match filter {
        None => None,
        Some(filter) => Some(filter?),
    };
    let mut query = outer.clone();
    for there in &mut query.matches {
        *there = merging.expr(there)?;
    }
    match &mut query.shape {
        Shape::Rows => {
            for output in &mut query.outputs {
                output.expr = merging.expr(&output.expr)?;
            }
        }
        Shape::Groups(groups) => {
            for key in &mut groups.keys {
                *key = merging.expr(key)?;
            }
            for of in groups.aggregates.iter_mut().filter_map(|aggregate| aggregate.of.as_mut()) {
                *of = merging.expr(of)?;
            }
        }
    }
    query.filter = Expr::all(inner.filter.iter().cloned().chain(filter));
    query.table = inner.table.clone();
    Some(query)
}

/// Whether rows belong to the same windows after merging, because both use the same column.
fn keeps_time(inner: &Query, outer: &Query) -> bool {
    let Shape::Groups(groups) = &outer.shape else { return true };
    let complete = outer.table.complete().map(|column| &inner.outputs[column].expr);
    (groups.window.is_none() && groups.session_ns.is_none())
        || complete == inner.table.complete().map(Expr::Column).as_ref()
}

struct Merging<'a> {
    inner: &'a [Output],
    nodes: usize,
}

impl Merging<'_> {
    /// The expression over the inner query's table.
    fn expr(&mut self, expr: &Expr) -> Option<Expr> {
        if let Expr::Column(column) = expr {
            let inner = &self.inner[*column].expr;
            self.nodes += size(inner);
            return (self.nodes <= MAX_NODES).then(|| inner.clone());
        }
        let mut failed = false;
        let merged = expr.map_operands(&mut |operand| {
            self.expr(operand).unwrap_or_else(|| {
                failed = true;
                Expr::Literal(kiln_plan::Value::Null)
            })
        });
        (!failed).then_some(merged)
    }
}

/// The nodes of an expression.
pub fn size(expr: &Expr) -> usize {
    1 + expr.operands().into_iter().map(size).sum::<usize>()
}
