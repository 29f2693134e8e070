//! Expressions: names become columns, types are checked.

use std::sync::Arc;

use kiln_plan::expr::{BinaryOp, Expr, Function, MAX_PATTERN};
use kiln_plan::lookup::{Joined, Lookup};
use kiln_plan::query::{Aggregate, AggregateFunction};
use kiln_plan::table::Table;
use kiln_plan::value::{DataType, Value};
use sqlparser::ast::{
    self, AccessExpr, BinaryOperator, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArguments, OrderBySort,
    Spanned, Subscript, UnaryOperator,
};

use crate::clauses;
use crate::error::Error;
use crate::from::Side;
use crate::functions::{AGGREGATES, QUANTILES, aggregate_name, no_function, percentile, similar};
use crate::places::Places;
use crate::wildcard;

/// Binds expressions to the columns of a table.
pub struct Binder<'a> {
    /// The table.
    pub table: &'a Table,
    /// The types of its columns.
    pub types: &'a [DataType],
    /// What names in the query mean.
    pub sides: &'a [Side],
    /// Columns that both sides of a join have in common.
    pub using: &'a [String],
    /// Where things are in the query.
    pub places: &'a Places<'a>,
    /// The lookup tables.
    pub lookups: &'a [Lookup],
}

/// Maximum number of columns that an error lists.
const MOST_LISTED: usize = 40;

/// Columns that every table with a cgroup has by a lookup table: their names, that table, and its column.
const OF_CGROUPS: [(&str, &str); 3] = [("cgroup", "path"), ("container", "container"), ("pod", "pod")];

