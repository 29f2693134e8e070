//! A `SELECT` as a logical plan.

use std::collections::BTreeSet;

use kiln_plan::expr::{Expr, Function};
use kiln_plan::flow::{Flow, Source};
use kiln_plan::lookup::Lookup;
use kiln_plan::programs::Known;
use kiln_plan::query::{Aggregate, Groups, Order, Output, Query, Shape};
use kiln_plan::table::Column;
use kiln_plan::value::{DataType, Value};
use sqlparser::ast::{
    self, Distinct, GroupByExpr, LimitClause, OrderByKind, OrderBySort, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, SetOperator, SetQuantifier,
};

use crate::clauses;
use crate::error::Error;
use crate::expression::{Binder, check, has_aggregate, has_function, walk};
use crate::from::{self, MAX_SCANS, Side, SideColumns};
use crate::functions::is_aggregate;
use crate::places::Places;
use crate::subquery;
use crate::wildcard;
use crate::window::{Clause, Placed};

/// Says what is wrong with a regular expression.
pub type CheckPattern = fn(&str) -> Result<(), String>;

/// The context for binding a query.
pub struct Scope<'a> {
    /// The kernel's types, and what programs say.
    pub known: Known<'a>,
    /// Places in the query's text.
    pub places: &'a Places<'a>,
    /// Clauses, by the place of the `SELECT` that they belong to.
    pub clauses: &'a [Placed],
    /// The clauses that were used.
    pub used: &'a std::cell::RefCell<BTreeSet<usize>>,
    /// The lookup tables.
    pub lookups: &'a [Lookup],
    /// How the engine checks a constant that is a regular expression; `None` if there is no engine.
    pub engine: Option<CheckPattern>,
    /// The queries of `WITH`, by their names; of two with one name the last counts.
    pub named: &'a [(String, Flow)],
}

impl Scope<'_> {
    fn clause<T>(&self, select: &ast::Select, wanted: impl Fn(Clause) -> Option<T>) -> Option<T> {
        let own = self.clauses.iter().enumerate();
        let mut own = own.filter(|(_, (place, _))| *place == select.select_token.0.span.start);
        let (at, found) = own.find_map(|(at, (_, clause))| Some((at, wanted(*clause)?)))?;
        self.used.borrow_mut().insert(at);
        Some(found)
    }

    /// The `WINDOW` of a query.
    pub fn window(&self, select: &ast::Select) -> Option<Clause> {
        self.clause(select, |clause| (!matches!(clause, Clause::Within(_))).then_some(clause))
    }

    /// The time of a query's `WITHIN`, in nanoseconds.
    pub fn within(&self, select: &ast::Select) -> Option<u64> {
        self.clause(select, |clause| if let Clause::Within(within_ns) = clause { Some(within_ns) } else { None })
    }

    /// The lookup table of this name, unless a query of `WITH` has it.
    pub fn lookup(&self, name: &str) -> Option<&Lookup> {
        let lookup = self.lookups.iter().find(|lookup| lookup.name.eq_ignore_ascii_case(name));
        lookup.filter(|_| self.named(name).is_none())
    }

    /// The query of `WITH` that has this name.
    pub fn named(&self, name: &str) -> Option<&(String, Flow)> {
        self.named.iter().rfind(|(own, _)| own.eq_ignore_ascii_case(name))
    }
}

/// Binds a query. The queries of its `WITH` are bound once, and stand in `FROM` as subqueries do.
pub fn query(query: &ast::Query, scope: &Scope<'_>) -> Result<Flow, Error> {
    clauses::of_query(query)?;
    let Some(with) = &query.with else { return set(&query.body, Some(query), scope) };
    if with.recursive {
        let error = Error::new("WITH RECURSIVE is not understood");
        return Err(error.help("a query of WITH is of the tables and of the queries before it"));
    }
    let mut named = scope.named.to_vec();
    for common in &with.cte_tables {
        let name = &common.alias.name;
        if named[scope.named.len()..].iter().any(|(own, _)| own.eq_ignore_ascii_case(&name.value)) {
            let at = scope.places.bytes(name.span);
            return Err(Error { at, ..Error::new(format!("WITH names two queries `{}`", name.value)) });
        }
        let mut flow = self::query(&common.query, &Scope { named: &named, ..*scope })?;
        rename(&mut flow, &common.alias, scope)?;
        named.push((name.value.clone(), flow));
    }
    set(&query.body, Some(query), &Scope { named: &named, ..*scope })
}

