//! Expressions over the columns of a row, and their value in user space.
//!
//! Integers have 64 bits, and a result that has more is null. A difference of unsigned integers is signed, so that `a - b`
//! may be negative. Comparisons are exact whatever the signs. Null spreads as in SQL; `AND` and `OR` have three truth
//! values. Division by zero gives null.

mod function;

use std::cmp::Ordering;
use std::sync::Arc;

use crate::lookup::Joined;
use crate::value::{DataType, Value, compare_exactly};
use function::call;
pub use function::{Floating, Function};
pub(crate) use function::{HASH_BEGIN, HASH_FACTOR, HASH_SHIFT, hash_of};

/// An expression. Columns are numbers into the row that it is evaluated on.
#[derive(Clone, PartialEq, Debug)]
pub enum Expr {
    /// A column of the row.
    Column(usize),
    /// A constant.
    Literal(Value),
    /// `NOT`.
    Not(Box<Expr>),
    /// `-`.
    Negate(Box<Expr>),
    /// Whether the operand is null.
    IsNull(Box<Expr>),
    /// An operation on two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `CASE WHEN condition THEN value ... ELSE value END`.
    Case(Vec<(Expr, Expr)>, Box<Expr>),
    /// `LIKE` with a pattern of `%` and `_`.
    Like(Box<Expr>, String),
    /// A function by name.
    Call(Function, Vec<Expr>),
    /// A column of the row of a lookup table with this key; without a column, whether there is such a row.
    Lookup(Arc<Joined>, Box<Expr>, Option<usize>),
}

/// An operation on two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BinaryOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`, of integers rounded towards zero.
    Divide,
    /// `%`
    Modulo,
    /// `&`
    BitAnd,
    /// `|`
    BitOr,
    /// `^`
    BitXor,
    /// `<<`, zero for amounts of 64 and more.
    ShiftLeft,
    /// `>>`, of signed integers with the sign.
    ShiftRight,
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `AND`
    And,
    /// `OR`
    Or,
}

impl BinaryOp {
    /// Whether it compares.
    pub const fn is_comparison(self) -> bool {
        use BinaryOp::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
        matches!(self, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
    }

    /// Whether it joins truth values.
    pub const fn is_logical(self) -> bool {
        matches!(self, BinaryOp::And | BinaryOp::Or)
    }

    /// As SQL writes it.
    pub const fn text(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Subtract => "-",
            BinaryOp::Multiply => "*",
            BinaryOp::Divide => "/",
            BinaryOp::Modulo => "%",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitOr => "|",
            BinaryOp::BitXor => "^",
            BinaryOp::ShiftLeft => "<<",
            BinaryOp::ShiftRight => ">>",
            BinaryOp::Equal => "=",
            BinaryOp::NotEqual => "<>",
            BinaryOp::Less => "<",
            BinaryOp::LessEqual => "<=",
            BinaryOp::Greater => ">",
            BinaryOp::GreaterEqual => ">=",
            BinaryOp::And => "AND",
            BinaryOp::Or => "OR",
        }
    }

    /// Whether an ordering satisfies a comparison.
    pub fn holds(self, ordering: Ordering) -> bool {
        match self {
            BinaryOp::Equal => ordering.is_eq(),
            BinaryOp::NotEqual => ordering.is_ne(),
            BinaryOp::Less => ordering.is_lt(),
            BinaryOp::LessEqual => ordering.is_le(),
            BinaryOp::Greater => ordering.is_gt(),
            _ => ordering.is_ge(),
        }
    }
}

impl Expr {
    /// Both.
    pub fn and(self, other: Expr) -> Expr {
        Expr::Binary(BinaryOp::And, Box::new(self), Box::new(other))
    }

    /// An operation.
    pub fn binary(op: BinaryOp, one: Expr, other: Expr) -> Expr {
        Expr::Binary(op, Box::new(one), Box::new(other))
    }

    /// The operands of its outermost `AND`s.
    pub fn conjuncts(&self) -> Vec<&Expr> {
        match self {
            Expr::Binary(BinaryOp::And, one, other) => one.conjuncts().into_iter().chain(other.conjuncts()).collect(),
            other => vec![other],
        }
    }

