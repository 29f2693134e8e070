//! Which operators run in the kernel.
//!
//! A split is a point on one line: each level does in the kernel what the one before does, and one operator more. The
//! first is the *minimal verifier-safe function* (MVSF, "Kernel Extension DSLs Should Be Verifier-Safe!", section 3.2):
//! each hook reads all columns of its table and outputs them, whatever the query is. So there is one MVSF per hook, and
//! each is known to load in advance.
//!
//! ```text
//!   mvsf        read every column, hand it over           user space: pair, filter, group
//!   columns     read what the query needs                 "
//!   filter      leave out rows that do not count          pair, group
//!   pair        keep the beginning until the end comes    group
//!   aggregate   group in a map; user space reads the map  merge
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::address;
use crate::expr::{BinaryOp, Expr, Function};
use crate::network;
use crate::query::{AggregateFunction, Query, Shape};
use crate::table::{GREATEST_TIME, Read, Source, Table};
use crate::value::{DataType, Value};

/// How much of a query runs in the kernel, the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// Reading.
    Mvsf,
    /// Reading what is needed.
    Columns,
    /// Conditions of one event too.
    Filter,
    /// Pairing, and conditions of both events too.
    Pair,
    /// Everything but what is done to a few rows at the end.
    Aggregate,
}

impl Split {
    /// All of them, the least first.
    pub const ALL: [Split; 5] = [Split::Mvsf, Split::Columns, Split::Filter, Split::Pair, Split::Aggregate];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Split::Mvsf => "mvsf",
            Split::Columns => "columns",
            Split::Filter => "filter",
            Split::Pair => "pair",
            Split::Aggregate => "aggregate",
        }
    }

    /// The splits that differ for a query, the least first.
    pub fn of(query: &Query) -> Vec<Split> {
        let differs = |split: &Split| match split {
            Split::Mvsf | Split::Columns => true,
            Split::Filter => query.filter.as_ref().is_some_and(|filter| {
                filter.conjuncts().into_iter().any(|condition| in_kernel(condition, &query.table).is_some())
            }),
            Split::Pair => query.table.is_pair(),
            Split::Aggregate => aggregates_in_kernel(query).is_ok(),
        };
        Split::ALL.into_iter().filter(differs).collect()
    }
}

/// The condition as the kernel can decide it: over integers and texts of columns that are read, with every comparison
/// between integers of one sign. `None` where it cannot.
///
/// Such a condition consists of loads from the frame, arithmetic that never faults, and forward branches, so the
/// verifier accepts it for all constants.
pub fn in_kernel(condition: &Expr, table: &Table) -> Option<Expr> {
    match condition {
        Expr::Binary(op, one, other) if op.is_logical() => {
            Some(Expr::binary(*op, in_kernel(one, table)?, in_kernel(other, table)?))
        }
        // A condition on an address that is null is false in the kernel, where it should be null.
        Expr::Not(one) if has_address(one, table) => None,
        Expr::Not(one) => Some(Expr::Not(Box::new(in_kernel(one, table)?))),
        Expr::Binary(op, one, other) if op.is_comparison() => comparison(*op, one, other, table),
        Expr::Call(Function::Cidr, operands) => match &operands[..] {
            [Expr::Column(column), Expr::Literal(Value::Text(text))] => {
                Some(address_of(*column, table)?.are_in(network::parse(text)?))
            }
            _ => None,
        },
        Expr::Literal(Value::Bool(_)) => Some(condition.clone()),
        _ => None,
    }
}

/// The columns that a column's address is made of, if it is one.
fn address_of(column: usize, table: &Table) -> Option<address::Columns> {
    match table.columns[column].source {
        Source::Address { family, v4, v6 } => Some(address::Columns { family, v4, v6 }),
        _ => None,
    }
}

fn has_address(expr: &Expr, table: &Table) -> bool {
    let mut columns = std::collections::BTreeSet::new();
    expr.columns(&mut columns);
    columns.into_iter().any(|column| address_of(column, table).is_some())
}

