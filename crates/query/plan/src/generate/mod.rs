//! The kernel's half of a query, generated as IR: one program per hook, with shared maps.
//!
//! ```text
//!   split            enter hook                         exit hook (or the only one)
//!   mvsf .. filter   read -> conditions -> ring         read -> conditions -> ring
//!   pair             read -> conditions -> starts map   starts map + read -> conditions -> ring
//!   aggregate        "                                  starts map + read -> conditions -> groups map
//! ```
//!
//! All programs have one form: no loops, forward branches, loads of the frame, of the context and of kernel structures
//! that its pointers lead to, and a few helpers whose results are checked. So whether a kernel's verifier accepts them
//! does not depend on the query. The driver asks it nevertheless, and uses a smaller split if it refuses.

pub mod code;
mod datagram;
pub mod expression;
mod failure;
pub mod frame;
mod kernel_memory;
pub mod layout;
mod operators;

use std::collections::BTreeSet;

use kiln_platform::{AttachType, MapType, ProgramType};
use kiln_program::{Function, FunctionId, Linkage, Map, MapContents, MapId, Object, Program};

use crate::expr::Expr;
use crate::query::{Query, Shape};
use crate::split::{KernelGroups, KernelKey, Split, aggregates_in_kernel, in_kernel};
use crate::table::{Endless, Hook, Scan, Side, Source};
use layout::{Origin, Record, SlotKind, check_hook};
use operators::Writing;

pub use failure::Failure;

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
        }
    }
}

/// The kernel's half of a query.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The programs and maps.
    pub object: Object,
    /// How much of the query they run.
    pub split: Split,
    /// One event in this many begins a row.
    pub sample: u32,
    /// The ring buffer that records come through; `None` where groups are kept in the kernel.
    pub ring: Option<MapId>,
    /// The records, by tag; a single one without.
    pub records: Vec<Record>,
    /// The groups, where they are kept in the kernel.
    pub groups: Option<GroupMap>,
    /// The map of stacks, if the query uses stacks.
    pub stacks: Option<MapId>,
    /// What was lost, an array of one value: see [`COUNTERS`].
    pub counters: MapId,
}

/// Maximum number of frames of a stack.
pub const MAX_FRAMES: u32 = 64;

/// Counters of what was lost, eight bytes each, in this order.
pub const COUNTERS: [&str; 3] =
    ["records that found the ring buffer full", "beginnings that found no room", "rows that found no room for a group"];

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

/// Writes the kernel's half of a query.
///
/// # Errors
/// See [`Failure`].
pub fn generate(query: &Query, split: Split, origin: Origin<'_>, settings: &Settings) -> Result<Generated, Failure> {
    if let Origin::Hooks(types) = origin {
        let check = |hook| check_hook(hook, &query.table, types).map_err(Failure::Kernel);
        query.table.hooks().into_iter().try_for_each(check)?;
    }
    let plan = Plan::new(query, split, origin)?;
    let mut object = Object { name: "query".to_owned(), license: "GPL".to_owned(), ..Object::default() };
    let counters = add_map(&mut object, "counters", MapType::Array, [4, 8 * COUNTERS.len() as u32], 1);
    let ring = (split < Split::Aggregate)
        .then(|| add_map(&mut object, "events", MapType::Ringbuf, [0, 0], settings.ring_bytes));
    let starts = plan.start.as_ref().map(|start| {
        add_map(&mut object, "starts", MapType::Hash, [8, u32::from(start.bytes).max(8)], settings.max_starts)
    });
    let groups = plan.groups.as_ref().map(|(groups, [key_bytes, value_bytes])| {
        let sizes = [u32::from(*key_bytes), u32::from(*value_bytes)];
        let map = add_map(&mut object, "groups", MapType::PercpuHash, sizes, settings.max_groups);
        GroupMap { map, groups: groups.clone(), key_bytes: *key_bytes, value_bytes: *value_bytes }
    });
    let used = query.table.read_for(query.columns());
    let stacks = used
        .iter()
        .any(|column| query.table.is_stack(*column))
        .then(|| add_map(&mut object, "stacks", MapType::StackTrace, [4, 8 * MAX_FRAMES], settings.max_stacks));
    let hooks: Vec<Hook> = query.table.hooks().into_iter().cloned().collect();
    for (index, hook) in hooks.iter().enumerate() {
        let side = if query.table.is_pair() && index == 0 { Side::Enter } else { Side::Exit };
        let frame = plan.frame(side)?;
        let writing = Writing { query, plan: &plan, settings, origin, side, frame: &frame, stacks };
        let maps = operators::Maps { counters, ring, starts, groups: groups.as_ref() };
        let nodes = writing.program(&mut object, &maps)?;
        add_program(&mut object, hook, origin, nodes);
    }
    let records = match (ring, query.table.is_pair() && split < Split::Pair) {
        (None, _) => Vec::new(),
        (Some(_), true) => vec![plan.enter.clone(), plan.exit.clone()],
        (Some(_), false) => vec![plan.exit.clone()],
    };
    Ok(Generated { object, split, sample: settings.sample, ring, records, groups, stacks, counters })
}