impl Binder<'_> {
    /// An error at a place of the query.
    pub fn fail(&self, at: &impl Spanned, error: Error) -> Error {
        match error.at {
            None => Error { at: self.places.bytes(at.span()), ..error },
            Some(_) => error,
        }
    }

    /// The column of this name, of the side with a name if there is one.
    pub fn column(&self, side: Option<&str>, name: &str) -> Result<Expr, Error> {
        let sides = self.named(side)?;
        let columns = |side: &&Side| side.columns(self.table);
        let found: Vec<(&Side, Expr)> = sides
            .iter()
            .flat_map(|side| columns(side).into_iter().map(move |column| (*side, column)))
            .filter(|(_, (own, ..))| own.eq_ignore_ascii_case(name))
            .map(|(side, (_, expr, _))| (side, expr))
            .collect();
        match &found[..] {
            [(_, expr), others @ ..] => {
                if others.is_empty() || self.using.iter().any(|using| using.eq_ignore_ascii_case(name)) {
                    return Ok(expr.clone());
                }
                let names: Vec<String> = found.iter().map(|(side, _)| format!("{}.{name}", side.name)).collect();
                let error = Error::new(format!("several tables of this query have a column `{name}`"));
                Err(error.help(names.join(" or ")))
            }
            [] => {
                if let Some(expr) = self.of_cgroup(side, name)? {
                    return Ok(expr);
                }
                let own = sides.first().map_or("", |side| side.other.as_deref().unwrap_or(&side.name));
                if let Some(expr) = wildcard::other_name(own, name).and_then(|known| self.column(side, known).ok()) {
                    return Ok(expr);
                }
                let message = match sides.len() {
                    1 => format!("table `{own}` has no column `{name}`"),
                    _ => format!("no table of this query has a column `{name}`"),
                };
                let names: Vec<String> = sides.iter().flat_map(columns).map(|(name, ..)| name).collect();
                let instead = wildcard::instead(own, name).map(str::to_owned);
                let close = || similar(name, names.iter().map(String::as_str));
                let help = instead.or_else(close).unwrap_or_else(|| match names.len() {
                    1..=MOST_LISTED => format!("there are {}", names.join(", ")),
                    _ => format!("`kiln tables {own}` lists its columns"),
                });
                Err(Error::new(message).help(help))
            }
        }
    }

    /// The path, the container or the pod of the row's cgroup.
    fn of_cgroup(&self, side: Option<&str>, name: &str) -> Result<Option<Expr>, Error> {
        let Some((_, column)) = OF_CGROUPS.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)) else {
            return Ok(None);
        };
        let Some(lookup) = self.lookups.iter().find(|lookup| lookup.name == "cgroups") else { return Ok(None) };
        let has_id = |side: &Side| side.columns(self.table).iter().any(|(own, ..)| own == "cgroup_id");
        if !self.named(side)?.into_iter().any(has_id) {
            return Ok(None);
        }
        let key = self.column(side, "cgroup_id")?;
        let at = lookup.columns.iter().position(|(own, ..)| own == column);
        lookup.rows.check(0).map_err(Error::new)?;
        let joined = Arc::new(Joined { lookup: lookup.clone(), by: 0 });
        Ok(at.map(|at| Expr::Lookup(joined, Box::new(key), Some(at))))
    }

    /// The sides with a name; all if there is none.
    pub fn named(&self, name: Option<&str>) -> Result<Vec<&Side>, Error> {
        let Some(name) = name else { return Ok(self.sides.iter().collect()) };
        if let Some(side) = self.sides.iter().find(|side| side.is(name)) {
            return Ok(vec![side]);
        }
        let is_other = |side: &&Side| side.other.as_ref().is_some_and(|other| other.eq_ignore_ascii_case(name));
        let others: Vec<&Side> = self.sides.iter().filter(is_other).collect();
        match &others[..] {
            [only] => Ok(vec![only]),
            _ => {
                let names: Vec<String> = self.sides.iter().map(|side| format!("`{}`", side.name)).collect();
                let error = Error::new(format!("`{name}` is no table of this query"));
                Err(error.help(format!("its tables are {}", names.join(" and "))))
            }
        }
    }

    /// An expression without aggregates.
    pub fn expr(&self, expr: &ast::Expr) -> Result<Expr, Error> {
        self.bind(expr).map_err(|error| self.fail(expr, error))
    }

    fn bind(&self, expr: &ast::Expr) -> Result<Expr, Error> {
        walk(expr, &mut |inner| match inner {
            ast::Expr::Identifier(name) => {
                let column = self.column(None, &name.value).or_else(|error| {
                    let number = kiln_plan::lookup::errno(&name.value).map(|number| Expr::Literal(Value::Uint(number)));
                    number.ok_or_else(|| self.fail(inner, error))
                });
                Some(column)
            }
            ast::Expr::CompoundIdentifier(names) => match &names[..] {
                [table, column] => {
                    Some(self.column(Some(&table.value), &column.value).map_err(|error| self.fail(inner, error)))
                }
                _ => {
                    let error = Error::new(format!("`{inner}` is of no table in this query"));
                    Some(Err(self.fail(inner, error)))
                }
            },
            ast::Expr::CompoundFieldAccess { root, access_chain } => Some(self.element(inner, root, access_chain)),
            ast::Expr::Function(function) if aggregate_name(function).is_some() => {
                let error = Error::new(format!("`{function}` is computed of many rows and cannot stand here"));
                Some(Err(self.fail(inner, error.help("conditions on aggregates go into HAVING"))))
            }
            _ => None,
        })
        .and_then(|bound| check(&bound, self.types).map(|()| bound))
    }

    /// `args[2]` is the column `arg2`.
    fn element(&self, whole: &ast::Expr, root: &ast::Expr, chain: &[AccessExpr]) -> Result<Expr, Error> {
        let index = match chain {
            [AccessExpr::Subscript(Subscript::Index { index: ast::Expr::Value(value) })] => value.value.to_string(),
            _ => String::new(),
        };
        let root = root.to_string();
        let (side, name) = root.rsplit_once('.').map_or((None, &*root), |(side, name)| (Some(side), name));
        let single = name.strip_suffix('s').unwrap_or(name);
        self.column(side, &format!("{single}{index}")).map_err(|_| {
            self.fail(whole, Error::new(format!("`{whole}` is no column")).help("`args[0]` to `args[5]` are"))
        })
    }

    /// The aggregate that a function call is; `None` for other functions.
    pub fn aggregate(&self, function: &ast::Function) -> Option<Result<Aggregate, Error>> {
        let name = aggregate_name(function)?;
        Some(self.aggregate_named(&name, function).map_err(|error| self.fail(&function.name, error)))
    }

    fn aggregate_named(&self, name: &str, function: &ast::Function) -> Result<Aggregate, Error> {
        let FunctionArguments::List(list) = &function.args else {
            return Err(Error::beyond(format!("{name} takes what it is computed of in parentheses")));
        };
        refuse_clauses(function, list)?;
        let filter = function.filter.as_ref().map(|filter| self.expr(filter)).transpose()?;
        let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        let mut operands = Vec::new();
        for argument in &list.args {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => operands.push(self.expr(expr)?),
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if name == "count" && !distinct => {}
                _ => return Err(Error::beyond(format!("{name} does not take `{argument}`"))),
            }
        }
        if !function.within_group.is_empty() {
            let [level] = &function.within_group[..] else {
                return Err(Error::new(format!("{name} is ordered by one expression")));
            };
            operands.insert(0, self.expr(&level.expr)?);
        }
        let is_quantile = QUANTILES.contains(&name);
        let wanted = if is_quantile || name == "top_k" { 2 } else { 1 };
        if operands.len() > wanted || operands.len() < wanted && name != "count" {
            return Err(Error::new(format!("{name} takes {wanted} operand{}", if wanted == 1 { "" } else { "s" })));
        }
        let is_falling = function.within_group.iter().any(|level| level.options.sort == Some(OrderBySort::Desc));
        let part = || match operands.get(1) {
            Some(Expr::Literal(value)) => match value.as_float() {
                Some(part) if name == "percentile" => Ok(part / 100.0),
                Some(part) => Ok(part),
                None => Err(Error::new(format!("the second operand of {name} is a number"))),
            },
            _ => Err(Error::new(format!("the second operand of {name} is a constant"))),
        };
        let function = match name {
            "count" | "count_if" | "countif" => AggregateFunction::Count,
            "sum" => AggregateFunction::Sum,
            "avg" | "mean" => AggregateFunction::Avg,
            "min" => AggregateFunction::Min,
            "max" => AggregateFunction::Max,
            "stddev" | "stddev_samp" => AggregateFunction::Stddev,
            "histogram" => AggregateFunction::Histogram,
            "approx_distinct" | "approx_count_distinct" => AggregateFunction::ApproxDistinct,
            "top_k" => match operands.get(1) {
                Some(Expr::Literal(Value::Uint(count))) if (1..=MAX_TOP).contains(count) => {
                    AggregateFunction::TopK(*count as usize)
                }
                _ => {
                    let error = Error::new(format!("top_k shows 1 to {MAX_TOP} values"));
                    return Err(error.help("the five most frequent: top_k(comm, 5)"));
                }
            },
            "median" => AggregateFunction::Quantile(0.5),
            _ if is_quantile => {
                let part = part()?;
                if !(0.0..=1.0).contains(&part) {
                    return Err(Error::new("a quantile is a part from 0 to 1").help("quantile(latency_ns, 0.99)"));
                }
                AggregateFunction::Quantile(if is_falling { 1.0 - part } else { part })
            }
            other => match percentile(other) {
                Some(part) => AggregateFunction::Quantile(part),
                None => return Err(Error::new(format!("there is no aggregate {other}"))),
            },
        };
        let mut operands = operands.into_iter();
        let (of, filter) = match name {
            "count_if" | "countif" => (None, Expr::all(operands.next().into_iter().chain(filter))),
            _ => (operands.next(), filter),
        };
        let of = match filter {
            None => of,
            // Null where the condition is not true, which no aggregate looks at.
            Some(filter) => {
                let of = of.unwrap_or(Expr::Literal(Value::Uint(1)));
                Some(Expr::Case(vec![(filter, of)], Box::new(Expr::Literal(Value::Null))))
            }
        };
        let is_text = |of: &Expr| {
            !of.data_type(self.types).is_number() && of.data_type(self.types) != DataType::Bool && !of.is_always_null()
        };
        let is_text = of.as_ref().is_some_and(is_text);
        let is_sketch = matches!(function, AggregateFunction::TopK(_) | AggregateFunction::ApproxDistinct);
        if is_sketch && distinct {
            return Err(Error::new(format!("{name} does not take DISTINCT")));
        }
        let takes_text =
            is_sketch || matches!(function, AggregateFunction::Count | AggregateFunction::Min | AggregateFunction::Max);
        if is_text && !takes_text {
            return Err(Error::new(format!("{name} is of numbers, and this is text")));
        }
        Ok(Aggregate { function, of, distinct })
    }
}

