//! Values of rows and their types.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::histogram::Histogram;

/// The type of a column or an expression.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DataType {
    /// True or false.
    Bool,
    /// A signed integer of 64 bits.
    Int,
    /// An unsigned integer of 64 bits.
    Uint,
    /// A floating-point number of 64 bits.
    Float,
    /// Text.
    Text,
    /// Nanoseconds of the kernel's monotonic clock, unsigned.
    Time,
    /// How values are distributed.
    Histogram,
}

impl DataType {
    /// Its name in listings.
    pub const fn name(self) -> &'static str {
        match self {
            DataType::Bool => "bool",
            DataType::Int => "i64",
            DataType::Uint => "u64",
            DataType::Float => "f64",
            DataType::Text => "text",
            DataType::Time => "timestamp",
            DataType::Histogram => "histogram",
        }
    }

    /// Whether values are integers.
    pub const fn is_integer(self) -> bool {
        matches!(self, DataType::Int | DataType::Uint | DataType::Time)
    }

    /// Whether values are numbers.
    pub const fn is_number(self) -> bool {
        self.is_integer() || matches!(self, DataType::Float)
    }
}

/// Units of time by their names, and their nanoseconds.
const UNITS: [(&[&str], u64); 7] = [
    (&["ns", "nanosecond", "nanoseconds"], 1),
    (&["us", "\u{b5}s", "microsecond", "microseconds"], 1_000),
    (&["ms", "millisecond", "milliseconds"], 1_000_000),
    (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000),
    (&["m", "min", "mins", "minute", "minutes"], 60_000_000_000),
    (&["h", "hour", "hours"], 3_600_000_000_000),
    (&["d", "day", "days"], 86_400_000_000_000),
];

/// The nanoseconds of a unit of time, by its name in any case.
pub fn unit_ns(name: &str) -> Option<u64> {
    let name = name.to_lowercase();
    UNITS.iter().find(|(names, _)| names.contains(&name.as_str())).map(|(_, unit_ns)| *unit_ns)
}

/// Units of size, and their bytes.
const SIZES: [(&str, u64); 8] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// The bytes of a unit of size, by its name in any case.
pub fn unit_bytes(name: &str) -> Option<u64> {
    SIZES.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, bytes)| *bytes)
}

/// A value. Values are totally ordered: null first, then by kind; numbers of all kinds by what they count.
#[derive(Clone, Debug)]
pub enum Value {
    /// Unknown.
    Null,
    /// True or false.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer, or a time.
    Uint(u64),
    /// A floating-point number.
    Float(f64),
    /// Text.
    Text(Arc<str>),
    /// How values are distributed.
    Histogram(Arc<Histogram>),
}

impl Value {
    /// Text.
    pub fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    /// Whether it is unknown.
    pub const fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The integer, exactly, if it is one.
    pub fn as_integer(&self) -> Option<i128> {
        match *self {
            Value::Int(value) => Some(value.into()),
            Value::Uint(value) => Some(value.into()),
            Value::Bool(value) => Some(value.into()),
            _ => None,
        }
    }

    /// The number as a floating-point number, if it is one.
    pub fn as_float(&self) -> Option<f64> {
        match *self {
            Value::Float(value) => Some(value),
            _ => self.as_integer().map(|value| value as f64),
        }
    }

    /// The lower 64 bits of an integer.
    pub fn bits(&self) -> Option<u64> {
        self.as_integer().map(|value| value as u64)
    }

    /// Its text, as `CAST` gives it: the shortest one that is read as the same number. None of null and of histograms.
    pub fn to_text(&self) -> Option<Arc<str>> {
        match self {
            Value::Null | Value::Histogram(_) => None,
            Value::Text(text) => Some(Arc::clone(text)),
            Value::Float(value) => Some(value.to_string().into()),
            other => Some(other.to_string().into()),
        }
    }

    /// Bytes of its text; 0 if it is none.
    pub fn text_bytes(&self) -> usize {
        if let Value::Text(text) = self { text.len() } else { 0 }
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Bool(_) => 1,
            Value::Int(_) | Value::Uint(_) | Value::Float(_) => 2,
            Value::Text(_) => 3,
            Value::Histogram(_) => 4,
        }
    }
}

/// Compares an integer of at most 65 bits with a floating-point number, without rounding either; `None` for what is no number.
pub(crate) fn compare_exactly(integer: i128, float: f64) -> Option<Ordering> {
    let whole = float.floor();
    let by_fraction = if whole < float { Ordering::Less } else { Ordering::Equal };
    // The conversion stops at the least and the greatest integer of 128 bits.
    (!float.is_nan()).then(|| integer.cmp(&(whole as i128)).then(by_fraction))
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => value.fmt(f),
            Value::Int(value) => value.fmt(f),
            Value::Uint(value) => value.fmt(f),
            // Three decimals would be none of a small one.
            Value::Float(value) if *value != 0.0 && value.abs() < 0.001 => write!(f, "{value:.3e}"),
            Value::Float(value) => write!(f, "{value:.3}"),
            Value::Text(text) => text.fmt(f),
            Value::Histogram(histogram) => histogram.fmt(f),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Uint(one), Value::Uint(other)) => one == other,
            (Value::Text(one), Value::Text(other)) => Arc::ptr_eq(one, other) || one == other,
            _ => self.cmp(other) == Ordering::Equal,
        }
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Text(one), Value::Text(other)) => one.cmp(other),
            (Value::Histogram(one), Value::Histogram(other)) => one.cmp(other),
            (Value::Float(one), Value::Float(other)) => one.total_cmp(other),
            // A floating-point number that counts as much comes behind the integer.
            (Value::Float(_), _) if other.rank() == 2 => other.cmp(self).reverse(),
            (_, Value::Float(float)) if self.rank() == 2 => {
                let exactly = self.as_integer().and_then(|integer| compare_exactly(integer, *float));
                exactly
                    .unwrap_or(if float.is_sign_negative() { Ordering::Greater } else { Ordering::Less })
                    .then(Ordering::Less)
            }
            _ => self.rank().cmp(&other.rank()).then_with(|| self.as_integer().cmp(&other.as_integer())),
        }
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Value::Text(text) => text.hash(state),
            Value::Histogram(histogram) => histogram.hash(state),
            Value::Float(value) => value.to_bits().hash(state),
            other => other.as_integer().hash(state),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_both_kinds_are_ordered_by_what_they_count() {
        assert_eq!(Value::Int(3), Value::Uint(3));
        assert!(Value::Int(-1) < Value::Uint(u64::MAX));
        assert!(Value::Null < Value::Int(i64::MIN));
        assert!(Value::Float(2.5) > Value::Int(2) && Value::Float(2.5) < Value::Uint(3));
        let great = 9_007_199_254_740_992.0;
        assert!(Value::Uint(9_007_199_254_740_993) > Value::Float(great));
        assert!(Value::Int(i64::MIN) < Value::Float(great) && Value::Uint(u64::MAX) < Value::Float(f64::INFINITY));
        assert_eq!(compare_exactly(9_007_199_254_740_992, great), Some(Ordering::Equal));
        assert_eq!(compare_exactly(-3, -2.5), Some(Ordering::Less));
    }
}
