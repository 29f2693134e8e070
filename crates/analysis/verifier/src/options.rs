//! What the verifier is asked to assume and to give, and what exploring took.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use kiln_platform::{Helper, Profile};
use kiln_program::InsnId;
use kiln_program::btf::Btf;

/// What the verifier is asked to assume and to give.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether values that the loader may still change count as known.
    pub assumptions: Assumptions,
    /// The program is loaded without privilege: uninitialized stack may not be read, pointers may not leak.
    pub unprivileged: bool,
    /// Only the verdict is wanted; [`crate::Verified::facts`] is then empty.
    pub skip_facts: bool,
    /// The types of the kernel that the program is for (its `vmlinux` BTF), which kernel structures and functions are
    /// known by. Without them, programs that use those are unsupported.
    pub kernel_types: Option<Arc<Btf>>,
    /// How many processors the machine that it is loaded on may have; `None` for the most that any may.
    pub processors: Option<u32>,
    /// A rejection is to tell its story: the program is then explored twice more, along the path that fails.
    pub explain: bool,
    /// When to give up with [`crate::Error::Limit`]; `None` for never.
    pub deadline: Option<Instant>,
    /// Give up in the same way once this is true.
    pub stop: Option<Arc<AtomicBool>>,
    /// Give up with [`crate::Error::Limit`] after so many processed instructions. `None`: only the kernel's limit holds, which
    /// rejects the program.
    pub most_insns: Option<u64>,
    /// How many instructions may still be processed, by all verifications with this count; [`crate::Error::Limit`] after them.
    /// Unlike time, it ends at the same place on every machine.
    pub insns_left: Option<Arc<AtomicU64>>,
    /// The kernel that the program is for: what it does not have yet is rejected. By default the newest one described.
    pub profile: Profile,
    /// A number used as an address is an address in the program's heap, as if it were cast to an arena pointer. For
    /// transforms that insert those casts: the kernel refuses such a program.
    pub heap: bool,
    /// A program may use several arenas, for the VM. The kernel allows one.
    pub several_arenas: bool,
    /// With `heap`: `may_goto` instructions of loops whose numbers the transform will hide where the loop begins. Here these
    /// numbers are unknown from the first turn on. In other loops a number that a decision depends on stays known, so a
    /// loop that counts with it is explored once for each count.
    pub forgetful: BTreeSet<InsnId>,
    /// Helpers besides the kernel's ([`Helper::own`]), for programs that run in an embedder's VM.
    pub own_helpers: Vec<&'static Helper>,
}

impl Options {
    /// The helper with this number, the kernel's or an embedder's.
    pub(crate) fn helper(&self, id: u32) -> Option<&'static Helper> {
        Helper::by_id(id).or_else(|| self.own_helpers.iter().copied().find(|helper| helper.id == id))
    }

    /// Takes some instructions of those that are left; `false` if fewer are.
    pub(crate) fn takes(&self, insns: u64) -> bool {
        let Some(left) = &self.insns_left else { return true };
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(insns));
        taken.inspect_err(|_| left.store(0, Ordering::Relaxed)).is_ok()
    }

    /// Whether the deadline has passed.
    pub(crate) fn time_is_up(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
            || self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

/// Whether values that the loader may still change (CO-RE fields, kconfig, `.rodata`, map sizes) count as known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Assumptions {
    /// They are as the object says: the verdict is that of loading it here and now.
    #[default]
    AsLoaded,
    /// They may be anything: the facts are safe to optimize by.
    AnyLoad,
}

/// What exploring took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Instructions explored, each visit counted (the kernel's `processed insns`).
    pub processed_insns: u64,
    /// The most states kept at one time.
    pub peak_states: u64,
    /// Kept states in all.
    pub total_states: u64,
    /// The deepest stack of a chain of calls, in bytes, each frame rounded up as the kernel does.
    pub stack_bytes: u32,
    /// The most that one function uses of its own frame, in bytes.
    pub frame_bytes: u32,
}
