//! What stands after `FROM`: tables, subqueries and joins.
//!
//! A lookup table adds no rows, so it is bound to expressions ([`kiln_plan::lookup`]). A join of two tables of events is a
//! table of its own with the columns of both. When the query over it is bound, conditions on one side go to that side,
//! and each side hands over only the columns that are used.

use std::ops::Range;
use std::sync::Arc;

use kiln_plan::expr::{BinaryOp, Expr};
use kiln_plan::flow::{Flow, Join, Source};
use kiln_plan::lookup::{Joined, Lookup};
use kiln_plan::query::{Output, Query, Shape};
use kiln_plan::table::{self, Column, Scan, Table};
use kiln_plan::tables;
use kiln_plan::value::DataType;
use sqlparser::ast::{self, JoinConstraint, JoinOperator, Spanned, TableFactor};

use crate::bind::{self, Scope};
use crate::clauses;
use crate::error::Error;
use crate::expression::Binder;
use crate::functions::similar;
use crate::subquery;

/// Maximum number of tables of events of a statement: the programs of each are attached.
pub const MAX_SCANS: usize = 16;

/// What names in a query mean.
#[derive(Clone, Debug)]
pub struct Side {
    /// The alias, or the table's name.
    pub name: String,
    /// The table's name if there is an alias.
    pub other: Option<String>,
    /// Its columns.
    pub columns: SideColumns,
}

/// The columns of a side.
#[derive(Clone, Debug)]
pub enum SideColumns {
    /// Columns of the query's table.
    Own(Range<usize>),
    /// Columns of a lookup table, by this key; without a key while the key is bound.
    Lookup(Lookup, usize, Option<(Arc<Joined>, Expr)>),
}

impl Side {
    /// Whether it has this name.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// The names of its columns, with the expression of each and its type.
    pub fn columns(&self, table: &Table) -> Vec<(String, Expr, DataType)> {
        match &self.columns {
            SideColumns::Own(own) => {
                let column =
                    |at: usize| (table.columns[at].name.clone(), Expr::Column(at), table.columns[at].data_type);
                own.clone().map(column).collect()
            }
            SideColumns::Lookup(lookup, first, bound) => {
                let expr = |at: usize| match bound {
                    Some((joined, key)) => Expr::Lookup(Arc::clone(joined), Box::new(key.clone()), Some(at)),
                    None => Expr::Column(first + at),
                };
                let columns = lookup.columns.iter().enumerate();
                columns.map(|(at, (name, data_type, _))| (name.clone(), expr(at), *data_type)).collect()
            }
        }
    }
}

/// The source of a query, bound.
pub struct From {
    /// The query's table.
    pub table: Table,
    /// What names mean.
    pub sides: Vec<Side>,
    /// Columns that both sides of a join have in common (`USING`).
    pub using: Vec<String>,
    /// Conditions that joins add.
    pub conditions: Vec<Expr>,
    /// Whether a row has a match in each lookup table that leaves out rows without one.
    pub matches: Vec<Expr>,
    origin: Origin,
}

enum Origin {
    Table,
    Inner(Flow),
    Join(Box<Joining>),
}

/// A join of two tables of events, before it is known what is read of them.
struct Joining {
    /// The table of each side, and the subquery that it is.
    sides: [(Table, Option<Flow>); 2],
    on: Vec<Expr>,
    keeps: [bool; 2],
    within_ns: u64,
}

impl From {
    /// Whether rows come in windows.
    pub fn has_windows(&self) -> bool {
        matches!(&self.origin, Origin::Inner(flow) if subquery::has_windows(flow.last()))
    }

    /// The statement of a query over this source.
    pub fn statement(self, query: Query) -> Result<Flow, Error> {
        let flow = match self.origin {
            Origin::Table => Flow::scan(query),
            Origin::Inner(flow) => over(flow, query),
            Origin::Join(joining) => joined(*joining, query)?,
        };
        bind::few_scans(flow)
    }
}

/// A query over the rows of a statement.
pub fn over(mut flow: Flow, query: Query) -> Flow {
    if let (Source::Scan(inner), true) = (&flow.source, flow.stages.is_empty())
        && let Some(merged) = subquery::merged(inner, &query)
    {
        return Flow::scan(merged);
    }
    let of_windows = subquery::has_windows(flow.last());
    flow.stages.push(Query { of_windows, ..query });
    flow
}