fn comparison(op: BinaryOp, one: &Expr, other: &Expr, table: &Table) -> Option<Expr> {
    if let Expr::Literal(_) = one
        && !matches!(other, Expr::Literal(_))
    {
        return comparison(turned(op), other, one, table);
    }
    if let (Expr::Column(column), Expr::Literal(Value::Text(text))) = (one, other) {
        let equality = matches!(op, BinaryOp::Equal | BinaryOp::NotEqual);
        return match table.columns[*column].source {
            // An unknown system call name has no number to compare with.
            Source::SyscallName(nr) if equality => {
                let number = crate::syscall::number(text)?;
                Some(Expr::binary(op, Expr::Column(nr), Expr::Literal(Value::Int(number))))
            }
            Source::Address { .. } if equality => {
                let columns = address_of(*column, table)?;
                let is_it = columns.are_in(address::exactly(text)?);
                Some(match op {
                    BinaryOp::Equal => is_it,
                    _ => Expr::binary(BinaryOp::And, columns.is_known(), Expr::Not(Box::new(is_it))),
                })
            }
            Source::Read { what: Read::Command, .. } if equality && text.len() < COMMAND_BYTES => {
                Some(Expr::binary(op, one.clone(), other.clone()))
            }
            _ => None,
        };
    }
    let (one, other) = (number(one, table)?, number(other, table)?);
    let is_alike = one.sign == Sign::Either || other.sign == Sign::Either || one.sign == other.sign;
    is_alike.then(|| Expr::binary(op, one.expr, other.expr))
}

/// Bytes of a thread's name with the zero behind it (`TASK_COMM_LEN`).
pub const COMMAND_BYTES: usize = 16;

/// What the bits of an integer mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sign {
    /// Signed.
    Signed,
    /// Unsigned.
    Unsigned,
    /// It is the same number either way.
    Either,
}

/// An integer as the kernel can compute it.
pub struct Number {
    /// How.
    pub expr: Expr,
    /// What its bits mean.
    pub sign: Sign,
    /// The least and the greatest that it may be. A result that has more than 64 bits is null, and the kernel does not notice
    /// it. So the kernel computes only what cannot have more.
    range: [i128; 2],
}

impl Number {
    fn new(expr: Expr, sign: Sign) -> Number {
        let range = match sign {
            Sign::Signed => [i64::MIN.into(), i64::MAX.into()],
            Sign::Unsigned | Sign::Either => [0, u64::MAX.into()],
        };
        Number { expr, sign, range }
    }

    /// The number if it is in this range, and one of its kind at all.
    fn within(self, range: [i128; 2]) -> Option<Number> {
        let [least, greatest] = Number::new(Expr::Literal(Value::Null), self.sign).range;
        (least <= range[0] && range[1] <= greatest).then_some(Number { range, ..self })
    }
}

/// An integer as the kernel can compute it; `None` where it cannot.
pub fn number(expr: &Expr, table: &Table) -> Option<Number> {
    number_in(expr, table, &Ranges::new())
}

/// What columns are known to be between, the least and the greatest.
type Ranges = BTreeMap<usize, [i128; 2]>;

/// What the columns of rows with this condition are between.
fn ranges_by(condition: &Expr) -> Ranges {
    let mut ranges = Ranges::new();
    for condition in condition.conjuncts() {
        let Expr::Binary(op, one, other) = condition else { continue };
        let (op, column, value) = match (&**one, &**other) {
            (Expr::Column(column), Expr::Literal(value)) => (*op, column, value),
            (Expr::Literal(value), Expr::Column(column)) => (turned(*op), column, value),
            _ => continue,
        };
        let Some(value) = value.as_integer() else { continue };
        let [least, greatest] = ranges.entry(*column).or_insert([i128::MIN, i128::MAX]);
        match op {
            BinaryOp::Equal => (*least, *greatest) = (value.max(*least), value.min(*greatest)),
            BinaryOp::Less => *greatest = (value - 1).min(*greatest),
            BinaryOp::LessEqual => *greatest = value.min(*greatest),
            BinaryOp::Greater => *least = (value + 1).max(*least),
            BinaryOp::GreaterEqual => *least = value.max(*least),
            _ => {}
        }
    }
    ranges
}

