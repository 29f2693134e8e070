//! Aggregates, one value after another.

use std::collections::HashSet;
use std::sync::Arc;

use super::sketch::{Distinct, Frequent};
use crate::histogram::Histogram;
use crate::query::{Aggregate, AggregateFunction};
use crate::value::{DataType, Value};

/// Maximum number of distinct values of one group. If there are more, the count is a lower bound.
pub const MAX_DISTINCT: usize = 1 << 20;

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
    /// The values' histogram, and what is shown of it.
    Buckets(Histogram, AggregateFunction, DataType),
    /// The distinct values, and the aggregate over them.
    Distinct(HashSet<Value>, Box<Accumulator>),
    /// How often frequent values came, and how many of them are shown.
    Frequent(Frequent, usize),
    /// About how many differ.
    Sketch(Box<Distinct>),
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
            AggregateFunction::TopK(shown) => Accumulator::Frequent(Frequent::default(), shown),
            AggregateFunction::ApproxDistinct => Accumulator::Sketch(Box::default()),
            function => Accumulator::Buckets(Histogram::default(), function, data_type),
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
            Accumulator::Buckets(histogram, ..) => {
                // Negative values are counted with the zeros.
                let value = value.as_integer().or_else(|| value.as_float().map(|value| value as i128));
                histogram.add(value.map_or(0, |value| value.clamp(0, u64::MAX.into()) as u64));
            }
            Accumulator::Frequent(frequent, _) => frequent.add(value),
            Accumulator::Sketch(sketch) => sketch.add(value),
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

    /// The aggregate's value where each row stands for several: counts, sums and histograms are of them all.
    pub fn value_of_sample(&self, each: u32) -> Value {
        match self {
            _ if each == 1 => self.value(),
            Accumulator::Count(count) => Value::Uint(count.saturating_mul(each.into())),
            Accumulator::Sum(Some(Value::Int(sum))) => Value::Int(sum.wrapping_mul(each.into())),
            Accumulator::Sum(Some(Value::Uint(sum))) => Value::Uint(sum.wrapping_mul(each.into())),
            Accumulator::Sum(Some(Value::Float(sum))) => Value::Float(sum * f64::from(each)),
            Accumulator::Buckets(histogram, AggregateFunction::Histogram, _) => {
                Value::Histogram(Arc::new(histogram.times(each.into())))
            }
            other => other.value(),
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
            Accumulator::Buckets(histogram, AggregateFunction::Quantile(part), data_type) => {
                histogram.quantile(*part).map_or(Value::Null, |value| match data_type {
                    DataType::Int => Value::Int(value.min(i64::MAX as u64) as i64),
                    DataType::Float => Value::Float(value as f64),
                    _ => Value::Uint(value),
                })
            }
            Accumulator::Buckets(histogram, ..) => Value::Histogram(Arc::new(histogram.clone())),
            Accumulator::Distinct(_, inner) => inner.value(),
            Accumulator::Frequent(frequent, shown) => frequent.value(*shown),
            Accumulator::Sketch(sketch) => Value::Uint(sketch.count()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_sample_stand_for_several() {
        let of = |function, distinct| {
            let mut accumulator = Accumulator::new(&Aggregate { function, of: None, distinct }, &[]);
            [3, 3, 5].into_iter().for_each(|value| accumulator.add(&Value::Uint(value)));
            accumulator.value_of_sample(8)
        };
        assert_eq!(of(AggregateFunction::Count, false), Value::Uint(24));
        assert_eq!(of(AggregateFunction::Count, true), Value::Uint(2));
        assert_eq!(of(AggregateFunction::Sum, false), Value::Uint(88));
        assert_eq!(of(AggregateFunction::Max, false), Value::Uint(5));
        assert!(matches!(of(AggregateFunction::Histogram, false), Value::Histogram(all) if all.count() == 24));
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