    /// All conditions together; `None` without any.
    pub fn all(conditions: impl IntoIterator<Item = Expr>) -> Option<Expr> {
        conditions.into_iter().reduce(Expr::and)
    }

    /// Its parts.
    pub fn operands(&self) -> Vec<&Expr> {
        match self {
            Expr::Column(_) | Expr::Literal(_) => Vec::new(),
            Expr::Not(one) | Expr::Negate(one) | Expr::IsNull(one) | Expr::Like(one, _) => vec![one],
            Expr::Lookup(_, key, _) => vec![key],
            Expr::Binary(_, one, other) => vec![one, other],
            Expr::Case(arms, otherwise) => {
                arms.iter().flat_map(|(condition, value)| [condition, value]).chain([&**otherwise]).collect()
            }
            Expr::Call(_, operands) => operands.iter().collect(),
        }
    }

    /// The operation with other operands.
    pub fn map_operands(&self, map: &mut dyn FnMut(&Expr) -> Expr) -> Expr {
        let mut boxed = |one: &Expr| Box::new(map(one));
        match self {
            Expr::Column(_) | Expr::Literal(_) => self.clone(),
            Expr::Not(one) => Expr::Not(boxed(one)),
            Expr::Negate(one) => Expr::Negate(boxed(one)),
            Expr::IsNull(one) => Expr::IsNull(boxed(one)),
            Expr::Like(one, pattern) => Expr::Like(boxed(one), pattern.clone()),
            Expr::Binary(op, one, other) => Expr::Binary(*op, boxed(one), boxed(other)),
            Expr::Case(arms, otherwise) => {
                let arms = arms.iter().map(|(condition, value)| (map(condition), map(value))).collect();
                Expr::Case(arms, Box::new(map(otherwise)))
            }
            Expr::Call(function, operands) => Expr::Call(*function, operands.iter().map(map).collect()),
            Expr::Lookup(joined, key, column) => Expr::Lookup(Arc::clone(joined), boxed(key), *column),
        }
    }

    /// The expression with its columns replaced.
    pub fn replace_columns(&self, by: &dyn Fn(usize) -> Expr) -> Expr {
        match self {
            Expr::Column(column) => by(*column),
            other => other.map_operands(&mut |operand| operand.replace_columns(by)),
        }
    }

    /// What is looked up in a lookup table, or in several, one after the other; the expression itself if it is no lookup.
    pub fn looked_up(&self) -> &Expr {
        match self {
            Expr::Lookup(_, key, _) => key.looked_up(),
            other => other,
        }
    }

    /// The value of this lookup when [`Expr::looked_up`] has a value.
    pub fn look_up(&self, value: Value) -> Value {
        match self {
            Expr::Lookup(joined, key, column) => joined.get(&key.look_up(value), *column),
            _ => value,
        }
    }

    /// Adds the columns that it reads.
    pub fn columns(&self, found: &mut std::collections::BTreeSet<usize>) {
        if let Expr::Column(column) = self {
            found.insert(*column);
        }
        self.operands().into_iter().for_each(|operand| operand.columns(found));
    }

    /// Whether it is null for every row, so that its type has no meaning.
    pub fn is_always_null(&self) -> bool {
        match self {
            Expr::Literal(value) => value.is_null(),
            Expr::Case(arms, otherwise) => {
                otherwise.is_always_null() && arms.iter().all(|(_, value)| value.is_always_null())
            }
            Expr::Call(Function::Coalesce | Function::Least | Function::Greatest, operands) => {
                operands.iter().all(Expr::is_always_null)
            }
            _ => false,
        }
    }

