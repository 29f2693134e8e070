//! Summaries of many values in bounded memory.

use std::collections::{HashMap, HashSet};

use crate::expr::hash_of;
use crate::value::Value;

/// Values that [`Frequent`] keeps after it ran out of room.
pub const FREQUENT: usize = 1024;

/// How often the most frequent values came (Misra and Gries).
///
/// Counts are exact while at most `2 * FREQUENT` values differ. From then on a count is too low by at most the number of
/// values divided by [`FREQUENT`].
#[derive(Clone, Debug, Default)]
pub struct Frequent {
    counts: HashMap<Value, u64>,
    /// By how much counts may be too low.
    missed: u64,
    /// Most values that it had.
    most: usize,
}

impl Frequent {
    /// Adds a value; not if it would have more values than ever before, and `may_grow` says no.
    pub fn add_if(&mut self, value: &Value, may_grow: impl FnOnce() -> bool) {
        if let Some(count) = self.counts.get_mut(value) {
            *count += 1;
            return;
        }
        if self.counts.len() >= 2 * FREQUENT {
            // Each subtraction takes the same from more than `FREQUENT` values, so all subtractions together take at most
            // the number of values divided by `FREQUENT` from one of them.
            let mut counts: Vec<u64> = self.counts.values().copied().collect();
            let (_, &mut taken, _) = counts.select_nth_unstable_by(FREQUENT, |one, other| other.cmp(one));
            self.missed += taken;
            self.counts.retain(|_, count| {
                *count = count.saturating_sub(taken);
                *count > 0
            });
        }
        if self.counts.len() < self.most || may_grow() {
            self.counts.insert(value.clone(), 1);
            self.most = self.most.max(self.counts.len());
        } else {
            self.missed += 1;
        }
    }

    /// The most frequent values and their counts, the most frequent first; values that are as frequent in their order.
    pub fn most(&self, shown: usize) -> Vec<(&Value, u64)> {
        let mut all: Vec<_> = self.counts.iter().map(|(value, count)| (value, *count)).collect();
        all.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(other.0)));
        all.truncate(shown);
        all
    }

    /// As text: `read=12 write=7`, with `>=` for counts that may be too low; null if there were no values.
    pub fn value(&self, shown: usize) -> Value {
        if self.counts.is_empty() {
            return Value::Null;
        }
        let sign = if self.missed == 0 { "=" } else { ">=" };
        let text = |(value, count): (&Value, u64)| format!("{value}{sign}{count}");
        Value::text(&self.most(shown).into_iter().map(text).collect::<Vec<_>>().join(" "))
    }
}

/// Binary logarithm of the number of registers. The standard error is `1.04 / sqrt(2^BITS)`: 1.6 %.
const BITS: u32 = 12;
/// Registers.
const REGISTERS: usize = 1 << BITS;
/// Greatest value of a register less one.
const RANKS: usize = 64 - BITS as usize;
/// Values up to which the count is exact.
pub const EXACT: usize = 512;

/// About how many values differ (HyperLogLog with Ertl's estimator, "New cardinality estimation algorithms for
/// HyperLogLog sketches", 2017). Up to [`EXACT`] values the count is exact; then its standard error is 1.6 %.
#[derive(Clone, Debug)]
pub enum Distinct {
    /// The values' hashes.
    Few(HashSet<u64>),
    /// The greatest rank of each register's hashes.
    Many(Box<[u8; REGISTERS]>),
}

impl Default for Distinct {
    fn default() -> Distinct {
        Distinct::Few(HashSet::new())
    }
}

impl Distinct {
    /// Adds a value; not if it is one of few and new, and `may_grow` says no.
    pub fn add_if(&mut self, value: &Value, may_grow: impl FnOnce() -> bool) {
        self.add_hash_if(finished(hash_of(value)), may_grow);
    }

    /// Adds several values as one, as [`Distinct::add_if`] does.
    pub fn add_all_if(&mut self, values: &[Value], may_grow: impl FnOnce() -> bool) {
        let hash = values.iter().fold(0, |hash: u64, value| finished(hash.rotate_left(7) ^ hash_of(value)));
        self.add_hash_if(hash, may_grow);
    }

    /// Adds what another one has seen.
    pub fn merge(&mut self, other: &Distinct) {
        match other {
            Distinct::Few(hashes) => hashes.iter().for_each(|hash| self.add_hash_if(*hash, || true)),
            Distinct::Many(others) => {
                if let Distinct::Few(hashes) = self {
                    *self = Distinct::of_many(hashes);
                }
                if let Distinct::Many(registers) = self {
                    registers.iter_mut().zip(others.iter()).for_each(|(own, other)| *own = (*own).max(*other));
                }
            }
        }
    }

    fn of_many(hashes: &HashSet<u64>) -> Distinct {
        let mut registers = Box::new([0; REGISTERS]);
        hashes.iter().for_each(|hash| note(&mut registers, *hash));
        Distinct::Many(registers)
    }

