//! Clauses and functions that are short for others, written out in the syntax tree before it is bound.
//!
//! ```text
//!   SELECT TOP 3 a FROM t                    SELECT a FROM t LIMIT 3
//!   SELECT a FROM t QUALIFY c                SELECT * EXCLUDE (c) FROM (SELECT a, c FROM t) WHERE c
//!   SELECT DISTINCT ON (a) a, b FROM t       SELECT a, b FROM t QUALIFY row_number() OVER (PARTITION BY a) = 1
//!   SELECT a, count(*) GROUP BY ROLLUP (a)   (SELECT a, count(*) GROUP BY a) UNION ALL (SELECT NULL AS a, count(*))
//!   time_bucket('1 second', ts)              ts - ts % INTERVAL '1 second'
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    self, Distinct, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LimitClause, OrderByKind, Query,
    Select, SelectItem, SetExpr, TableFactor, TopQuantity, Value, ValueWithSpan, VisitorMut,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Span;

use crate::bind::name_of;
use crate::error::Error;
use crate::grouping;
use crate::walk::{each_expression, walk};

/// Functions that are expressions: their names, how many operands they take, and the expression.
const FUNCTIONS: &[(&[&str], usize, &str)] = &[
    (&["time_bucket", "date_bin"], 2, "$2 - $2 % $1"),
    (&["variance", "var_samp"], 1, "power(stddev($1), 2)"),
    (
        &["width_bucket"],
        4,
        "CASE WHEN $1 < $2 THEN 0 WHEN $1 >= $3 THEN $4 + 1 ELSE floor(($1 - $2) * $4 / ($3 - $2)) + 1 END",
    ),
];
/// Around a query whose column `"kiln qualify"` says which rows are shown.
const QUALIFIED: &str = "SELECT * EXCLUDE (\"kiln qualify\") FROM (SELECT 1) AS q WHERE \"kiln qualify\"";
const QUALIFY: &str = "kiln qualify";
const FIRST_OF_EACH: &str = "row_number() OVER () = 1";
/// Maximum bytes of all operands that are written out, because those of functions in functions are doubled again and again.
const MOST_WRITTEN: usize = crate::MAX_BYTES;

/// Writes out what a statement has in short.
///
/// # Errors
/// Returns one for functions in functions that become too long, and too many sets of keys.
pub fn write_out(statement: &mut ast::Statement) -> Result<(), Error> {
    walk(statement, &mut Writer { written: 0 })
}

struct Writer {
    /// Bytes of operands so far.
    written: usize,
}

impl VisitorMut for Writer {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if query.limit_clause.is_none()
            && query.fetch.is_none()
            && let SetExpr::Select(select) = &mut *query.body
        {
            query.limit_clause = taken_top(select).map(limit);
        }
        first_of_each(query);
        qualified(query);
        sides(&mut query.body)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && has_short(expr)
            {
                *item = SelectItem::ExprWithAlias { alias: Ident::new(name_of(expr)), expr: expr.clone() };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let Some((template, operands)) = written(function) else { return ControlFlow::Continue(()) };
        let bytes = |operand: &Expr| operand.to_string().len();
        self.written += operands.iter().map(bytes).sum::<usize>();
        if self.written > MOST_WRITTEN {
            return ControlFlow::Break(Error::new("functions in each other become too long").help("use a subquery"));
        }
        *expr = Expr::Nested(Box::new(template_of(template, &operands)));
        ControlFlow::Continue(())
    }
}

/// Whether an expression has a function in it that is short for others, also in a subquery. It is not changed.
fn has_short(expr: &mut Expr) -> bool {
    let mut found = false;
    each_expression(expr, |inner| found |= matches!(inner, Expr::Function(function) if written(function).is_some()));
    found
}

/// What a function is short for, with its operands.
fn written(function: &ast::Function) -> Option<(&'static str, Vec<Expr>)> {
    let name = function.name.to_string().to_lowercase();
    let (_, count, template) = FUNCTIONS.iter().find(|(names, ..)| names.contains(&name.as_str()))?;
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_plain = function.filter.is_none() && function.over.is_none() && list.duplicate_treatment.is_none();
    if list.args.len() != *count || !is_plain {
        return None;
    }
    let operands = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(operand)) => Some(operand.clone()),
        _ => None,
    });
    let mut operands: Vec<Expr> = operands.collect::<Option<_>>()?;
    if let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }) = operands[0] {
        // A text here is a time.
        operands[0] = Expr::Interval(ast::Interval {
            value: Box::new(operands[0].clone()),
            leading_field: None,
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        });
    }
    Some((template, operands))
}

/// An expression whose `$1`, `$2` are these operands. It has no place in the query, but they do.
fn template_of(template: &str, operands: &[Expr]) -> Expr {
    let parser = Parser::new(&GenericDialect {}).try_with_sql(template);
    let mut expr = parser.and_then(|mut parser| parser.parse_expr()).expect("the expression of a table");
    let _ = walk(&mut expr, &mut Nowhere);
    each_expression(&mut expr, |inner| {
        if let Expr::Value(ValueWithSpan { value: Value::Placeholder(number), .. }) = inner {
            let at = number[1..].parse::<usize>().expect("the number of an operand");
            *inner = Expr::Nested(Box::new(operands[at - 1].clone()));
        }
    });
    expr
}

