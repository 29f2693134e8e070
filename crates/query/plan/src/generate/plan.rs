//! What the programs of a split read, keep and decide: worked out before the first instruction is written.

use std::collections::BTreeSet;

use kiln_program::MapId;

use super::failure::Failure;
use super::frame::{self, Frame};
use super::layout::{Origin, Record, SlotKind, THREAD_ENDS, start_bytes};
use crate::expr::Expr;
use crate::query::{Query, Shape};
use crate::split::{KernelGroups, KernelKey, Split, aggregates_in_kernel, in_kernel};
use crate::table::{Read, Scalar, Scan, Side, Source};

/// Settings for the generated programs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// A process whose events are ignored: the one that reads the results.
    pub except_pid: Option<u32>,
    /// Bytes of the ring buffer, a power of two and of pages.
    pub ring_bytes: u32,
    /// Maximum number of groups in the kernel.
    pub max_groups: u32,
    /// Maximum number of pairs without an end.
    pub max_starts: u32,
    /// Maximum number of different stacks.
    pub max_stacks: u32,
    /// User space is woken when this many bytes wait in the ring buffer.
    pub wake_bytes: u32,
    /// One event in this many begins a row, chosen at random; 1 for every event.
    pub sample: u32,
    /// Whether user space says from when until when events count, so that all tables of a query see the same ones; see
    /// [`super::Generated::span`].
    pub has_span: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            except_pid: None,
            ring_bytes: 16 << 20,
            max_groups: 1 << 16,
            max_starts: 1 << 16,
            max_stacks: 1 << 13,
            wake_bytes: 256 << 10,
            sample: 1,
            has_span: false,
        }
    }
}

/// A map of groups, with one value per processor.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupMap {
    /// The map.
    pub map: MapId,
    /// The window's number, if there is one, is the first eight bytes of the key; then these, eight bytes a number and
    /// sixteen a text.
    pub groups: KernelGroups,
    /// Bytes of a key.
    pub key_bytes: u16,
    /// Bytes of a value: how many rows, then each aggregate's states, eight bytes each.
    pub value_bytes: u16,
}

/// What a split's programs read, and what they do with it.
pub struct Plan {
    /// The record of the first hook of a pair.
    pub enter: Record,
    /// The record of the last hook, or of the only one.
    pub exit: Record,
    /// The stored part of a beginning.
    pub start: Option<Record>,
    /// Whether the entry of a beginning stays until its thread ends.
    pub stays: bool,
    /// Groups, and the bytes of their keys and values.
    pub groups: Option<(KernelGroups, [u16; 2])>,
    /// Conditions that the first hook decides, and that the last one does.
    pub conditions: [Vec<Expr>; 2],
    /// Bytes of the frame for a datagram's headers, or for what is read from kernel memory.
    scratch: u16,
}