/// Checks the types of an operation's operands, over columns of these types.
pub fn check(expr: &Expr, columns: &[DataType]) -> Result<(), Error> {
    let of = |expr: &Expr| expr.data_type(columns);
    let is_text = |expr: &Expr| !expr.is_always_null() && matches!(of(expr), DataType::Text | DataType::Histogram);
    let mut pending = vec![expr];
    while let Some(expr) = pending.pop() {
        pending.extend(expr.operands());
        let of_numbers = match expr {
            Expr::Negate(_) => "`-`",
            Expr::Call(function, _) if function.is_of_numbers() => function.name(),
            _ => "",
        };
        if let Some(wrong) = expr.operands().into_iter().find(|operand| !of_numbers.is_empty() && is_text(operand)) {
            return Err(Error::new(format!("{of_numbers} is of numbers, and this is {}", of(wrong).name())));
        }
        if let Expr::Call(Function::Cidr, operands) = expr
            && !operands[0].is_always_null()
            && of(&operands[0]) != DataType::Text
        {
            let error = Error::new(format!("an address is text, and this is {}", of(&operands[0]).name()));
            return Err(error.help("saddr << '10.0.0.0/8'"));
        }
        let Expr::Binary(op, one, other) = expr else { continue };
        if one.is_always_null() || other.is_always_null() || op.is_logical() {
            continue;
        }
        let text = [one, other].map(|operand| is_text(operand));
        if op.is_comparison() && text[0] != text[1] || !op.is_comparison() && (text[0] || text[1]) {
            let [one, other] = [one, other].map(|operand| of(operand).name());
            return Err(Error::new(format!("`{}` does not go between {one} and {other}", op.text())));
        }
    }
    Ok(())
}

