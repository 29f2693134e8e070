//! The user-space half of a query: the operators that the kernel's half does not run.
//!
//! ```text
//!   record -> decode -> pair -> derive -> filter -+-> project -----------------> rows
//!                                                 +-> group, window -> project -> rows
//!   group from the kernel's map ---------------------> group, window -> project -> rows
//! ```
//!
//! Memory is bounded by [`Limits`]. What does not fit is counted in [`Lost`] and shown with the result.

pub mod accumulate;
pub mod decode;
pub mod dns;
pub mod engine;
pub mod flow;
pub mod groups;
mod join;
mod sessions;
pub mod sketch;
pub mod stages;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::RandomState;

use serde::{Deserialize, Serialize};

use crate::expr::{Expr, truth};
use crate::generate::layout::Record;
use crate::generate::{Generated, GroupMap};
use crate::query::{self, Groups, Order, Query, Shape};
use crate::split::State;
use crate::table::Source;
use crate::value::{DataType, Value};
use accumulate::{Accumulator, Partial};
use decode::{Layout, Says, Stacks, Texts};
use groups::{Refused, Room, Window};
use sessions::Sessions;

/// Limits on stored data.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Beginnings without an end.
    pub starts: usize,
    /// Groups of all open windows.
    pub groups: usize,
    /// Bytes of the keys and aggregates of these groups.
    pub bytes: usize,
    /// Rows that wait to be ordered, and rows known to `DISTINCT`.
    pub rows: usize,
    /// How long a window stays open for late rows, in nanoseconds.
    pub late_ns: u64,
}

impl Limits {
    /// The part of the bytes that each of several queries may take, so that all of them together take no more.
    #[must_use]
    pub fn shared_by(self, queries: usize) -> Limits {
        Limits { bytes: self.bytes / queries.max(1), ..self }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { starts: 1 << 18, groups: 1 << 20, bytes: 512 << 20, rows: 1 << 20, late_ns: 100_000_000 }
    }
}

/// What did not fit in user space, or had a form that the kernel's half does not produce.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lost {
    /// Beginnings.
    pub starts: u64,
    /// Rows that would have needed another group.
    pub groups: u64,
    /// Values that an aggregate did not take, because there was no room for it to grow.
    #[serde(default)]
    pub values: u64,
    /// Rows that could not be stored for ordering or `DISTINCT`.
    pub rows: u64,
    /// Rows of windows that were closed.
    pub late: u64,
    /// Records that were too short.
    pub malformed: u64,
    /// Rows that a join no longer kept although they might have had matches.
    pub evicted: u64,
    /// Pairs of rows that a join did not look at, because too many rows have the same key.
    pub pairs: u64,
    /// Rows without a match in a lookup table, which `JOIN` leaves out: nothing is wrong with them.
    pub unmatched: u64,
}

impl Lost {
    /// Adds what was lost elsewhere.
    pub fn add(&mut self, other: Lost) {
        let Lost { starts, groups, values, rows, late, malformed, evicted, pairs, unmatched } = other;
        self.starts += starts;
        self.groups += groups;
        self.values += values;
        self.rows += rows;
        self.late += late;
        self.malformed += malformed;
        self.evicted += evicted;
        self.pairs += pairs;
        self.unmatched += unmatched;
    }

    /// How much was lost, whatever the reason.
    pub fn in_all(&self) -> u64 {
        let Lost { starts, groups, values, rows, late, malformed, evicted, pairs, unmatched: _ } = *self;
        starts + groups + values + rows + late + malformed + evicted + pairs
    }
}

/// A row of the result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Its window: beginning and end, in nanoseconds of the monotonic clock.
    pub window: Option<[u64; 2]>,
    /// The outputs' values.
    pub values: Vec<Value>,
}

