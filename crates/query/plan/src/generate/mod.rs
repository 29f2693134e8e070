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
pub mod layout;
mod memory;
mod operators;
mod pairs;
mod plan;
mod slots;
mod writing;

use kiln_platform::{AttachType, MapType, ProgramType};
use kiln_program::{Function, FunctionId, Linkage, Map, MapContents, MapId, Object, Program};

use crate::query::Query;
use crate::split::Split;
use crate::table::{Hook, Moment, Side};
use code::Marks;
use layout::{Origin, Record, THREAD_ENDS, check_hook, start_bytes};
use pairs::forget_thread;
use plan::Plan;
use writing::{Maps, Writing};

pub use failure::Failure;
pub use plan::{GroupMap, Settings};

/// The kernel's half of a query.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The programs and maps.
    pub object: Object,
    /// Where each program is attached: the table's hooks, then others.
    pub hooks: Vec<Hook>,
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
    /// Which events count, an array of one number: 0 for all, `t` for those from the time `t` on (nanoseconds since boot), `-t`
    /// for those before it. `None` where all count.
    pub span: Option<MapId>,
    /// Branches whose odds no instruction shows.
    pub marks: Marks,
}

/// Maximum number of frames of a stack.
pub const MAX_FRAMES: u32 = 64;

/// Counters of what was lost, eight bytes each, in this order.
pub const COUNTERS: [&str; 3] =
    ["records that found the ring buffer full", "beginnings that found no room", "rows that found no room for a group"];

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
    let span = settings.has_span.then(|| add_map(&mut object, "span", MapType::Array, [4, 8], 1));
    let ring = (split < Split::Aggregate)
        .then(|| add_map(&mut object, "events", MapType::Ringbuf, [0, 0], settings.ring_bytes));
    let starts = plan.start.as_ref().map(|start| {
        add_map(
            &mut object,
            "starts",
            MapType::Hash,
            [8, u32::from(start_bytes(start, plan.stays))],
            settings.max_starts,
        )
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
    let mut hooks: Vec<Hook> = query.table.hooks().into_iter().cloned().collect();
    let mut marks = Marks::new();
    for (index, hook) in hooks.iter().enumerate() {
        let side = if query.table.is_pair() && index == 0 { Side::Enter } else { Side::Exit };
        let frame = plan.frame(side)?;
        let writing = Writing { query, plan: &plan, settings, origin, side, frame: &frame, stacks };
        let maps = Maps { counters, span, ring, starts, groups: groups.as_ref() };
        let (nodes, own) = writing.program(&mut object, &maps)?;
        marks.extend(own);
        add_program(&mut object, hook, origin, nodes);
    }
    if let (Some(starts), true, Origin::Hooks(_)) = (starts, plan.stays, origin) {
        let hook = Hook::Typed(THREAD_ENDS.to_owned());
        let nodes = forget_thread(&mut object, starts);
        add_program(&mut object, &hook, origin, nodes);
        hooks.push(hook);
    }
    let records = match (ring, query.table.is_pair() && split < Split::Pair) {
        (None, _) => Vec::new(),
        (Some(_), true) => vec![plan.enter.clone(), plan.exit.clone()],
        (Some(_), false) => vec![plan.exit.clone()],
    };
    let sample = settings.sample;
    Ok(Generated { object, hooks, split, sample, ring, records, groups, stacks, counters, span, marks })
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
        (_, Hook::Kernel { at: Moment::Call, .. }) => {
            (hook.section(), ProgramType::Tracing, Some(AttachType::TraceFentry))
        }
        (_, Hook::Kernel { at: Moment::Return, .. }) => {
            (hook.section(), ProgramType::Tracing, Some(AttachType::TraceFexit))
        }
        (_, Hook::Record { .. }) => (hook.section(), ProgramType::Tracepoint, None),
        (_, Hook::Function { .. } | Hook::Probe { .. }) => (hook.section(), ProgramType::Kprobe, None),
        (_, Hook::Clock { .. }) => (hook.section(), ProgramType::PerfEvent, None),
    };
    object.functions.push(Function::new(name.clone(), section.clone(), Linkage::Global, nodes));
    object.programs.push(Program { attach_type, ..Program::new(name, section, Some(program_type), entry) });
}