/// Gives the columns of a statement the names of an alias: `s (pid, calls)`.
pub fn rename(flow: &mut Flow, alias: &ast::TableAlias, scope: &Scope<'_>) -> Result<(), Error> {
    let outputs = flow.outputs_mut();
    if alias.columns.is_empty() {
        return Ok(());
    }
    if alias.columns.len() != outputs.len() {
        let message =
            format!("`{}` names {} columns of a query that has {}", alias.name, alias.columns.len(), outputs.len());
        return Err(Error { at: scope.places.bytes(alias.name.span), ..Error::new(message) });
    }
    outputs.iter_mut().zip(&alias.columns).for_each(|(output, column)| output.name = column.name.value.clone());
    Ok(())
}

/// Binds a `SELECT`, or several with `UNION` between them; `query` has their order and limit.
fn set(body: &SetExpr, query: Option<&ast::Query>, scope: &Scope<'_>) -> Result<Flow, Error> {
    let is_plain =
        query.is_none_or(|query| query.order_by.is_none() && query.limit_clause.is_none() && query.fetch.is_none());
    match body {
        SetExpr::Select(select) => self::select(select, query, scope),
        SetExpr::Query(inner) if is_plain => self::query(inner, scope),
        SetExpr::Query(inner) => combined(vec![self::query(inner, scope)?], false, query, scope),
        SetExpr::SetOperation { left, op: SetOperator::Union, set_quantifier, right } => {
            let distinct = match set_quantifier {
                SetQuantifier::All => false,
                SetQuantifier::None | SetQuantifier::Distinct => true,
                _ => return Err(Error::new("columns of a UNION are matched by their places, not by name")),
            };
            let mut parts = vec![set(left, None, scope)?];
            // `a UNION ALL b UNION ALL c` is one union of three.
            if let (false, Source::Union(own), [stage]) = (distinct, &parts[0].source, &parts[0].stages[..])
                && matches!(&**left, SetExpr::SetOperation { set_quantifier: SetQuantifier::All, .. })
                && !stage.distinct
            {
                parts = own.clone();
            }
            parts.push(set(right, None, scope)?);
            combined(parts, distinct, query, scope)
        }
        _ => Err(Error::beyond("only SELECT and UNION are understood, not VALUES, INTERSECT or EXCEPT")),
    }
}

/// The rows of several statements, ordered and limited together.
fn combined(parts: Vec<Flow>, distinct: bool, query: Option<&ast::Query>, scope: &Scope<'_>) -> Result<Flow, Error> {
    let of_windows = subquery::has_windows(parts[0].last());
    let first = parts[0].outputs();
    for part in &parts[1..] {
        let own = part.outputs();
        if own.len() != first.len() {
            let message = format!("the sides of a UNION have {} and {} columns", first.len(), own.len());
            return Err(Error::new(message).help("show as many columns on both sides"));
        }
        for (one, other) in first.iter().zip(own) {
            let kind = |output: &Output| (output.data_type == DataType::Text, output.data_type == DataType::Histogram);
            if kind(one) != kind(other) && !one.expr.is_always_null() && !other.expr.is_always_null() {
                let [first, second] = [one, other].map(|output| output.data_type.name());
                let message = format!("`{}` is {first} on one side of the UNION and {second} on the other", one.name);
                return Err(Error::new(message));
            }
        }
        if subquery::has_windows(part.last()) != of_windows {
            let error = Error::new("one side of the UNION has a WINDOW, and the other has none");
            return Err(error.help("(SELECT ... WINDOW 1 S) UNION ALL (SELECT ... WINDOW 1 S)"));
        }
    }
    let mut table = subquery::table(parts[0].last(), Some("the union"));
    for (at, column) in table.columns.iter_mut().enumerate() {
        // What is null on one side has the type of the others.
        let sides = parts.iter().map(|part| &part.outputs()[at]).filter(|own| !own.expr.is_always_null());
        let types: Vec<DataType> = sides.map(|output| output.data_type).collect();
        let any = Expr::Call(Function::Coalesce, (0..types.len()).map(Expr::Column).collect());
        column.data_type = any.data_type(&types);
    }
    let types = table.types();
    let columns = SideColumns::Own(0..types.len());
    let sides = [Side { name: table.name.clone(), other: None, columns }];
    let binder = Binder {
        table: &table,
        types: &types,
        sides: &sides,
        using: &[],
        places: scope.places,
        lookups: scope.lookups,
    };
    let output = |(at, column): (usize, &Column)| Output {
        name: column.name.clone(),
        expr: Expr::Column(at),
        data_type: column.data_type,
    };
    let outputs: Vec<Output> = table.columns.iter().enumerate().map(output).collect();
    let order = order(query, &outputs, &binder, |expr| binder.expr(expr))?;
    let (limit, offset) = limit(query)?;
    let stage = Query { order, limit, offset, distinct, of_windows, ..Query::new(table.clone(), Shape::Rows, outputs) };
    few_scans(Flow { source: Source::Union(parts), stages: vec![stage] })
}