/// Binds the source of a query.
pub fn bind(select: &ast::Select, scope: &Scope<'_>) -> Result<From, Error> {
    let [from] = &select.from[..] else {
        let error = Error::of_source("a query is of one table, or of tables with JOIN between them");
        return Err(error.help("`kiln tables` lists the tables there are"));
    };
    let mut bound = single(&from.relation, scope)?;
    for join in &from.joins {
        let failed = |error: Error| match error.at {
            None => Error { at: scope.places.bytes(join.span()), ..error },
            Some(_) => error,
        };
        self::join(&mut bound, join, select, scope).map_err(failed)?;
    }
    if let Some(within) = scope.within(select)
        && !matches!(bound.origin, Origin::Join(_))
    {
        let error = Error::new(format!("this WITHIN {within} ns is of no JOIN between two tables of events"));
        return Err(error.help("lookup tables are joined without a time"));
    }
    Ok(bound)
}

/// A table of events or a subquery as a source of its own.
pub fn single(factor: &TableFactor, scope: &Scope<'_>) -> Result<From, Error> {
    let (table, side, flow) = self::factor(factor, scope)?;
    let origin = flow.map_or(Origin::Table, Origin::Inner);
    Ok(From { table, sides: vec![side], using: Vec::new(), conditions: Vec::new(), matches: Vec::new(), origin })
}

/// A table of events or a subquery.
fn factor(factor: &TableFactor, scope: &Scope<'_>) -> Result<(Table, Side, Option<Flow>), Error> {
    clauses::of_table(factor)?;
    let side = |name: &str, alias: Option<&ast::TableAlias>, columns: usize| Side {
        name: alias.map_or_else(|| name.to_owned(), |alias| alias.name.value.clone()),
        other: alias.map(|_| name.to_owned()),
        columns: SideColumns::Own(0..columns),
    };
    if let TableFactor::Derived { subquery, alias, lateral: false, .. } = factor {
        let mut flow = bind::query(subquery, scope)?;
        if let Some(alias) = alias {
            bind::rename(&mut flow, alias, scope)?;
        }
        let name = alias.as_ref().map(|alias| alias.name.value.clone());
        let table = subquery::table(flow.last(), name.as_deref());
        let side = side(&table.name, None, table.columns.len());
        return Ok((table, side, Some(flow)));
    }
    let TableFactor::Table { name, alias, args: None, .. } = factor else {
        return Err(Error::beyond("a table's name or a subquery is expected after FROM"));
    };
    let text = name_of(name);
    if let Some((name, flow)) = scope.named(&text) {
        let mut flow = flow.clone();
        alias.iter().try_for_each(|alias| bind::rename(&mut flow, alias, scope))?;
        let table = subquery::table(flow.last(), Some(name));
        let side = side(name, alias.as_ref(), table.columns.len());
        return Ok((table, side, Some(flow)));
    }
    let missing = |missing: tables::Missing| Error::new(missing.why).help(missing.help);
    let found = tables::find(&text, scope.known).map_err(missing);
    let found = found.and_then(|table| table.ok_or_else(|| no_table(&text, scope)));
    let table = found.map_err(|error| Error { at: scope.places.bytes(name.span()), ..error })?;
    if let Some(alias) = alias.as_ref().filter(|alias| !alias.columns.is_empty()) {
        let error = Error::new(format!("the columns of `{}` keep their names", table.name));
        let help = "rename them in a query: FROM (SELECT pid AS p FROM forks) f";
        return Err(Error { at: scope.places.bytes(alias.name.span), ..error.help(help) });
    }
    let side = side(&table.name, alias.as_ref(), table.columns.len());
    Ok((table, side, None))
}

/// A table's name without quotes.
pub fn name_of(name: &ast::ObjectName) -> String {
    let part = |part: &ast::ObjectNamePart| match part.as_ident() {
        Some(ident) => ident.value.clone(),
        None => part.to_string(),
    };
    name.0.iter().map(part).collect::<Vec<_>>().join(".")
}

fn no_table(text: &str, scope: &Scope<'_>) -> Error {
    if scope.lookup(text).is_some() {
        let error = Error::of_source(format!("`{text}` is a lookup table, and has no events of its own"));
        return error.help(format!("join it with a table of events: FROM syscalls s JOIN {text} ON ..."));
    }
    let known = tables::all();
    let names = known.iter().map(|table| table.name.as_str());
    let named = scope.named.iter().map(|(name, _)| name.as_str());
    let lookups = scope.lookups.iter().map(|lookup| lookup.name.as_str());
    let help = similar(text, names.chain(lookups).chain(named));
    let listed = || "`kiln tables` lists the tables; any tracepoint is `tracepoint.CATEGORY.NAME`".to_owned();
    Error::new(format!("there is no table `{text}`")).help(help.unwrap_or_else(listed))
}

