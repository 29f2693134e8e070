//! What a run has to show, for each reason of the verifier.
//!
//! ```text
//!   goes wrong   the VM finds it: memory outside of a value, a lock held at the end    kinds
//!   does it      the verifier follows the run, with its numbers, and still rejects     followed
//!                it: a call that this hook does not allow, a wrong argument
//! ```

use kiln_verifier::Reason;
use kiln_vm::stand_in::Wrong;

/// What a run shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shows {
    /// The VM found that it goes wrong.
    Wrong(Wrong),
    /// The verifier rejects what the run does, for this reason.
    Rejected(Reason),
}

impl Shows {
    /// The rule of the kernel's that the run breaks, if nothing else goes wrong in it.
    pub fn rule(self) -> Option<Reason> {
        match self {
            Shows::Wrong(_) => None,
            Shows::Rejected(reason) => (followed(reason) == Some(Followed::Rule)).then_some(reason),
        }
    }
}

/// What it means that the verifier rejects a run whose numbers it knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Followed {
    /// The run accesses memory that is not there.
    Unsafe,
    /// The run does what a rule of the kernel's forbids.
    Rule,
}

/// The kinds of mistake that the VM finds in a run, for a reason.
pub fn kinds(reason: Reason) -> &'static [Wrong] {
    use Wrong::{Context, Endless, Held, Moved, Null, Number, Outside, ReadOnly, Released, Size, Unset, UnsetStack};
    match reason {
        Reason::PossiblyNull => &[Null],
        Reason::PacketBounds => &[Outside, Moved],
        Reason::MapValueBounds | Reason::MemoryBounds | Reason::StackBounds | Reason::UnboundedOffset => &[Outside],
        Reason::UninitializedRegister => &[Unset],
        Reason::UninitializedStack => &[UnsetStack],
        Reason::NotAPointer => &[Null, Number, Moved, Released, Outside],
        Reason::PointerArithmetic => &[Outside, Null],
        Reason::ArgumentType => &[Context, Null, Number, Outside, Moved, Released],
        Reason::ArgumentSize => &[Size, Outside],
        Reason::ReadOnlyMemory => &[ReadOnly],
        Reason::UnreleasedReference => &[Held],
        Reason::NotHeld => &[Released, Null],
        Reason::LockDiscipline | Reason::CriticalSection => &[Held],
        Reason::InfiniteLoop => &[Endless],
        _ => &[],
    }
}

/// Whether the verifier rejects an instruction that makes a pointer, and the access through it comes later.
pub fn comes_later(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::UnboundedOffset
            | Reason::PointerArithmetic
            | Reason::NotAPointer
            | Reason::UnreleasedReference
            | Reason::LockDiscipline
            | Reason::CriticalSection
    )
}

/// What it means that a run is rejected for a reason. Nothing, if the reason is about what the verifier does not know of a
/// run even so: how long its packet is, whether a number is an address, whether a loop ends.
pub fn followed(reason: Reason) -> Option<Followed> {
    match reason {
        Reason::MapValueBounds | Reason::MemoryBounds | Reason::StackBounds => Some(Followed::Unsafe),
        Reason::ArgumentType
        | Reason::BadInstruction
        | Reason::CallDepth
        | Reason::ContextAccess
        | Reason::CriticalSection
        | Reason::DynptrMisuse
        | Reason::Exception
        | Reason::GplOnly
        | Reason::HelperNotAllowed
        | Reason::IteratorMisuse
        | Reason::KernelLacks
        | Reason::KfuncNotAllowed
        | Reason::LockDiscipline
        | Reason::MapHelperMismatch
        | Reason::Misaligned
        | Reason::NotHeld
        | Reason::NotTrusted
        | Reason::ReadOnlyMemory
        | Reason::ReturnValue
        | Reason::SpecialField
        | Reason::StructureAccess
        | Reason::UnreleasedReference => Some(Followed::Rule),
        _ => None,
    }
}
