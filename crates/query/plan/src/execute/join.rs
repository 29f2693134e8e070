//! Joins of two streams of events within a time, in bounded memory.
//!
//! ```text
//!   rows of both sides --> by time, until no earlier one can come --> the other side's rows of the last WITHIN --> pairs
//! ```
//!
//! Both sides are handled in the same way: a row is compared with the stored rows of the other side, and then stored
//! until the time between it and all later rows is too long.
//!
//! If many rows have the same key, there are as many pairs as the product of both numbers. So the number of pairs that are
//! looked at each time the clock moves on is limited, and those beyond it are counted as lost.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::{Limits, Lost, Row};
use crate::expr::{Expr, truth};
use crate::flow::Join;
use crate::value::Value;

/// Number of pairs that are looked at each time the clock moves on, beside [`SURE_PAIRS`].
const MAX_PAIRS: usize = 1 << 18;
/// Number of pairs that are looked at for each row, however many rows there are.
const SURE_PAIRS: usize = 8;

/// A stored row.
#[derive(Debug)]
struct Stored {
    time: u64,
    values: Vec<Value>,
    matched: bool,
}

/// The stored rows of a side.
#[derive(Debug, Default)]
struct Store {
    by_key: HashMap<Vec<Value>, VecDeque<Stored>>,
    /// Times and keys, in the order in which rows were stored, which is that of their times.
    order: VecDeque<(u64, Vec<Value>)>,
}

/// A join that runs.
#[derive(Debug)]
pub struct Joiner {
    keys: [Vec<Expr>; 2],
    times: [usize; 2],
    within_ns: u64,
    condition: Option<Expr>,
    keeps: [bool; 2],
    columns: [usize; 2],
    limits: Limits,
    /// Rows that wait, by their time, their side and a number.
    waiting: BTreeMap<(u64, usize, u64), Vec<Value>>,
    number: u64,
    /// Rows before this time are late.
    sure_ns: u64,
    stores: [Store; 2],
    /// Pairs that may still be looked at before the clock moves on again.
    pairs_left: usize,
    ready: Vec<Row>,
    lost: Lost,
}

impl Joiner {
    /// A join without rows.
    pub fn new(join: &Join, limits: Limits) -> Joiner {
        Joiner {
            keys: join.keys.clone(),
            times: join.times,
            within_ns: join.within_ns,
            condition: join.condition.clone(),
            keeps: join.keeps,
            columns: join.sides.each_ref().map(|side| side.outputs().len()),
            limits,
            waiting: BTreeMap::new(),
            number: 0,
            sure_ns: 0,
            stores: Default::default(),
            pairs_left: MAX_PAIRS,
            ready: Vec::new(),
            lost: Lost::default(),
        }
    }

    /// Takes a row of the left (0) or right (1) side.
    pub fn add(&mut self, side: usize, values: Vec<Value>) {
        let time = values[self.times[side]].bits().unwrap_or_default();
        if time < self.sure_ns {
            self.lost.late += 1;
        } else if self.waiting.len() >= self.limits.rows {
            self.lost.rows += 1;
        } else {
            self.number += 1;
            self.waiting.insert((time, side, self.number), values);
        }
    }

    /// Moves the clock on; to the end of all time if there is none. Returns the pairs, with the time when both rows were
    /// there as their last value.
    pub fn advance(&mut self, sure_ns: Option<u64>) -> Vec<Row> {
        self.sure_ns = self.sure_ns.max(sure_ns.unwrap_or(u64::MAX));
        self.pairs_left = MAX_PAIRS;
        while let Some(entry) = self.waiting.first_entry().filter(|row| sure_ns.is_none() || row.key().0 < self.sure_ns)
        {
            let ((time, side, _), values) = entry.remove_entry();
            self.forget_before(Some(time));
            self.row(side, Stored { time, values, matched: false });
        }
        self.forget_before(sure_ns.map(|_| self.sure_ns));
        std::mem::take(&mut self.ready)
    }

    /// What was lost so far.
    pub fn lost(&self) -> Lost {
        self.lost
    }

