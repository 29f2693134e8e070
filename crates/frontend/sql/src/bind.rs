//! A `SELECT` as a logical plan.

use kiln_plan::expr::Expr;
use kiln_plan::query::{Aggregate, Groups, Order, Output, Query, Shape};
use kiln_plan::table::Table;
use kiln_plan::tables;
use kiln_plan::value::{DataType, Value};
use kiln_program::btf::Btf;
use sqlparser::ast::{
    self, Distinct, GroupByExpr, LimitClause, OrderByKind, OrderBySort, SelectItem, SetExpr, Spanned, TableFactor,
};

use crate::error::Error;
use crate::expression::{Binder, has_aggregate, similar, walk};
use crate::places::Places;
use crate::subquery;
use crate::window::Clause;

/// The context for binding a query.
pub struct Scope<'a> {
    /// The kernel's types.
    pub types: Option<&'a Btf>,
    /// Places in the query's text.
    pub places: &'a Places<'a>,
    /// Windows, by the nesting depth of their subquery.
    pub windows: &'a [(usize, Clause)],
    /// Windows that were assigned to a query.
    pub used: &'a std::cell::Cell<usize>,
}

/// Binds a query that is nested in `depth` others. Returns the innermost query and the stages over its rows, from the
/// inside out.
pub fn query(query: &ast::Query, depth: usize, scope: &Scope<'_>) -> Result<(Query, Vec<Query>), Error> {
    let places = scope.places;
    let window = scope.windows.iter().find(|(own, _)| *own == depth).map(|(_, window)| *window);
    scope.used.set(scope.used.get() + usize::from(window.is_some()));
    if query.with.is_some() {
        return Err(Error::new("WITH is not understood yet"));
    }
    let SetExpr::Select(select) = &*query.body else {
        return Err(Error::new("only a single SELECT is understood yet, without UNION or VALUES"));
    };
    let source = source(select, depth, scope)?;
    let (table, alias) = (source.table, source.alias);
    let inner_windows =
        source.inner.as_ref().is_some_and(|(inner, stages)| subquery::has_windows(stages.last().unwrap_or(inner)));
    if window.is_some() && inner_windows {
        return Err(Error::new("the rows of this subquery are of windows already").help("leave out one WINDOW"));
    }
    if window.is_some() && table.complete().is_none() {
        let error = Error::new("rows of this subquery do not say when they happened");
        return Err(error.help("show `ts` or `end_ts` in it, or put WINDOW into it"));
    }
    let column_types = table.types();
    let binder = Binder { table: &table, types: &column_types, alias, places };
    if let Some(clause) = select.having.as_ref().filter(|_| window.is_none() && !is_grouped(select)) {
        return Err(binder.fail(clause, Error::new("HAVING is for groups, and this query has none")));
    }
    let filter = select.selection.as_ref().map(|condition| binder.expr(condition)).transpose()?;
    let mut bound = if window.is_some() || is_grouped(select) {
        grouped(select, query, window, &binder)?
    } else {
        rows(select, query, &binder)?
    };
    (bound.0.limit, bound.0.offset) = limit(query)?;
    bound.0.distinct = match &select.distinct {
        None | Some(Distinct::All) => false,
        Some(Distinct::Distinct) => true,
        Some(_) => return Err(Error::new("DISTINCT ON is not understood")),
    };
    let is_ordered = !bound.0.order.is_empty() || bound.0.limit.is_some() || bound.0.offset > 0 || bound.0.distinct;
    if matches!(window, Some(Clause::Session(_))) && is_ordered {
        let error = Error::new("sessions end one by one, so they have no ORDER BY, LIMIT, OFFSET or DISTINCT");
        return Err(error.help("put the query into a subquery: SELECT ... FROM (SELECT ...) ORDER BY ..."));
    }
    bound.0.filter = Expr::all(table.only.iter().cloned().chain(filter));
    let bound = bound.0;
    let Some((inner, mut stages)) = source.inner else { return Ok((bound, Vec::new())) };
    match subquery::merged(&inner, &bound).filter(|_| stages.is_empty()) {
        Some(merged) => Ok((merged, stages)),
        None => {
            let of_windows = subquery::has_windows(stages.last().unwrap_or(&inner));
            stages.push(Query { of_windows, ..bound });
            Ok((inner, stages))
        }
    }
}

