//! What an address may point into, and which memory is kept as a history.

use std::collections::BTreeSet;

use kiln_program::{CoreId, MapId, Object};
use kiln_verifier::Region;

use crate::term::TermId;

/// What an address points into, as far as aliasing goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// The frame this many calls up.
    Stack(u32),
    /// The context.
    Context,
    /// Packet data and metadata.
    Packet,
    /// Values of a map.
    MapValue(MapId),
    /// Other kernel memory.
    Other,
    /// Anything at all.
    Unknown,
}

impl Class {
    /// What a pointer into a region points into.
    pub fn of(region: &Region) -> Class {
        match region {
            Region::Context => Class::Context,
            Region::Stack { up } => Class::Stack(*up),
            Region::MapValue(map) => Class::MapValue(*map),
            Region::Packet | Region::PacketMeta | Region::PacketEnd => Class::Packet,
            region if region.may_be_any_other() => Class::Unknown,
            Region::Map(_) | Region::Other(_) => Class::Other,
        }
    }

    /// Whether other CPUs or user space may read and write it at the same time.
    pub fn is_shared(self) -> bool {
        matches!(self, Class::MapValue(_) | Class::Other | Class::Unknown)
    }
}

/// An address without its constant.
#[derive(Clone, Copy, Debug)]
pub struct Root {
    /// The address term that offsets are added to.
    pub term: TermId,
    /// What it points into.
    pub class: Class,
    /// Where in its region it points, if known.
    pub region_offset: Option<i64>,
    /// Whether it is the start of the packet.
    pub is_packet_start: bool,
}

/// Which classes are logged. It is decided once for both windows.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Modes {
    /// Logged classes.
    pub logged: BTreeSet<Class>,
    /// All of packet, maps, callers' stacks and other memory share one log: an atomic operation orders them, or a
    /// pointer of unknown provenance (an argument of a global function, say) may point into any of them.
    pub shared_together: bool,
    /// All memory shares one log: an address that may point anywhere is stored through, or loaded beside stores.
    pub everything: bool,
}

impl Modes {
    /// The class under which a class's accesses are kept.
    pub fn group(&self, class: Class) -> Class {
        match class {
            _ if self.everything => Class::Unknown,
            Class::Stack(0) | Class::Context => class,
            _ if self.shared_together => Class::Other,
            _ => class,
        }
    }

    /// Whether a class is logged.
    pub fn is_logged(&self, class: Class) -> bool {
        self.everything
            || class == Class::Context
            || self.logged.contains(&class)
            || self.shared_together && class != Class::Stack(0)
    }
}

/// A position in a history: 0 is its beginning. Equal numbers mean equal histories.
pub type Log = u32;

/// One step of a history.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Event {
    /// The history before it.
    pub before: Log,
    /// What happened, registers zeroed: what it works on is in the other fields.
    pub kind: EventKind,
    /// Where: number of the root, and offset.
    pub place: (u16, i64),
    /// What went in.
    pub operands: Vec<TermId>,
}

/// What kind of step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EventKind {
    /// A plain store of this many bytes; `core` relocates its offset.
    Store(u8, Option<CoreId>),
    /// A load that orders others.
    LoadAcquire(u8),
    /// Another load of bytes that others may have changed since the first: the n-th.
    Look(u8),
    /// A store that is ordered after others.
    StoreRelease(u8),
    /// An atomic operation of this many bytes.
    Atomic(kiln_isa::AtomicOp, u8),
    /// Two paths join: the operand chooses between the history before and the one whose number is the place.
    Join,
    /// The call whose number is the place: both windows make the same calls.
    Call,
    /// A call of this helper, which has the same result all along.
    Stable(u32),
}

/// Whether a map is a data section: the loader may resize others.
pub(crate) fn has_one_value(object: &Object, map: MapId) -> bool {
    object.maps.get(map.index()).is_some_and(kiln_program::Map::is_section)
}

/// Whether nothing writes what a class holds once the program is loaded: the loader freezes `.rodata` and `.kconfig`.
pub(crate) fn is_frozen(object: &Object, class: Class) -> bool {
    let Class::MapValue(map) = class else { return false };
    has_one_value(object, map) && object.maps.get(map.index()).is_some_and(kiln_program::Map::is_constant)
}
