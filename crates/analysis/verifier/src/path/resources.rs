//! Resources: what a path holds and must release, and which pointers become stale then.

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

    /// Returns a kfunc's result: it may be null or must be released, as the kfunc's flags say.
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
    /// Destroys the stack objects that depend on a reference.
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

    /// Makes slices stale whose dynptr is gone.
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

    /// Releases a reference; pointers and objects that depend on it become stale.
    pub(crate) fn give_up(&mut self, findings: &mut Findings, stale: Register, id: u32) -> Step<()> {
        self.references.retain(|held| held.id != id);
        self.for_each_where(|register| register.reference == id, |register| *register = stale);
        self.release_objects(findings, id);
        Ok(())
    }

    /// Makes packet pointers stale: the packet may have moved.
    pub(crate) fn forget_packet(&mut self, stale: Register) {
        self.packet_bytes = 0;
        self.for_each_where(Register::is_packet, |register| *register = stale);
    }
}
