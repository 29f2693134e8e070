//! A `SELECT` in the engine's dialect.

use std::collections::BTreeSet;

use kiln_plan::expr::Expr;
use kiln_plan::flow::{EngineInput, Flow};
use kiln_plan::query::Shape;
use kiln_plan::value::DataType;
use sqlparser::ast::{
    self, Distinct, OrderByKind, OrderBySort, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, SetOperator,
    SetQuantifier,
};

use super::frame::{Frame, Hybrid, Is};
use super::translator::{Common, Translator};
use super::typed::{Relation, Typed, limited};
use crate::bind;
use crate::clauses;
use crate::error::Error;
use crate::wildcard;
use crate::window::Clause;

/// The items of a `SELECT`, translated.
type Items = Vec<(String, Typed)>;

/// What is taken back if Kiln's plan does not group.
struct Mark {
    inputs: usize,
    lookups: usize,
    each_row: bool,
    joins_events: Option<Error>,
}

impl Translator<'_> {
    /// A query with its limits, inside another one.
    pub fn inner(&mut self, query: &ast::Query) -> Result<Relation, Error> {
        let relation = self.ordered(query)?;
        let (limit, offset) = bind::limit(Some(query))?;
        self.each_row &= limit.is_none() && offset == 0;
        Ok(Relation { text: relation.text + &limited(limit, offset), ..relation })
    }

    /// A query in its order, without its limits.
    pub fn ordered(&mut self, query: &ast::Query) -> Result<Relation, Error> {
        clauses::of_query(query)?;
        let known = (self.named.len(), self.common.len());
        if let Some(with) = &query.with {
            self.with(with)?;
        }
        let bound = self.set(&query.body, Some(query));
        self.named.truncate(known.0);
        self.common.truncate(known.1);
        bound
    }

    pub fn with(&mut self, with: &ast::With) -> Result<(), Error> {
        if with.recursive {
            let error = Error::new("WITH RECURSIVE is not understood");
            return Err(error.help("a query of WITH is of the tables and of the queries before it"));
        }
        for common in &with.cte_tables {
            let name = common.alias.name.value.clone();
            match bind::query(&common.query, &self.scope()) {
                Ok(mut flow) => {
                    bind::rename(&mut flow, &common.alias, self.scope)?;
                    if matches!(flow.last().shape, Shape::Groups(_)) {
                        // Its rows are the same wherever it stands, so it is asked once.
                        let columns = columns_of(&flow);
                        let table = format!("t{}", self.inputs.len());
                        self.inputs.push(Some(EngineInput { flow, time: None }));
                        self.each_row = false;
                        self.common.push(Common { name, table, letter: 'c', columns });
                    } else {
                        self.named.push((name, flow));
                    }
                }
                Err(error) if error.is_beyond => {
                    let mut relation = self.inner(&common.query)?;
                    let names = &common.alias.columns;
                    if !names.is_empty() && names.len() != relation.columns.len() {
                        let message = format!(
                            "`{name}` names {} columns of a query that has {}",
                            names.len(),
                            relation.columns.len()
                        );
                        let at = self.scope.places.bytes(common.alias.name.span);
                        return Err(Error { at, ..Error::new(message) });
                    }
                    relation.columns.iter_mut().zip(names).for_each(|(own, name)| own.0 = name.name.value.clone());
                    let table = format!("w{}", self.with.len());
                    self.with.push(format!("{table} AS ({})", relation.text));
                    self.common.push(Common { name, table, letter: 'o', columns: relation.columns });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A `SELECT`, or several with `UNION` and the like between them; `query` has their order.
    pub fn set(&mut self, body: &SetExpr, query: Option<&ast::Query>) -> Result<Relation, Error> {
        match body {
            SetExpr::Select(select) => self.select(select, query),
            SetExpr::Query(inner) => {
                let relation = self.inner(inner)?;
                let text = format!("SELECT * FROM ({})", relation.text);
                self.in_order(Relation { text, ..relation }, query)
            }
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                let word = match (op, set_quantifier) {
                    (SetOperator::Union, SetQuantifier::All) => "UNION ALL",
                    (SetOperator::Union, SetQuantifier::None | SetQuantifier::Distinct) => "UNION",
                    (SetOperator::Intersect, SetQuantifier::None | SetQuantifier::Distinct) => "INTERSECT",
                    (SetOperator::Except | SetOperator::Minus, SetQuantifier::None | SetQuantifier::Distinct) => {
                        "EXCEPT"
                    }
                    _ => return Err(Error::beyond(format!("{op} {set_quantifier} is not understood"))),
                };
                self.each_row &= word == "UNION ALL";
                let mut side = |body: &SetExpr| {
                    let before = self.inputs.len();
                    let side = self.set(body, None)?;
                    // Rows of lookup tables alone are there once, not once for every batch of the other side's.
                    self.each_row &= self.inputs.len() > before;
                    Ok::<_, Error>(side)
                };
                let sides = [side(left)?, side(right)?];
                self.in_order(Relation::combined(sides, word)?, query)
            }
            _ => Err(Error::beyond("VALUES is not understood")),
        }
    }

    /// The rows of a query in the order of the query around it, by their columns.
    pub fn in_order(&mut self, relation: Relation, query: Option<&ast::Query>) -> Result<Relation, Error> {
        let names: Vec<String> = relation.columns.iter().map(|(name, _)| name.clone()).collect();
        let order = self.order(query, &names, false)?;
        Ok(Relation { text: relation.text + &order, ..relation })
    }

    pub(super) fn select(&mut self, select: &ast::Select, query: Option<&ast::Query>) -> Result<Relation, Error> {
        clauses::of_select(select)?;
        if let Some(clause) = self.scope.window(select) {
            if self.window.is_some_and(|own| own != clause) {
                let error = Error::new("parts of this query have different windows");
                return Err(error.help("give all of them the same WINDOW"));
            }
            self.window = Some(clause);
        }
        let from = self.enter(select)?;
        self.frame_mut().windows = select.named_window.clone();
        let depth = self.frames.len();
        let body = match self.of_groups(select, query, &from) {
            Some(relation) => Ok(relation),
            None => self.of_rows(select, query, &from),
        };
        match body {
            Ok(relation) => self.leave().map(|_| relation),
            Err(error) => {
                self.frames.truncate(depth - 1);
                Err(error)
            }
        }
    }

    /// A query over groups that Kiln's plan makes; `None` if it cannot make them.
    fn of_groups(&mut self, select: &ast::Select, query: Option<&ast::Query>, from: &str) -> Option<Relation> {
        let scope = self.scope;
        let items = plain_items(select)?;
        let by = bind::keys_of(&select.group_by, &items).ok()?;
        let bound = self.frame_mut().only_bound()?;
        let binder = bound.binder(scope);
        let keys: Vec<Expr> =
            by.iter().map(|key| binder.expr(bind::named(key, &items)?)).collect::<Result<_, _>>().ok()?;
        let filter = select.selection.as_ref().map(|filter| binder.expr(filter)).transpose().ok()?;
        let of_time = matches!(self.window, Some(Clause::Window(_) | Clause::Session(_)));
        let is_ready = {
            let bound = self.frame_mut().only_bound()?;
            !of_time || bound.from.table.complete().is_some() && !bound.from.has_windows()
        };
        if !is_ready {
            return None;
        }
        let mark = Mark {
            inputs: self.inputs.len(),
            lookups: self.lookups.len(),
            each_row: self.each_row,
            joins_events: self.joins_events.clone(),
        };
        let depth = self.frames.len();
        self.frame_mut().hybrid = Some(Hybrid { keys, aggregates: Vec::new() });
        let translated = self.over_groups(select, query, from);
        self.frames.truncate(depth);
        let frame = self.frame_mut();
        let is_grouped =
            frame.hybrid.as_ref().is_some_and(|hybrid| !hybrid.keys.is_empty() || !hybrid.aggregates.is_empty());
        match translated {
            Ok(relation) if is_grouped => {
                frame.only_bound()?.filters.extend(filter);
                self.each_row = false;
                Some(relation)
            }
            _ => {
                frame.hybrid = None;
                frame.aliases.clear();
                frame.in_aggregate = false;
                self.inputs.truncate(mark.inputs);
                self.lookups.truncate(mark.lookups);
                (self.each_row, self.joins_events) = (mark.each_row, mark.joins_events);
                None
            }
        }
    }

    fn over_groups(&mut self, select: &ast::Select, query: Option<&ast::Query>, from: &str) -> Result<Relation, Error> {
        let items = self.items(select)?;
        self.frame_mut().aliases = aliases(&items);
        let having = select.having.as_ref().map(|having| self.condition(having)).transpose()?;
        let having = having.map_or_else(String::new, |having| format!(" WHERE {having}"));
        self.shown(select, query, items, &format!("{from}{having}"))
    }

    /// A query over rows, grouped by the engine if it groups.
    fn of_rows(&mut self, select: &ast::Select, query: Option<&ast::Query>, from: &str) -> Result<Relation, Error> {
        let filter = select.selection.as_ref().map(|filter| self.filter(filter)).transpose()?.unwrap_or_default();
        let mut text = if filter.is_empty() { from.to_owned() } else { format!("{from} WHERE {filter}") };
        let plain = plain_items(select);
        let by = bind::keys_of(&select.group_by, plain.as_deref().unwrap_or_default())?;
        let mut keys = Vec::new();
        self.frame_mut().in_aggregate = true;
        for key in by {
            let key = plain
                .as_ref()
                .map_or(Ok(key), |plain| bind::named(key, plain).map_err(|error| self.fail(key, error)))?;
            keys.push(self.expr(key)?.text);
        }
        self.frame_mut().in_aggregate = false;
        if !keys.is_empty() {
            text += &format!(" GROUP BY {}", keys.iter().map(|key| no_number(key)).collect::<Vec<_>>().join(", "));
            self.frame_mut().keys = Some(keys);
        }
        let mut items = self.items(select)?;
        if self.frame().has_aggregate && self.frame().keys.is_none() {
            // Now it is known that they are of groups.
            self.frame_mut().keys = Some(Vec::new());
            items = self.items(select)?;
        }
        let is_grouped = self.frame().keys.is_some();
        self.each_row &= !is_grouped;
        if let Some(having) = &select.having {
            if !is_grouped {
                return Err(self.fail(having, Error::new("HAVING is for groups, and this query has none")));
            }
            self.frame_mut().aliases = aliases(&items);
            text += &format!(" HAVING {}", self.condition(having)?);
        }
        self.frame_mut().aliases = aliases(&items);
        self.shown(select, query, items, &text)
    }

    /// A condition on rows. What Kiln's plan can decide is left to it.
    fn filter(&mut self, filter: &ast::Expr) -> Result<String, Error> {
        let mut conditions = Vec::new();
        let scope = self.scope;
        for condition in conjuncts(filter) {
            let is_alone = self.frame().sources.len() == 1;
            let bound_by = |frame: &mut Frame| {
                let sources = frame.sources.iter_mut().enumerate();
                let binds = sources.filter_map(|(at, source)| match &mut source.is {
                    Is::Kiln(bound) => bound.binder(scope).expr(condition).ok().map(|expr| (at, expr)),
                    Is::Engine { .. } => None,
                });
                binds.collect::<Vec<_>>()
            };
            if is_alone && let Some((_, expr)) = bound_by(self.frame_mut()).pop() {
                if let Some(bound) = self.frame_mut().only_bound() {
                    bound.filters.push(expr);
                }
                continue;
            }
            // Finds what is wrong with it, such as a name that several sources have.
            let text = self.condition(condition)?;
            let keeps = self.frame().keeps;
            let mut all = bound_by(self.frame_mut());
            match (all.pop(), all.is_empty()) {
                (Some((at, expr)), true) if !keeps && !read_by(&expr).is_empty() => {
                    if let Is::Kiln(bound) = &mut self.frame_mut().sources[at].is {
                        bound.filters.push(expr);
                    }
                }
                _ => conditions.push(text),
            }
        }
        Ok(conditions.join(" AND "))
    }

    /// The items of a `SELECT`.
    fn items(&mut self, select: &ast::Select) -> Result<Items, Error> {
        let mut items = Vec::new();
        for item in &select.projection {
            let is_grouped = self.frame().keys.is_some() || self.frame().hybrid.is_some();
            match item {
                SelectItem::UnnamedExpr(expr) => items.push((bind::name_of(expr), self.expr(expr)?)),
                SelectItem::ExprWithAlias { expr, alias } => items.push((alias.value.clone(), self.expr(expr)?)),
                other if is_grouped => {
                    return Err(self.fail(other, Error::new(format!("`{other}` cannot be shown of groups"))));
                }
                SelectItem::Wildcard(options) => {
                    let shown = wildcard::shown(options, self.all(None)?, |one| &one.0);
                    items.extend(shown.map_err(|error| self.fail(item, error))?);
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    let all = self.all(Some(&name.to_string()));
                    let shown = all.and_then(|all| wildcard::shown(options, all, |one| &one.0));
                    items.extend(shown.map_err(|error| self.fail(item, error))?);
                }
                other => return Err(self.fail(other, Error::beyond(format!("`{other}` is not understood")))),
            }
        }
        Ok(items)
    }

    fn shown(
        &mut self,
        select: &ast::Select,
        query: Option<&ast::Query>,
        items: Items,
        rest: &str,
    ) -> Result<Relation, Error> {
        let distinct = match &select.distinct {
            None | Some(Distinct::All) => "",
            Some(Distinct::Distinct) => "DISTINCT ",
            Some(_) => return Err(bind::no_distinct_on()),
        };
        self.each_row &= distinct.is_empty();
        let names: Vec<String> = items.iter().map(|(name, _)| name.clone()).collect();
        let order = self.order(query, &names, true)?;
        let shown = items.iter().enumerate().map(|(at, (_, typed))| format!("{} AS o{at}", typed.text));
        let text = format!("SELECT {distinct}{}{rest}{order}", shown.collect::<Vec<_>>().join(", "));
        let nulls = items.iter().map(|(_, typed)| typed.is_null).collect();
        let columns = items.into_iter().map(|(name, typed)| (name, typed.data_type)).collect();
        Ok(Relation { text, columns, nulls })
    }

    /// `ORDER BY`: columns of the result by name or number, or expressions where there is a frame for them.
    pub(super) fn order(
        &mut self,
        query: Option<&ast::Query>,
        names: &[String],
        in_frame: bool,
    ) -> Result<String, Error> {
        let Some(order) = query.and_then(|query| query.order_by.as_ref()) else { return Ok(String::new()) };
        let OrderByKind::Expressions(levels) = &order.kind else {
            return Err(Error::new("ORDER BY ALL is not understood"));
        };
        self.each_row = false;
        let mut texts = Vec::new();
        for level in levels {
            let named = bind::position(&level.expr, names.iter().map(String::as_str));
            let named = named.map_err(|error| self.fail(&level.expr, error))?;
            let by = match named {
                Some(at) => (at + 1).to_string(),
                None if in_frame => no_number(&self.expr(&level.expr)?.text),
                None => {
                    let error = Error::new("the rows of several queries are ordered by their columns");
                    return Err(self.fail(&level.expr, error));
                }
            };
            texts.push(format!("{by}{}", direction(level).map_err(|error| self.fail(level, error))?));
        }
        Ok(format!(" ORDER BY {}", texts.join(", ")))
    }

    /// `ORDER BY` inside `OVER` and aggregates.
    pub(super) fn order_within(&mut self, levels: &[ast::OrderByExpr]) -> Result<String, Error> {
        let mut texts = Vec::new();
        for level in levels {
            let by = self.expr(&level.expr)?.text;
            texts.push(format!("{by}{}", direction(level).map_err(|error| self.fail(level, error))?));
        }
        Ok(texts.join(", "))
    }
}

/// ` ASC`, ` DESC`, and where nulls come.
fn direction(level: &ast::OrderByExpr) -> Result<String, Error> {
    if level.with_fill.is_some() {
        return Err(Error::new("WITH FILL is not understood"));
    }
    let mut text = match level.options.sort {
        None | Some(OrderBySort::Asc) => String::new(),
        Some(OrderBySort::Desc) => " DESC".to_owned(),
        Some(_) => return Err(Error::new("only ASC and DESC are understood here")),
    };
    match level.options.nulls_first {
        None => {}
        Some(true) => text += " NULLS FIRST",
        Some(false) => text += " NULLS LAST",
    }
    Ok(text)
}

/// An expression in `GROUP BY` and `ORDER BY`, where SQLite would take a number for that of a column.
fn no_number(text: &str) -> String {
    if text.parse::<i64>().is_ok() { format!("{text} + 0") } else { text.to_owned() }
}

/// The items that are expressions, with their names; `None` if there are others.
fn plain_items(select: &ast::Select) -> Option<Vec<(&ast::Expr, String)>> {
    let mut items = Vec::new();
    for item in &select.projection {
        items.push(match item {
            SelectItem::UnnamedExpr(expr) => (expr, bind::name_of(expr)),
            SelectItem::ExprWithAlias { expr, alias } => (expr, alias.value.clone()),
            _ => return None,
        });
    }
    Some(items)
}

fn aliases(items: &Items) -> Vec<(String, Typed)> {
    let in_parentheses = |typed: &Typed| Typed { text: format!("({})", typed.text), ..typed.clone() };
    items.iter().map(|(name, typed)| (name.clone(), in_parentheses(typed))).collect()
}

/// The operands of the outermost `AND`s.
fn conjuncts(expr: &ast::Expr) -> Vec<&ast::Expr> {
    match expr {
        ast::Expr::BinaryOp { left, op: ast::BinaryOperator::And, right } => {
            conjuncts(left).into_iter().chain(conjuncts(right)).collect()
        }
        ast::Expr::Nested(inner) => conjuncts(inner),
        other => vec![other],
    }
}

/// The names and types of a statement's columns.
fn columns_of(flow: &Flow) -> Vec<(String, DataType)> {
    flow.outputs().iter().map(|output| (output.name.clone(), output.data_type)).collect()
}

/// The columns that an expression reads.
fn read_by(expr: &Expr) -> BTreeSet<usize> {
    let mut columns = BTreeSet::new();
    expr.columns(&mut columns);
    columns
}