/// A query whose common parts are filled in later.
struct Bound(Query);

impl Bound {
    fn new(table: &Table, shape: Shape, outputs: Vec<Output>, order: Vec<Order>) -> Bound {
        Bound(Query {
            table: table.clone(),
            filter: None,
            shape,
            outputs,
            order,
            limit: None,
            offset: 0,
            distinct: false,
            of_windows: false,
        })
    }
}

fn is_grouped(select: &ast::Select) -> bool {
    let by = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let aggregates = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => has_aggregate(expr),
        _ => false,
    });
    by || aggregates
}

/// Where a query's rows come from.
struct Source {
    table: Table,
    /// The table's other name.
    alias: Option<String>,
    /// The query whose result is the table, with its stages.
    inner: Option<(Query, Vec<Query>)>,
}

fn source(select: &ast::Select, depth: usize, scope: &Scope<'_>) -> Result<Source, Error> {
    let places = scope.places;
    let [from] = &select.from[..] else {
        return Err(Error::new("a query is of one table").help("`kiln tables` lists the tables there are"));
    };
    if let Some(join) = from.joins.first() {
        let at = places.bytes(join.span());
        return Err(Error { at, ..Error::new("JOIN is not understood yet") });
    }
    if let TableFactor::Derived { subquery, alias, lateral: false, .. } = &from.relation {
        let (inner, stages) = query(subquery, depth + 1, scope)?;
        let alias = alias.as_ref().map(|alias| alias.name.value.clone());
        let table = subquery::table(stages.last().unwrap_or(&inner), alias.as_deref());
        return Ok(Source { table, alias, inner: Some((inner, stages)) });
    }
    let TableFactor::Table { name, alias, args: None, .. } = &from.relation else {
        return Err(Error::new("a table's name or a subquery is expected after FROM"));
    };
    let text = name.to_string();
    let found = tables::find(&text, scope.types);
    let table = found.ok_or_else(|| {
        let known = tables::all();
        let help = similar(&text, known.iter().map(|table| table.name.as_str()));
        let listed = || Some("`kiln tables` lists the tables; any tracepoint is `tracepoint.CATEGORY.NAME`".to_owned());
        let message = format!("there is no table `{text}`");
        Error { at: places.bytes(name.span()), help: help.or_else(listed), ..Error::new(message) }
    })?;
    Ok(Source { table, alias: alias.as_ref().map(|alias| alias.name.value.clone()), inner: None })
}

/// The name of an output without an alias.
fn name_of(expr: &ast::Expr) -> String {
    match expr {
        ast::Expr::Identifier(name) => name.value.clone(),
        ast::Expr::CompoundIdentifier(names) => names.last().map_or_else(String::new, |name| name.value.clone()),
        other => other.to_string().to_lowercase(),
    }
}

fn rows(select: &ast::Select, query: &ast::Query, binder: &Binder<'_>) -> Result<Bound, Error> {
    let mut outputs = Vec::new();
    for item in &select.projection {
        let (expr, name) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, name_of(expr)),
            SelectItem::ExprWithAlias { expr, alias } => (expr, alias.value.clone()),
            SelectItem::Wildcard(_) => {
                let column = |(at, column): (usize, &kiln_plan::table::Column)| Output {
                    name: column.name.clone(),
                    expr: Expr::Column(at),
                    data_type: column.data_type,
                };
                outputs.extend(binder.table.columns.iter().enumerate().map(column));
                continue;
            }
            other => return Err(binder.fail(other, Error::new(format!("`{other}` is not understood")))),
        };
        let expr = binder.expr(expr)?;
        outputs.push(Output { name, data_type: expr.data_type(binder.types), expr });
    }
    let order = order(query, &outputs, binder, |expr| binder.expr(expr))?;
    Ok(Bound::new(binder.table, Shape::Rows, outputs, order))
}