/// Checks that a statement does not read too many tables.
pub fn few_scans(flow: Flow) -> Result<Flow, Error> {
    match flow.scans().len() {
        0..=MAX_SCANS => Ok(flow),
        many => Err(Error::new(format!("this query reads {many} tables of events, and {MAX_SCANS} are allowed"))),
    }
}

/// Binds a single `SELECT`.
fn select(select: &ast::Select, query: Option<&ast::Query>, scope: &Scope<'_>) -> Result<Flow, Error> {
    clauses::of_select(select)?;
    let window = scope.window(select);
    let mut from = from::bind(select, scope)?;
    if window.is_some() && from.has_windows() {
        return Err(Error::new("the rows of this subquery are of windows already").help("leave out one WINDOW"));
    }
    if window.is_some() && from.table.complete().is_none() {
        let error = Error::new("rows of this subquery do not say when they happened");
        return Err(error.help("show `ts` or `end_ts` in it, or put WINDOW into it"));
    }
    let types = from.table.types();
    let binder = Binder {
        table: &from.table,
        types: &types,
        sides: &from.sides,
        using: &from.using,
        places: scope.places,
        lookups: scope.lookups,
    };
    if let Some(clause) = select.having.as_ref().filter(|_| window.is_none() && !is_grouped(select)) {
        return Err(binder.fail(clause, Error::new("HAVING is for groups, and this query has none")));
    }
    let filter = select.selection.as_ref().map(|condition| binder.expr(condition)).transpose()?;
    let mut bound = if window.is_some() || is_grouped(select) {
        grouped(select, query, window, &binder)?
    } else {
        rows(select, query, &binder)?
    };
    (bound.limit, bound.offset) = limit(query)?;
    bound.distinct = match &select.distinct {
        None | Some(Distinct::All) => false,
        Some(Distinct::Distinct) => true,
        Some(_) => return Err(no_distinct_on()),
    };
    let is_ordered = !bound.order.is_empty() || bound.limit.is_some() || bound.offset > 0 || bound.distinct;
    if matches!(window, Some(Clause::Session(_))) && is_ordered {
        let error = Error::new("sessions end one by one, so they have no ORDER BY, LIMIT, OFFSET or DISTINCT");
        return Err(error.help("put the query into a subquery: SELECT ... FROM (SELECT ...) ORDER BY ..."));
    }
    let own = std::mem::take(&mut from.conditions);
    bound.filter = Expr::all(from.table.only.iter().cloned().chain(own).chain(filter));
    bound.matches = std::mem::take(&mut from.matches);
    from.statement(bound)
}

/// The error of `DISTINCT ON`, with what to write instead.
pub fn no_distinct_on() -> Error {
    let error = Error::new("DISTINCT ON is not understood");
    error.help("SELECT ... FROM (SELECT ..., row_number() OVER (PARTITION BY a ORDER BY b) AS r FROM ...) WHERE r = 1")
}

fn is_grouped(select: &ast::Select) -> bool {
    let by = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let aggregates = select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => has_aggregate(expr),
        _ => false,
    });
    by || aggregates
}

/// The name of an output without an alias.
pub fn name_of(expr: &ast::Expr) -> String {
    match expr {
        ast::Expr::Identifier(name) => name.value.clone(),
        ast::Expr::CompoundIdentifier(names) => names.last().map_or_else(String::new, |name| name.value.clone()),
        other => lower_outside_quotes(&other.to_string()),
    }
}

