//! Aggregates, one value after another.

use std::collections::HashSet;
use std::sync::Arc;

use super::groups::Room;
use super::sketch::{Distinct, Frequent};
use crate::histogram::Histogram;
use crate::query::{Aggregate, AggregateFunction};
use crate::value::{DataType, Value};

/// Bytes of a histogram's bucket, with its part of the tree.
const BUCKET_BYTES: usize = 32;
/// Bytes of a hash in a sketch of few values; a sketch of many takes less than that of all these.
const HASH_BYTES: usize = 20;

/// Bytes of a value in a hash table, which is between half and wholly full.
fn entry_bytes(value: &Value) -> usize {
    2 * (size_of::<(Value, u64)>() + 1) + value.text_bytes()
}

/// The state of an aggregate of a group.
#[derive(Clone, Debug)]
pub enum Accumulator {
    /// How many.
    Count(u64),
    /// Their sum.
    Sum(Sum),
    /// Their mean: sum and count.
    Avg(Sum, u64),
    /// The least or greatest.
    Best(Option<Value>, std::cmp::Ordering),
    /// Count, mean and sum of squared distances from it (Welford).
    Spread(u64, f64, f64),
    /// The values' histogram, and what is shown of it.
    Buckets(Box<Histogram>, AggregateFunction, DataType),
    /// The distinct values, and the aggregate over them.
    Distinct(HashSet<Value>, Box<Accumulator>),
    /// How often frequent values came, and how many of them are shown.
    Frequent(Box<Frequent>, usize),
    /// About how many differ.
    Sketch(Box<Distinct>),
}

/// The exact sum of integers, and the sum of floating-point numbers beside it.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    /// 2^64 integers of 64 bits fit.
    integers: i128,
    floats: Option<f64>,
    /// Whether there was a value.
    is_some: bool,
    /// Whether it is a signed integer.
    is_signed: bool,
}

impl Sum {
    fn new(is_signed: bool) -> Sum {
        Sum { integers: 0, floats: None, is_some: false, is_signed }
    }

    /// Adds an integer; 2^64 of 64 bits fit.
    fn add(&mut self, integer: i128) {
        self.integers = self.integers.saturating_add(integer);
        self.is_some = true;
    }

    /// Adds a number. Returns whether it is one.
    fn add_value(&mut self, value: &Value) -> bool {
        match (value, value.as_integer()) {
            (Value::Float(value), _) => {
                self.floats = Some(self.floats.unwrap_or_default() + value);
                self.is_some = true;
            }
            (_, Some(integer)) => self.add(integer),
            _ => return false,
        }
        true
    }

    fn as_float(&self) -> f64 {
        self.floats.unwrap_or_default() + self.integers as f64
    }

    /// The sum; null if there were no values, or it has more than 64 bits.
    fn value(&self) -> Value {
        match self.floats {
            _ if !self.is_some => Value::Null,
            Some(_) => Value::Float(self.as_float()),
            None if self.is_signed => i64::try_from(self.integers).map_or(Value::Null, Value::Int),
            None => u64::try_from(self.integers)
                .map(Value::Uint)
                .or_else(|_| i64::try_from(self.integers).map(Value::Int))
                .unwrap_or(Value::Null),
        }
    }
}

/// The kernel's part of an aggregate.
#[derive(Clone, Debug)]
pub enum Partial {
    /// A sum of 128 bits.
    Sum(i128),
    /// The least or greatest.
    Best(Value),
}

impl Accumulator {
    /// Of no values.
    pub fn new(aggregate: &Aggregate, columns: &[DataType]) -> Accumulator {
        use std::cmp::Ordering::{Greater, Less};
        let data_type = aggregate.data_type(columns);
        let plain = match aggregate.function {
            AggregateFunction::Count => Accumulator::Count(0),
            AggregateFunction::Sum => Accumulator::Sum(Sum::new(data_type == DataType::Int)),
            AggregateFunction::Avg => Accumulator::Avg(Sum::new(true), 0),
            AggregateFunction::Min => Accumulator::Best(None, Less),
            AggregateFunction::Max => Accumulator::Best(None, Greater),
            AggregateFunction::Stddev => Accumulator::Spread(0, 0.0, 0.0),
            AggregateFunction::TopK(shown) => Accumulator::Frequent(Box::default(), shown),
            AggregateFunction::ApproxDistinct => Accumulator::Sketch(Box::default()),
            function => Accumulator::Buckets(Box::default(), function, data_type),
        };
        if aggregate.distinct { Accumulator::Distinct(HashSet::new(), Box::new(plain)) } else { plain }
    }

    /// Adds a value; null is ignored.
    pub fn add(&mut self, value: &Value) {
        self.add_within(value, &mut Room::endless());
    }

