//! The stack of one frame: eight-byte slots, shared between states until one of them writes.

use std::rc::Rc;

use super::register::{Kind, Register};

/// What one byte holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Byte {
    /// Never written.
    Invalid,
    /// Something.
    Misc,
    /// Zero.
    Zero,
    /// Part of the slot's spilled register.
    Spill,
}

/// Eight bytes. `bytes[0]` is the lowest address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub bytes: [Byte; 8],
    /// The register whose lowest bytes are the `Spill` ones.
    pub register: Register,
}

impl Slot {
    pub(crate) const INVALID: Slot = Slot { bytes: [Byte::Invalid; 8], register: Register::UNINIT };

    /// How many bytes of a register it holds, from its lowest byte; 0 for none.
    pub(crate) fn spilled_bytes(&self) -> u32 {
        self.bytes.iter().take_while(|byte| **byte == Byte::Spill).count() as u32
    }

    /// Takes the spilled register apart: what is left of it are bytes.
    pub(crate) fn scrub(&mut self) {
        if self.bytes[0] == Byte::Spill {
            let zero = self.register.is_zero() && self.register.origin == 0;
            let kind = if zero { Byte::Zero } else { Byte::Misc };
            for byte in self.bytes.iter_mut().filter(|byte| **byte == Byte::Spill) {
                *byte = kind;
            }
            self.register = Register::UNINIT;
        }
    }
}

/// Slots from the frame pointer down: slot 0 is the eight bytes below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack {
    slots: Rc<Vec<Slot>>,
}

/// The slot of the byte at frame pointer + `offset`, and the byte's place in it.
pub(crate) fn slot_of(offset: i32) -> (usize, usize) {
    let below = -1 - offset;
    ((below / 8) as usize, (offset & 7) as usize)
}

impl Stack {
    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    pub(crate) fn slot(&self, index: usize) -> &Slot {
        self.slots.get(index).unwrap_or(&Slot::INVALID)
    }

    pub(crate) fn slot_mut(&mut self, index: usize) -> &mut Slot {
        let slots = Rc::make_mut(&mut self.slots);
        if slots.len() <= index {
            slots.resize(index + 1, Slot::INVALID);
        }
        &mut slots[index]
    }

    pub(crate) fn same(&self, other: &Stack) -> bool {
        Rc::ptr_eq(&self.slots, &other.slots)
    }

    pub(crate) fn for_each_spilled_where(
        &mut self,
        wanted: &impl Fn(&Register) -> bool,
        change: &mut impl FnMut(&mut Register),
    ) {
        let picked = |slot: &Slot| slot.bytes[0] == Byte::Spill && wanted(&slot.register);
        if !self.slots.iter().any(picked) {
            return;
        }
        for slot in Rc::make_mut(&mut self.slots).iter_mut().filter(|slot| picked(slot)) {
            change(&mut slot.register);
            if slot.register.kind == Kind::Uninit {
                slot.bytes = slot.bytes.map(|byte| if byte == Byte::Spill { Byte::Misc } else { byte });
            }
        }
    }
}