fn grouped(
    select: &ast::Select,
    query: &ast::Query,
    window: Option<Clause>,
    binder: &Binder<'_>,
) -> Result<Bound, Error> {
    let items: Vec<(&ast::Expr, String)> = select
        .projection
        .iter()
        .map(|item| match item {
            SelectItem::UnnamedExpr(expr) => Ok((expr, name_of(expr))),
            SelectItem::ExprWithAlias { expr, alias } => Ok((expr, alias.value.clone())),
            other => Err(binder.fail(other, Error::new(format!("`{other}` cannot be shown of groups")))),
        })
        .collect::<Result<_, _>>()?;
    let GroupByExpr::Expressions(by, modifiers) = &select.group_by else {
        return Err(Error::new("GROUP BY ALL is not understood"));
    };
    if !modifiers.is_empty() {
        return Err(Error::new("ROLLUP, CUBE and TOTALS are not understood"));
    }
    let mut keys = Vec::new();
    for key in by {
        let key = named(key, &items).unwrap_or(key);
        keys.push(binder.expr(key)?);
    }
    let mut grouping = Grouping { binder, keys, aggregates: Vec::new() };
    let mut outputs = Vec::new();
    for (expr, name) in &items {
        let bound = grouping.expr(expr)?;
        outputs.push((name.clone(), bound));
    }
    let having = select.having.as_ref().map(|having| {
        let having = named(having, &items).unwrap_or(having);
        grouping.expr(having)
    });
    let having = having.transpose()?;
    let types = grouping.types();
    let typed = |(name, expr): (String, Expr)| Output { name, data_type: expr.data_type(&types), expr };
    let outputs: Vec<Output> = outputs.into_iter().map(typed).collect();
    let order = order(query, &outputs, binder, |expr| grouping.expr(expr))?;
    let (window, session_ns) = match window {
        None => (None, None),
        Some(Clause::Window(window)) => (Some(window), None),
        Some(Clause::Session(pause_ns)) => (None, Some(pause_ns)),
    };
    let groups = Groups { keys: grouping.keys, aggregates: grouping.aggregates, having, window, session_ns };
    Ok(Bound::new(binder.table, Shape::Groups(groups), outputs, order))
}

/// The select item that a key names by its alias or number.
fn named<'q>(key: &ast::Expr, items: &[(&'q ast::Expr, String)]) -> Option<&'q ast::Expr> {
    match key {
        ast::Expr::Identifier(name) => {
            items.iter().find(|(_, own)| own.eq_ignore_ascii_case(&name.value)).map(|(expr, _)| *expr)
        }
        ast::Expr::Value(value) => {
            let number: usize = value.value.to_string().parse().ok()?;
            items.get(number.checked_sub(1)?).map(|(expr, _)| *expr)
        }
        _ => None,
    }
}

/// Binds expressions over groups: keys and aggregates.
struct Grouping<'a> {
    binder: &'a Binder<'a>,
    keys: Vec<Expr>,
    aggregates: Vec<Aggregate>,
}