/// Refuses what nothing here understands of an aggregate's clauses. `ORDER BY` inside matters to texts that are joined alone.
pub fn refuse_clauses(function: &ast::Function, list: &ast::FunctionArgumentList) -> Result<(), Error> {
    use ast::FunctionArgumentClause as Inside;
    let ignored = [
        (!matches!(function.parameters, FunctionArguments::None)).then(|| function.parameters.to_string()),
        matches!(function.null_treatment, Some(ast::NullTreatment::IgnoreNulls)).then(|| "IGNORE NULLS".to_owned()),
        list.clauses.iter().find(|clause| !matches!(clause, Inside::OrderBy(_))).map(ToString::to_string),
    ];
    match ignored.into_iter().flatten().next() {
        Some(clause) => Err(Error::new(format!("`{clause}` is not understood in `{function}`"))),
        None => Ok(()),
    }
}

/// Maximum number of values that `top_k` shows.
const MAX_TOP: u64 = 100;

/// Whether an expression has an aggregate of Kiln's plans in it.
pub fn has_aggregate(expr: &ast::Expr) -> bool {
    has_function(expr, &|function| aggregate_name(function).is_some())
}

/// Whether an expression has a function of this kind in it.
pub fn has_function(expr: &ast::Expr, is_one: &dyn Fn(&ast::Function) -> bool) -> bool {
    let mut found = false;
    // Errors in it are reported when it is bound.
    let _ = walk(expr, &mut |inner| {
        let is_found = matches!(inner, ast::Expr::Function(function) if is_one(function));
        found |= is_found;
        let leaf = matches!(
            inner,
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) | ast::Expr::CompoundFieldAccess { .. }
        );
        (is_found || leaf).then(|| Ok(Expr::Literal(Value::Null)))
    });
    found
}

