//! What a path holds and must give back, and what is stale once it is gone.

use kiln_platform::{Kfunc, KfuncFlag};

use crate::error::{Step, reject};
use crate::path::{Findings, Path};
use crate::reason::Reason;
use crate::state::{Held, Kind, Register, Slot, State};

impl Path<'_> {
    /// A new resource, held from here on.
    pub(crate) fn acquire(&mut self) -> u32 {
        let id = self.fresh_id();
        self.state.references.push(Held { id, at: self.at });
        id
    }

    /// A result that may be null, or has to be released, as the kfunc's flags say.
    pub(crate) fn acquired(&mut self, kfunc: &Kfunc, mut pointer: Register) -> Register {
        if kfunc.has(KfuncFlag::RetNull) {
            pointer = pointer.or_null(self.fresh_id());
        }
        if kfunc.has(KfuncFlag::Acquire) {
            let id = if pointer.id != 0 { pointer.id } else { self.fresh_id() };
            pointer.id = if pointer.nullable { id } else { pointer.id };
            pointer.reference = id;
            self.state.references.push(Held { id, at: self.at });
        }
        pointer
    }
}

impl State {
    /// The objects that stand on a reference are gone with it.
    pub(crate) fn release_objects(&mut self, findings: &mut Findings, reference: u32) {
        for (number, frame) in self.frames.iter_mut().enumerate() {
            let gone: Vec<usize> = frame
                .stack
                .slots()
                .iter()
                .enumerate()
                .filter(|(_, slot)| slot.object.is_some_and(|object| object.reference == reference))
                .map(|(index, _)| index)
                .collect();
            for index in gone {
                *frame.stack.slot_mut(index) = Slot::INVALID;
                findings.liveness.write(number, 1 << index);
            }
        }
    }

    /// Slices of dynptrs that are gone are stale.
    pub(crate) fn forget_slices(&mut self, stale: Register, gone: impl Fn(u32) -> bool) {
        self.for_each_where(
            |register| register.kind() == Kind::Memory && register.owner != 0 && gone(register.owner),
            |register| *register = stale,
        );
    }

    /// Gives up a resource that must be held.
    pub(crate) fn release_reference(
        &mut self,
        findings: &mut Findings,
        stale: Register,
        id: u32,
        by: &str,
    ) -> Step<()> {
        if !self.references.iter().any(|held| held.id == id) {
            return reject(Reason::NotHeld, format!("{by}: the reference was already released"));
        }
        self.give_up(findings, stale, id)
    }

    /// A reference is released: what stands on it is gone.
    pub(crate) fn give_up(&mut self, findings: &mut Findings, stale: Register, id: u32) -> Step<()> {
        self.references.retain(|held| held.id != id);
        self.for_each_where(|register| register.reference == id, |register| *register = stale);
        self.release_objects(findings, id);
        Ok(())
    }

    /// Packet pointers are stale once the packet may have moved.
    pub(crate) fn forget_packet(&mut self, stale: Register) {
        self.packet_bytes = 0;
        self.for_each_where(Register::is_packet, |register| *register = stale);
    }
}
