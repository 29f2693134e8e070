//! When a register, a slot or an object of a kept state covers one of the current state.

use kiln_isa::{Reg, RegSet};

use crate::code::{Code, Position};
use crate::path::precision::Origins;
use crate::state::ids::IdMap;
use crate::state::{Byte, IteratorState, Kind, ObjectKind, Register, Slot, StackObject, State};

/// Which differences count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exactness {
    /// Only those that matter for the kept state's explored future.
    Explored,
    /// All ranges, and of which kind each byte of the stack is, since the future is not explored yet.
    Within,
    /// Everything must be the same.
    Same,
}

/// Makes a number unknown if it changed and, unless `all`, nothing depended on it. A number has also changed if it became a
/// copy of another one, or stopped being one: the kernel compares ids as well.
pub(crate) fn widen(origins: &Origins, old: &Register, current: &mut Register, ids: &mut IdMap, all: bool) {
    let same = |old: &Register, current: &Register, ids: &mut IdMap| {
        let distance = |register: &Register| (register.offset, register.added);
        old.scalar == current.scalar && distance(old) == distance(current) && ids.matches(old.id, current.id)
    };
    if old.kind() == Kind::Scalar
        && current.kind() == Kind::Scalar
        && (all || !origins.is_precise(old.origin))
        && !same(old, current, ids)
    {
        *current = Register { origin: current.origin, ..Register::UNKNOWN };
    }
}

/// Whether bytes were written in the old slot that never were in the current one.
pub(crate) fn less_written(old: &Slot, current: &Slot) -> bool {
    let mut bytes = old.bytes.iter().zip(&current.bytes);
    bytes.any(|(a, b)| *a != Byte::Invalid && *b == Byte::Invalid)
}

/// How far iterators have come is not compared: a loop over one comes to an end since `next` does.
pub(crate) fn object_covers(old: &StackObject, current: &StackObject, ids: &mut IdMap) -> bool {
    let alike = match (old.kind, current.kind) {
        (ObjectKind::Iterator(a), ObjectKind::Iterator(b)) => a == IteratorState { depth: a.depth, ..b },
        (a, b) => a == b,
    };
    alike
        && old.part == current.part
        && ids.matches(old.id, current.id)
        && ids.matches(old.reference, current.reference)
}

/// Whether each byte may stand for the old one; `spilled`: also a spilled register's for one of which nothing is known.
pub(crate) fn bytes_cover(old: &[Byte], current: &[Byte], spilled: bool) -> bool {
    old.iter().zip(current).all(|(a, b)| match (a, b) {
        (Byte::Invalid | Byte::Misc, Byte::Spill) => spilled,
        (Byte::Invalid | Byte::Misc, _) => true,
        (a, b) => a == b,
    })
}

pub(crate) fn register_covers(
    origins: &Origins,
    old: &Register,
    current: &Register,
    ids: &mut IdMap,
    exactness: Exactness,
) -> bool {
    // An explored future did not read what was never written. One that is not explored may.
    if old.kind() == Kind::Uninit && exactness == Exactness::Explored {
        return true;
    }
    if old.kind() != current.kind() {
        return false;
    }
    if exactness == Exactness::Same {
        let plain = |register: &Register| Register { origin: 0, id: 0, owner: 0, reference: 0, ..*register };
        return plain(old) == plain(current)
            && ids.matches(old.id, current.id)
            && ids.matches(old.owner, current.owner)
            && ids.matches(old.reference, current.reference);
    }
    if old.kind() == Kind::Scalar {
        if exactness == Exactness::Explored && !origins.is_precise(old.origin) {
            return true;
        }
        let same_distance = old.id == 0 || (old.offset, old.added) == (current.offset, current.added);
        return old.scalar.includes(&current.scalar) && same_distance && ids.matches_number(old.id, current.id);
    }
    let alike = old.nullable == current.nullable
        && old.read_only == current.read_only
        && old.inner == current.inner
        && old.trust == current.trust
        && old.relocated == current.relocated
        && old.holds == current.holds
        && old.in_packet == current.in_packet
        && old.sliced == current.sliced
        && old.summed == current.summed
        && old.offset == current.offset;
    let range = match old.kind() {
        // That it is beyond the packet's end is known of both or of none.
        Kind::Packet | Kind::PacketMeta if old.range < 0 || current.range < 0 => old.range == current.range,
        Kind::Packet | Kind::PacketMeta => old.range <= current.range,
        _ => true,
    };
    alike
        && range
        && old.scalar.includes(&current.scalar)
        && ids.matches(old.id, current.id)
        && ids.matches(old.owner, current.owner)
        && ids.matches(old.reference, current.reference)
}

/// A quick comparison of the last frames' registers, of those `compared`, that excludes most states before the complete
/// one. Until Linux 6.18 it compares all of them: a loop that changes one that nothing reads is not infinite yet (kernel
/// `states_maybe_looping`).
pub(crate) fn may_be_same(old: &State, current: &State, compared: RegSet) -> bool {
    old.frames.len() == current.frames.len()
        && compared.iter().all(|reg| {
            let (a, b) = (old.register(reg), current.register(reg));
            a.kind() == b.kind() && a.offset == b.offset && a.scalar == b.scalar
        })
}

impl Code<'_> {
    /// Forgets the registers of a state at `at` that nothing reads any more.
    pub(crate) fn forget_unread(&self, state: &mut State, at: Position) {
        for index in 0..state.frames.len() {
            let live = self.live_in_frame(state, at, index);
            for reg in Reg::all().filter(|reg| !live.contains(*reg)) {
                state.frames[index].registers[reg.index()] = Register::UNINIT;
            }
        }
    }
}
