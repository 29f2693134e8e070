//! What a call in a window reads and writes.
//!
//! A call is an event: what it does is not known, but it does the same when it is made with the same arguments, in the
//! same state of what it may read, after the same calls. So both windows must make the same calls in the same order
//! with equal inputs, and then whatever the calls give back is equal too:
//!
//! ```text
//!   *(u32 *)(r10 - 4) = r6            inputs:   r1 (the map), r2 (an address), the four bytes at r10 - 4
//!   r1 = map ll                       unread:   everything else of the stack, so stores to it may move across
//!   r2 = r10; r2 += -4                results:  r0 (named after the event), perhaps memory; r1 to r5 are gone
//!   call map_lookup_elem
//! ```
//!
//! What memory a helper reads and writes is told by its prototype ([`ArgKind`]), sizes by its map and by constants.
//! Whatever the prototype does not tell counts as read and written: functions of the program, kernel functions,
//! helpers that take callbacks or dynptrs, helpers that are not in the table.
//!
//! | call | reads | writes |
//! |---|---|---|
//! | `Effect::ResultOnly`, `Effect::ReadsMemory` | what its arguments point to; with the context, the packet | nothing |
//! | `Effect::WritesArguments` | the same | what its arguments point to |
//! | `Effect::ChangesOutside` | the same | the same |
//! | `Effect::ChangesItsMap` | the same | the same, and the values of its map |
//! | `Effect::ChangesAllButStack` | all memory but this frame, of which only what its arguments point to | the same |
//! | `Effect::Any` and anything else | everything | everything |
//!
//! **Same map, same key, same value?** A second lookup of a key in a hash may find another element or none, because
//! user space and other CPUs update and delete at the same time: lookups there are events, never joined. An element of
//! an array (or of this CPU's part of a per-CPU array: programs do not migrate) is never replaced, so its address is a
//! function of map and key ([`is_stable`]): equal keys give one pointer, whatever happens between, and such a lookup
//! may be made once instead of twice. What the pointer points *to* is memory that others share
//! ([`crate::window::shared`]). Values of different maps never overlap; two pointers into one map may.

use std::collections::BTreeSet;

use kiln_isa::{CallTarget, Insn, Reg, RegSet};
use kiln_platform::helper_id::MAP_LOOKUP_ELEM;
use kiln_platform::{ArgKind, DynptrUse, Effect, Fills, Follows, Helper, Lookup, Prototype, ReturnKind, Stable};
use kiln_program::{MapId, Node, Object, Reference};
use kiln_verifier::{InsnFacts, Pointer, Region, Value};

use crate::term::{QuickMap, Symbol, Term, TermId};
use crate::window::class::{Class, Event, EventKind, Log};
use crate::window::path::{Path, Slot, Written};
use crate::window::state::{Access, State, Stop};

/// A call that a window makes, with its inputs.
#[derive(Clone, Debug)]
pub struct Call {
    /// What is called.
    pub what: (Insn, Reference),
    /// The condition under which it is made; `None`: always.
    pub condition: Option<TermId>,
    /// Its arguments; `None`: not readable, so the call does not read it.
    pub arguments: Vec<Option<TermId>>,
    /// Bytes that it may read, as far as the window wrote them or they are of this frame.
    pub bytes: QuickMap<(u16, i64), TermId>,
    /// The histories of what it may read.
    pub logs: QuickMap<Class, Log>,
    /// The history of the rest of these bytes.
    pub base: Log,
}

impl Call {
    /// The history that a group of classes was at.
    pub fn log(&self, group: Class) -> Log {
        let base = if matches!(group, Class::Stack(0) | Class::Context) { 0 } else { self.base };
        self.logs.get(&group).copied().unwrap_or(base)
    }
}

/// What a call writes besides what its arguments point to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Beyond {
    /// Nothing.
    Nothing,
    /// Values of the map in the first argument.
    ItsMap,
    /// All memory but this frame.
    AllButFrame,
}