fn join(bound: &mut From, join: &ast::Join, select: &ast::Select, scope: &Scope<'_>) -> Result<(), Error> {
    clauses::of_table(&join.relation)?;
    let (keeps, constraint) = match &join.join_operator {
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => ([false, false], constraint),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => ([true, false], constraint),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => ([false, true], constraint),
        JoinOperator::FullOuter(constraint) => ([true, true], constraint),
        _ => return Err(Error::beyond("only JOIN, LEFT JOIN, RIGHT JOIN and FULL JOIN are understood")),
    };
    if keeps[1] && !matches!(constraint, JoinConstraint::On(_)) {
        return Err(Error::new("RIGHT JOIN and FULL JOIN need ON: a column of USING could be of either side"));
    }
    if let TableFactor::Table { name, alias, args: None, .. } = &join.relation
        && let Some(lookup) = scope.lookup(&name_of(name))
    {
        if keeps[1] {
            let error = Error::new("only JOIN and LEFT JOIN go with lookup tables");
            return Err(error.help("rows come from events, so a lookup's row without an event is never shown"));
        }
        let alias = alias.as_ref().map(|alias| alias.name.value.clone());
        return join_lookup(bound, lookup, alias, keeps[0], constraint, scope);
    }
    join_events(bound, join, keeps, constraint, select, scope)
}

/// The conditions of `ON` or `USING`, bound; `second` is the side that is joined.
fn conditions(
    bound: &mut From,
    constraint: &JoinConstraint,
    types: &[DataType],
    scope: &Scope<'_>,
) -> Result<Vec<Expr>, Error> {
    let (second, first) = bound.sides.split_last().expect("the side that is joined is there");
    let binder = |sides| Binder {
        table: &bound.table,
        types,
        sides,
        using: &bound.using,
        places: scope.places,
        lookups: scope.lookups,
    };
    match constraint {
        JoinConstraint::On(expr) => {
            let condition = binder(&bound.sides).expr(expr)?;
            Ok(condition.conjuncts().into_iter().cloned().collect())
        }
        JoinConstraint::Using(names) => {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let equal = |name: &String| {
                let one = binder(first).column(None, name)?;
                let other = binder(std::slice::from_ref(second)).column(None, name)?;
                Ok(Expr::binary(BinaryOp::Equal, one, other))
            };
            let conditions = names.iter().map(equal).collect::<Result<_, Error>>()?;
            bound.using.extend(names);
            Ok(conditions)
        }
        _ => Err(Error::new("a condition is expected after JOIN").help("JOIN ... ON s.pid = p.pid")),
    }
}

/// The operands of an equality.
fn equality(condition: &Expr) -> Option<(&Expr, &Expr)> {
    match condition {
        Expr::Binary(BinaryOp::Equal, one, other) => Some((one, other)),
        _ => None,
    }
}

fn columns_of(expr: &Expr) -> std::collections::BTreeSet<usize> {
    let mut columns = std::collections::BTreeSet::new();
    expr.columns(&mut columns);
    columns
}