/// What a split's programs read, and what they do with it.
pub(crate) struct Plan {
    /// The record of the first hook of a pair.
    enter: Record,
    /// The record of the last hook, or of the only one.
    exit: Record,
    /// The stored part of a beginning.
    start: Option<Record>,
    /// Groups, and the bytes of their keys and values.
    groups: Option<(KernelGroups, [u16; 2])>,
    /// Conditions that the first hook decides, and that the last one does.
    conditions: [Vec<Expr>; 2],
    /// Bytes of the frame for a datagram's headers, or for what is read from kernel memory.
    scratch: u16,
}

impl Plan {
    fn new(query: &Query, split: Split, origin: Origin<'_>) -> Result<Plan, Failure> {
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
                slots.push((None, SlotKind::Number(crate::table::Scalar::unsigned(8))));
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
            start: if pairs { Some(record(enter_only, None)?) } else { None },
            groups,
            conditions,
            scratch: kernel_memory::scratch(table, origin),
        })
    }

    fn frame(&self, side: Side) -> Result<frame::Frame, Failure> {
        let record = if side == Side::Enter { &self.enter } else { &self.exit };
        let start = self.start.as_ref().map_or(0, |start| start.bytes.max(8));
        let sizes = match (side, &self.groups) {
            // The stored part of a beginning is built in the place of a group's value.
            (Side::Enter, _) => [8, 0, start],
            (_, Some((_, [key, value]))) => [8, *key, *value],
            (_, None) => [8, 0, 0],
        };
        frame::Frame::new(record.clone(), sizes, self.scratch)
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
        let decides = pairs || !matches!(table.scan, Scan::Pair { endless: Endless::Unknown, .. });
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

pub(crate) fn add_map(
    object: &mut Object,
    name: &str,
    map_type: MapType,
    [key, value]: [u32; 2],
    entries: u32,
) -> MapId {
    object.maps.push(Map {
        name: name.to_owned(),
        map_type,
        key_size: key,
        value_size: value,
        max_entries: entries,
        flags: 0,
        extra: 0,
        pinned_by_name: false,
        key_btf: 0,
        value_btf: 0,
        inner: None,
        contents: MapContents::Empty,
    });
    MapId(object.maps.len() as u32 - 1)
}

fn add_program(object: &mut Object, hook: &Hook, origin: Origin<'_>, nodes: Vec<kiln_program::Node>) {
    let name = hook.name().to_owned();
    let entry = FunctionId(object.functions.len() as u32);
    let (section, program_type, attach_type) = match (origin, hook) {
        (Origin::Records(_), _) => ("syscall".to_owned(), ProgramType::Syscall, None),
        (_, Hook::Typed(_) | Hook::Datagram { .. }) => {
            (hook.section(), ProgramType::Tracing, Some(AttachType::TraceRawTp))
        }
        (_, Hook::Record { .. }) => (hook.section(), ProgramType::Tracepoint, None),
        (_, Hook::Function { .. }) => (hook.section(), ProgramType::Kprobe, None),
        (_, Hook::Clock { .. }) => (hook.section(), ProgramType::PerfEvent, None),
    };
    object.functions.push(Function {
        name: name.clone(),
        section: section.clone(),
        linkage: Linkage::Global,
        btf_id: 0,
        nodes,
    });
    object.programs.push(Program {
        attach_type,
        // The kernel takes programs of this type only so.
        sleepable: program_type == ProgramType::Syscall,
        ..Program::new(name, section, Some(program_type), entry)
    });
}

/// What a pair has in common, read at one of its hooks.
pub(crate) fn pair_key(query: &Query, side: Side) -> Option<&crate::table::Read> {
    match &query.table.scan {
        Scan::Pair { keys, .. } => Some(&keys[usize::from(side != Side::Enter)]),
        Scan::Single(_) | Scan::Rows => None,
    }
}
