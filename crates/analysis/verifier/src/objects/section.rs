//! Critical sections: RCU read sections, preemption switched off, interrupts switched off.
//!
//! ```text
//!   bpf_rcu_read_lock()            one at a time before 7.0; RCU pointers and iterators made in it are good until the unlock
//!   bpf_preempt_disable()          any number, counted
//!   bpf_local_irq_save(r10-8)      r10-8: saved flags; given back in the opposite order, from the same slot
//! ```
//!
//! In none of them may the program sleep, nor call a global function that may, nor end. A program that cannot sleep
//! runs in an RCU section all the time, without having said so.

use kiln_isa::Reg;
use kiln_platform::{Feature, KfuncMeaning};

use crate::error::{Step, reject};
use crate::facts::Section;
use crate::path::Path;
use crate::reason::Reason;
use crate::state::stack::slot_of;
use crate::state::{
    Begun, Frame, IrqKeeper, IteratorState, ObjectKind, Protection, Sections, Slot, StackObject, State, Trust,
};

const FLAGS_BYTES: u32 = 8;

impl Path<'_> {
    /// A kfunc that begins or ends a section; `false` for any other.
    pub(crate) fn change_section(&mut self, meaning: KfuncMeaning) -> Step<bool> {
        let sections = &mut self.state.sections;
        match meaning {
            KfuncMeaning::BeginRcu if sections.rcu > 0 && !self.options.kernel_has(Feature::NestedRcu) => {
                return reject(Reason::CriticalSection, "an RCU read section begins in another one");
            }
            KfuncMeaning::BeginRcu => {
                sections.rcu += 1;
                self.state.begun.push(Begun { what: Section::Rcu, at: self.at, id: 0 });
            }
            KfuncMeaning::EndRcu if sections.rcu == 0 => {
                return reject(Reason::CriticalSection, "an RCU read section ends that never began");
            }
            KfuncMeaning::EndRcu => {
                sections.rcu -= 1;
                let last = sections.rcu == 0;
                self.state.end(Section::Rcu);
                self.end_protection(last);
            }
            KfuncMeaning::DisablePreemption => {
                sections.preemption_off += 1;
                self.state.begun.push(Begun { what: Section::Preemption, at: self.at, id: 0 });
            }
            KfuncMeaning::EnablePreemption if sections.preemption_off == 0 => {
                return reject(Reason::CriticalSection, "preemption is switched on that was never switched off");
            }
            KfuncMeaning::EnablePreemption => {
                sections.preemption_off -= 1;
                self.state.end(Section::Preemption);
                self.end_protection(false);
            }
            KfuncMeaning::SaveInterrupts => self.save_interrupts(Reg::R1, IrqKeeper::Program)?,
            KfuncMeaning::RestoreInterrupts => self.restore_interrupts(Reg::R1, IrqKeeper::Program)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The state at the first instruction of what is verified.
    pub(crate) fn first_state(&self, frame: Frame) -> State {
        let all_protect = self.options.kernel_has(Feature::SectionsProtect);
        let sections = Sections { all_protect, ..Sections::default() };
        State { frames: frame.into(), sections, sleepable: self.code.program.sleepable, ..State::default() }
    }

    /// A lock or section ended, perhaps an RCU section, which is all that older kernels ask. Newer ones ask whether it was the
    /// last of all: then RCU protects nothing any more.
    pub(crate) fn end_protection(&mut self, of_rcu: bool) {
        let ends = if self.state.sections.all_protect { !self.state.in_rcu_section() } else { of_rcu };
        if ends {
            self.state.unprotect_iterators();
            self.state.distrust_rcu_pointers();
        }
    }

    /// Interrupts are switched off and their flags saved in the eight bytes that a register points to.
    pub(crate) fn save_interrupts(&mut self, reg: Reg, keeper: IrqKeeper) -> Step<()> {
        let register = self.read(reg)?;
        let (frame, lowest) = register.object_place(reg, FLAGS_BYTES, Reason::CriticalSection)?;
        let (index, _) = slot_of(lowest);
        if matches!(self.state.frames[frame].stack.slot(index).object, Some(object) if object.is_irq_flags()) {
            let message = format!("r{} points to interrupt flags that were not restored", reg.number());
            return reject(Reason::CriticalSection, message);
        }
        self.state.destroy_dynptr_at(&mut self.findings, self.options, frame, index)?;
        let id = self.fresh_id();
        self.state.sections.interrupts.push(id);
        self.state.begun.push(Begun { what: Section::Interrupts, at: self.at, id });
        let object = StackObject { kind: ObjectKind::IrqFlags(keeper), part: 0, id, reference: 0 };
        self.place_object(frame, lowest, FLAGS_BYTES, object, true)
    }

    /// Interrupts are as they were when the flags were saved.
    pub(crate) fn restore_interrupts(&mut self, reg: Reg, keeper: IrqKeeper) -> Step<()> {
        let register = self.read(reg)?;
        let number = reg.number();
        let (frame, lowest) = register.object_place(reg, FLAGS_BYTES, Reason::CriticalSection)?;
        let (index, _) = slot_of(lowest);
        let Some(StackObject { kind: ObjectKind::IrqFlags(kept), id, .. }) =
            self.state.frames[frame].stack.slot(index).object
        else {
            return reject(Reason::CriticalSection, format!("r{number} does not point to saved interrupt flags"));
        };
        if kept != keeper {
            let message = format!("r{number}: flags that a lock saved are restored by it, and no others are");
            return reject(Reason::CriticalSection, message);
        }
        if self.state.sections.interrupts.last() != Some(&id) {
            let message = format!("r{number}: flags that were saved later must be restored before these");
            return reject(Reason::CriticalSection, message);
        }
        self.state.sections.interrupts.pop();
        self.state.end(Section::Interrupts);
        self.end_protection(false);
        self.findings.use_object(&self.state, self.at, frame, lowest, FLAGS_BYTES)?;
        *self.state.frames[frame].stack.slot_mut(index) = crate::state::Slot::INVALID;
        self.findings.liveness.write(frame, 1 << index);
        Ok(())
    }
}

impl State {
    /// Iterators that an RCU section protected are not protected any more.
    pub(crate) fn unprotect_iterators(&mut self) {
        for frame in &mut self.frames {
            frame.stack.replace_objects(|object| match object.kind {
                ObjectKind::Iterator(state) if state.protection == Protection::Rcu => {
                    let lost = IteratorState { protection: Protection::Lost, ..state };
                    Some(Slot::of_object(StackObject { kind: ObjectKind::Iterator(lost), ..*object }))
                }
                _ => None,
            });
        }
    }

    /// An RCU section ends: what it protected may be gone.
    pub(crate) fn distrust_rcu_pointers(&mut self) {
        self.for_each_where(
            |register| register.is_pointer() && register.trust.has(Trust::RCU),
            |register| {
                let lost = Trust::RCU.with(Trust::NOT_OWNING);
                register.trust = register.trust.without(lost).with(Trust::UNTRUSTED);
                register.nullable = false;
            },
        );
    }
}