    fn row(&mut self, side: usize, mut own: Stored) {
        let key: Vec<Value> = self.keys[side].iter().map(|key| key.evaluate(&own.values)).collect();
        // Null is equal to nothing.
        if key.iter().any(Value::is_null) {
            self.show_alone(side, &own);
            return;
        }
        if let Some(others) = self.stores[1 - side].by_key.get_mut(&key) {
            let room = if self.ready.len() < self.limits.rows { self.pairs_left.max(SURE_PAIRS) } else { 0 };
            let looked_at = others.len().min(room);
            self.pairs_left = self.pairs_left.saturating_sub(looked_at);
            self.lost.pairs += (others.len() - looked_at) as u64;
            for other in others.iter_mut().take(looked_at) {
                let mut values = if side == 0 { own.values.clone() } else { other.values.clone() };
                values.extend_from_slice(if side == 0 { &other.values } else { &own.values });
                if self.condition.as_ref().is_none_or(|condition| truth(&condition.evaluate(&values)) == Some(true)) {
                    (own.matched, other.matched) = (true, true);
                    values.push(Value::Uint(own.time));
                    self.ready.push(Row { window: None, values });
                }
            }
        }
        if self.stores.iter().map(|store| store.order.len()).sum::<usize>() >= self.limits.starts {
            let side = usize::from(self.stores[1].order.len() > self.stores[0].order.len());
            self.lost.evicted += 1;
            self.forget_first(side);
        }
        let store = &mut self.stores[side];
        store.order.push_back((own.time, key.clone()));
        store.by_key.entry(key).or_default().push_back(own);
    }

    /// Drops rows that no row at or after a time can match; all if there is none.
    fn forget_before(&mut self, time: Option<u64>) {
        for side in 0..2 {
            let is_over = |stored: u64| time.is_none_or(|time| stored.saturating_add(self.within_ns) < time);
            let over = self.stores[side].order.iter().take_while(|(stored, _)| is_over(*stored)).count();
            (0..over).for_each(|_| self.forget_first(side));
        }
    }

    fn forget_first(&mut self, side: usize) {
        let store = &mut self.stores[side];
        let Some((_, key)) = store.order.pop_front() else { return };
        let Some(rows) = store.by_key.get_mut(&key) else { return };
        let first = rows.pop_front();
        if rows.is_empty() {
            store.by_key.remove(&key);
        }
        if let Some(first) = first.filter(|first| !first.matched) {
            self.show_alone(side, &first);
        }
    }

    /// Shows a row that has no match, if its side's are shown.
    fn show_alone(&mut self, side: usize, row: &Stored) {
        if self.keeps[side] {
            let nulls = std::iter::repeat_n(Value::Null, self.columns[1 - side]);
            let own = row.values.iter().cloned();
            let mut values: Vec<Value> =
                if side == 0 { own.chain(nulls).collect() } else { nulls.chain(own).collect() };
            // This is known when the time is over.
            values.push(Value::Uint(row.time.saturating_add(self.within_ns)));
            self.ready.push(Row { window: None, values });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Flow;
    use crate::query::{Output, Query, Shape};
    use crate::table::{Scan, Table};
    use crate::value::DataType;

    /// Joins rows of two columns, a time and a key, within 1,000 ns.
    fn joiner(limits: Limits) -> Joiner {
        let output = |at: usize| Output { name: format!("c{at}"), expr: Expr::Column(at), data_type: DataType::Uint };
        let table = Table {
            name: "t".into(),
            about: String::new(),
            scan: Scan::Rows,
            columns: Vec::new(),
            only: None,
            interrupts: false,
        };
        let side = || Flow::scan(Query::new(table.clone(), Shape::Rows, vec![output(0), output(1)]));
        let key = || vec![Expr::Column(1)];
        let join = Join {
            sides: [side(), side()],
            keys: [key(), key()],
            times: [0, 0],
            within_ns: 1000,
            condition: None,
            keeps: [false; 2],
        };
        Joiner::new(&join, limits)
    }

    #[test]
    fn rows_of_one_key_do_not_make_endless_pairs() {
        let mut joiner = joiner(Limits::default());
        for time in 0..2000 {
            (0..2).for_each(|side| joiner.add(side, vec![Value::Uint(time / 4), Value::Uint(7)]));
        }
        let pairs = joiner.advance(Some(1_000_000)).len();
        assert!((MAX_PAIRS..MAX_PAIRS + 4000 * SURE_PAIRS + 1).contains(&pairs), "{pairs}");
        assert_eq!(pairs as u64 + joiner.lost().pairs, 2000 * 2000);
    }

    #[test]
    fn rows_of_many_keys_all_meet() {
        let mut joiner = joiner(Limits::default());
        for time in 0..1_000_000 {
            joiner.add(usize::from(time % 2 == 1), vec![Value::Uint(time), Value::Uint(time / 2)]);
        }
        assert_eq!(joiner.advance(None).len(), 500_000);
        assert_eq!(joiner.lost(), Lost::default());
    }
}