fn join_lookup(
    bound: &mut From,
    lookup: &Lookup,
    alias: Option<String>,
    keeps_left: bool,
    constraint: &JoinConstraint,
    scope: &Scope<'_>,
) -> Result<(), Error> {
    // While its key is not known, the lookup's columns are numbered after the table's.
    let first = bound.table.columns.len();
    let mut types = bound.table.types();
    types.extend(lookup.columns.iter().map(|(_, data_type, _)| *data_type));
    let other = alias.as_ref().map(|_| lookup.name.clone());
    let name = alias.unwrap_or_else(|| lookup.name.clone());
    bound.sides.push(Side { name, other, columns: SideColumns::Lookup(lookup.clone(), first, None) });
    let conditions = conditions(bound, constraint, &types, scope)?;
    let is_ours = |expr: &Expr| columns_of(expr).iter().any(|column| *column >= first);
    let key = |condition: &Expr| {
        let (one, other) = equality(condition)?;
        let by = |own: &Expr| match own {
            Expr::Column(column) if *column >= first => Some(*column - first),
            _ => None,
        };
        match (by(one), by(other)) {
            (Some(by), _) if !is_ours(other) => Some((by, other.clone())),
            (_, Some(by)) if !is_ours(one) => Some((by, one.clone())),
            _ => None,
        }
    };
    let found = conditions.iter().enumerate().find_map(|(at, condition)| Some((at, key(condition)?)));
    let Some((at, (by, key))) = found else {
        let error = Error::new(format!("a column of `{}` has to be equal to something", lookup.name));
        return Err(error.help(format!("JOIN {0} ON {0}.{1} = ...", lookup.name, lookup.columns[0].0)));
    };
    // Each use of a column copies its key.
    if subquery::size(&key) > subquery::MAX_NODES {
        return Err(Error::new(format!("the key of `{}` depends on too many other lookups", lookup.name)));
    }
    lookup.rows.check(by).map_err(Error::new)?;
    let joined = Arc::new(Joined { lookup: lookup.clone(), by });
    let replace = |expr: &Expr| {
        expr.replace_columns(&|column| match column.checked_sub(first) {
            Some(at) => Expr::Lookup(Arc::clone(&joined), Box::new(key.clone()), Some(at)),
            None => Expr::Column(column),
        })
    };
    let others: Vec<Expr> =
        conditions.iter().enumerate().filter(|(own, _)| *own != at).map(|(_, one)| replace(one)).collect();
    if keeps_left && !others.is_empty() {
        let error = Error::new("a LEFT JOIN with a lookup table has one condition, the key");
        return Err(error.help("further conditions go into WHERE"));
    }
    bound.conditions.extend(others);
    if !keeps_left {
        bound.matches.push(Expr::Lookup(Arc::clone(&joined), Box::new(key.clone()), None));
    }
    if let Some(side) = bound.sides.last_mut() {
        side.columns = SideColumns::Lookup(lookup.clone(), first, Some((joined, key)));
    }
    Ok(())
}

fn join_events(
    bound: &mut From,
    join: &ast::Join,
    keeps: [bool; 2],
    constraint: &JoinConstraint,
    select: &ast::Select,
    scope: &Scope<'_>,
) -> Result<(), Error> {
    if matches!(bound.origin, Origin::Join(_)) || bound.sides.len() > 1 {
        let error = Error::beyond("two tables of events are joined, and lookup tables after them");
        return Err(error.help("join the first two in a subquery: FROM (SELECT ... JOIN ...) a JOIN ..."));
    }
    let (table, mut side, flow) = factor(&join.relation, scope)?;
    let Some(within_ns) = scope.within(select) else {
        // In windows, an engine joins them.
        let error = Error::new("two tables of events are joined within a time, and this JOIN has none");
        let at = scope.places.bytes(join.span());
        let join = at.map_or("JOIN ...", |at| scope.places.0[at].trim());
        let is_beyond = scope.window(select).is_some();
        return Err(Error { is_beyond, ..error.help(format!("{join} WITHIN 5 SECONDS")) });
    };
    let left = std::mem::replace(&mut bound.origin, Origin::Table);
    let left = if let Origin::Inner(flow) = left { Some(flow) } else { None };
    for (own, flow) in [(&bound.table, &left), (&table, &flow)] {
        if own.complete().is_none() {
            let error = Error::new(format!("rows of `{}` do not say when they happened", own.name));
            return Err(error.help("show `ts` or `end_ts` in it"));
        }
        if flow.as_ref().is_some_and(|flow| subquery::has_windows(flow.last())) {
            return Err(Error::new("rows of windows are not joined").help("leave out WINDOW in the subquery"));
        }
    }
    let split = bound.table.columns.len();
    side.columns = SideColumns::Own(split..split + table.columns.len());
    bound.sides.push(side);
    let sides = [(bound.table.clone(), left), (table.clone(), flow)];
    let given = |column: &Column| Column { source: table::Source::Given, ..column.clone() };
    let time = Column {
        name: table::JOINED_TIME.to_owned(),
        data_type: DataType::Time,
        about: "when both rows were there".to_owned(),
        source: table::Source::Given,
        listed: true,
    };
    let columns = bound.table.columns.iter().chain(&table.columns).map(given).chain([time]).collect();
    let name = format!("{} and {}", bound.table.name, table.name);
    bound.table =
        Table { name, about: "a pair of rows".to_owned(), scan: Scan::Rows, columns, only: None, interrupts: false };
    let types = bound.table.types();
    let end = types.len() - 1;
    let on = conditions(bound, constraint, &types, scope)?;
    let columns = SideColumns::Own(end..end + 1);
    bound.sides.push(Side { name: "joined".to_owned(), other: None, columns });
    bound.origin = Origin::Join(Box::new(Joining { sides, on, keeps, within_ns }));
    Ok(())
}

/// Which side of a join an expression is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Neither,
    One(usize),
    Both,
}