/// Binds the expressions that it knows, and answers `None` for the others.
type Leaf<'l> = &'l mut dyn FnMut(&ast::Expr) -> Option<Result<Expr, Error>>;

/// Binds an expression; `leaf` binds the parts that it knows.
// long: one arm for each form of expression
pub fn walk(expr: &ast::Expr, leaf: Leaf<'_>) -> Result<Expr, Error> {
    if let Some(bound) = leaf(expr) {
        return bound;
    }
    let not = |negated: bool, expr: Expr| if negated { Expr::Not(Box::new(expr)) } else { expr };
    Ok(match expr {
        ast::Expr::Nested(inner) => walk(inner, leaf)?,
        ast::Expr::Value(value) => literal(&value.value)?,
        ast::Expr::UnaryOp { op, expr: inner } => {
            let inner = walk(inner, leaf)?;
            match (op, inner) {
                (UnaryOperator::Not, inner) => Expr::Not(Box::new(inner)),
                (UnaryOperator::Plus, inner) => inner,
                (UnaryOperator::Minus, Expr::Literal(Value::Uint(value))) if value <= 1 << 63 => {
                    constant(Value::Int((value as i64).wrapping_neg()))
                }
                (UnaryOperator::Minus, Expr::Literal(Value::Float(value))) => Expr::Literal(Value::Float(-value)),
                (UnaryOperator::Minus, Expr::Literal(Value::Uint(_) | Value::Int(i64::MIN))) => {
                    return Err(Error::new(format!("`{expr}` has more than 64 bits")));
                }
                (UnaryOperator::Minus, inner) => Expr::Negate(Box::new(inner)),
                (UnaryOperator::BitwiseNot, inner) => folded(expr, BinaryOp::BitXor, inner, ALL_BITS)?,
                _ => return Err(unknown(expr)),
            }
        }
        ast::Expr::BinaryOp { left, op, right } => {
            let op = operator(op).ok_or_else(|| Error::beyond(format!("the operator `{op}` is not understood")))?;
            let (one, other) = (walk(left, leaf)?, walk(right, leaf)?);
            if op == BinaryOp::ShiftLeft && matches!(other, Expr::Literal(Value::Text(_))) {
                return in_network(vec![one, other]);
            }
            folded(expr, op, one, other)?
        }
        ast::Expr::IsNull(inner) => Expr::IsNull(Box::new(walk(inner, leaf)?)),
        ast::Expr::IsNotNull(inner) => not(true, Expr::IsNull(Box::new(walk(inner, leaf)?))),
        ast::Expr::Between { expr: inner, negated, low, high } => {
            let inner = walk(inner, leaf)?;
            let low = Expr::binary(BinaryOp::GreaterEqual, inner.clone(), walk(low, leaf)?);
            not(*negated, low.and(Expr::binary(BinaryOp::LessEqual, inner, walk(high, leaf)?)))
        }
        ast::Expr::InList { expr: inner, list, negated } => {
            let inner = walk(inner, leaf)?;
            let mut any = None;
            for one in list {
                let equal = Expr::binary(BinaryOp::Equal, inner.clone(), walk(one, leaf)?);
                any = Some(match any {
                    None => equal,
                    Some(before) => Expr::binary(BinaryOp::Or, before, equal),
                });
            }
            not(*negated, any.unwrap_or(Expr::Literal(Value::Bool(false))))
        }
        ast::Expr::Like { negated, any: false, expr: inner, pattern, escape_char: None } => {
            not(*negated, Expr::Like(Box::new(walk(inner, leaf)?), text(pattern)?))
        }
        ast::Expr::ILike { negated, any: false, expr: inner, pattern, escape_char: None } => {
            let lower = Expr::Call(Function::Lower, vec![walk(inner, leaf)?]);
            not(*negated, Expr::Like(Box::new(lower), text(pattern)?.to_lowercase()))
        }
        ast::Expr::Case { operand, conditions, else_result, .. } => {
            case(operand.as_deref(), conditions, else_result.as_deref(), leaf)?
        }
        ast::Expr::Function(function) => call(expr, function, leaf)?,
        ast::Expr::Interval(_) => crate::literal::bound(expr)?,
        _ => return Err(unknown(expr)),
    })
}