/// The user-space half of a query.
pub struct Executor {
    query: Query,
    types: Vec<DataType>,
    layouts: Vec<Layout>,
    /// Columns that are wanted and not in records, in the table's order.
    derived: Vec<usize>,
    texts: Texts,
    groups: Option<GroupMap>,
    /// How many rows each one stands for.
    sample: u32,
    limits: Limits,
    /// The stacks that the kernel kept.
    stacks: Option<Box<dyn Stacks>>,
    /// Beginnings without an end, by key.
    starts: HashMap<u64, Vec<Value>>,
    /// Open sessions.
    sessions: Sessions,
    /// Open windows, by number.
    windows: BTreeMap<u64, Window>,
    /// Room for more groups.
    room: Room,
    /// Groups that found none.
    refused: Option<Refused>,
    hasher: RandomState,
    /// Keys and operands of a row, whose memory the next one uses.
    scratch: [Vec<Value>; 2],
    /// Windows before this one are closed.
    ended: u64,
    /// The latest row's time.
    latest: u64,
    /// Rows that wait for the end, to be ordered.
    waiting: Vec<Row>,
    /// A row's values, whose memory the next one uses.
    row: Vec<Value>,
    seen: HashSet<Vec<Value>>,
    ready: Vec<Row>,
    /// Rows that were ready, with those that `OFFSET` leaves out.
    shown: usize,
    lost: Lost,
}

impl Executor {
    /// The user-space half for a generated kernel half.
    pub fn new(query: Query, generated: &Generated, limits: Limits) -> Executor {
        let groups = generated.groups.clone();
        Executor { groups, sample: generated.sample, ..Executor::replaying(query, &generated.records, limits) }
    }

    /// The whole query, on records of its table's smallest split.
    pub fn replaying(query: Query, records: &[Record], limits: Limits) -> Executor {
        let needed = query.table.needed_for(query.columns());
        let layout = |record: &Record| Layout::new(record, &query.table, |column| needed.contains(&column));
        let is_in_records =
            |column: &usize| matches!(query.table.columns[*column].source, Source::Read { .. } | Source::Given);
        Executor {
            types: query.table.types(),
            layouts: records.iter().map(layout).collect(),
            derived: needed.iter().copied().filter(|column| !is_in_records(column)).collect(),
            texts: Texts::default(),
            groups: None,
            sample: 1,
            query,
            limits,
            stacks: None,
            starts: HashMap::new(),
            sessions: Sessions::default(),
            windows: BTreeMap::new(),
            room: Room { groups: limits.groups, bytes: limits.bytes, lost_values: 0 },
            refused: None,
            hasher: RandomState::new(),
            scratch: [Vec::new(), Vec::new()],
            ended: 0,
            latest: 0,
            waiting: Vec::new(),
            row: Vec::new(),
            seen: HashSet::new(),
            ready: Vec::new(),
            shown: 0,
            lost: Lost::default(),
        }
    }

    /// A query over the rows of another one.
    pub fn of_rows(query: Query, limits: Limits) -> Executor {
        Executor::replaying(query, &[], limits)
    }

    /// Finds stacks here.
    #[must_use]
    pub fn with_stacks(self, stacks: Option<Box<dyn Stacks>>) -> Executor {
        Executor { stacks, ..self }
    }

    /// The query.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// What was lost so far.
    pub fn lost(&self) -> Lost {
        Lost { values: self.room.lost_values, ..self.lost }
    }

    /// A sentence about the groups that found no room, if there were some.
    pub fn refused(&self) -> Option<String> {
        self.refused.as_ref().map(|refused| refused.sentence(&self.query))
    }

    /// Whether no further row will be shown.
    pub fn is_done(&self) -> bool {
        matches!(self.query.shape, Shape::Rows)
            && self.query.order.is_empty()
            && self.query.limit.is_some_and(|limit| self.shown >= limit.saturating_add(self.query.offset))
    }

    /// Takes a record of the kernel's.
    pub fn record(&mut self, bytes: &[u8]) {
        if self.add_record(bytes).is_none() {
            self.lost.malformed += 1;
        }
    }

    fn add_record(&mut self, bytes: &[u8]) -> Option<()> {
        let layout = match &self.layouts[..] {
            [only] => only,
            several => {
                let tag = u32::from_le_bytes(*bytes.first_chunk()?);
                several.iter().find(|layout| layout.tag() == Some(tag))?
            }
        };
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        row.resize(self.types.len(), Value::Null);
        match (layout.tag(), layout.read(bytes, &mut self.texts, &mut row)?) {
            (Some(0), Some(key)) => {
                if self.starts.len() < self.limits.starts || self.starts.contains_key(&key) {
                    self.starts.insert(key, row);
                } else {
                    self.lost.starts += 1;
                }
                return Some(());
            }
            (Some(_), Some(key)) => {
                if let Some(start) = self.starts.remove(&key) {
                    let from_start = row.iter_mut().zip(start).filter(|(end, _)| end.is_null());
                    from_start.for_each(|(end, start)| *end = start);
                    self.take_row(&mut row);
                }
            }
            _ => self.take_row(&mut row),
        }
        self.row = row;
        Some(())
    }

