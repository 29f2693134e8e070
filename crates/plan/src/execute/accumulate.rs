//! Aggregates, one value after another.

use std::collections::{BTreeMap, HashSet};

use crate::query::{Aggregate, AggregateFunction};
use crate::value::{DataType, Value};

/// Maximum number of distinct values of one group. If there are more, the count is a lower bound.
pub const MAX_DISTINCT: usize = 1 << 20;
/// Number of buckets per power of two for quantiles, as a power of two.
const PARTS_LOG2: u32 = 6;

/// The state of an aggregate of a group.
#[derive(Clone, Debug)]
pub enum Accumulator {
    /// How many.
    Count(u64),
    /// Their sum.
    Sum(Option<Value>),
    /// Their mean: sum and count.
    Avg(f64, u64),
    /// The least or greatest.
    Best(Option<Value>, std::cmp::Ordering),
    /// Count, mean and sum of squared distances from it (Welford).
    Spread(u64, f64, f64),
    /// How many values have each number of [`bucket`].
    Buckets(BTreeMap<u32, u64>, AggregateFunction, DataType),
    /// The distinct values, and the aggregate over them.
    Distinct(HashSet<Value>, Box<Accumulator>),
}

/// The bucket of an integer: buckets of one power of two are 64 and equally wide.
fn bucket(value: u64) -> u32 {
    let exponent = value.max(1).ilog2();
    match exponent.checked_sub(PARTS_LOG2) {
        None => value as u32,
        Some(shift) => ((shift + 1) << PARTS_LOG2) + ((value >> shift) as u32 - (1 << PARTS_LOG2)),
    }
}

/// The least integer of a bucket.
fn lowest(bucket: u32) -> u64 {
    match (bucket >> PARTS_LOG2).checked_sub(1) {
        None => bucket.into(),
        Some(shift) => u64::from((1 << PARTS_LOG2) + (bucket & ((1 << PARTS_LOG2) - 1))) << shift,
    }
}

impl Accumulator {
    /// Of no values.
    pub fn new(aggregate: &Aggregate, columns: &[DataType]) -> Accumulator {
        use std::cmp::Ordering::{Greater, Less};
        let data_type = aggregate.data_type(columns);
        let plain = match aggregate.function {
            AggregateFunction::Count => Accumulator::Count(0),
            AggregateFunction::Sum => Accumulator::Sum(None),
            AggregateFunction::Avg => Accumulator::Avg(0.0, 0),
            AggregateFunction::Min => Accumulator::Best(None, Less),
            AggregateFunction::Max => Accumulator::Best(None, Greater),
            AggregateFunction::Stddev => Accumulator::Spread(0, 0.0, 0.0),
            function => Accumulator::Buckets(BTreeMap::new(), function, data_type),
        };
        if aggregate.distinct { Accumulator::Distinct(HashSet::new(), Box::new(plain)) } else { plain }
    }

    /// Adds a value; null is ignored.
    pub fn add(&mut self, value: &Value) {
        if value.is_null() {
            return;
        }
        match self {
            Accumulator::Count(count) => *count += 1,
            Accumulator::Sum(sum) => *sum = Some(added(sum.take(), value)),
            Accumulator::Avg(sum, count) => {
                if let Some(value) = value.as_float() {
                    *sum += value;
                    *count += 1;
                }
            }
            Accumulator::Best(best, wanted) => {
                if best.as_ref().is_none_or(|best| value.cmp(best) == *wanted) {
                    *best = Some(value.clone());
                }
            }
            Accumulator::Spread(count, mean, squares) => {
                if let Some(value) = value.as_float() {
                    *count += 1;
                    let distance = value - *mean;
                    *mean += distance / *count as f64;
                    *squares += distance * (value - *mean);
                }
            }
            Accumulator::Buckets(buckets, ..) => {
                // Negative values are counted with the zeros.
                let value = value.as_integer().or_else(|| value.as_float().map(|value| value as i128));
                let value = value.map_or(0, |value| value.clamp(0, u64::MAX.into()) as u64);
                *buckets.entry(bucket(value)).or_default() += 1;
            }
            Accumulator::Distinct(seen, inner) => {
                if seen.len() < MAX_DISTINCT && seen.insert(value.clone()) {
                    inner.add(value);
                }
            }
        }
    }