/// What inverts all bits of a value that `^` combines it with.
const ALL_BITS: Expr = Expr::Literal(Value::Uint(u64::MAX));

/// An operation; the value of one of two constants.
fn folded(whole: &ast::Expr, op: BinaryOp, one: Expr, other: Expr) -> Result<Expr, Error> {
    let (Expr::Literal(left), Expr::Literal(right)) = (&one, &other) else { return Ok(Expr::binary(op, one, other)) };
    let are_integers = left.as_integer().is_some() && right.as_integer().is_some();
    let value = Expr::binary(op, one, other).evaluate(&[]);
    // Of two integers, a quotient by 0 and what has more than 64 bits have no value.
    let is_quotient = matches!(op, BinaryOp::Divide | BinaryOp::Modulo);
    if value.is_null() && !is_quotient && are_integers {
        return Err(Error::new(format!("`{whole}` has more than 64 bits")));
    }
    Ok(constant(value))
}

/// Binds `CASE`.
fn case(
    operand: Option<&ast::Expr>,
    conditions: &[ast::CaseWhen],
    otherwise: Option<&ast::Expr>,
    leaf: Leaf<'_>,
) -> Result<Expr, Error> {
    let operand = operand.map(|operand| walk(operand, leaf)).transpose()?;
    let mut arms = Vec::new();
    for arm in conditions {
        let condition = walk(&arm.condition, leaf)?;
        let condition = match &operand {
            Some(operand) => Expr::binary(BinaryOp::Equal, operand.clone(), condition),
            None => condition,
        };
        arms.push((condition, walk(&arm.result, leaf)?));
    }
    let otherwise = otherwise.map(|value| walk(value, leaf)).transpose()?;
    Ok(Expr::Case(arms, Box::new(otherwise.unwrap_or(Expr::Literal(Value::Null)))))
}

/// Binds a call of a function of single values.
fn call(expr: &ast::Expr, function: &ast::Function, leaf: Leaf<'_>) -> Result<Expr, Error> {
    let name = function.name.to_string().to_lowercase();
    if function.over.is_some() {
        return Err(unknown(expr));
    }
    let row = Function::ALL.iter().find(|(own, ..)| *own == name);
    let (_, own, counts) = row.ok_or_else(|| {
        if AGGREGATES.contains(&&*name) {
            return Error::beyond(format!("`{name}` is of many rows, and here is one"));
        }
        Error { is_beyond: true, ..no_function(&name, Function::ALL.iter().map(|(name, ..)| *name)) }
    })?;
    clauses::of_function(function)?;
    let FunctionArguments::List(list) = &function.args else { return Err(unknown(expr)) };
    let mut operands = Vec::new();
    for argument in &list.args {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(inner)) = argument else { return Err(unknown(expr)) };
        operands.push(walk(inner, leaf)?);
    }
    if operands.len() < counts[0] || operands.len() > counts[1] {
        return Err(Error::beyond(format!("{name} takes {} to {} operands", counts[0], counts[1])));
    }
    if *own == Function::Cidr {
        return in_network(operands);
    }
    Ok(Expr::Call(*own, operands))
}

/// Whether an address is in a network, which is a constant.
fn in_network(operands: Vec<Expr>) -> Result<Expr, Error> {
    let error = match operands.get(1) {
        Some(Expr::Literal(Value::Text(network))) if kiln_plan::network::parse(network).is_some() => {
            return Ok(Expr::Call(Function::Cidr, operands));
        }
        Some(Expr::Literal(Value::Text(network))) => format!("`{network}` is no network"),
        _ => "a network is a constant".to_owned(),
    };
    Err(Error::new(error).help("networks are '10.0.0.0/8', 'fe80::/10' or a single address"))
}