    /// The type of its value, over columns of these types.
    pub fn data_type(&self, columns: &[DataType]) -> DataType {
        let of = |expr: &Expr| expr.data_type(columns);
        match self {
            Expr::Column(column) => columns[*column],
            Expr::Literal(value) => match value {
                Value::Bool(_) => DataType::Bool,
                Value::Int(value) if *value < 0 => DataType::Int,
                Value::Int(_) | Value::Uint(_) => DataType::Uint,
                Value::Float(_) => DataType::Float,
                Value::Null | Value::Text(_) => DataType::Text,
                Value::Histogram(_) => DataType::Histogram,
            },
            Expr::Not(_) | Expr::IsNull(_) | Expr::Like(..) => DataType::Bool,
            Expr::Lookup(joined, _, column) => column.map_or(DataType::Bool, |at| joined.lookup.columns[at].1),
            Expr::Negate(one) if of(one) == DataType::Float => DataType::Float,
            Expr::Negate(_) => DataType::Int,
            Expr::Binary(op, ..) if op.is_comparison() || op.is_logical() => DataType::Bool,
            Expr::Binary(op, one, other) => match (of(one), of(other)) {
                (DataType::Float, _) | (_, DataType::Float) => DataType::Float,
                (DataType::Time, DataType::Uint) if matches!(op, BinaryOp::Add | BinaryOp::Subtract) => DataType::Time,
                _ if *op == BinaryOp::Subtract => DataType::Int,
                (DataType::Int, _) => DataType::Int,
                (_, DataType::Int) if !matches!(op, BinaryOp::ShiftLeft | BinaryOp::ShiftRight) => DataType::Int,
                _ => DataType::Uint,
            },
            Expr::Case(arms, otherwise) => {
                let values = arms.iter().map(|(_, value)| value).chain([&**otherwise]);
                common(values.filter(|value| !value.is_always_null()).map(of))
            }
            Expr::Call(function, operands) => match function {
                Function::Log2 | Function::Length | Function::Hash => DataType::Uint,
                Function::Abs => match of(&operands[0]) {
                    DataType::Float => DataType::Float,
                    _ => DataType::Uint,
                },
                Function::Lower | Function::Upper => DataType::Text,
                Function::Above => DataType::Uint,
                Function::Cidr => DataType::Bool,
                Function::Floating(_) => DataType::Float,
                Function::Coalesce | Function::Least | Function::Greatest => {
                    common(operands.iter().filter(|value| !value.is_always_null()).map(of))
                }
            },
        }
    }

    /// Its value on a row.
    pub fn evaluate(&self, row: &[Value]) -> Value {
        match self {
            Expr::Column(column) => row[*column].clone(),
            Expr::Literal(value) => value.clone(),
            Expr::Not(one) => truth(&one.evaluate(row)).map_or(Value::Null, |truth| Value::Bool(!truth)),
            Expr::Negate(one) => match one.evaluate(row) {
                Value::Float(value) => Value::Float(-value),
                other => other.as_integer().map_or(Value::Null, |number| of_64_bits(-number, true)),
            },
            Expr::IsNull(one) => Value::Bool(one.evaluate(row).is_null()),
            Expr::Binary(op, one, other) if op.is_logical() => {
                // The operand that alone decides: false for AND, true for OR.
                let decides = *op == BinaryOp::Or;
                match (truth(&one.evaluate(row)), truth(&other.evaluate(row))) {
                    (Some(truth), _) | (_, Some(truth)) if truth == decides => Value::Bool(decides),
                    (Some(_), Some(_)) => Value::Bool(!decides),
                    _ => Value::Null,
                }
            }
            Expr::Binary(op, one, other) => binary(*op, &one.evaluate(row), &other.evaluate(row)),
            Expr::Case(arms, otherwise) => {
                let arm = arms.iter().find(|(condition, _)| truth(&condition.evaluate(row)) == Some(true));
                arm.map_or(&**otherwise, |(_, value)| value).evaluate(row)
            }
            Expr::Like(one, pattern) => {
                one.evaluate(row).to_text().map_or(Value::Null, |text| Value::Bool(is_like(&text, pattern, None)))
            }
            Expr::Lookup(joined, key, column) => joined.get(&key.evaluate(row), *column),
            Expr::Call(function, operands) => {
                let values: Vec<Value> = operands.iter().map(|operand| operand.evaluate(row)).collect();
                call(*function, &values)
            }
        }
    }
}

/// The type that values of several types have in common.
fn common(types: impl Iterator<Item = DataType>) -> DataType {
    let join = |one: DataType, other: DataType| match (one, other) {
        (one, other) if one == other => one,
        (DataType::Text, _) | (_, DataType::Text) => DataType::Text,
        (DataType::Float, _) | (_, DataType::Float) => DataType::Float,
        (DataType::Int, _) | (_, DataType::Int) => DataType::Int,
        _ => DataType::Uint,
    };
    types.reduce(join).unwrap_or(DataType::Text)
}

