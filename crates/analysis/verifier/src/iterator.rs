//! Open-coded iterators: a loop over something the kernel enumerates, whose state lives on the program's stack.
//!
//! ```text
//!   bpf_iter_num_new(r10-8, 0, n)       r10-8: iterator num, active, a reference to give back
//!   again: r0 = bpf_iter_num_next(r10-8)
//!     null:  drained, it stays so       this way is walked first, and must come to an end
//!     else:  active, one turn deeper    waits; when it comes here again in a state within an earlier one, all turns
//!                                       are like those that were walked
//!   bpf_iter_num_destroy(r10-8)
//! ```
//!
//! That `next` returns null in the end, and then always, is the kernel's promise: a loop that comes to the same state
//! at `next` is no infinite loop. Numbers that changed from turn to turn and that nothing depended on are forgotten
//! (see `widen_since_last_visit`), so that the states of turns can be the same at all.

use kiln_isa::Reg;
use kiln_program::btf::{Btf, Kind as BtfKind};

use crate::domain::Scalar;
use crate::error::{Step, reject};
use crate::explain::Reason;
use crate::explore::{Explorer, Next};
use crate::state::stack::slot_of;
use crate::state::{IteratorState, Kind, ObjectKind, Protection, Register, Slot, StackObject, State};

/// An iterator's structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IteratorType<'a> {
    /// Its name, `bpf_iter_num`.
    pub name: &'a str,
    /// Its id in the kernel's BTF.
    pub type_id: u32,
    /// A multiple of eight.
    pub bytes: u32,
}

/// Where an iterator is: frame and index of its lowest slot, with the resource it stands on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Iterator {
    pub frame: usize,
    pub index: usize,
    pub reference: u32,
}

impl Explorer<'_> {
    /// Kfuncs that need nothing of the kernel's types but an iterator's structure; `None` for any other.
    pub(crate) fn call_object_kfunc(&mut self, name: &str) -> Step<Option<Next>> {
        let next = Next::At(self.at + 1);
        if self.change_section(name)? {
            self.clobber();
            return Ok(Some(next));
        }
        let Some(rest) = name.strip_prefix("bpf_iter_num_").or_else(|| name.strip_prefix("bpf_iter_bits_")) else {
            return Ok(None);
        };
        let Some(types) = self.options.kernel_types.clone() else { return Ok(None) };
        let structure = &name[..name.len() - rest.len() - 1];
        let Some(kind) = iterator_type(&types, structure) else { return Ok(None) };
        match rest {
            "new" => {
                self.new_iterator(Reg::R1, kind, false)?;
                for reg in [Reg::R2, Reg::R3] {
                    let register = self.read(reg)?;
                    self.expose_stack(&register);
                    if register.kind != Kind::Scalar && (reg, structure) != (Reg::R2, "bpf_iter_bits") {
                        let message = format!("r{} must be a number, it is {}", reg.number(), register.kind.name());
                        return reject(Reason::ArgumentType, message);
                    }
                }
            }
            "next" => {
                let iterator = self.expect_iterator(Reg::R1, kind)?;
                let item = Register::pointer(Kind::Memory, 4);
                let item = Register { read_only: true, reference: iterator.reference, ..item };
                return self.next_of_iterator(iterator, item).map(Some);
            }
            "destroy" => {
                let iterator = self.expect_iterator(Reg::R1, kind)?;
                self.destroy_iterator(iterator)?;
            }
            _ => return Ok(None),
        }
        self.clobber();
        if rest == "new" {
            self.state.set(Reg::R0, Register::scalar(Scalar::of_width(32)));
        }
        Ok(Some(next))
    }

    /// `bpf_iter_*_new`: begins an iterator; `protected` where it lives only as long as an RCU section does.
    pub(crate) fn new_iterator(&mut self, reg: Reg, kind: IteratorType<'_>, protected: bool) -> Step<()> {
        let register = self.read(reg)?;
        let (frame, lowest) = self.object_place(reg, &register, kind.bytes, Reason::IteratorMisuse)?;
        let (first, _) = slot_of(lowest);
        for index in (0..kind.bytes as usize / 8).map(|part| first - part) {
            let occupied = self.state.frames[frame].stack.slot(index).object;
            if occupied.is_some_and(|object| matches!(object.kind, ObjectKind::Iterator(_))) {
                let message = format!("r{} points to an iterator that was not destroyed", reg.number());
                return reject(Reason::IteratorMisuse, message);
            }
            self.destroy_dynptr_at(frame, index)?;
        }
        let protection = match (protected, self.in_rcu_section()) {
            (false, _) => Protection::None,
            (true, true) => Protection::Rcu,
            (true, false) => Protection::Lost,
        };
        let state = IteratorState { type_id: kind.type_id, drained: false, depth: 0, protection };
        let object = StackObject { kind: ObjectKind::Iterator(state), part: 0, id: 0, reference: self.acquire() };
        self.place_object(frame, lowest, kind.bytes, object, false)
    }

    /// The iterator that a register points to.
    pub(crate) fn expect_iterator(&mut self, reg: Reg, kind: IteratorType<'_>) -> Step<Iterator> {
        let register = self.read(reg)?;
        let (number, name) = (reg.number(), kind.name);
        let (frame, lowest) = self.object_place(reg, &register, kind.bytes, Reason::IteratorMisuse)?;
        let (first, _) = slot_of(lowest);
        let mut reference = 0;
        for part in 0..(kind.bytes / 8) as u8 {
            let object = self.state.frames[frame].stack.slot(first - usize::from(part)).object;
            let (state, found) = match object {
                Some(StackObject { kind: ObjectKind::Iterator(state), part: own, reference, .. }) if own == part => {
                    (state, reference)
                }
                _ => {
                    let message = format!("r{number} does not point to an initialized {name}");
                    return reject(Reason::IteratorMisuse, message);
                }
            };
            if state.protection == Protection::Lost {
                let message = format!("r{number}: a {name} may be used only in the RCU section it was made in");
                return reject(Reason::CriticalSection, message);
            }
            if state.type_id != kind.type_id || part > 0 && found != reference {
                return reject(Reason::IteratorMisuse, format!("r{number} does not point to an initialized {name}"));
            }
            reference = found;
        }
        self.use_object(frame, lowest, kind.bytes)?;
        Ok(Iterator { frame, index: first, reference })
    }

    /// `bpf_iter_*_next` with its result where there is one more.
    pub(crate) fn next_of_iterator(&mut self, iterator: Iterator, item: Register) -> Step<Next> {
        self.clobber();
        if let Some(state) = iterator_at(&self.state, iterator)
            && !state.drained
        {
            let mut again = self.state.clone();
            change_iterator(&mut again, iterator, |state| state.depth += 1);
            self.widen_since_last_visit(&mut again, self.at, true);
            again.set(Reg::R0, item);
            self.push(again, self.at + 1)?;
        }
        change_iterator(&mut self.state, iterator, |state| state.drained = true);
        self.state.set(Reg::R0, Register::constant(0));
        Ok(Next::At(self.at + 1))
    }

    /// `bpf_iter_*_destroy`: the iterator is gone, and with it what it gave.
    pub(crate) fn destroy_iterator(&mut self, iterator: Iterator) -> Step<()> {
        self.give_up(iterator.reference)
    }

    /// Whether R1 points to an iterator that may give more.
    pub(crate) fn iterator_is_active(&self) -> bool {
        let register = self.state.register(Reg::R1);
        let offset =
            register.fixed_offset().filter(|offset| register.kind == Kind::Stack && (-512..0).contains(offset));
        let place = offset.map(|offset| slot_of(offset as i32).0);
        let found = place.and_then(|index| {
            iterator_at(&self.state, Iterator { frame: register.object as usize, index, reference: 0 })
        });
        found.is_some_and(|state| !state.drained)
    }

    /// Iterators that an RCU section protected are not protected any more.
    pub(crate) fn unprotect_iterators(&mut self) {
        for frame in &mut self.state.frames {
            frame.stack.replace_objects(|object| match object.kind {
                ObjectKind::Iterator(state) if state.protection == Protection::Rcu => {
                    let lost = IteratorState { protection: Protection::Lost, ..state };
                    Some(Slot::of_object(StackObject { kind: ObjectKind::Iterator(lost), ..*object }))
                }
                _ => None,
            });
        }
    }
}