impl Plan {
    pub fn new(query: &Query, split: Split, origin: Origin<'_>) -> Result<Plan, Failure> {
        let table = &query.table;
        let wanted: BTreeSet<usize> = match split {
            Split::Mvsf => {
                let used = table.read_for(query.columns());
                // All that this kernel has; a query that needs what it lacks is told below.
                let has = |column: &usize| !table.is_stack(*column) && origin.column_kind(table, *column).is_ok();
                let mut all = table.read_for(0..table.columns.len());
                all.retain(|column| used.contains(column) || has(column));
                all
            }
            _ => table.read_for(query.columns()),
        };
        let side = |column: usize| match table.columns[column].source {
            Source::Read { at, .. } => at,
            _ => Side::Exit,
        };
        let pairs = split >= Split::Pair && table.is_pair();
        let conditions = if split >= Split::Filter { conditions(query, pairs) } else { Default::default() };
        let read_by = |conditions: &[Expr]| {
            let mut columns = BTreeSet::new();
            conditions.iter().for_each(|condition| condition.columns(&mut columns));
            columns
        };
        let kind = |column: &usize| -> Result<(Option<usize>, SlotKind), Failure> {
            Ok((Some(*column), origin.column_kind(table, *column).map_err(Failure::Kernel)?))
        };
        let record = |columns: BTreeSet<usize>, tag: Option<u32>| -> Result<Record, Failure> {
            let mut slots: Vec<_> = columns.iter().map(kind).collect::<Result<_, _>>()?;
            if tag.is_some() {
                slots.push((None, SlotKind::Number(Scalar::unsigned(8))));
            }
            Ok(Record::new(slots, tag))
        };
        let enter_only: BTreeSet<usize> = wanted.iter().copied().filter(|it| side(*it) == Side::Enter).collect();
        let mut at_enter = enter_only.clone();
        if split == Split::Mvsf {
            at_enter.extend(wanted.iter().copied().filter(|it| table.is_pair() && side(*it).at_enter()));
        }
        at_enter.extend(table.read_for(read_by(&conditions[0])));
        let at_exit: BTreeSet<usize> = wanted.iter().copied().filter(|it| pairs || side(*it).at_exit()).collect();
        let two = table.is_pair() && !pairs;
        let groups = match split {
            Split::Aggregate => {
                let groups = aggregates_in_kernel(query).map_err(Failure::NotHere)?;
                let key = |key: &KernelKey| match key {
                    KernelKey::Number(..) => 8,
                    KernelKey::Text(_) => crate::split::COMMAND_BYTES as u16,
                };
                let windows = matches!(&query.shape, Shape::Groups(groups) if groups.window.is_some());
                let key_bytes = 8 * u16::from(windows) + groups.keys.iter().map(key).sum::<u16>();
                let states = 1 + groups.aggregates.iter().map(|one| one.states.len() as u16).sum::<u16>();
                // A map needs a key; one group has one of zeros.
                Some((groups, [key_bytes.max(8), 8 * states]))
            }
            _ => None,
        };
        Ok(Plan {
            enter: record(at_enter, two.then_some(0))?,
            exit: record(at_exit, two.then_some(1))?,
            stays: pairs && table.is_of_calls() && origin.has_tracepoint(THREAD_ENDS),
            start: if pairs { Some(record(enter_only, None)?) } else { None },
            groups,
            conditions,
            scratch: frame::scratch(table, origin),
        })
    }

    pub fn frame(&self, side: Side) -> Result<Frame, Failure> {
        let record = if side == Side::Enter { &self.enter } else { &self.exit };
        let start = self.start.as_ref().map_or(0, |start| start_bytes(start, self.stays));
        let sizes = match (side, &self.groups) {
            // The stored part of a beginning is built in the place of a group's value.
            (Side::Enter, _) => [8, 0, start],
            (_, Some((_, [key, value]))) => [8, *key, *value],
            (_, None) => [8, 0, 0],
        };
        Frame::new(record.clone(), sizes, self.scratch)
    }
}

/// The conditions that each hook decides. The first hook decides those that only read its own columns. The last hook
/// decides all others or, without pairing in the kernel, those that only read its own columns.
fn conditions(query: &Query, pairs: bool) -> [Vec<Expr>; 2] {
    let table = &query.table;
    let mut conditions: [Vec<Expr>; 2] = Default::default();
    let Some(filter) = &query.filter else { return conditions };
    for condition in filter.conjuncts() {
        let Some(condition) = in_kernel(condition, table) else { continue };
        let mut read = BTreeSet::new();
        condition.columns(&mut read);
        let all = |test: fn(Side) -> bool| {
            table.read_for(read.iter().copied()).iter().all(|column| match table.columns[*column].source {
                Source::Read { at, .. } => test(at),
                _ => false,
            })
        };
        // Without pairing in the kernel, a beginning that is filtered out would not replace an earlier one without an
        // end.
        let decides = pairs || !matches!(table.scan, Scan::Pair { endless: true, .. });
        let (enter, exit) = (table.is_pair() && decides && all(Side::at_enter), all(Side::at_exit));
        if enter {
            conditions[0].push(condition.clone());
        }
        // A pair that did not begin does not end, so the conditions of the first hook are not tested again. Without
        // pairing in the kernel, user space has to see every end, because it removes the beginning then.
        if pairs && !enter || !table.is_pair() && exit {
            conditions[1].push(condition);
        }
    }
    conditions
}

/// What a pair has in common, read at one of its hooks.
pub fn pair_key(query: &Query, side: Side) -> Option<&Read> {
    match &query.table.scan {
        Scan::Pair { keys, .. } => Some(&keys[usize::from(side != Side::Enter)]),
        Scan::Single(_) | Scan::Rows => None,
    }
}