/// A call whose memory effects its prototype tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// The helper.
    pub helper: &'static Helper,
    /// Its prototype in the object's programs.
    pub prototype: &'static Prototype,
    /// What it writes besides what its arguments point to.
    pub beyond: Beyond,
}

impl Known {
    /// Whether numbers among its arguments may be addresses that it reads from.
    fn follows_numbers(&self) -> bool {
        self.helper.follows == Follows::Numbers
    }
}

/// Bytes of a frame.
const FRAME: i64 = 512;

/// The call's effects, where its prototype tells them.
pub(crate) fn known(object: &Object, target: CallTarget) -> Option<Known> {
    let CallTarget::Helper(id) = target else { return None };
    let helper = Helper::by_id(id)?;
    let prototype = prototype(object, helper)?;
    let opaque = |kind: &ArgKind| {
        let dynptr = matches!(kind, ArgKind::Dynptr(DynptrUse::Any | DynptrUse::ReleasesRingBuffer));
        dynptr || matches!(kind, ArgKind::Callback | ArgKind::StackOrNull)
    };
    if prototype.args.iter().any(opaque) || helper.follows == Follows::Memory {
        return None;
    }
    let beyond = match helper.effect {
        Effect::Any => return None,
        Effect::ChangesAllButStack => Beyond::AllButFrame,
        Effect::ChangesItsMap => Beyond::ItsMap,
        Effect::ResultOnly | Effect::ReadsMemory | Effect::WritesArguments | Effect::ChangesOutside => Beyond::Nothing,
    };
    Some(Known { helper, prototype, beyond })
}

/// The prototype that holds in all programs of an object, if one does.
fn prototype(object: &Object, helper: &'static Helper) -> Option<&'static Prototype> {
    if helper.variants.is_empty() {
        return Some(&helper.prototype);
    }
    let mut found = object.programs.iter().map(|program| Some(helper.prototype_for(program.program_type?)));
    let first = found.next()??;
    found.all(|other| other == Some(first)).then_some(first)
}

/// How many argument registers a call may read.
pub(crate) fn arguments(known: Option<&Known>) -> usize {
    match known {
        Some(known) if known.helper.reads_all_arguments => 5,
        Some(known) => known.prototype.args.len(),
        None => 5,
    }
}

/// Whether a call gives the same result whenever it is made with the same arguments in one run of the program, and
/// does nothing else.
pub(crate) fn is_stable(object: &Object, known: &Known, map: Option<MapId>) -> bool {
    match known.helper.stable {
        Stable::Never => false,
        Stable::InLastingElements => {
            let map = map.and_then(|map| object.maps.get(map.index()));
            map.is_some_and(|map| map.map_type.rules().elements_stay)
        }
        Stable::Always => true,
    }
}

/// Whether a call only returns a value: if R0 is not read, the call makes no difference.
///
/// Lookups count unless the map keeps track of them: an LRU map remembers lookups, and a lookup in a map of sockets
/// acquires a reference.
pub fn only_answers(object: &Object, node: &Node, known: Option<&InsnFacts>) -> bool {
    let Some(helper) = node.helper().and_then(Helper::by_id) else { return false };
    if helper.acquires || helper.changes_packet_data || helper.moves_on {
        return false;
    }
    if helper.id == MAP_LOOKUP_ELEM {
        let map = known.and_then(|known| match &known.registers[Reg::R1.index()] {
            Value::Pointer(Pointer { region: Region::Map(map), nullable: false, .. }) => object.maps.get(map.index()),
            _ => None,
        });
        return map.is_some_and(|map| map.map_type.rules().forgets_lookups);
    }
    helper.effect == Effect::ResultOnly
}

/// The size of what an argument points to, if its map or its kind determines it.
pub(crate) fn fixed_size(object: &Object, kind: ArgKind, map: Option<MapId>) -> Option<u32> {
    let map = map.and_then(|map| object.maps.get(map.index()));
    match kind {
        ArgKind::MapKey => map.map(|map| map.key_size),
        ArgKind::MapValue | ArgKind::MapValueOrNull | ArgKind::UninitMapValue => map.map(|map| map.value_size),
        ArgKind::FixedMemory { size, .. } => Some(size),
        ArgKind::Dynptr(_) => Some(16),
        _ => None,
    }
}

/// How a helper uses what an argument points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Use {
    pub reads: bool,
    pub writes: bool,
}