fn side_of(expr: &Expr, split: usize, end: usize) -> Of {
    let columns = columns_of(expr);
    let left = columns.iter().any(|column| *column < split);
    let right = columns.iter().any(|column| (split..end).contains(column));
    match (left, right, columns.contains(&end)) {
        (false, false, false) => Of::Neither,
        (true, false, false) => Of::One(0),
        (false, true, false) => Of::One(1),
        _ => Of::Both,
    }
}

/// The statement of a query over two tables of events.
fn joined(joining: Joining, mut query: Query) -> Result<Flow, Error> {
    let Joining { sides, on, keeps, within_ns } = joining;
    let split = sides[0].0.columns.len();
    let end = split + sides[1].0.columns.len();
    let mut filters: [Vec<Expr>; 2] = sides.each_ref().map(|(table, _)| table.only.iter().cloned().collect());
    let own = |side: usize, expr: &Expr| match side {
        0 => expr.clone(),
        _ => expr.replace_columns(&|column| Expr::Column(column - split)),
    };
    let mut keys: [Vec<Expr>; 2] = Default::default();
    let mut rest = Vec::new();
    for condition in on {
        let operands = equality(&condition).map(|(one, other)| [one, other]);
        match operands.map(|both| both.map(|one| side_of(one, split, end))) {
            Some([Of::One(one), Of::One(other)]) if one != other => {
                for (side, expr) in [one, other].into_iter().zip(operands.into_iter().flatten()) {
                    keys[side].push(own(side, expr));
                }
                continue;
            }
            _ => {}
        }
        match side_of(&condition, split, end) {
            // A row that is shown without a match only lacks one because of this.
            Of::One(side) if !keeps[side] => filters[side].push(own(side, &condition)),
            _ => rest.push(condition),
        }
    }
    if keys[0].is_empty() {
        let error = Error::new("a column of one table has to be equal to one of the other");
        return Err(error.help("ON e.pid = x.pid"));
    }
    let (mut kept, mut filter) = (Vec::new(), query.filter.take());
    for condition in filter.take().iter().flat_map(Expr::conjuncts) {
        match side_of(condition, split, end) {
            // Where the other side's rows are shown without a match, this side has nulls.
            Of::One(side) if !keeps[1 - side] => filters[side].push(own(side, condition)),
            _ => kept.push(condition.clone()),
        }
    }
    query.filter = Expr::all(kept);
    let condition = Expr::all(rest);
    let times = sides.each_ref().map(|(table, _)| table.complete().unwrap_or(0));
    let mut wanted = query.columns();
    condition.iter().for_each(|condition| wanted.extend(columns_of(condition)));
    wanted.extend([times[0], split + times[1], end]);
    for (side, keys) in keys.iter().enumerate() {
        let columns = keys.iter().flat_map(columns_of);
        wanted.extend(columns.map(|column| column + if side == 1 { split } else { 0 }));
    }
    // The place of each column among those that are handed over.
    let place = |column: usize| wanted.range(..column).count();
    let moved = |expr: &Expr| expr.replace_columns(&|column| Expr::Column(place(column)));
    let lefts = wanted.range(..split).count();
    let keys = [
        keys[0].iter().map(moved).collect(),
        keys[1].iter().map(|key| key.replace_columns(&|column| Expr::Column(place(split + column) - lefts))).collect(),
    ];
    let times = [place(times[0]), place(split + times[1]) - lefts];
    let condition = condition.as_ref().map(moved);
    query.replace_columns(&|column| Expr::Column(place(column)));
    let mut columns = 0..;
    query.table.columns.retain(|_| columns.next().is_some_and(|column| wanted.contains(&column)));
    let [left, right] = sides;
    let side = |side: usize, (table, flow): (Table, Option<Flow>), filter: Vec<Expr>| {
        let own = if side == 0 { wanted.range(..split) } else { wanted.range(split..end) };
        let output = |column: &usize| {
            let at = column - if side == 0 { 0 } else { split };
            let Column { name, data_type, .. } = &table.columns[at];
            Output { name: name.clone(), expr: Expr::Column(at), data_type: *data_type }
        };
        let outputs = own.map(output).collect();
        let query = Query { filter: Expr::all(filter), ..Query::new(table.clone(), Shape::Rows, outputs) };
        match flow {
            None => Flow::scan(query),
            Some(flow) => over(flow, query),
        }
    };
    let [first, second] = filters;
    let sides = [side(0, left, first), side(1, right, second)];
    let join = Join { sides, keys, times, within_ns, condition, keeps };
    Ok(Flow { source: Source::Join(Box::new(join)), stages: vec![query] })
}