/// SQL in lower case, but for the texts and names in quotes.
fn lower_outside_quotes(sql: &str) -> String {
    let mut quote = None;
    let mut lower = String::with_capacity(sql.len());
    for letter in sql.chars() {
        match quote {
            None => {
                quote = matches!(letter, '\'' | '"' | '`').then_some(letter);
                lower.extend(letter.to_lowercase());
            }
            // A quote inside is written twice, which ends the text and begins it again.
            Some(own) => {
                quote = (letter != own).then_some(own);
                lower.push(letter);
            }
        }
    }
    lower
}

fn rows(select: &ast::Select, query: Option<&ast::Query>, binder: &Binder<'_>) -> Result<Query, Error> {
    let mut outputs = Vec::new();
    for item in &select.projection {
        let (expr, name) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, name_of(expr)),
            SelectItem::ExprWithAlias { expr, alias } => (expr, alias.value.clone()),
            SelectItem::Wildcard(options) => {
                let shown = wildcard::shown(options, all(binder, None)?, |one| &one.name);
                outputs.extend(shown.map_err(|error| binder.fail(item, error))?);
                continue;
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                let all = all(binder, Some(&name.to_string()));
                let shown = all.and_then(|all| wildcard::shown(options, all, |one| &one.name));
                outputs.extend(shown.map_err(|error| binder.fail(item, error))?);
                continue;
            }
            other => return Err(binder.fail(other, Error::beyond(format!("`{other}` is not understood")))),
        };
        let expr = binder.expr(expr)?;
        outputs.push(Output { name, data_type: expr.data_type(binder.types), expr });
    }
    let order = order(query, &outputs, binder, |expr| binder.expr(expr))?;
    Ok(Query { order, ..Query::new(binder.table.clone(), Shape::Rows, outputs) })
}

/// All columns, of the side with a name if there is one. A column that several sides have is named with its side.
pub fn all(binder: &Binder<'_>, side: Option<&str>) -> Result<Vec<Output>, Error> {
    let sides = binder.named(side)?;
    let is_listed = |expr: &Expr| match expr {
        Expr::Column(at) => binder.table.columns.get(*at).is_none_or(|column| column.listed),
        _ => true,
    };
    let columns = |side: &&Side| {
        let columns = side.columns(binder.table).into_iter();
        columns.filter(|(_, expr, _)| is_listed(expr)).collect::<Vec<_>>()
    };
    let names: Vec<String> = sides.iter().flat_map(columns).map(|(name, ..)| name).collect();
    let mut outputs = Vec::new();
    for side in &sides {
        for (name, expr, data_type) in columns(side) {
            let is_one = names.iter().filter(|other| **other == name).count() == 1;
            let name = if is_one { name } else { format!("{}.{name}", side.name) };
            outputs.push(Output { name, expr, data_type });
        }
    }
    Ok(outputs)
}

fn grouped(
    select: &ast::Select,
    query: Option<&ast::Query>,
    window: Option<Clause>,
    binder: &Binder<'_>,
) -> Result<Query, Error> {
    let items: Vec<(&ast::Expr, String)> = select
        .projection
        .iter()
        .map(|item| match item {
            SelectItem::UnnamedExpr(expr) => Ok((expr, name_of(expr))),
            SelectItem::ExprWithAlias { expr, alias } => Ok((expr, alias.value.clone())),
            other => Err(binder.fail(other, Error::new(format!("`{other}` cannot be shown of groups")))),
        })
        .collect::<Result<_, _>>()?;
    let mut keys = Vec::new();
    for key in keys_of(&select.group_by, &items)? {
        keys.push(binder.expr(named(key, &items).map_err(|error| binder.fail(key, error))?)?);
    }
    let mut grouping = Grouping { binder, keys, aggregates: Vec::new(), aliases: Vec::new() };
    let mut outputs = Vec::new();
    for (expr, name) in &items {
        let bound = grouping.expr(expr)?;
        outputs.push((name.clone(), bound));
    }
    grouping.aliases.clone_from(&outputs);
    let having = select.having.as_ref().map(|having| grouping.expr(having));
    let having = having.transpose()?;
    let types = grouping.types();
    let typed = |(name, expr): (String, Expr)| Output { name, data_type: expr.data_type(&types), expr };
    let outputs: Vec<Output> = outputs.into_iter().map(typed).collect();
    let order = order(query, &outputs, binder, |expr| grouping.expr(expr))?;
    let (window, session_ns) = match window {
        None | Some(Clause::Within(_)) => (None, None),
        Some(Clause::Window(window)) => (Some(window), None),
        Some(Clause::Session(pause_ns)) => (None, Some(pause_ns)),
    };
    let groups = Groups { keys: grouping.keys, aggregates: grouping.aggregates, having, window, session_ns };
    Ok(Query { order, ..Query::new(binder.table.clone(), Shape::Groups(groups), outputs) })
}