    /// Adds the kernel's part: the number of rows, and this aggregate's state.
    pub fn add_partial(&mut self, rows: u64, state: Option<Value>) {
        match (self, state) {
            (Accumulator::Count(count), _) => *count += rows,
            (Accumulator::Sum(sum), Some(state)) => *sum = Some(added(sum.take(), &state)),
            (best @ Accumulator::Best(..), Some(state)) => best.add(&state),
            _ => {}
        }
    }

    /// The aggregate's value.
    pub fn value(&self) -> Value {
        match self {
            Accumulator::Count(count) => Value::Uint(*count),
            Accumulator::Sum(value) | Accumulator::Best(value, _) => value.clone().unwrap_or(Value::Null),
            Accumulator::Avg(_, 0) => Value::Null,
            Accumulator::Avg(sum, count) => Value::Float(sum / *count as f64),
            Accumulator::Spread(count, _, squares) => match count.checked_sub(1) {
                None | Some(0) => Value::Null,
                Some(others) => Value::Float((squares / others as f64).sqrt()),
            },
            Accumulator::Buckets(buckets, AggregateFunction::Quantile(part), data_type) => {
                quantile(buckets, *part, *data_type)
            }
            Accumulator::Buckets(buckets, ..) => histogram(buckets),
            Accumulator::Distinct(_, inner) => inner.value(),
        }
    }
}

fn added(sum: Option<Value>, value: &Value) -> Value {
    use crate::expr::{BinaryOp, Expr};
    match sum {
        None => match value {
            Value::Bool(value) => Value::Uint((*value).into()),
            other => other.clone(),
        },
        Some(sum) => Expr::binary(BinaryOp::Add, Expr::Literal(sum), Expr::Literal(value.clone())).evaluate(&[]),
    }
}

fn quantile(buckets: &BTreeMap<u32, u64>, part: f64, data_type: DataType) -> Value {
    let count: u64 = buckets.values().sum();
    // The smallest rank that this part of the values does not exceed.
    let rank = ((part * count as f64).ceil() as u64).max(1);
    let mut seen = 0;
    let found = buckets.iter().find(|(_, values)| {
        seen += **values;
        seen >= rank
    });
    match (found, data_type) {
        (None, _) => Value::Null,
        (Some((bucket, _)), DataType::Int) => Value::Int(lowest(*bucket).min(i64::MAX as u64) as i64),
        (Some((bucket, _)), DataType::Float) => Value::Float(lowest(*bucket) as f64),
        (Some((bucket, _)), _) => Value::Uint(lowest(*bucket)),
    }
}

/// `[256, 512) 17, [512, 1024) 3`: powers of two that hold values.
fn histogram(buckets: &BTreeMap<u32, u64>) -> Value {
    let mut powers: BTreeMap<u32, u64> = BTreeMap::new();
    for (bucket, values) in buckets {
        let least = lowest(*bucket);
        *powers.entry(if least == 0 { 0 } else { least.ilog2() + 1 }).or_default() += values;
    }
    let line = |(power, values): (&u32, &u64)| match power {
        0 => format!("[0, 1) {values}"),
        power => format!("[{}, {}) {values}", 1u128 << (power - 1), 1u128 << power),
    };
    Value::text(&powers.iter().map(line).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_begins_with_its_lowest_value_and_is_narrow() {
        for value in (0..300).chain((0..64).map(|bit| 1u64 << bit)).chain([u64::MAX, 12_345_678_901]) {
            let bucket = bucket(value);
            let (least, next) = (lowest(bucket), lowest(bucket + 1));
            assert!(least <= value && (value < next || next == 0), "{value}: {least} to {next}");
            assert!(value - least <= value / 64, "{value} is far from {least}");
        }
    }

    #[test]
    fn aggregates_of_one_to_a_hundred() {
        let of = |function| {
            let aggregate = Aggregate { function, of: None, distinct: false };
            let mut accumulator = Accumulator::new(&aggregate, &[]);
            (1..=100).for_each(|value| accumulator.add(&Value::Uint(value)));
            accumulator.value()
        };
        assert_eq!(of(AggregateFunction::Count), Value::Uint(100));
        assert_eq!(of(AggregateFunction::Sum), Value::Uint(5050));
        assert_eq!(of(AggregateFunction::Avg), Value::Float(50.5));
        assert_eq!(of(AggregateFunction::Max), Value::Uint(100));
        assert_eq!(of(AggregateFunction::Quantile(0.5)), Value::Uint(50));
        assert!(matches!(of(AggregateFunction::Stddev), Value::Float(value) if (value - 29.011).abs() < 0.001));
    }
}