/// As [`number`], of rows whose columns are in these ranges.
fn number_in(expr: &Expr, table: &Table, ranges: &Ranges) -> Option<Number> {
    let number = |expr: &Expr| number_in(expr, table, ranges);
    match expr {
        Expr::Column(column) => {
            let own = column_number(*column, table)?;
            let [least, greatest] = ranges.get(column).copied().unwrap_or(own.range);
            // No row has a value in an empty range.
            let range = [least.max(own.range[0]), greatest.min(own.range[1])];
            if range[0] <= range[1] { own.within(range) } else { Some(own) }
        }
        Expr::Literal(value) => {
            let sign = match value {
                Value::Int(_) => Sign::Signed,
                Value::Uint(value) if *value > i64::MAX as u64 => Sign::Unsigned,
                Value::Uint(_) => Sign::Either,
                _ => return None,
            };
            let value = value.as_integer()?;
            Number::new(expr.clone(), sign).within([value; 2])
        }
        Expr::Binary(op @ (BinaryOp::Divide | BinaryOp::Modulo), one, other)
        | Expr::Binary(op @ (BinaryOp::ShiftLeft | BinaryOp::ShiftRight), one, other) => {
            by_constant(*op, number(one)?, other)
        }
        Expr::Binary(op, one, other) => arithmetic(*op, number(one)?, number(other)?),
        Expr::Negate(one) => {
            let Number { expr: one, range: [least, greatest], .. } = number(one)?;
            Number::new(Expr::Negate(Box::new(one)), Sign::Signed).within([-greatest, -least])
        }
        Expr::Call(Function::Hash, operands) => {
            let operands = operands.iter().map(|one| Some(number(one)?.expr)).collect::<Option<_>>()?;
            Some(Number::new(Expr::Call(Function::Hash, operands), Sign::Unsigned))
        }
        Expr::Call(function @ (Function::Least | Function::Greatest | Function::Above), operands) => {
            let (mut bound, mut greatest) = (Vec::new(), 0);
            for operand in operands {
                let Number { expr, sign, range } = number(operand)?;
                // Signed integers are compared otherwise.
                (sign == Sign::Unsigned || sign == Sign::Either && !bound.is_empty()).then_some(())?;
                bound.push(expr);
                greatest = range[1].max(greatest);
            }
            Number::new(Expr::Call(*function, bound), Sign::Unsigned).within([0, greatest])
        }
        Expr::Case(arms, otherwise) => {
            let Number { expr: otherwise, mut sign, mut range } = number(otherwise)?;
            let mut bound = Vec::new();
            for (condition, value) in arms {
                let own = number(value)?;
                sign = match (sign, own.sign) {
                    (Sign::Either, other) | (other, Sign::Either) => other,
                    (one, other) if one == other => one,
                    _ => return None,
                };
                range = [range[0].min(own.range[0]), range[1].max(own.range[1])];
                bound.push((in_kernel(condition, table)?, own.expr));
            }
            let sign = if sign == Sign::Either { Sign::Unsigned } else { sign };
            Number::new(Expr::Case(bound, Box::new(otherwise)), sign).within(range)
        }
        _ => None,
    }
}

