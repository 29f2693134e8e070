//! Histograms of integers, which can be merged: quantiles of a merged histogram are those of all its values.
//!
//! Small values have a bucket each. From 64 on each power of two has 64 buckets of equal width, so a bucket's lowest value
//! is within 1/64 of all its values.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Number of buckets per power of two, as a power of two.
const PARTS_LOG2: u32 = 6;

/// How many values are in each bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Histogram {
    buckets: BTreeMap<u32, u64>,
    sum: u128,
}

/// The bucket of an integer.
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

impl Histogram {
    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.add_if(value, || true);
    }

    /// Adds a value; not if it is the first of its bucket and `may_grow` says no.
    pub fn add_if(&mut self, value: u64, may_grow: impl FnOnce() -> bool) {
        match self.buckets.entry(bucket(value)) {
            Entry::Occupied(mut values) => *values.get_mut() += 1,
            Entry::Vacant(place) if may_grow() => drop(place.insert(1)),
            Entry::Vacant(_) => return,
        }
        self.sum += u128::from(value);
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (bucket, values) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += values;
        }
        self.sum += other.sum;
    }

    /// With each value as often as this.
    #[must_use]
    pub fn times(&self, times: u64) -> Histogram {
        let buckets = self.buckets.iter().map(|(bucket, values)| (*bucket, values.saturating_mul(times))).collect();
        Histogram { buckets, sum: self.sum.saturating_mul(times.into()) }
    }

    /// How many values it has.
    pub fn count(&self) -> u64 {
        self.buckets.values().sum()
    }

    /// The sum of its values.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The least and the greatest value of each bucket that has values, with their number, in order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.buckets.iter().map(|(bucket, values)| (lowest(*bucket), lowest(bucket + 1).wrapping_sub(1), *values))
    }

    /// The value that a part of the values does not exceed, within 1/64; `None` if there are no values.
    pub fn quantile(&self, part: f64) -> Option<u64> {
        // The smallest rank that this part of the values does not exceed.
        let rank = ((part * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        self.buckets().find_map(|(least, _, values)| {
            seen += values;
            (seen >= rank).then_some(least)
        })
    }

    /// How many values are zero, and below each power of two but not below half of it: `(power, values)`, in order.
    pub fn powers(&self) -> (u64, BTreeMap<u32, u64>) {
        let (mut zeros, mut powers) = (0, BTreeMap::new());
        for (least, _, values) in self.buckets() {
            match least {
                0 => zeros += values,
                least => *powers.entry(least.ilog2() + 1).or_default() += values,
            }
        }
        (zeros, powers)
    }
}

/// `[256, 512) 17, [512, 1024) 3`: powers of two that hold values.
impl std::fmt::Display for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (zeros, powers) = self.powers();
        let zeros = (zeros > 0).then(|| format!("[0, 1) {zeros}"));
        let line = |(power, values): (&u32, &u64)| format!("[{}, {}) {values}", 1u128 << (power - 1), 1u128 << power);
        f.write_str(&zeros.into_iter().chain(powers.iter().map(line)).collect::<Vec<_>>().join(", "))
    }
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
    fn a_merged_histogram_is_that_of_all_values() {
        let of = |values: std::ops::Range<u64>| {
            let mut histogram = Histogram::default();
            values.for_each(|value| histogram.add(value * value));
            histogram
        };
        let mut merged = of(0..70);
        merged.merge(&of(70..500));
        assert_eq!(merged, of(0..500));
        assert_eq!((merged.count(), of(0..11).quantile(0.5)), (500, Some(25)));
        assert_eq!(of(0..4).to_string(), "[0, 1) 1, [1, 2) 1, [4, 8) 1, [8, 16) 1");
    }
}
