//! Names for what registers hold at a cut. A name has the same meaning in both functions.

use kiln_isa::Reg;
use kiln_isa::semantics::BitVec;
use kiln_program::{MapId, Reference};
use serde::{Deserialize, Serialize};

use crate::term::{Symbol, Term, TermId};
use crate::window::class::Class;
use crate::window::memory::World;
use crate::window::record::ReferenceRecord;
use crate::window::way::WayEnd;

/// Registers of both functions.
pub(super) const VARIABLES: usize = 2 * Reg::COUNT;

/// A mask for each register.
pub(super) type Bits = [u64; Reg::COUNT];

/// What a register holds at a cut.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Name {
    /// The register is not readable.
    Unreadable,
    /// The same unknown value as in all registers of this class.
    Class(u8),
    /// A constant.
    Constant(u64),
    /// The frame pointer and a constant.
    Frame(i64),
    /// An address that the loader puts there, and a constant.
    Address(ReferenceRecord, i64),
    /// What a section that nothing writes holds there.
    Frozen {
        /// The section.
        map: u32,
        /// Bytes into it.
        offset: i64,
        /// How many.
        bytes: u8,
        /// Whether it was sign-extended.
        signed: bool,
    },
}

/// The variable of a register of the old function.
pub(super) fn old(reg: Reg) -> usize {
    reg.index()
}

/// The variable of a register of the new function.
pub(super) fn new(reg: Reg) -> usize {
    Reg::COUNT + reg.index()
}

/// The number of the frame's root.
pub fn frame(world: &World<'_>) -> u16 {
    let start = world.pointer_symbol(Symbol::FramePointer(0), Class::Stack(0), Some(0));
    world.place(start).0
}

/// A byte of the frame at the end of a path.
pub fn byte_at(world: &World<'_>, end: &WayEnd, frame: u16, offset: i64) -> TermId {
    end.bytes.get(&(frame, offset)).copied().unwrap_or_else(|| world.byte(frame, offset, 0).id())
}

/// The term that a name stands for, which must not be a class.
pub(super) fn named_term<'a>(world: &World<'a>, name: Name) -> Term<'a> {
    let plus = |term: Term<'a>, offset: i64| match offset {
        0 => term,
        offset => term.add(&term.like(offset as u64)),
    };
    match name {
        Name::Constant(value) => world.arena.constant(64, value),
        Name::Frame(offset) => plus(world.pointer_symbol(Symbol::FramePointer(0), Class::Stack(0), Some(0)), offset),
        Name::Address(reference, offset) => plus(world.reference(reference.reference()), offset),
        Name::Frozen { map, offset, bytes, signed } => {
            let start = world.reference(Reference::MapValue { map: MapId(map), offset: 0 });
            let (root, offset) = world.place(plus(start, offset));
            let value = world.bytes(root, offset, bytes.into(), 0);
            if signed { value.sign_extend(64) } else { value.zero_extend(64) }
        }
        Name::Unreadable | Name::Class(_) => unreachable!("a class has no term of its own"),
    }
}
