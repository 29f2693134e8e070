//! Locks: `bpf_spin_lock`, of which one is held at a time, and `bpf_res_spin_lock`, which nest and may fail.
//!
//! ```text
//!   struct elem { struct bpf_spin_lock lock; int n; }
//!   r6 = lookup(map, key)     value, id 3        the id stays after the null check: it says which value
//!   bpf_spin_lock(r6)         held: map value 3
//!   r6->n += 1                nothing else may be called
//!   bpf_spin_unlock(r6)       the same value's lock, and nothing points into its lists and trees any more
//! ```
//!
//! A lock is known by the map and the id of the pointer it was taken through; global variables have no id, since
//! there is one of each.

use kiln_isa::Reg;
use kiln_platform::{KfuncMeaning, SpecialType};

use crate::code::{Code, Position};
use crate::domain::Scalar;
use crate::error::{Step, refuse, reject};
use crate::facts::Section;
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Begun, Caller, HeldLock, Holds, IrqKeeper, Kind, LockKind, Register, State, Trust};
use crate::types::Types;
use crate::types::hook::MAX_ERRNO;

impl LockKind {
    fn name(self) -> &'static str {
        match self {
            LockKind::Spin => SpecialType::SpinLock.row().name,
            LockKind::Resilient => SpecialType::ResilientLock.row().name,
            LockKind::ResilientIrq => "bpf_res_spin_lock_irqsave",
        }
    }
}

/// The value or object that a register points into.
pub(crate) fn allocation_of(register: &Register) -> (Holds, bool) {
    // Objects of all the program's types share its BTF, which is all that the kernel compares.
    let holds = match register.holds {
        Holds::Structure(_) => Holds::Structure(0),
        other => other,
    };
    (holds, register.inner)
}

impl Path<'_> {
    /// `bpf_res_spin_lock` and `bpf_res_spin_lock_irqsave`, on the path where the lock is taken.
    pub(crate) fn take_resilient_lock(&mut self, interrupts: bool) -> Step<()> {
        let lock = *self.state.register(Reg::R1);
        if interrupts {
            self.save_interrupts(Reg::R2, IrqKeeper::Lock)?;
            return self.state.take_lock(self.code, LockKind::ResilientIrq, &lock, self.at);
        }
        self.state.take_lock(self.code, LockKind::Resilient, &lock, self.at)
    }

    /// `bpf_res_spin_unlock` and `bpf_res_spin_unlock_irqrestore`.
    pub(crate) fn give_up_resilient_lock(&mut self, interrupts: bool) -> Step<()> {
        let lock = *self.state.register(Reg::R1);
        if interrupts {
            self.give_up_lock(LockKind::ResilientIrq, &lock)?;
            return self.restore_interrupts(Reg::R2, IrqKeeper::Lock);
        }
        self.give_up_lock(LockKind::Resilient, &lock)
    }

    /// A lock is given up, and with it what it protected.
    pub(crate) fn give_up_lock(&mut self, kind: LockKind, lock: &Register) -> Step<()> {
        self.state.give_up_lock(self.code, self.options.stale_pointer(), kind, lock)?;
        self.end_protection(false);
        Ok(())
    }

    /// The path on which a resilient lock is not taken, with an error.
    pub(crate) fn push_failed_lock(&mut self) -> Step<()> {
        let mut failed = self.state.clone();
        for register in &mut failed.frame_mut().registers[..6] {
            *register = Register::UNINIT;
        }
        failed.set(Reg::R0, Register::scalar(Scalar::signed_range(-i64::from(MAX_ERRNO), -1)));
        self.push(failed, self.at + 1);
        Ok(())
    }
}

impl Types {
    /// A lock in a map value or in an object that the program owns.
    pub(crate) fn check_lock_argument(
        &self,
        code: &Code<'_>,
        register: &Register,
        kind: SpecialType,
        message: String,
    ) -> Step<()> {
        if (register.kind() != Kind::MapValue || register.nullable) && !register.is_plain_object() {
            return reject(Reason::ArgumentType, message);
        }
        self.find_field(code, register, |found| found.is(kind), message).map(|_| ())
    }
}

impl State {
    pub(crate) fn take_lock(&mut self, code: &Code<'_>, kind: LockKind, lock: &Register, at: Position) -> Step<()> {
        self.check_outside_of_tree(code)?;
        let taken = HeldLock { kind, allocation: allocation_of(lock), id: lock.id };
        let held = &self.locks;
        if kind == LockKind::Spin && held.iter().any(|held| held.kind == LockKind::Spin) {
            return refuse(
                Reason::LockDiscipline,
                Case::SecondLock,
                "a second bpf_spin_lock is taken while one is held",
            );
        }
        let same = |held: &HeldLock| held.allocation == taken.allocation && held.id == taken.id;
        if kind != LockKind::Spin && held.iter().any(same) {
            return reject(Reason::LockDiscipline, "the lock that is taken is held already: this never ends");
        }
        self.locks.push(taken);
        self.begun.push(Begun { what: Section::Lock, at, id: 0 });
        Ok(())
    }

    fn give_up_lock(&mut self, code: &Code<'_>, stale: Register, kind: LockKind, lock: &Register) -> Step<()> {
        self.check_outside_of_tree(code)?;
        let given = HeldLock { kind, allocation: allocation_of(lock), id: lock.id };
        match self.locks.last() {
            Some(last) if *last == given => {
                self.locks.pop();
                self.end(Section::Lock);
                self.forget_non_owning(stale);
                Ok(())
            }
            None => refuse(Reason::LockDiscipline, Case::NoLock, "a lock is given up that is not held"),
            Some(_) if self.locks.contains(&given) => {
                reject(Reason::LockDiscipline, "locks are given up in another order than the reverse of taking them")
            }
            Some(last) => refuse(
                Reason::LockDiscipline,
                Case::OtherLock,
                format!("another lock is given up than the {} that is held", last.kind.name()),
            ),
        }
    }

    fn check_outside_of_tree(&self, code: &Code<'_>) -> Step<()> {
        if self.in_tree_callback(code) {
            return reject(Reason::LockDiscipline, "a lock is taken or given up while a tree is being changed");
        }
        Ok(())
    }

    /// The lock of the value or object that a register points into is held.
    pub(crate) fn holds_lock_of(&self, register: &Register) -> bool {
        let allocation = allocation_of(register);
        self.locks.iter().any(|held| held.allocation == allocation && held.id == register.id)
    }

    /// Makes pointers into lists and trees stale: after the lock is released, what they point to may be freed.
    pub(crate) fn forget_non_owning(&mut self, stale: Register) {
        self.for_each_where(
            |register| register.is_allocated() && register.trust.has(Trust::NOT_OWNING),
            |register| *register = stale,
        );
    }

    /// In the function that compares two nodes of a tree, or in one it calls.
    pub(crate) fn in_tree_callback(&self, code: &Code<'_>) -> bool {
        let compares = |site| code.op(site).kfunc_meaning() == Some(KfuncMeaning::AddToTree);
        self.frames.iter().any(|frame| matches!(frame.caller, Caller::Callback { .. }) && compares(frame.call_site))
    }
}