fn column_number(column: usize, table: &Table) -> Option<Number> {
    let sign = match table.columns[column].data_type {
        DataType::Int => Sign::Signed,
        DataType::Uint | DataType::Time => Sign::Unsigned,
        _ => return None,
    };
    let itself = || Number::new(Expr::Column(column), sign);
    let constant = |value| Expr::Literal(Value::Uint(value));
    match &table.columns[column].source {
        Source::Read { what, .. } => match what.greatest() {
            Some(greatest) if sign == Sign::Unsigned => itself().within([0, greatest.into()]),
            _ => Some(itself()),
        },
        // Times of one clock, the later one first: unsigned, which the difference of two columns is not.
        Source::Difference(_) => itself().within([0, GREATEST_TIME.into()]),
        Source::Port(of) => {
            // The bytes change places.
            let of = || Expr::Column(*of);
            let low = Expr::binary(BinaryOp::BitAnd, of(), constant(0xff));
            let low = Expr::binary(BinaryOp::ShiftLeft, low, constant(8));
            let high = Expr::binary(BinaryOp::ShiftRight, of(), constant(8));
            Number::new(Expr::binary(BinaryOp::BitOr, low, high), Sign::Unsigned).within([0, u16::MAX.into()])
        }
        Source::Eighth(of) => {
            let eighth = Expr::binary(BinaryOp::ShiftRight, Expr::Column(*of), constant(3));
            Number::new(eighth, Sign::Unsigned).within([0, (u64::MAX >> 3).into()])
        }
        Source::SyscallName(_)
        | Source::Dns(..)
        | Source::Int(_)
        | Source::Device(_)
        | Source::Line(_)
        | Source::Path(_)
        | Source::Stack(_)
        | Source::Name(_)
        | Source::Given
        | Source::Address { .. } => None,
    }
}

/// An operation with constants that are in range: a division by zero is null, and a shift by 64 is 0.
fn by_constant(op: BinaryOp, one: Number, other: &Expr) -> Option<Number> {
    let Expr::Literal(Value::Uint(constant)) = *other else { return None };
    let (amount, greatest) = (u32::try_from(constant).unwrap_or(64), one.range[1]);
    let greatest = match op {
        BinaryOp::Divide => greatest.checked_div(constant.into())?,
        BinaryOp::Modulo if constant > 0 => greatest.min(i128::from(constant) - 1),
        BinaryOp::ShiftRight if amount < 64 => greatest >> amount,
        // Bits that are shifted out are lost in user space, too.
        BinaryOp::ShiftLeft if amount < 64 => (greatest << amount).min(u64::MAX.into()),
        _ => return None,
    };
    let bound = Expr::binary(op, one.expr, other.clone());
    (one.sign == Sign::Unsigned).then(|| Number::new(bound, Sign::Unsigned))?.within([0, greatest])
}

fn arithmetic(op: BinaryOp, one: Number, other: Number) -> Option<Number> {
    use BinaryOp::{Add, BitAnd, BitOr, BitXor, Multiply, Subtract};
    let sign = match (one.sign, other.sign) {
        _ if op == Subtract => Sign::Signed,
        // The front end has folded constants.
        (Sign::Either, Sign::Either) => return None,
        (Sign::Either, sign) | (sign, Sign::Either) => sign,
        (first, second) if first == second => first,
        _ => Sign::Signed,
    };
    let bound = Number::new(Expr::binary(op, one.expr, other.expr), sign);
    let ([first_least, first_greatest], [second_least, second_greatest]) = (one.range, other.range);
    match op {
        Add => bound.within([first_least + second_least, first_greatest + second_greatest]),
        Subtract => bound.within([first_least - second_greatest, first_greatest - second_least]),
        Multiply => {
            let ends = [(first_least, second_least), (first_least, second_greatest), (first_greatest, second_least)];
            let ends = ends.into_iter().chain([(first_greatest, second_greatest)]);
            let ends: Vec<i128> = ends.map(|(one, other)| one.checked_mul(other)).collect::<Option<_>>()?;
            bound.within([*ends.iter().min()?, *ends.iter().max()?])
        }
        BitAnd if first_least >= 0 && second_least >= 0 => bound.within([0, first_greatest.min(second_greatest)]),
        BitAnd | BitOr | BitXor => Some(bound),
        _ => None,
    }
}

/// The comparison with its operands in each other's place.
fn turned(op: BinaryOp) -> BinaryOp {
    match op {
        BinaryOp::Less => BinaryOp::Greater,
        BinaryOp::LessEqual => BinaryOp::GreaterEqual,
        BinaryOp::Greater => BinaryOp::Less,
        BinaryOp::GreaterEqual => BinaryOp::LessEqual,
        other => other,
    }
}