    /// Adds a value, if there is room for what that takes; null is ignored.
    pub fn add_within(&mut self, value: &Value, room: &mut Room) {
        if value.is_null() {
            return;
        }
        match self {
            Accumulator::Count(count) => *count += 1,
            Accumulator::Sum(sum) => drop(sum.add_value(value)),
            Accumulator::Avg(sum, count) => *count += u64::from(sum.add_value(value)),
            Accumulator::Best(best, wanted) => {
                if best.as_ref().is_none_or(|best| value.cmp(best) == *wanted) {
                    let (before, after) = (best.as_ref().map_or(0, Value::text_bytes), value.text_bytes());
                    if after <= before || room.take_for_value(after - before) {
                        room.give_back(0, before.saturating_sub(after));
                        *best = Some(value.clone());
                    }
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
                let value = value.map_or(0, |value| value.clamp(0, u64::MAX.into()) as u64);
                histogram.add_if(value, || room.take_for_value(BUCKET_BYTES));
            }
            Accumulator::Frequent(frequent, _) => {
                frequent.add_if(value, || room.take_for_value(entry_bytes(value)));
            }
            Accumulator::Sketch(sketch) => sketch.add_if(value, || room.take_for_value(HASH_BYTES)),
            Accumulator::Distinct(seen, inner) => {
                if !seen.contains(value) && room.take_for_value(entry_bytes(value)) {
                    seen.insert(value.clone());
                    inner.add_within(value, room);
                }
            }
        }
    }

    /// Adds the kernel's part: the number of rows, and this aggregate's state.
    pub fn add_partial(&mut self, rows: u64, state: Option<Partial>, room: &mut Room) {
        match (self, state) {
            (Accumulator::Count(count), _) => *count += rows,
            (Accumulator::Sum(sum), Some(Partial::Sum(own))) => sum.add(own),
            (best @ Accumulator::Best(..), Some(Partial::Best(own))) => best.add_within(&own, room),
            _ => {}
        }
    }

    /// The aggregate's value where each row stands for several: counts, sums and histograms are of them all.
    pub fn value_of_sample(&self, each: u32) -> Value {
        match self {
            _ if each == 1 => self.value(),
            Accumulator::Count(count) => Value::Uint(count.saturating_mul(each.into())),
            Accumulator::Sum(sum) => {
                let integers = sum.integers.saturating_mul(each.into());
                Sum { integers, floats: sum.floats.map(|floats| floats * f64::from(each)), ..*sum }.value()
            }
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
            Accumulator::Sum(sum) => sum.value(),
            Accumulator::Best(value, _) => value.clone().unwrap_or(Value::Null),
            Accumulator::Avg(_, 0) => Value::Null,
            Accumulator::Avg(sum, count) => Value::Float(sum.as_float() / *count as f64),
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
            Accumulator::Buckets(histogram, ..) => Value::Histogram(Arc::new(Histogram::clone(histogram))),
            Accumulator::Distinct(_, inner) => inner.value(),
            Accumulator::Frequent(frequent, shown) => frequent.value(*shown),
            Accumulator::Sketch(sketch) => Value::Uint(sketch.count()),
        }
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
    fn a_shorter_text_gives_bytes_back() {
        let [long, short] = ["z".repeat(60), "a".repeat(20)].map(|text| Value::text(&text));
        let least = Aggregate { function: AggregateFunction::Min, of: None, distinct: false };
        let mut accumulator = Accumulator::new(&least, &[]);
        let mut room = Room { groups: 1, bytes: 100, lost_values: 0 };
        accumulator.add_within(&long, &mut room);
        assert_eq!(room.bytes, 100 - long.text_bytes());
        accumulator.add_within(&short, &mut room);
        assert_eq!((room.bytes, accumulator.value()), (100 - short.text_bytes(), short));
    }

    #[test]
    fn sums_are_exact_or_null() {
        let of = |data_type: DataType, values: &[Value], partial: Option<i128>| {
            let of = Some(crate::expr::Expr::Column(0));
            let aggregate = Aggregate { function: AggregateFunction::Sum, of, distinct: false };
            let mut accumulator = Accumulator::new(&aggregate, &[data_type]);
            values.iter().for_each(|value| accumulator.add(value));
            accumulator.add_partial(1, partial.map(Partial::Sum), &mut Room::endless());
            accumulator.value()
        };
        let most = Value::Uint(u64::MAX);
        assert!(of(DataType::Uint, &[most.clone(), Value::Uint(1)], None).is_null());
        assert_eq!(of(DataType::Uint, &[most.clone(), Value::Uint(1)], Some(-1)), most);
        assert!(of(DataType::Int, &[Value::Int(i64::MAX), Value::Int(1)], None).is_null());
        assert_eq!(of(DataType::Int, &[Value::Int(i64::MAX)], Some(-5)), Value::Int(i64::MAX - 5));
        assert!(of(DataType::Uint, &[], None).is_null());
        assert_eq!(of(DataType::Float, &[Value::Float(0.5), Value::Float(1.0)], None), Value::Float(1.5));
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