/// The truth value of a condition; `None` when it is unknown.
pub fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Null | Value::Text(_) | Value::Histogram(_) => None,
        Value::Float(value) => Some(*value != 0.0),
        other => other.as_integer().map(|value| value != 0),
    }
}

fn binary(op: BinaryOp, one: &Value, other: &Value) -> Value {
    if one.is_null() || other.is_null() {
        return Value::Null;
    }
    if op.is_comparison() {
        let of_float = |integer: &Value, float: f64| compare_exactly(integer.as_integer()?, float);
        let ordering = match (one, other) {
            (Value::Float(one), Value::Float(other)) => one.partial_cmp(other),
            (Value::Float(one), other) => of_float(other, *one).map(Ordering::reverse),
            (one, Value::Float(other)) => of_float(one, *other),
            _ => Some(one.cmp(other)),
        };
        return ordering.map_or(Value::Null, |ordering| Value::Bool(op.holds(ordering)));
    }
    if matches!(one, Value::Float(_)) || matches!(other, Value::Float(_)) {
        return match (one.as_float(), other.as_float()) {
            (Some(one), Some(other)) => float(op, one, other),
            _ => Value::Null,
        };
    }
    integer(op, one, other).unwrap_or(Value::Null)
}

fn float(op: BinaryOp, one: f64, other: f64) -> Value {
    match op {
        BinaryOp::Add => Value::Float(one + other),
        BinaryOp::Subtract => Value::Float(one - other),
        BinaryOp::Multiply => Value::Float(one * other),
        BinaryOp::Divide if other != 0.0 => Value::Float(one / other),
        BinaryOp::Modulo if other != 0.0 => Value::Float(one % other),
        _ => Value::Null,
    }
}

fn integer(op: BinaryOp, one: &Value, other: &Value) -> Option<Value> {
    let (first, second) = (one.as_integer()?, other.as_integer()?);
    let signed = [one, other].map(|value| matches!(value, Value::Int(_)));
    let is_shift = matches!(op, BinaryOp::ShiftLeft | BinaryOp::ShiftRight);
    let is_signed = signed[0] || signed[1] && !is_shift;
    let of = |bits: u64| if is_signed { Value::Int(bits as i64) } else { Value::Uint(bits) };
    let bits = [first as u64, second as u64];
    Some(match op {
        BinaryOp::Add => of_64_bits(first + second, is_signed),
        BinaryOp::Subtract => of_64_bits(first - second, true),
        BinaryOp::Multiply => of_64_bits(first.checked_mul(second)?, is_signed),
        BinaryOp::Divide => of_64_bits(first.checked_div(second)?, is_signed),
        BinaryOp::Modulo => of_64_bits(first.checked_rem(second)?, is_signed),
        BinaryOp::BitAnd => of(bits[0] & bits[1]),
        BinaryOp::BitOr => of(bits[0] | bits[1]),
        BinaryOp::BitXor => of(bits[0] ^ bits[1]),
        BinaryOp::ShiftLeft => of(if bits[1] < 64 { bits[0] << bits[1] } else { 0 }),
        BinaryOp::ShiftRight if is_signed => Value::Int(bits[0] as i64 >> bits[1].min(63)),
        BinaryOp::ShiftRight => of(if bits[1] < 64 { bits[0] >> bits[1] } else { 0 }),
        _ => return None,
    })
}

/// An integer; null if it has more than 64 bits.
fn of_64_bits(number: i128, is_signed: bool) -> Value {
    match is_signed {
        true => i64::try_from(number).map_or(Value::Null, Value::Int),
        false => u64::try_from(number).map_or(Value::Null, Value::Uint),
    }
}

/// Maximum bytes of a pattern of `LIKE`: the time that it takes is proportional to its length, too.
pub const MAX_PATTERN: usize = 1024;