    /// Takes a row of the table: all columns that are read.
    pub fn row(&mut self, mut row: Vec<Value>) {
        self.take_row(&mut row);
    }

    fn take_row(&mut self, row: &mut [Value]) {
        decode::derive(&self.query.table, &self.derived, self.stacks.as_deref(), &mut self.texts, row);
        let time = self.query.table.complete().and_then(|complete| row[complete].bits()).unwrap_or_default();
        self.latest = self.latest.max(time);
        if self.query.filter.as_ref().is_some_and(|filter| truth(&filter.evaluate(row)) != Some(true)) {
            return;
        }
        if self.query.matches.iter().any(|there| truth(&there.evaluate(row)) != Some(true)) {
            self.lost.unmatched += 1;
            return;
        }
        match &self.query.shape {
            Shape::Rows => {
                let values = self.query.outputs.iter().map(|output| output.expr.evaluate(row)).collect();
                self.show(Row { window: None, values });
            }
            Shape::Groups(groups) => {
                let [mut keys, mut values] = std::mem::take(&mut self.scratch);
                keys.clear();
                keys.extend(groups.keys.iter().map(|key| key.evaluate(row)));
                values.clear();
                let value = |of: &Option<Expr>| of.as_ref().map_or(Value::Bool(true), |of| of.evaluate(row));
                values.extend(groups.aggregates.iter().map(|aggregate| value(&aggregate.of)));
                if groups.session_ns.is_some() {
                    let waits = self.sessions.add(time, keys, values, self.limits.rows);
                    self.lost.rows += u64::from(!waits);
                    return;
                }
                for window in windows_of(groups.window, time) {
                    self.in_group(window, &keys, |accumulators, room| {
                        accumulators.iter_mut().zip(&values).for_each(|(own, value)| own.add_within(value, room));
                    });
                }
                self.scratch = [keys, values];
            }
        }
    }

    fn in_group(&mut self, window: u64, keys: &[Value], add: impl FnOnce(&mut [Accumulator], &mut Room)) {
        let Shape::Groups(groups) = &self.query.shape else { return };
        if window < self.ended {
            self.lost.late += 1;
            return;
        }
        let new = groups.aggregates.iter().map(|aggregate| Accumulator::new(aggregate, &self.types));
        let own = self.windows.entry(window).or_default();
        if !own.with_group(&self.hasher, keys, new, &mut self.room, add) {
            if own.is_empty() {
                self.windows.remove(&window);
            }
            self.lost.groups += 1;
            Refused::note(&mut self.refused, keys);
        }
    }

