//! The stack of one frame: eight-byte slots, shared between states until one of them writes.

use std::rc::Rc;

use super::register::{DynptrKind, Kind, Register};

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
    /// Part of a kernel object; all eight bytes are, and only calls made for it may touch them.
    Object,
}

/// Eight bytes. `bytes[0]` is the lowest address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub bytes: [Byte; 8],
    /// The register whose lowest bytes are the `Spill` ones; of a number, all that was known when it was stored.
    pub register: Register,
    /// The object that the `Object` bytes belong to.
    pub object: Option<StackObject>,
}

/// One slot of a kernel object that lives on the program's stack.
///
/// ```text
///   r10 -16 [ part 0: kind, id, reference ]      a dynptr: two slots
///   r10  -8 [ part 1: the same            ]
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StackObject {
    pub kind: ObjectKind,
    /// Which of its slots, from the lowest address.
    pub part: u8,
    /// Identifies it among objects of its kind. Slices of a dynptr have it as their owner.
    pub id: u32,
    /// The reference that it depends on, 0 for none.
    pub reference: u32,
}

/// What an object on the stack is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ObjectKind {
    /// A `bpf_dynptr`.
    Dynptr(DynptrKind),
    /// A `bpf_iter_*`.
    Iterator(IteratorState),
    /// Saved interrupt flags.
    IrqFlags(IrqKeeper),
}

/// Who saved interrupt flags, and restores them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IrqKeeper {
    /// The program, with `bpf_local_irq_save`.
    Program,
    /// A lock that is taken with interrupts off.
    Lock,
}

impl StackObject {
    pub(crate) fn is_irq_flags(&self) -> bool {
        matches!(self.kind, ObjectKind::IrqFlags(_))
    }
}

/// How far an open-coded iterator has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IteratorState {
    /// Its structure, by its id in the kernel's BTF.
    pub type_id: u32,
    /// `next` returned null, and will from now on.
    pub drained: bool,
    /// How often `next` returned something on this path.
    pub depth: u32,
    /// It may be used only while an RCU section lasts that was there when it was made.
    pub protection: Protection,
}

/// Whether an object depends on an RCU section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protection {
    /// It does not.
    None,
    /// The section lasts.
    Rcu,
    /// The section ended, or never was.
    Lost,
}

impl Slot {
    pub(crate) const INVALID: Slot = Slot { bytes: [Byte::Invalid; 8], register: Register::UNINIT, object: None };

    /// How many bytes of a register it holds, from its lowest byte; 0 for none.
    pub(crate) fn spilled_bytes(&self) -> u32 {
        self.bytes.iter().take_while(|byte| **byte == Byte::Spill).count() as u32
    }

    /// The slot of an object.
    pub(crate) fn of_object(object: StackObject) -> Slot {
        Slot { bytes: [Byte::Object; 8], register: Register::UNINIT, object: Some(object) }
    }

    /// The number that loading all of it gives, where it was not put together from parts.
    pub(crate) fn as_number(&self) -> Option<&Register> {
        match self.register.kind() {
            Kind::Scalar if self.spilled_bytes() == 8 => Some(&self.register),
            Kind::Uninit if self.is_unknown() => Some(&Register::UNKNOWN),
            _ => None,
        }
    }

    /// Whether nothing is known of any of its bytes.
    pub(crate) fn is_unknown(&self) -> bool {
        self.bytes.iter().all(|byte| matches!(byte, Byte::Misc | Byte::Invalid))
    }

    /// Forgets the spilled register or object: its bytes, and zeros in the same slot, become unknown bytes (the kernel's
    /// `scrub_special_slot`).
    pub(crate) fn scrub(&mut self) {
        let object = self.object.take().is_some();
        if object || self.bytes[0] == Byte::Spill {
            self.bytes = self.bytes.map(|byte| if byte == Byte::Invalid { byte } else { Byte::Misc });
            self.register = Register::UNINIT;
        }
    }

    /// The register takes the lowest bytes; zeros above them stay zeros (the kernel's `save_register_state`).
    pub(crate) fn spill(&mut self, bytes: usize, register: Register) {
        self.object = None;
        let kept = |byte| if matches!(byte, Byte::Zero | Byte::Invalid) { byte } else { Byte::Misc };
        self.bytes = self.bytes.map(kept);
        self.bytes[..bytes].fill(Byte::Spill);
        self.register = register;
    }
}

/// Slots from the frame pointer down: slot 0 is the eight bytes below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack {
    /// None, until one is used.
    slots: Option<Rc<Vec<Slot>>>,
}

/// The slot of the byte at frame pointer + `offset`, and the byte's place in it.
pub(crate) fn slot_of(offset: i32) -> (usize, usize) {
    let below = -1 - offset;
    ((below / 8) as usize, (offset & 7) as usize)
}

impl Stack {
    pub(crate) fn slots(&self) -> &[Slot] {
        self.slots.as_deref().map_or(&[], Vec::as_slice)
    }

    fn slots_mut(&mut self) -> &mut Vec<Slot> {
        Rc::make_mut(self.slots.get_or_insert_default())
    }

    pub(crate) fn slot(&self, index: usize) -> &Slot {
        self.slots().get(index).unwrap_or(&Slot::INVALID)
    }

    pub(crate) fn slot_mut(&mut self, index: usize) -> &mut Slot {
        let slots = self.slots_mut();
        if slots.len() <= index {
            slots.resize(index + 1, Slot::INVALID);
        }
        &mut slots[index]
    }

    /// The frame is used as far down as slot `index`, whatever is there (the kernel's `grow_stack_state`).
    pub(crate) fn reach(&mut self, index: usize) {
        if self.slots().len() <= index {
            self.slot_mut(index);
        }
    }

    /// Replaces the slots of objects for which `change` gives something else.
    pub(crate) fn replace_objects(&mut self, change: impl Fn(&StackObject) -> Option<Slot>) {
        let new = |slot: &Slot| slot.object.as_ref().and_then(&change);
        if self.slots().iter().any(|slot| new(slot).is_some()) {
            for slot in self.slots_mut() {
                if let Some(new) = new(slot) {
                    *slot = new;
                }
            }
        }
    }

    /// The registers spilled in it.
    pub(crate) fn spilled(&self) -> impl Iterator<Item = &Register> {
        self.slots().iter().filter(|slot| slot.bytes[0] == Byte::Spill).map(|slot| &slot.register)
    }

    pub(crate) fn same(&self, other: &Stack) -> bool {
        match (&self.slots, &other.slots) {
            (Some(own), Some(other)) => Rc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }

    pub(crate) fn for_each_spilled_where(
        &mut self,
        wanted: &impl Fn(&Register) -> bool,
        change: &mut impl FnMut(&mut Register),
    ) {
        let picked = |slot: &Slot| slot.bytes[0] == Byte::Spill && wanted(&slot.register);
        if !self.slots().iter().any(picked) {
            return;
        }
        for slot in self.slots_mut().iter_mut().filter(|slot| picked(slot)) {
            change(&mut slot.register);
            if slot.register.kind() == Kind::Uninit {
                slot.bytes = slot.bytes.map(|byte| if byte == Byte::Spill { Byte::Misc } else { byte });
            }
        }
    }
}
