//! Open-coded iterators: a loop over something the kernel enumerates, whose state lives on the program's stack.
//!
//! ```text
//!   bpf_iter_num_new(r10-8, 0, n)       r10-8: iterator num, active, a reference to give back
//!   again: r0 = bpf_iter_num_next(r10-8)
//!     null:  drained, it stays so       this path is followed first, and must end
//!     else:  active, one iteration on   waits; when it comes here again in a state within an earlier one, all iterations
//!                                       are like those that were walked
//!   bpf_iter_num_destroy(r10-8)
//! ```
//!
//! The kernel promises that `next` returns null in the end, and from then on always. So reaching the same state at
//! `next` again is not reported as an infinite loop. Numbers that changed between iterations and that nothing depended
//! on are forgotten (see `Since`); otherwise the states of two iterations would never be equal.

use kiln_isa::Reg;
use kiln_platform::limits::MAX_STACK_BYTES;
use kiln_program::btf::{Btf, TypeId};

use crate::error::{Step, refuse, reject};
use crate::path::{Findings, Next, Path, Since};
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::stack::slot_of;
use crate::state::{IteratorState, Kind, ObjectKind, Protection, Register, Slot, StackObject, State, Trust};

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

impl Path<'_> {
    /// `bpf_iter_*_new`: begins an iterator; `protected` where it lives only as long as an RCU section does.
    pub(crate) fn new_iterator(&mut self, reg: Reg, kind: IteratorType<'_>, protected: bool) -> Step<()> {
        let register = self.read(reg)?;
        let (frame, lowest) = register.object_place(reg, kind.bytes, Reason::IteratorMisuse)?;
        let (first, _) = slot_of(lowest);
        for index in (0..kind.bytes as usize / 8).map(|part| first - part) {
            let occupied = self.state.frames[frame].stack.slot(index).object;
            if occupied.is_some_and(|object| matches!(object.kind, ObjectKind::Iterator(_))) {
                let message = format!("r{} points to an iterator that was not destroyed", reg.number());
                return reject(Reason::IteratorMisuse, message);
            }
            self.state.destroy_dynptr_at(&mut self.findings, self.options, frame, index)?;
        }
        let protection = match (protected, self.state.in_rcu_section()) {
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
        let (frame, lowest) = register.object_place(reg, kind.bytes, Reason::IteratorMisuse)?;
        let (first, _) = slot_of(lowest);
        let mut reference = 0;
        for part in 0..(kind.bytes / 8) as u8 {
            let uninitialized = Case::NoIterator { name: name.to_owned() };
            let object = self.state.frames[frame].stack.slot(first - usize::from(part)).object;
            let (state, found) = match object {
                Some(StackObject { kind: ObjectKind::Iterator(state), part: own, reference, .. }) if own == part => {
                    (state, reference)
                }
                _ => {
                    let message = format!("r{number} does not point to an initialized {name}");
                    return refuse(Reason::IteratorMisuse, uninitialized, message);
                }
            };
            if state.protection == Protection::Lost {
                let message = format!("r{number}: a {name} may be used only in the RCU section it was made in");
                return reject(Reason::CriticalSection, message);
            }
            if state.type_id != kind.type_id || part > 0 && found != reference {
                let message = format!("r{number} does not point to an initialized {name}");
                return refuse(Reason::IteratorMisuse, uninitialized, message);
            }
            reference = found;
        }
        self.findings.use_object(&self.state, self.at, frame, lowest, kind.bytes)?;
        Ok(Iterator { frame, index: first, reference })
    }

    /// `bpf_iter_*_next` with its result where there is one more.
    pub(crate) fn next_of_iterator(&mut self, iterator: Iterator, item: Register) -> Step<Next> {
        self.state.clobber();
        let protected = iterator_at(&self.state, iterator).is_some_and(|state| state.protection == Protection::Rcu);
        let trust = match item.kind() {
            Kind::BtfId if protected => item.trust.with(Trust::RCU),
            Kind::BtfId => item.trust.with(Trust::TRUSTED),
            _ => item.trust,
        };
        let item = Register { nullable: false, id: 0, trust, ..item };
        if let Some(state) = iterator_at(&self.state, iterator)
            && !state.drained
        {
            let mut again = self.state.clone();
            change_iterator(&mut again, iterator, |state| state.depth += 1);
            again.set(Reg::R0, item);
            self.push_widened(again, self.at + 1, Since { site: self.at, skip_last: true, all: false });
        }
        change_iterator(&mut self.state, iterator, |state| state.drained = true);
        self.state.set(Reg::R0, Register::constant(0));
        Ok(Next::At(self.at + 1))
    }
}

impl State {
    /// `bpf_iter_*_destroy`: the iterator is gone, and with it what it gave.
    pub(crate) fn destroy_iterator(
        &mut self,
        findings: &mut Findings,
        stale: Register,
        iterator: Iterator,
    ) -> Step<()> {
        self.give_up(findings, stale, iterator.reference)
    }

    /// Whether R1 points to an iterator that may give more.
    pub(crate) fn iterator_is_active(&self) -> bool {
        let register = self.register(Reg::R1);
        let offset =
            register.fixed_offset().filter(|offset| register.kind() == Kind::Stack && (-512..0).contains(offset));
        let place = offset.map(|offset| slot_of(offset as i32).0);
        let found =
            place.and_then(|index| iterator_at(self, Iterator { frame: register.frame(), index, reference: 0 }));
        found.is_some_and(|state| !state.drained)
    }
}

pub(crate) fn iterator_type(types: &Btf, id: TypeId) -> Option<IteratorType<'_>> {
    let bytes = types.size_of(id).and_then(|bytes| u32::try_from(bytes).ok())?;
    let fits = bytes > 0 && bytes % 8 == 0 && bytes <= MAX_STACK_BYTES;
    fits.then_some(IteratorType { name: types.name(id), type_id: id.0, bytes })
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