/// A folded constant. It is unsigned if possible, like literals.
fn constant(value: Value) -> Expr {
    Expr::Literal(match value {
        Value::Int(value) if value >= 0 => Value::Uint(value as u64),
        other => other,
    })
}

/// The error of an expression that nothing here understands.
pub fn unknown(expr: &ast::Expr) -> Error {
    let error = Error::beyond(format!("`{expr}` is not understood here"));
    match expr {
        ast::Expr::SimilarTo { .. } => error.help("regular expressions: path ~ '^/etc/'; or path LIKE '/etc/%'"),
        _ => error,
    }
}

/// Refuses a pattern of `LIKE` that is too long.
pub fn short_pattern(value: &ast::Value) -> Result<(), Error> {
    match literal(value) {
        Ok(Expr::Literal(Value::Text(text))) if text.len() > MAX_PATTERN => {
            let message = format!("a pattern of LIKE has up to {MAX_PATTERN} bytes, and this one has {}", text.len());
            Err(Error::new(message))
        }
        _ => Ok(()),
    }
}

fn text(pattern: &ast::Expr) -> Result<String, Error> {
    if let ast::Expr::Value(value) = pattern {
        short_pattern(&value.value)?;
    }
    match pattern {
        ast::Expr::Value(value) => match literal(&value.value)? {
            Expr::Literal(Value::Text(text)) => Ok(text.to_string()),
            _ => Err(Error::beyond("a pattern is text in quotes")),
        },
        _ => Err(Error::beyond("a pattern is text in quotes")),
    }
}

pub fn literal(value: &ast::Value) -> Result<Expr, Error> {
    Ok(Expr::Literal(match value {
        ast::Value::Null => Value::Null,
        ast::Value::Boolean(value) => Value::Bool(*value),
        ast::Value::SingleQuotedString(text) | ast::Value::DoubleQuotedString(text) => Value::text(text),
        ast::Value::Number(text, _) => match (text.parse::<u64>(), text.parse::<f64>()) {
            (Ok(value), _) => Value::Uint(value),
            _ if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                return Err(Error::new(format!("`{text}` has more than 64 bits")));
            }
            (_, Ok(value)) if value.is_finite() => Value::Float(value),
            _ => return Err(Error::new(format!("`{text}` is no number"))),
        },
        ast::Value::HexStringLiteral(text) => match u64::from_str_radix(text, 16) {
            Ok(value) => Value::Uint(value),
            Err(_) => return Err(Error::new(format!("`0x{text}` has more than 64 bits"))),
        },
        other => return Err(Error::beyond(format!("`{other}` is not understood"))),
    }))
}

pub fn operator(op: &BinaryOperator) -> Option<BinaryOp> {
    Some(match op {
        BinaryOperator::Plus => BinaryOp::Add,
        BinaryOperator::Minus => BinaryOp::Subtract,
        BinaryOperator::Multiply => BinaryOp::Multiply,
        BinaryOperator::Divide => BinaryOp::Divide,
        BinaryOperator::Modulo => BinaryOp::Modulo,
        BinaryOperator::BitwiseAnd => BinaryOp::BitAnd,
        BinaryOperator::BitwiseOr => BinaryOp::BitOr,
        BinaryOperator::BitwiseXor | BinaryOperator::PGBitwiseXor => BinaryOp::BitXor,
        BinaryOperator::PGBitwiseShiftLeft => BinaryOp::ShiftLeft,
        BinaryOperator::PGBitwiseShiftRight => BinaryOp::ShiftRight,
        BinaryOperator::Eq => BinaryOp::Equal,
        BinaryOperator::NotEq => BinaryOp::NotEqual,
        BinaryOperator::Lt => BinaryOp::Less,
        BinaryOperator::LtEq => BinaryOp::LessEqual,
        BinaryOperator::Gt => BinaryOp::Greater,
        BinaryOperator::GtEq => BinaryOp::GreaterEqual,
        BinaryOperator::And => BinaryOp::And,
        BinaryOperator::Or => BinaryOp::Or,
        _ => return None,
    })
}