/// What a query is grouped by; `ALL` are the items that have no aggregate.
///
/// # Errors
/// For `ROLLUP` and the like.
pub fn keys_of<'q>(by: &'q GroupByExpr, items: &[(&'q ast::Expr, String)]) -> Result<Vec<&'q ast::Expr>, Error> {
    let (keys, modifiers) = match by {
        GroupByExpr::Expressions(keys, modifiers) => (keys.iter().collect::<Vec<_>>(), modifiers),
        GroupByExpr::All(modifiers) => {
            let is_key = |expr: &&ast::Expr| !has_function(expr, &is_aggregate);
            (items.iter().map(|(expr, _)| *expr).filter(is_key).collect(), modifiers)
        }
    };
    let is_several =
        |key: &&ast::Expr| matches!(key, ast::Expr::Rollup(_) | ast::Expr::Cube(_) | ast::Expr::GroupingSets(_));
    if !modifiers.is_empty() || keys.iter().any(is_several) {
        let error = Error::new("ROLLUP, CUBE, GROUPING SETS and TOTALS are not understood");
        return Err(error.help("two queries: (SELECT ... GROUP BY a) UNION ALL (SELECT ... GROUP BY b)"));
    }
    Ok(keys)
}

/// Which column of a result an expression names, by its name or its number from 1.
///
/// # Errors
/// For a number that no column has.
pub fn position<'n>(
    expr: &ast::Expr,
    mut names: impl ExactSizeIterator<Item = &'n str>,
) -> Result<Option<usize>, Error> {
    match expr {
        ast::Expr::Identifier(name) => Ok(names.position(|own| own.eq_ignore_ascii_case(&name.value))),
        ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(number, _), .. }) => {
            let at = number.parse().ok().and_then(|number: usize| number.checked_sub(1));
            let at = at.filter(|at| *at < names.len());
            let none = || Error::new(format!("there is no column {number}: the result has {}", names.len()));
            at.map(Some).ok_or_else(none)
        }
        _ => Ok(None),
    }
}

/// The select item that a key names by its alias or number, or the key itself.
///
/// # Errors
/// As [`position`].
pub fn named<'q>(key: &'q ast::Expr, items: &[(&'q ast::Expr, String)]) -> Result<&'q ast::Expr, Error> {
    let at = position(key, items.iter().map(|(_, name)| name.as_str()))?;
    Ok(at.map_or(key, |at| items[at].0))
}

/// Binds expressions over groups: keys and aggregates.
struct Grouping<'a> {
    binder: &'a Binder<'a>,
    keys: Vec<Expr>,
    aggregates: Vec<Aggregate>,
    /// The outputs, where they may be named.
    aliases: Vec<(String, Expr)>,
}

impl Grouping<'_> {
    fn types(&self) -> Vec<DataType> {
        let keys = self.keys.iter().map(|key| key.data_type(self.binder.types));
        keys.chain(self.aggregates.iter().map(|one| one.data_type(self.binder.types))).collect()
    }

    fn expr(&mut self, expr: &ast::Expr) -> Result<Expr, Error> {
        let binder = self.binder;
        let keys = self.keys.clone();
        let Grouping { aggregates, aliases, .. } = self;
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
            let alias = aliases
                .iter()
                .find(|(name, _)| matches!(inner, ast::Expr::Identifier(own) if own.value.eq_ignore_ascii_case(name)));
            is_name.then(|| match (binder.expr(inner), alias) {
                (Ok(constant @ Expr::Literal(_)), None) => Ok(constant),
                (Err(error), None) => Err(error),
                (_, Some((_, output))) => Ok(output.clone()),
                (Ok(_), None) => {
                    let error = Error::new(format!("`{inner}` differs between the rows of a group"));
                    Err(binder
                        .fail(inner, error.help(format!("GROUP BY {inner}, or an aggregate such as max({inner})"))))
                }
            })
        })
        .and_then(|bound| check(&bound, &self.types()).map(|()| bound))
        .map_err(|error| binder.fail(expr, error))
    }
}

