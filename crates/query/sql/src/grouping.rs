//! `ROLLUP`, `CUBE` and `GROUPING SETS`: a union of one query for each set of keys.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, GroupByExpr, Ident, Select, SelectItem, SetExpr, SetOperator, SetQuantifier, Value, ValueWithSpan, VisitorMut,
};
use sqlparser::tokenizer::Span;

use crate::bind::name_of;
use crate::error::Error;
use crate::from::MAX_SCANS;
use crate::functions::is_aggregate;
use crate::shorthand::meant;
use crate::walk::walk;

/// Keys that groups are by together.
type Set = Vec<Expr>;

/// The union that a `SELECT` with several sets of keys is; none if it has one.
///
/// # Errors
/// Returns one for more sets than tables may be read.
pub fn sets(select: &Select) -> Result<Option<SetExpr>, Error> {
    let GroupByExpr::Expressions(keys, modifiers) = &select.group_by else { return Ok(None) };
    let is_several = |key: &Expr| matches!(key, Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_));
    if !modifiers.is_empty() || !keys.iter().any(is_several) {
        return Ok(None);
    }
    let mut all: Vec<Set> = vec![Vec::new()];
    for key in keys {
        let own = sets_of(key)?;
        all = all.iter().flat_map(|before| own.iter().map(|set| [&before[..], set].concat())).collect();
        few(all.len())?;
    }
    all.iter_mut().flatten().for_each(|key| *key = meant(key, &select.projection));
    let keys: Vec<Expr> = all.concat();
    let queries = all.iter().map(|set| SetExpr::Select(Box::new(of_set(select, set, &keys))));
    Ok(queries.reduce(|left, right| SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: SetQuantifier::All,
        left: Box::new(left),
        right: Box::new(right),
    }))
}

fn few(sets: usize) -> Result<(), Error> {
    match sets {
        0..=MAX_SCANS => Ok(()),
        _ => Err(Error::new(format!("GROUP BY has more than {MAX_SCANS} sets of keys"))),
    }
}

/// The sets of keys that one element of `GROUP BY` stands for.
fn sets_of(key: &Expr) -> Result<Vec<Set>, Error> {
    Ok(match key {
        Expr::GroupingSets(sets) => sets.clone(),
        Expr::Rollup(parts) => (0..=parts.len()).rev().map(|count| parts[..count].concat()).collect(),
        Expr::Cube(parts) => {
            few(1usize.checked_shl(parts.len() as u32).unwrap_or(usize::MAX))?;
            let has = |set: usize| move |(at, _): &(usize, &Set)| set >> at & 1 == 1;
            let one = |set| parts.iter().enumerate().filter(has(set)).flat_map(|(_, part)| part.clone()).collect();
            (0..1 << parts.len()).rev().map(one).collect()
        }
        other => vec![vec![other.clone()]],
    })
}

/// The query of one set, in which the other keys are null.
fn of_set(select: &Select, set: &Set, keys: &[Expr]) -> Select {
    let mut own = select.clone();
    own.group_by = GroupByExpr::Expressions(set.clone(), Vec::new());
    let missing = keys.iter().filter(|key| !set.contains(key)).collect();
    let mut nulls = Nulls { missing, inside: 0 };
    for item in &mut own.projection {
        if let SelectItem::UnnamedExpr(expr) = item {
            *item = SelectItem::ExprWithAlias { alias: Ident::new(name_of(expr)), expr: expr.clone() };
        }
        let _ = walk(item, &mut nulls);
    }
    let _ = walk(&mut own.having, &mut nulls);
    own
}

fn is_of_many(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if is_aggregate(function))
}

/// Makes keys null, except inside of aggregates.
struct Nulls<'k> {
    missing: Vec<&'k Expr>,
    inside: usize,
}

impl VisitorMut for Nulls<'_> {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.inside += usize::from(is_of_many(expr));
        if self.inside == 0 && self.missing.contains(&&*expr) {
            *expr = Expr::Value(ValueWithSpan { value: Value::Null, span: Span::empty() });
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.inside -= usize::from(is_of_many(expr));
        ControlFlow::Continue(())
    }
}