    /// Adds the hash of a value, all of whose bits depend on all of the value, as [`Distinct::add_if`] does.
    fn add_hash_if(&mut self, hash: u64, may_grow: impl FnOnce() -> bool) {
        match self {
            Distinct::Many(registers) => note(registers, hash),
            Distinct::Few(hashes) => {
                if hashes.contains(&hash) || !may_grow() {
                    return;
                }
                hashes.insert(hash);
                if hashes.len() > EXACT {
                    *self = Distinct::of_many(hashes);
                }
            }
        }
    }

    /// The estimate.
    pub fn count(&self) -> u64 {
        let registers = match self {
            Distinct::Few(hashes) => return hashes.len() as u64,
            Distinct::Many(registers) => registers,
        };
        let mut counts = [0u32; RANKS + 2];
        registers.iter().for_each(|rank| counts[usize::from(*rank)] += 1);
        let all = REGISTERS as f64;
        let mut sum = all * tau(1.0 - f64::from(counts[RANKS + 1]) / all);
        for count in counts[1..=RANKS].iter().rev() {
            sum = 0.5 * (sum + f64::from(*count));
        }
        sum += all * sigma(f64::from(counts[0]) / all);
        (all * all / (2.0 * std::f64::consts::LN_2 * sum)).round() as u64
    }
}

/// Mixes all bits of a hash (the finalizer of MurmurHash3).
fn finished(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

/// Raises the register of a hash to its rank: the zeros that its other bits begin with, and one.
fn note(registers: &mut [u8; REGISTERS], hash: u64) {
    let register = &mut registers[(hash >> (64 - BITS)) as usize];
    let rank = (hash << BITS | 1 << (BITS - 1)).leading_zeros() as u8 + 1;
    *register = rank.max(*register);
}

/// `sum of x^(2^k) * 2^(k-1)` and `x`, until it does not change. Infinite for 1.
fn sigma(mut part: f64) -> f64 {
    if part == 1.0 {
        return f64::INFINITY;
    }
    let (mut factor, mut sum) = (1.0, part);
    loop {
        part *= part;
        let before = sum;
        sum += part * factor;
        factor += factor;
        if sum == before {
            return sum;
        }
    }
}

/// The corresponding sum for registers with the greatest value.
fn tau(mut part: f64) -> f64 {
    if part == 0.0 || part == 1.0 {
        return 0.0;
    }
    let (mut factor, mut sum) = (1.0, 1.0 - part);
    loop {
        part = part.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - part) * (1.0 - part) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_near_whatever_their_size() {
        for count in [0u64, 1, 512, 513, 2_000, 10_000, 17_000, 200_000, 1_000_000] {
            let mut sketch = Distinct::default();
            (0..count).for_each(|value| sketch.add_if(&Value::Uint(value), || true));
            (0..count.min(1000)).for_each(|value| sketch.add_if(&Value::Uint(value), || true));
            let error = (sketch.count() as f64 - count as f64).abs();
            // Four standard errors.
            let allowed = if count > EXACT as u64 { 0.065 * count as f64 } else { 0.0 };
            assert!(error <= allowed, "{count}: {}", sketch.count());
        }
    }

    #[test]
    fn frequent_values_stay() {
        let mut frequent = Frequent::default();
        let values = 60_000u64;
        for value in 0..values {
            frequent.add_if(&Value::Uint(value), || true);
            if value % 3 == 0 {
                frequent.add_if(&Value::text("often"), || true);
            }
        }
        let most = frequent.most(1);
        assert_eq!(most[0].0, &Value::text("often"));
        let (all, own) = (values + values / 3, values / 3);
        assert!(most[0].1 <= own && most[0].1 >= own - all / FREQUENT as u64, "{most:?}");
        assert!(frequent.counts.len() <= 2 * FREQUENT);
    }

    #[test]
    fn sketches_are_merged_whatever_their_sizes() {
        let of = |values: std::ops::Range<u64>| {
            let mut sketch = Distinct::default();
            values.for_each(|value| sketch.add_all_if(&[Value::Uint(value), Value::text("x")], || true));
            sketch
        };
        for (one, other, all) in
            [(0..300, 200..400, 400..401), (0..300, 100..5000, 4750..5250), (0..5000, 0..10, 4750..5250)]
        {
            let mut merged = of(one);
            merged.merge(&of(other));
            assert!(all.contains(&merged.count()), "{all:?}: {}", merged.count());
        }
    }

    #[test]
    fn a_refusal_makes_every_count_a_least_one() {
        let mut frequent = Frequent::default();
        frequent.add_if(&Value::text("a"), || true);
        frequent.add_if(&Value::text("b"), || false);
        assert_eq!(frequent.value(2), Value::text("a>=1"));
    }

    #[test]
    fn few_values_are_counted_exactly() {
        let mut frequent = Frequent::default();
        ["b", "a", "c", "a", "b", "a"].iter().for_each(|value| frequent.add_if(&Value::text(value), || true));
        assert_eq!(frequent.value(2), Value::text("a=3 b=2"));
        assert_eq!(Frequent::default().value(2), Value::Null);
    }
}