/// Whether and how an argument of a kind points to memory that the helper touches.
pub(crate) fn use_of(kind: ArgKind) -> Option<Use> {
    let (reads, writes) = (kind.reads_memory(), kind.writes_memory());
    (reads || writes).then_some(Use { reads, writes })
}

/// Memory that a call touches, by its classes; bytes of this frame by their places.
#[derive(Default)]
struct Touched {
    /// All memory but this frame.
    all: bool,
    classes: BTreeSet<Class>,
    /// All of this frame.
    frame: bool,
    /// Bytes of this frame: from where, and how many.
    ranges: Vec<(i64, i64)>,
    /// Whether the call may access fewer bytes than the ranges say.
    vague: bool,
}

impl Touched {
    /// All memory of these classes, and all memory that may alias it.
    fn class(&mut self, class: Class) {
        match class {
            Class::Stack(0) => self.frame = true,
            // A pointer of unknown provenance may point anywhere.
            Class::Unknown => (self.all, self.frame) = (true, true),
            // Kernel memory may be the memory of the context, the packet or maps.
            Class::Other => self.all = true,
            class => {
                self.classes.insert(class);
            }
        }
    }

    /// Whether it consists only of known bytes of this frame.
    fn are_bytes(&self) -> bool {
        !self.all && self.classes.is_empty() && !self.frame && !self.vague
    }

    fn is_nothing(&self) -> bool {
        !self.all && self.classes.is_empty() && !self.frame && self.ranges.is_empty()
    }

    /// Whether bytes of a class may be among them. Bytes of this frame are compared by place instead.
    fn contains(&self, class: Class) -> bool {
        match class {
            Class::Stack(0) => self.frame,
            Class::Unknown => !self.is_nothing(),
            Class::Other => self.all || !self.classes.is_empty(),
            class => self.all || self.classes.contains(&class),
        }
    }
}

/// What an event reads and writes of the frame, by offset.
#[derive(Clone, Default, Debug)]
pub struct EventUse {
    /// Whether it may read any byte, and write any.
    pub all: bool,
    /// Further bytes that it may read: offset and number.
    pub reads: Vec<(i64, i64)>,
    /// Further bytes that it may write.
    pub writes: Vec<(i64, i64)>,
    /// Bytes that it certainly overwrites.
    pub fills: Vec<(i64, i64)>,
    /// Whether it overwrites them only if it returns zero.
    pub fills_on_success: bool,
    /// The offset of the key, if it looks up an element of an array.
    pub key: Option<i64>,
}

impl EventUse {
    /// Whether it may read a byte.
    pub fn reads(&self, byte: i64) -> bool {
        // No frame has bytes below: written-out calls save registers there (see [`crate::simulation::inlined`]).
        byte >= -FRAME && (self.all || holds(&self.reads, byte))
    }

    /// Whether it may write a byte.
    pub fn writes(&self, byte: i64) -> bool {
        byte >= -FRAME && (self.all || holds(&self.writes, byte))
    }

    /// Whether it certainly writes a byte, if it succeeds.
    pub fn fills(&self, byte: i64) -> bool {
        holds(&self.fills, byte)
    }
}

fn holds(ranges: &[(i64, i64)], byte: i64) -> bool {
    ranges.iter().any(|(from, size)| (*from..from + size).contains(&byte))
}