/// An iterator's structure, by its name.
pub(crate) fn iterator_type<'a>(types: &Btf, name: &'a str) -> Option<IteratorType<'a>> {
    let id = types.find(name, |kind| matches!(kind, BtfKind::Composite { .. }))?;
    let bytes = types.size_of(id).and_then(|bytes| u32::try_from(bytes).ok())?;
    (bytes > 0 && bytes % 8 == 0 && bytes <= 512).then_some(IteratorType { name, type_id: id.0, bytes })
}

fn iterator_at(state: &State, iterator: Iterator) -> Option<IteratorState> {
    match state.frames.get(iterator.frame)?.stack.slot(iterator.index).object?.kind {
        ObjectKind::Iterator(state) => Some(state),
        _ => None,
    }
}

/// Changes the first slot, which stands for the whole.
fn change_iterator(state: &mut State, iterator: Iterator, change: impl Fn(&mut IteratorState)) {
    let slot = state.frames[iterator.frame].stack.slot_mut(iterator.index);
    if let Some(StackObject { kind: ObjectKind::Iterator(state), .. }) = &mut slot.object {
        change(state);
    }
}

/// Whether an iterator that is active in the old state has come further since.
pub(crate) fn iterators_moved(old: &State, current: &State) -> bool {
    old.frames.iter().zip(&current.frames).any(|(left, right)| {
        left.stack.slots().iter().enumerate().any(|(index, slot)| {
            let depth = |slot: &Slot| match slot.object.map(|object| object.kind) {
                Some(ObjectKind::Iterator(state)) if !state.drained => Some(state.depth),
                _ => None,
            };
            depth(slot).is_some_and(|before| depth(right.stack.slot(index)) != Some(before))
        })
    })
}