impl Grouping<'_> {
    fn types(&self) -> Vec<DataType> {
        let keys = self.keys.iter().map(|key| key.data_type(self.binder.types));
        keys.chain(self.aggregates.iter().map(|one| one.data_type(self.binder.types))).collect()
    }

    fn expr(&mut self, expr: &ast::Expr) -> Result<Expr, Error> {
        let binder = self.binder;
        let keys = self.keys.clone();
        let aggregates = &mut self.aggregates;
        walk(expr, &mut |inner| {
            if let ast::Expr::Function(function) = inner
                && let Some(aggregate) = binder.aggregate(function)
            {
                return Some(aggregate.map(|aggregate| {
                    let at = aggregates.iter().position(|own| *own == aggregate).unwrap_or_else(|| {
                        aggregates.push(aggregate);
                        aggregates.len() - 1
                    });
                    Expr::Column(keys.len() + at)
                }));
            }
            if !has_aggregate(inner)
                && let Ok(bound) = binder.expr(inner)
                && let Some(key) = keys.iter().position(|key| *key == bound)
            {
                return Some(Ok(Expr::Column(key)));
            }
            let is_name = matches!(
                inner,
                ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) | ast::Expr::CompoundFieldAccess { .. }
            );
            is_name.then(|| match binder.expr(inner) {
                Err(error) => Err(error),
                Ok(_) => {
                    let error = Error::new(format!("`{inner}` differs between the rows of a group"));
                    Err(binder
                        .fail(inner, error.help(format!("GROUP BY {inner}, or an aggregate such as max({inner})"))))
                }
            })
        })
        .map_err(|error| binder.fail(expr, error))
    }
}

/// The order of the result: each level names an output by its name or number, or is an expression equal to one.
fn order(
    query: &ast::Query,
    outputs: &[Output],
    binder: &Binder<'_>,
    mut bind: impl FnMut(&ast::Expr) -> Result<Expr, Error>,
) -> Result<Vec<Order>, Error> {
    let Some(order) = &query.order_by else { return Ok(Vec::new()) };
    let OrderByKind::Expressions(levels) = &order.kind else {
        return Err(Error::new("ORDER BY ALL is not understood"));
    };
    let level = |level: &ast::OrderByExpr| -> Result<Order, Error> {
        if level.options.nulls_first.is_some() || level.with_fill.is_some() {
            return Err(binder.fail(level, Error::new("only ASC and DESC are understood here; nulls are the least")));
        }
        let named = match &level.expr {
            ast::Expr::Identifier(name) => {
                outputs.iter().position(|output| output.name.eq_ignore_ascii_case(&name.value))
            }
            ast::Expr::Value(value) => {
                let number: Option<usize> = value.value.to_string().parse().ok();
                number.and_then(|number| number.checked_sub(1)).filter(|at| *at < outputs.len())
            }
            _ => None,
        };
        let output = match named {
            Some(output) => output,
            None => {
                let by = bind(&level.expr)?;
                outputs.iter().position(|output| output.expr == by).ok_or_else(|| {
                    let error = Error::new("what a result is ordered by must be shown in it");
                    binder.fail(&level.expr, error.help("add it after SELECT"))
                })?
            }
        };
        Ok(Order { by: Expr::Column(output), descending: level.options.sort == Some(OrderBySort::Desc) })
    };
    levels.iter().map(level).collect()
}

/// `LIMIT` and `OFFSET`.
fn limit(query: &ast::Query) -> Result<(Option<usize>, usize), Error> {
    let number = |clause: &str, expr: &ast::Expr| match walk(expr, &mut |_| None) {
        Ok(Expr::Literal(Value::Uint(value))) => Ok(usize::try_from(value).unwrap_or(usize::MAX)),
        _ => Err(Error::new(format!("{clause} takes a whole number"))),
    };
    if query.fetch.is_some() {
        return Err(Error::new("FETCH is not understood").help("LIMIT 10"));
    }
    match &query.limit_clause {
        None => Ok((None, 0)),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            let limit = limit.as_ref().map(|limit| number("LIMIT", limit)).transpose()?;
            let offset = offset.as_ref().map(|offset| number("OFFSET", &offset.value)).transpose()?;
            Ok((limit, offset.unwrap_or(0)))
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
            Ok((Some(number("LIMIT", limit)?), number("LIMIT", offset)?))
        }
        Some(_) => Err(Error::new("LIMIT BY is not understood")),
    }
}