impl<'a> State<'_, 'a> {
    /// What the next event does with the frame. `numbers` are arguments that are known not to be addresses in a frame.
    pub(crate) fn event_use(&self, node: &Node, numbers: RegSet) -> EventUse {
        let all = EventUse { all: true, ..EventUse::default() };
        let target = match node.insn {
            Insn::Call(target) if node.core.is_none() => target,
            Insn::Call(_) => return all,
            _ => return EventUse::default(),
        };
        let Some(known) = known(self.world.object, target) else { return all };
        let registers = RegSet::arguments(arguments(Some(&known)));
        let own: Vec<Option<Term<'a>>> = registers.iter().map(|reg| self.path.register(self.world, reg)).collect();
        for (reg, term) in registers.iter().zip(&own) {
            if let (Some(term), true) = (term, numbers.contains(reg)) {
                self.world.is_number(*term);
            }
        }
        let map = self.map_argument(Some(&known), &own);
        let (reads, writes) = self.touches(Some(&known), map, &own);
        let fills = known.helper.fills != Fills::Unknown;
        let is_array = known.helper.stable == Stable::InLastingElements && is_stable(self.world.object, &known, map);
        let key = reads.ranges.first().filter(|(_, size)| is_array && *size == 4).map(|(from, _)| *from);
        EventUse {
            all: reads.frame || writes.frame,
            fills: if fills && !writes.vague && !writes.frame { writes.ranges.clone() } else { Vec::new() },
            fills_on_success: known.helper.fills == Fills::OnSuccess,
            key: key.filter(|_| reads.are_bytes()),
            reads: reads.ranges,
            writes: writes.ranges,
        }
    }

    /// Makes a call.
    pub(crate) fn call(&mut self, target: CallTarget) -> Result<(), Stop> {
        let node = self.node.expect("a call is an instruction");
        if node.core.is_some() {
            return Err(Stop::Unsupported("a call that the loader changes".to_owned()));
        }
        let known = known(self.world.object, target);
        let needed = known.map_or(0, |known| known.prototype.args.len());
        let arguments: Vec<Option<Term<'a>>> = RegSet::arguments(arguments(known.as_ref()))
            .iter()
            .enumerate()
            .map(|(at, reg)| match self.path.register(self.world, reg) {
                None if at < needed => Err(Stop::Uninitialised(reg)),
                value => Ok(value),
            })
            .collect::<Result<_, _>>()?;
        let map = self.map_argument(known.as_ref(), &arguments);
        let (reads, writes) = self.touches(known.as_ref(), map, &arguments);
        let seen =
            self.seen(&reads, &writes, known.is_some_and(|known| known.helper.fills == Fills::Always && !writes.vague));
        let ids: Vec<Option<TermId>> = arguments.iter().map(|argument| argument.map(|term| term.id())).collect();
        let stable = known.filter(|known| is_stable(self.world.object, known, map) && reads.are_bytes());
        let log = if let Some(known) = stable {
            // The key's address does not matter, only its value.
            let is_address = |at: &usize| use_of(known.prototype.args[*at]).is_some();
            let mut operands: Vec<TermId> =
                (0..ids.len()).filter(|at| !is_address(at)).filter_map(|at| ids[at]).collect();
            for (from, size) in &reads.ranges {
                operands.extend((*from..from + size).map(|at| self.path.byte(self.world, (self.frame(), at)).id()));
            }
            let kind = EventKind::Stable(known.helper.id);
            let log = self.world.record(Event { before: 0, kind, place: (0, 0), operands });
            self.stable_calls.push(log);
            log
        } else {
            let number = self.calls.len() as i64;
            let what = (node.insn, node.reference);
            let condition = self.path.condition().map(|condition| condition.id());
            self.calls.push(Call { what, condition, arguments: ids, ..seen });
            let (kind, operands) = (EventKind::Call, Vec::new());
            self.world.record(Event { before: 0, kind, place: (0, number), operands })
        };
        if known.is_none_or(|known| known.helper.changes_packet_data) {
            self.path.packet = log;
        }
        self.overwrite(&writes, log);
        for reg in RegSet::CALLER_SAVED.iter() {
            self.path.registers[reg.index()] = Slot::Lost;
        }
        if let Some(returned) = self.returned(known.as_ref(), map, log) {
            self.path.registers[Reg::R0.index()] = Slot::Written(returned);
        }
        Ok(())
    }

    /// What a call returns in R0, if anything. `log` is the call.
    fn returned(&self, known: Option<&Known>, map: Option<MapId>, log: Log) -> Option<Term<'a>> {
        let result = Symbol::Result { log, register: 0 };
        let pointer = |class| Some(self.world.pointer_symbol(result, class, None));
        match known.map(|known| (known.prototype.returns, map)) {
            None => pointer(Class::Unknown),
            Some((ReturnKind::Void, _)) => None,
            Some((ReturnKind::Integer, _)) => Some(self.world.arena.symbol(result, 64)),
            Some((ReturnKind::MapValueOrNull | ReturnKind::MapValue, Some(map))) if self.holds_values(map) => {
                pointer(Class::MapValue(map))
            }
            Some(_) => pointer(Class::Other),
        }
    }

    /// The map that a call names, if it is certain.
    fn map_argument(&self, known: Option<&Known>, arguments: &[Option<Term<'a>>]) -> Option<MapId> {
        let at = known?.prototype.args.iter().position(|kind| *kind == ArgKind::ConstMapPtr)?;
        self.world.map_of((*arguments.get(at)?)?)
    }

    /// Whether a lookup in a map returns a value, and not a socket or a map.
    fn holds_values(&self, map: MapId) -> bool {
        let lookup = self.world.object.maps.get(map.index()).map(|map| map.map_type.rules().lookup);
        lookup.is_some_and(|lookup| !matches!(lookup, Lookup::InnerMap | Lookup::Socket | Lookup::XdpSocket))
    }

    /// What a call reads and what it writes.
    fn touches(&self, known: Option<&Known>, map: Option<MapId>, arguments: &[Option<Term<'a>>]) -> (Touched, Touched) {
        let all = || Touched { all: true, frame: true, ..Touched::default() };
        let Some(known) = known else { return (all(), all()) };
        let (mut reads, mut writes) = (Touched::default(), Touched::default());
        for (at, argument) in arguments.iter().enumerate() {
            let (Some(argument), kind) = (argument, known.prototype.args.get(at).copied()) else { continue };
            let map_type = map.and_then(|map| self.world.object.maps.get(map.index())).map(|map| map.map_type);
            let kind = kind.unwrap_or(ArgKind::Anything);
            let kind = map_type.map_or(kind, |map_type| kind.with_map(map_type));
            match (kind, use_of(kind)) {
                (ArgKind::ConstString, _) => {}
                (ArgKind::Context, _) => {
                    reads.class(Class::Context);
                    reads.class(Class::Packet);
                }
                (_, Some(used)) => {
                    let size = match kind {
                        ArgKind::Memory(_) => self.size(arguments.get(at + 1).copied().flatten()),
                        _ => fixed_size(self.world.object, kind, map).map(i64::from),
                    };
                    if self.world.constant_of(*argument) == Some(0) {
                        continue;
                    }
                    if used.reads {
                        self.touch(*argument, size, &mut reads);
                    }
                    if used.writes {
                        self.touch(*argument, size, &mut writes);
                    }
                }
                (ArgKind::Anything, None) => {
                    let class = self.world.class_of_address(*argument);
                    let followed = known.follows_numbers() && class == Some(Class::Unknown);
                    if followed || class == Some(Class::Stack(0)) {
                        reads.frame = true;
                    }
                }
                _ => {}
            }
        }
        reads.all |= known.follows_numbers();
        match known.beyond {
            Beyond::Nothing => {}
            Beyond::ItsMap => writes.class(map.map_or(Class::Other, Class::MapValue)),
            Beyond::AllButFrame => (reads.all, writes.all) = (true, true),
        }
        (reads, writes)
    }

    /// The size that an argument gives.
    fn size(&self, argument: Option<Term<'a>>) -> Option<i64> {
        i64::try_from(self.world.constant_of(argument?)?).ok()
    }

    /// Records that a call accesses what an argument points to.
    fn touch(&self, address: Term<'a>, size: Option<i64>, touched: &mut Touched) {
        let (root, offset) = self.world.place(address);
        let root = self.world.root(root);
        match (root.class, root.region_offset) {
            (Class::Stack(0), Some(0)) if (-FRAME..0).contains(&offset) => {
                touched.vague |= size.is_none();
                touched.ranges.push((offset, size.unwrap_or(FRAME).clamp(0, -offset)));
            }
            (class, _) => touched.class(class),
        }
    }

    /// The state of what a call reads, and of what it writes in part.
    fn seen(&mut self, reads: &Touched, writes: &Touched, fills: bool) -> Call {
        let (world, mut bytes) = (self.world, QuickMap::default());
        for (place, written) in &self.path.bytes {
            let class = world.root(place.0).class;
            if reads.contains(class) || writes.contains(class) {
                bytes.insert(*place, written.value);
            }
        }
        let kept = writes.ranges.iter().filter(|_| !fills);
        let ranges: Vec<_> = reads.ranges.iter().chain(kept).copied().collect();
        let touched: Vec<_> = reads.ranges.iter().map(|range| (*range, false)).collect();
        let touched = touched.into_iter().chain(writes.ranges.iter().map(|range| (*range, true)));
        if !reads.ranges.is_empty() || !writes.ranges.is_empty() {
            let frame = self.frame();
            for (from, size) in ranges {
                for offset in from..from + size {
                    bytes.insert((frame, offset), self.path.byte(world, (frame, offset)).id());
                }
            }
            for ((from, size), write) in touched {
                let access: Access = self.described((frame, from), size as u32, write);
                self.touched.push(access);
            }
        }
        // Logged memory is read through its history.
        let Path { logs, base, .. } = &self.path;
        let is_frame =
            |class: Class| class == Class::Stack(0) && !(reads.ranges.is_empty() && writes.ranges.is_empty());
        let groups =
            logs.iter().filter(|(class, _)| reads.contains(**class) || writes.contains(**class) || is_frame(**class));
        let logs = groups.map(|(class, log)| (*class, *log)).collect();
        let base = if reads.is_nothing() && writes.is_nothing() { 0 } else { *base };
        let what = (Insn::Exit, Reference::None);
        Call { what, condition: None, arguments: Vec::new(), bytes, logs, base }
    }

    /// The number of the frame pointer as a root.
    fn frame(&self) -> u16 {
        let frame = self.world.register(Reg::R10).expect("it is always readable");
        self.world.place(frame).0
    }

    /// Changes memory as a call may have changed it.
    fn overwrite(&mut self, writes: &Touched, log: Log) {
        if writes.is_nothing() {
            return;
        }
        let world = self.world;
        let modes = &world.modes;
        let frame = self.frame();
        if modes.is_logged(Class::Stack(0)) {
            if writes.frame || !writes.ranges.is_empty() {
                self.path.logs.insert(modes.group(Class::Stack(0)), log);
            }
        } else if !writes.frame {
            for (from, size) in &writes.ranges {
                for offset in *from..from + size {
                    let value = world.byte(frame, offset, log).id();
                    self.path.bytes.insert((frame, offset), Written { value, surely: true });
                }
            }
        }
        let frame_too = writes.frame;
        self.path.bytes.retain(|place, _| match world.root(place.0).class {
            Class::Stack(0) => !frame_too,
            class => !writes.contains(class),
        });
        if frame_too {
            self.path.logs.insert(modes.group(Class::Stack(0)), log);
        }
        if writes.all {
            self.path.logs.retain(|group, _| *group == Class::Stack(0));
            self.path.base = log;
            self.path.logs.insert(Class::Context, log);
        }
        let mut classes: Vec<Class> = writes.classes.iter().copied().collect();
        classes.extend([Class::Other, Class::Unknown].into_iter().filter(|class| writes.contains(*class)));
        for class in classes {
            self.path.logs.insert(modes.group(class), log);
        }
    }
}