/// Takes the places out of a syntax tree that was not read from the query.
struct Nowhere;

impl VisitorMut for Nowhere {
    type Break = Error;

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<Error> {
        value.span = Span::empty();
        ControlFlow::Continue(())
    }

    fn pre_visit_ident(&mut self, ident: &mut Ident) -> ControlFlow<Error> {
        ident.span = Span::empty();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        select.select_token = AttachedToken::empty();
        ControlFlow::Continue(())
    }
}

/// Takes the number of `TOP` out of a `SELECT`, if it is one of rows.
fn taken_top(select: &mut Select) -> Option<Expr> {
    let top = select.top.take_if(|top| !top.with_ties && !top.percent && top.quantity.is_some())?;
    Some(match top.quantity? {
        TopQuantity::Expr(expr) => expr,
        TopQuantity::Constant(number) => {
            let value = Value::Number(number.to_string(), false);
            Expr::Value(ValueWithSpan { value, span: Span::empty() })
        }
    })
}

fn limit(limit: Expr) -> LimitClause {
    LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by: Vec::new() }
}

/// Makes `DISTINCT ON` a condition on the number of a row among those with the same keys, in the query's order.
fn first_of_each(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else { return };
    let Some(Distinct::On(keys)) = &select.distinct else { return };
    let order = query.order_by.as_ref().map(|order| &order.kind);
    let levels = match order {
        None => &[][..],
        Some(OrderByKind::Expressions(levels)) => levels,
        Some(OrderByKind::All(_)) => return,
    };
    let keys: Vec<Expr> = keys.iter().map(|key| meant(key, &select.projection)).collect();
    let mut levels = levels.to_vec();
    let of_keys = levels.len().min(keys.len());
    levels.iter_mut().for_each(|level| level.expr = meant(&level.expr, &select.projection));
    // As PostgreSQL wants it: which row is the first must not depend on anything but what comes after the keys.
    if select.qualify.is_some() || levels[..of_keys].iter().any(|level| !keys.contains(&level.expr)) {
        return;
    }
    let mut condition = template_of(FIRST_OF_EACH, &[]);
    each_expression(&mut condition, |expr| {
        if let Expr::Function(function) = expr
            && let Some(ast::WindowType::WindowSpec(spec)) = &mut function.over
        {
            spec.partition_by.clone_from(&keys);
            spec.order_by = levels.split_off(of_keys);
        }
    });
    if let Some(ast::OrderBy { kind: OrderByKind::Expressions(all), .. }) = &mut query.order_by {
        all.truncate(of_keys);
    }
    select.distinct = None;
    select.qualify = Some(condition);
}

/// Puts a query with `QUALIFY` into one that has its condition as `WHERE`.
fn qualified(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else { return };
    let Some(mut condition) = select.qualify.take() else { return };
    let names = select.projection.clone();
    each_expression(&mut condition, |expr| {
        if let Expr::Identifier(name) = expr
            && let Some(named) = aliased(name, &names)
        {
            *expr = Expr::Nested(Box::new(named.clone()));
        }
    });
    select.projection.push(SelectItem::ExprWithAlias { expr: condition, alias: Ident::new(QUALIFY) });
    let outer = Parser::new(&GenericDialect {}).try_with_sql(QUALIFIED);
    let mut outer = outer.and_then(|mut parser| parser.parse_query()).expect("a query of this file");
    let _ = walk(&mut outer, &mut Nowhere);
    let SetExpr::Select(shown) = &mut *outer.body else { return };
    let inner = std::mem::replace(
        &mut query.body,
        Box::new(SetExpr::Values(ast::Values { explicit_row: false, value_keyword: false, rows: Vec::new() })),
    );
    if let TableFactor::Derived { subquery, .. } = &mut shown.from[0].relation {
        subquery.body = inner;
    }
    query.body = outer.body;
}

/// The expression that an alias names.
fn aliased<'i>(name: &Ident, items: &'i [SelectItem]) -> Option<&'i Expr> {
    items.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if alias.value.eq_ignore_ascii_case(&name.value) => Some(expr),
        _ => None,
    })
}

/// What a key or a level of `ORDER BY` means: that of an alias, that of a number of an item, or itself.
pub fn meant(key: &Expr, items: &[SelectItem]) -> Expr {
    let found = match key {
        Expr::Identifier(name) => aliased(name, items),
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => {
            let at = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            match at.and_then(|at| items.get(at)) {
                Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => Some(expr),
                _ => None,
            }
        }
        _ => None,
    };
    found.unwrap_or(key).clone()
}

/// Writes out the sides of a union, and sets of keys, which become one.
fn sides(body: &mut SetExpr) -> ControlFlow<Error> {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            for side in [left, right] {
                if let SetExpr::Select(select) = &mut **side
                    && (select.top.is_some()
                        || select.qualify.is_some()
                        || matches!(select.distinct, Some(Distinct::On(_))))
                {
                    // Its parts are those of a query of its own, which is visited next.
                    **side = SetExpr::Query(Box::new(alone(SetExpr::Select(select.clone()))));
                } else {
                    sides(side)?;
                }
            }
            ControlFlow::Continue(())
        }
        SetExpr::Select(select) => match grouping::sets(select) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(union)) => {
                *body = union;
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        },
        _ => ControlFlow::Continue(()),
    }
}

/// A query without order and limit.
fn alone(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}