    /// The window's number of a group in the kernel's map, from its key; 0 where there are no windows.
    pub fn window_of(&self, key: &[u8]) -> u64 {
        let Shape::Groups(Groups { window: Some(_), .. }) = self.query.shape else { return 0 };
        key.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// Takes a group of the kernel's map: its key, and a value a processor.
    pub fn group(&mut self, key: &[u8], values: &[u8]) {
        if self.add_group(key, values).is_none() {
            self.lost.malformed += 1;
        }
    }

    /// The keys of a group of the kernel's map; `None` if the bytes are too few.
    fn keys_of(&self, map: &GroupMap, groups: &Groups, key: &[u8]) -> Option<Vec<Value>> {
        let own = if groups.window.is_some() { key.get(8..)? } else { key };
        let bases: Vec<Expr> = groups.keys.iter().map(|key| key.looked_up().clone()).collect();
        let says = |key: &Expr| match key {
            Expr::Column(column) => match self.query.table.columns[*column].source {
                Source::SyscallName(_) => Says::Syscall,
                Source::Stack(_) => Says::Stack,
                _ => Says::Value,
            },
            _ => Says::Value,
        };
        let types: Vec<_> = bases.iter().map(|key| (key.data_type(&self.types), says(key))).collect();
        let keys = decode::keys(&map.groups.keys, &types, self.stacks.as_deref(), own)?;
        Some(groups.keys.iter().zip(keys).map(|(key, value)| key.look_up(value)).collect())
    }

    /// Whether groups of the kernel's map are by stacks of programs, which have names while their processes run.
    pub fn groups_by_user_stacks(&self) -> bool {
        let Shape::Groups(groups) = &self.query.shape else { return false };
        let is_stack = |column: usize| match self.query.table.columns[column].source {
            Source::Stack(of) => self.query.table.is_user_stack(of),
            _ => false,
        };
        self.groups.is_some() && groups.keys.iter().any(|key| matches!(key, Expr::Column(column) if is_stack(*column)))
    }

    /// Gives the stacks in the key of a group their names, which are kept.
    pub fn name_stacks(&self, key: &[u8]) {
        if let (Some(map), Shape::Groups(groups)) = (&self.groups, &self.query.shape) {
            // A key that is too short is counted when its group is taken.
            let _ = self.keys_of(map, groups, key);
        }
    }

    fn add_group(&mut self, key: &[u8], values: &[u8]) -> Option<()> {
        let map = self.groups.clone()?;
        let Shape::Groups(groups) = &self.query.shape else { return None };
        let window = self.window_of(key);
        let results: Vec<_> = groups.aggregates.iter().map(|one| one.data_type(&self.types)).collect();
        let keys = self.keys_of(&map, groups, key)?;
        for value in values.chunks_exact(usize::from(map.value_bytes)) {
            let number = |at: usize| Some(u64::from_le_bytes(value.get(8 * at..8 * at + 8)?.try_into().ok()?));
            let rows = number(0)?;
            if rows == 0 {
                continue;
            }
            let mut at = 1;
            let mut states = Vec::new();
            for (aggregate, data_type) in map.groups.aggregates.iter().zip(&results) {
                states.push(match &aggregate.states[..] {
                    [] => None,
                    [State::Sum, ..] => {
                        Some(Partial::Sum(i128::from(number(at + 1)? as i64) << 64 | i128::from(number(at)?)))
                    }
                    _ => Some(Partial::Best(decode::of_bits(number(at)?, *data_type))),
                });
                at += aggregate.states.len();
            }
            self.in_group(window, &keys, |accumulators, room| {
                accumulators.iter_mut().zip(states).for_each(|(own, state)| own.add_partial(rows, state, room));
            });
        }
        Some(())
    }

    /// The number of the first window that is open at a time.
    pub fn first_open(&self, now_ns: u64) -> u64 {
        let Shape::Groups(Groups { window: Some(window), .. }) = self.query.shape else { return 0 };
        let sure = now_ns.saturating_sub(self.limits.late_ns);
        // Window number n is from n * step to n * step + length.
        sure.saturating_sub(window.length_ns)
            .checked_div(window.step_ns)
            .map_or(0, |last| if sure >= window.length_ns { last + 1 } else { 0 })
    }

    /// Closes the windows that end before a time of the monotonic clock.
    pub fn advance(&mut self, now_ns: u64) {
        if let Shape::Groups(Groups { session_ns: Some(pause_ns), .. }) = self.query.shape {
            return self.end_sessions(pause_ns, Some(now_ns.saturating_sub(self.limits.late_ns)));
        }
        let first_open = self.first_open(now_ns);
        let open = self.windows.split_off(&first_open);
        let over = std::mem::replace(&mut self.windows, open);
        self.ended = self.ended.max(first_open);
        over.into_iter().for_each(|(number, window)| self.end_window(number, window));
    }

    /// Closes the windows that end before the time of the rows.
    pub fn advance_to_latest(&mut self) {
        self.advance(self.latest);
    }

    /// The time of the latest row so far.
    pub fn latest_ns(&self) -> u64 {
        self.latest
    }

    /// Ends the query.
    pub fn finish(&mut self) {
        if let Shape::Groups(Groups { session_ns: Some(pause_ns), .. }) = self.query.shape {
            return self.end_sessions(pause_ns, None);
        }
        let over = std::mem::take(&mut self.windows);
        let is_empty = over.is_empty();
        over.into_iter().for_each(|(number, window)| self.end_window(number, window));
        if let Shape::Groups(groups) = &self.query.shape
            && groups.keys.is_empty()
            && groups.window.is_none()
            && is_empty
        {
            // If there are no rows, there is one group.
            let new = |aggregate| Accumulator::new(aggregate, &self.types);
            let nothing = groups.aggregates.iter().map(new).collect();
            let rows = self.rows_of(None, std::iter::once((Vec::new(), nothing)));
            self.end_rows(rows);
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        self.put_in_order(&mut waiting);
        self.ready.extend(waiting.into_iter().skip(self.query.offset));
    }

    /// Closes the sessions that are over at a time; all of them if there is none.
    fn end_sessions(&mut self, pause_ns: u64, sure_ns: Option<u64>) {
        let Shape::Groups(groups) = &self.query.shape else { return };
        let new = |aggregate| Accumulator::new(aggregate, &self.types);
        let new = || groups.aggregates.iter().map(new).collect();
        let mut refuse = |keys: &[Value]| Refused::note(&mut self.refused, keys);
        let (over, lost) = self.sessions.advance(pause_ns, sure_ns, &mut self.room, &new, &mut refuse);
        self.lost.add(lost);
        for session in over {
            let group = std::iter::once((session.keys, session.accumulators));
            let mut rows = self.rows_of(Some([session.first_ns, session.last_ns]), group);
            self.ready.append(&mut rows);
        }
    }

    fn end_window(&mut self, number: u64, window: Window) {
        let Shape::Groups(groups) = &self.query.shape else { return };
        let bounds = groups.window.map(|own| {
            let start = number.saturating_mul(own.step_ns);
            [start, start.saturating_add(own.length_ns)]
        });
        self.room.give_back(window.len(), window.bytes());
        let rows = self.rows_of(bounds, window.into_groups(groups.keys.len()));
        self.end_rows(rows);
    }

    /// Shows the rows of a window.
    fn end_rows(&mut self, mut rows: Vec<Row>) {
        if self.query.distinct {
            let mut seen = HashSet::new();
            rows.retain(|row| seen.insert(row.values.clone()));
        }
        self.put_in_order(&mut rows);
        self.ready.extend(rows.into_iter().skip(self.query.offset));
    }

    /// The rows of groups that `HAVING` keeps.
    fn rows_of(
        &self,
        bounds: Option<[u64; 2]>,
        window: impl Iterator<Item = (Vec<Value>, Vec<Accumulator>)>,
    ) -> Vec<Row> {
        let Shape::Groups(groups) = &self.query.shape else { return Vec::new() };
        let mut rows = Vec::new();
        for (mut row, accumulators) in window {
            row.extend(accumulators.iter().map(|one| one.value_of_sample(self.sample)));
            if groups.having.as_ref().is_none_or(|having| truth(&having.evaluate(&row)) == Some(true)) {
                let values = self.query.outputs.iter().map(|output| output.expr.evaluate(&row)).collect();
                rows.push(Row { window: bounds, values });
            }
        }
        rows
    }

    /// Orders rows by the query's order and then by their values, so that the same rows are always shown in the same
    /// order.
    fn put_in_order(&self, rows: &mut Vec<Row>) {
        let by = |order: &Order, one: &Row, other: &Row| {
            let ordering = order.by.evaluate(&one.values).cmp(&order.by.evaluate(&other.values));
            if order.descending { ordering.reverse() } else { ordering }
        };
        rows.sort_by(|one, other| {
            let orders = self.query.order.iter().map(|order| by(order, one, other));
            orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then).then_with(|| one.values.cmp(&other.values))
        });
        rows.truncate(self.query.limit.unwrap_or(usize::MAX).saturating_add(self.query.offset));
    }

    fn show(&mut self, row: Row) {
        if self.query.distinct {
            if self.seen.contains(&row.values) {
                return;
            }
            if self.seen.len() >= self.limits.rows {
                self.lost.rows += 1;
                return;
            }
            self.seen.insert(row.values.clone());
        }
        if self.query.order.is_empty() {
            if !self.is_done() {
                self.shown += 1;
                if self.shown > self.query.offset {
                    self.ready.push(row);
                }
            }
        } else if self.waiting.len() < self.limits.rows {
            self.waiting.push(row);
            // If few of many rows are wanted, the others are dropped from time to time.
            if let Some(limit) = self.query.limit.map(|limit| limit.saturating_add(self.query.offset))
                && self.waiting.len() > limit.saturating_mul(2).saturating_add(1024)
            {
                let mut waiting = std::mem::take(&mut self.waiting);
                self.put_in_order(&mut waiting);
                self.waiting = waiting;
            }
        } else {
            self.lost.rows += 1;
        }
    }

    /// Returns the rows that are ready, and removes them.
    pub fn take_rows(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.ready)
    }
}

/// Numbers of the windows that contain a time.
fn windows_of(window: Option<query::Window>, time: u64) -> std::ops::RangeInclusive<u64> {
    match window {
        None => 0..=0,
        Some(window) => {
            let last = time / window.step_ns;
            let others = window.length_ns / window.step_ns - 1;
            last.saturating_sub(others)..=last
        }
    }
}
