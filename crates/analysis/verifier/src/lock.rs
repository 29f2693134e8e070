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

use crate::error::{Step, reject, unsupported};
use crate::explain::Reason;
use crate::explore::Explorer;
use crate::fields::FieldKind;
use crate::state::{HeldLock, Kind, LockKind, Register};

impl LockKind {
    fn name(self) -> &'static str {
        match self {
            LockKind::Spin => "bpf_spin_lock",
            LockKind::Resilient => "bpf_res_spin_lock",
            LockKind::ResilientIrq => "bpf_res_spin_lock_irqsave",
        }
    }
}

/// The value or object that a register points into.
pub(crate) fn allocation_of(register: &Register) -> (Kind, u32, bool) {
    (register.kind, register.object, register.inner)
}

impl Explorer<'_> {
    /// A lock in a map value or in an object that the program owns.
    pub(crate) fn check_lock_argument(&self, register: &Register, kind: FieldKind, message: String) -> Step<()> {
        if register.kind == Kind::BtfId {
            return unsupported("locks in allocated objects");
        }
        if register.kind != Kind::MapValue {
            return reject(Reason::ArgumentType, message);
        }
        self.find_field(register, |found| found == kind, message).map(|_| ())
    }

    pub(crate) fn take_lock(&mut self, kind: LockKind, lock: &Register) -> Step<()> {
        let taken = HeldLock { kind, allocation: allocation_of(lock), id: lock.id };
        let held = &self.state.locks;
        if kind == LockKind::Spin && held.iter().any(|held| held.kind == LockKind::Spin) {
            return reject(Reason::LockDiscipline, "a second bpf_spin_lock is taken while one is held");
        }
        let same = |held: &HeldLock| held.allocation == taken.allocation && held.id == taken.id;
        if kind != LockKind::Spin && held.iter().any(same) {
            return reject(Reason::LockDiscipline, "the lock that is taken is held already: this never ends");
        }
        self.state.locks.push(taken);
        Ok(())
    }

    pub(crate) fn give_up_lock(&mut self, kind: LockKind, lock: &Register) -> Step<()> {
        let given = HeldLock { kind, allocation: allocation_of(lock), id: lock.id };
        match self.state.locks.last() {
            Some(last) if *last == given => {
                self.state.locks.pop();
                Ok(())
            }
            None => reject(Reason::LockDiscipline, "a lock is given up that is not held"),
            Some(_) if self.state.locks.contains(&given) => {
                reject(Reason::LockDiscipline, "locks are given up in another order than the reverse of taking them")
            }
            Some(last) => reject(
                Reason::LockDiscipline,
                format!("another lock is given up than the {} that is held", last.kind.name()),
            ),
        }
    }
}