/// The order of the result: each level names an output by its name or number, or is an expression equal to one.
fn order(
    query: Option<&ast::Query>,
    outputs: &[Output],
    binder: &Binder<'_>,
    mut bind: impl FnMut(&ast::Expr) -> Result<Expr, Error>,
) -> Result<Vec<Order>, Error> {
    let Some(order) = query.and_then(|query| query.order_by.as_ref()) else { return Ok(Vec::new()) };
    let OrderByKind::Expressions(levels) = &order.kind else {
        return Err(Error::new("ORDER BY ALL is not understood"));
    };
    let level = |level: &ast::OrderByExpr| -> Result<Order, Error> {
        if level.options.nulls_first.is_some() || level.with_fill.is_some() {
            return Err(binder.fail(level, Error::beyond("only ASC and DESC are understood here; nulls are the least")));
        }
        let named = position(&level.expr, outputs.iter().map(|output| output.name.as_str()));
        let named = named.map_err(|error| binder.fail(&level.expr, error))?;
        let output = match named {
            Some(output) => output,
            None => {
                let by = bind(&level.expr)?;
                outputs.iter().position(|output| output.expr == by).ok_or_else(|| {
                    let error = Error::beyond("what a result is ordered by must be shown in it");
                    binder.fail(&level.expr, error.help("add it after SELECT"))
                })?
            }
        };
        Ok(Order { by: Expr::Column(output), descending: level.options.sort == Some(OrderBySort::Desc) })
    };
    levels.iter().map(level).collect()
}

/// `LIMIT` and `OFFSET`.
pub fn limit(query: Option<&ast::Query>) -> Result<(Option<usize>, usize), Error> {
    let Some(query) = query else { return Ok((None, 0)) };
    let number = |clause: &str, expr: &ast::Expr| match walk(expr, &mut |_| None) {
        Ok(Expr::Literal(Value::Uint(value))) => Ok(usize::try_from(value).unwrap_or(usize::MAX)),
        _ => Err(Error::new(format!("{clause} takes a whole number"))),
    };
    let first = match &query.fetch {
        None => None,
        Some(ast::Fetch { with_ties: false, percent: false, quantity }) => {
            Some(quantity.as_ref().map_or(Ok(1), |quantity| number("FETCH FIRST", quantity))?)
        }
        Some(_) => return Err(Error::new("FETCH takes a number of rows ONLY").help("LIMIT 10")),
    };
    match &query.limit_clause {
        None => Ok((first, 0)),
        Some(LimitClause::LimitOffset { limit: Some(_), .. } | LimitClause::OffsetCommaLimit { .. })
            if first.is_some() =>
        {
            Err(Error::new("a query has LIMIT or FETCH, not both"))
        }
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            let limit = limit.as_ref().map(|limit| number("LIMIT", limit)).transpose()?;
            let offset = offset.as_ref().map(|offset| number("OFFSET", &offset.value)).transpose()?;
            Ok((limit.or(first), offset.unwrap_or(0)))
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
            Ok((Some(number("LIMIT", limit)?), number("LIMIT", offset)?))
        }
        Some(_) => Err(Error::new("LIMIT BY is not understood")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_are_named_in_lower_case_but_for_texts() {
        let named = |column: &str| {
            let parsed = crate::parse(&format!("SELECT {column} FROM syscalls GROUP BY comm, pid"), None);
            parsed.expect(column).flow.outputs()[0].name.clone()
        };
        for (column, name) in [
            ("'ABC'", "'ABC'"),
            ("COALESCE(COMM, 'It''s ÄB')", "coalesce(comm, 'It''s ÄB')"),
            ("MAX(\"pid\") + 1", "max(\"pid\") + 1"),
            ("Count(*)", "count(*)"),
        ] {
            assert_eq!(named(column), name);
        }
    }

    #[test]
    fn a_tilde_inverts_bits() {
        let shown = |column: &str| format!("{:?}", crate::parse(&format!("SELECT {column} FROM syscalls"), None));
        assert!(shown("~5").contains(&u64::MAX.wrapping_sub(5).to_string()), "{}", shown("~5"));
        assert_eq!(shown("~pid"), shown("pid ^ 18446744073709551615").replace("pid ^ 18446744073709551615", "~pid"));
        assert!(shown("~comm").contains("does not go between"), "{}", shown("~comm"));
    }
}