/// A key of a group in the kernel.
#[derive(Clone, PartialEq, Debug)]
pub enum KernelKey {
    /// An integer.
    Number(Expr, Sign),
    /// A thread's name, by its column.
    Text(usize),
}

/// An aggregate in the kernel: what is kept of a group.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelAggregate {
    /// The values that are kept of it.
    pub states: Vec<State>,
    /// Of what.
    pub of: Option<Expr>,
    /// What the bits mean.
    pub sign: Sign,
}

/// A number that is kept of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The sum of all: its lower 64 bits. [`State::High`] follows.
    Sum,
    /// The upper 64 bits of the sum before it.
    High,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

/// The groups of a query in the kernel: the columns for its keys, and aggregates.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelGroups {
    /// Keys: the columns that the query's own keys are made of, or the keys themselves.
    pub keys: Vec<KernelKey>,
    /// Aggregates, in the query's order.
    pub aggregates: Vec<KernelAggregate>,
}

/// The groups of a query as the kernel can keep them.
///
/// # Errors
/// A sentence that says what it cannot.
pub fn aggregates_in_kernel(query: &Query) -> Result<KernelGroups, String> {
    let Shape::Groups(groups) = &query.shape else { return Err("the query has no groups".to_owned()) };
    let table = &query.table;
    if let Some(filter) = &query.filter
        && filter.conjuncts().into_iter().any(|condition| in_kernel(condition, table).is_none())
    {
        return Err("a condition cannot be decided in the kernel".to_owned());
    }
    if groups.session_ns.is_some() {
        return Err("sessions are kept in user space".to_owned());
    }
    if !query.matches.is_empty() {
        return Err("a lookup leaves out rows; LEFT JOIN does not".to_owned());
    }
    if groups.window.is_some_and(|window| window.length_ns != window.step_ns) {
        return Err("windows overlap".to_owned());
    }
    // All conditions hold where keys and operands are computed.
    let ranges = query.filter.as_ref().map(ranges_by).unwrap_or_default();
    let key = |key: &Expr| -> Result<KernelKey, String> {
        // The kernel groups by a lookup's key.
        let key = key.looked_up();
        let column = match key {
            // The name follows from the number.
            Expr::Column(column) => match table.columns[*column].source {
                Source::SyscallName(of) | Source::Stack(of) => &Expr::Column(of),
                Source::Read { what: Read::Command, .. } => return Ok(KernelKey::Text(*column)),
                _ => key,
            },
            _ => key,
        };
        let number = number_in(column, table, &ranges).ok_or("a key cannot be computed in the kernel")?;
        Ok(KernelKey::Number(number.expr, number.sign))
    };
    let not_here = || "an aggregate's operand cannot be computed in the kernel".to_owned();
    let aggregate = |one: &crate::query::Aggregate| -> Result<KernelAggregate, String> {
        let states = match one.function {
            _ if one.distinct => return Err("distinct values are counted in user space".to_owned()),
            AggregateFunction::Count => Vec::new(),
            AggregateFunction::Sum => vec![State::Sum, State::High],
            AggregateFunction::Min => vec![State::Min],
            AggregateFunction::Max => vec![State::Max],
            other => return Err(format!("{} is computed in user space", other.name())),
        };
        let number = one.of.as_ref().map(|of| number_in(of, table, &ranges).ok_or_else(not_here)).transpose();
        let number = match (one.function, &one.of) {
            // Columns have values in all rows; other operands might be null.
            (AggregateFunction::Count, Some(Expr::Column(_)) | None) => None,
            (AggregateFunction::Count, Some(_)) => number?.and(None),
            _ => number?,
        };
        let sign = number.as_ref().map_or(Sign::Unsigned, |number| number.sign);
        Ok(KernelAggregate { states, of: number.map(|number| number.expr), sign })
    };
    Ok(KernelGroups {
        keys: groups.keys.iter().map(key).collect::<Result<_, _>>()?,
        aggregates: groups.aggregates.iter().map(aggregate).collect::<Result<_, _>>()?,
    })
}