/// Whether a text matches a pattern: `%` is any text, `_` any character, and each of them itself after `escape`. The time is
/// proportional to the product of both lengths.
pub fn is_like(text: &str, pattern: &str, escape: Option<char>) -> bool {
    let text: Vec<char> = text.chars().collect();
    // Whether the pattern so far matches each beginning of the text.
    let mut matches = vec![false; text.len() + 1];
    matches[0] = true;
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let is_escape = escape == Some(letter);
        let wanted = if is_escape { letters.next() } else { Some(letter) };
        // An escape at the end escapes nothing, so no text matches.
        let Some(wanted) = wanted else { return false };
        if wanted == '%' && !is_escape {
            for at in 1..=text.len() {
                matches[at] |= matches[at - 1];
            }
        } else {
            for at in (1..=text.len()).rev() {
                matches[at] = matches[at - 1] && (wanted == '_' && !is_escape || wanted == text[at - 1]);
            }
            matches[0] = false;
        }
    }
    matches[text.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(op: BinaryOp, one: Value, other: Value) -> Value {
        Expr::binary(op, Expr::Literal(one), Expr::Literal(other)).evaluate(&[])
    }

    #[test]
    fn null_spreads_and_logic_has_three_values() {
        assert!(evaluate(BinaryOp::Add, Value::Null, Value::Int(1)).is_null());
        assert_eq!(evaluate(BinaryOp::And, Value::Null, Value::Bool(false)), Value::Bool(false));
        assert!(evaluate(BinaryOp::And, Value::Null, Value::Bool(true)).is_null());
        assert_eq!(evaluate(BinaryOp::Or, Value::Null, Value::Bool(true)), Value::Bool(true));
        assert!(evaluate(BinaryOp::Divide, Value::Int(1), Value::Int(0)).is_null());
    }

    #[test]
    fn comparisons_are_exact_whatever_the_signs() {
        assert_eq!(evaluate(BinaryOp::Less, Value::Int(-1), Value::Uint(u64::MAX)), Value::Bool(true));
        assert_eq!(evaluate(BinaryOp::Subtract, Value::Uint(1), Value::Uint(3)), Value::Int(-2));
        let equal =
            evaluate(BinaryOp::Equal, Value::Uint(9_007_199_254_740_993), Value::Float(9_007_199_254_740_992.0));
        assert_eq!(equal, Value::Bool(false));
    }

    #[test]
    fn what_has_more_than_64_bits_is_null() {
        use BinaryOp::{Add, Divide, Modulo, Multiply, Subtract};
        for (op, one, other) in [
            (Add, Value::Uint(u64::MAX), Value::Uint(1)),
            (Add, Value::Int(i64::MAX), Value::Uint(1)),
            (Subtract, Value::Int(-i64::MAX), Value::Uint(2)),
            (Subtract, Value::Uint(u64::MAX), Value::Uint(1)),
            (Multiply, Value::Uint(u64::MAX), Value::Uint(u64::MAX)),
            (Multiply, Value::Uint(1 << 32), Value::Uint(1 << 32)),
            (Divide, Value::Int(i64::MIN), Value::Int(-1)),
        ] {
            assert!(evaluate(op, one.clone(), other.clone()).is_null(), "{one} {op:?} {other}");
        }
        let least = Expr::Negate(Box::new(Expr::Literal(Value::Int(i64::MIN))));
        assert!(least.evaluate(&[]).is_null());
        assert_eq!(evaluate(Divide, Value::Int(-1), Value::Uint(u64::MAX)), Value::Int(0));
        assert_eq!(evaluate(Modulo, Value::Int(i64::MIN), Value::Int(-1)), Value::Int(0));
        assert_eq!(evaluate(Add, Value::Uint(u64::MAX - 1), Value::Uint(1)), Value::Uint(u64::MAX));
        assert_eq!(evaluate(Subtract, Value::Int(-i64::MAX), Value::Uint(1)), Value::Int(i64::MIN));
    }

    #[test]
    fn patterns() {
        for (text, pattern, expected) in [
            ("nginx", "ng%", true),
            ("nginx", "%in_", true),
            ("nginx", "g%", false),
            ("", "%", true),
            ("ab", "a", false),
        ] {
            assert_eq!(is_like(text, pattern, None), expected, "{text} like {pattern}");
        }
        for (text, pattern, expected) in
            [("a%", "a!%", true), ("ab", "a!%", false), ("a!", "a!!", true), ("a", "a!", false)]
        {
            assert_eq!(is_like(text, pattern, Some('!')), expected, "{text} like {pattern}");
        }
    }
}
