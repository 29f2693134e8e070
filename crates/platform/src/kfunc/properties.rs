//! What a row of the tables says of a kernel function.

use crate::{AttachType, AttachTypes, KernelVersion, ProgramType, ProgramTypes};

/// One kernel function that programs may call.
#[derive(Clone, Copy, Debug)]
pub struct Kfunc {
    /// Its name.
    pub name: &'static str,
    /// The first kernel that has it, for any program type.
    pub since: KernelVersion,
    /// The program types that may call it.
    pub allowed: ProgramTypes,
    /// For a program type of `allowed`, the only attach types that may, where not all do.
    pub attach_rules: &'static [(ProgramType, AttachTypes)],
    /// What BTF does not say of it.
    pub flags: &'static [KfuncFlag],
    /// What it does beside what its prototype and flags say.
    pub meaning: KfuncMeaning,
}

/// What a kfunc does that the kernel's verifier knows it by name for (`special_kfunc_list` in `kernel/bpf/verifier.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KfuncMeaning {
    /// What its prototype and flags say, and nothing else.
    AsDeclared,
    /// Allocates an object of the type whose number is its first argument.
    NewObject {
        /// One for each CPU.
        per_cpu: bool,
    },
    /// Gives an object back.
    DropObject {
        /// One that was allocated for each CPU.
        per_cpu: bool,
    },
    /// Takes another reference to an object that counts them.
    AcquireObject,
    /// Puts an object into a list.
    AddToList,
    /// Puts an object into a tree, which compares it with the program's function.
    AddToTree,
    /// Takes a node out of a list or tree: the program owns it.
    TakeNode,
    /// Looks a node of a list or tree up, which stays there.
    FindNode,
    /// Takes a resilient lock, or fails.
    Lock {
        /// Interrupts are off while it is held.
        interrupts: bool,
    },
    /// Gives a resilient lock up.
    Unlock {
        /// Interrupts are as they were before.
        interrupts: bool,
    },
    /// Switches interrupts off and saves what they were.
    SaveInterrupts,
    /// Restores what was saved.
    RestoreInterrupts,
    /// Begins an RCU read section.
    BeginRcu,
    /// Ends it.
    EndRcu,
    /// Switches preemption off.
    DisablePreemption,
    /// Switches it on.
    EnablePreemption,
    /// Has a function of the program run later.
    RunLater(Later),
    /// Throws an exception.
    Throw,
    /// Makes a dynptr.
    MakeDynptr(DynptrSource),
    /// Makes a dynptr to what another one has.
    CloneDynptr,
    /// Gives a pointer to some of a dynptr's bytes.
    Slice {
        /// They may be written.
        writable: bool,
    },
    /// Gives the kernel's own structure behind the context.
    CastContext,
    /// Takes an address for one of a type, for reading.
    CastReadOnly,
    /// Gives the eight bytes that entry and return of a session share.
    SessionCookie,
    /// What it gives is not vouched for.
    UntrustedResult,
    /// May move the packet: every packet pointer is stale afterwards.
    MovePacket,
    /// Begins an iterator over a control group's tasks, which only some programs may.
    IterateCssTasks,
    /// For programs bound to a network device only.
    DeviceBound,
}

/// What runs a function of the program later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Later {
    /// `struct bpf_wq`.
    Workqueue,
    /// `struct bpf_task_work`.
    TaskWork,
}

/// What a dynptr is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DynptrSource {
    /// A socket buffer.
    Skb,
    /// An XDP frame.
    Xdp,
    /// The metadata before a socket buffer's packet.
    SkbMeta,
}

/// What the kernel's BTF does not say of a kfunc (`KF_*` in `include/linux/btf.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KfuncFlag {
    /// The pointer in `r0` is a reference that must be released.
    Acquire,
    /// It takes over the reference among its arguments.
    Release,
    /// The pointer in `r0` may be null.
    RetNull,
    /// Its pointers must be trusted or referenced, and not null.
    TrustedArgs,
    /// It may sleep.
    Sleepable,
    /// It may bring the machine down.
    Destructive,
    /// Its pointers must be trusted, or protected by RCU, and not null.
    Rcu,
    /// It begins an iterator.
    IteratorNew,
    /// It takes the next item of an iterator.
    IteratorNext,
    /// It ends an iterator.
    IteratorDestroy,
    /// It may only be called in an RCU section.
    RcuProtected,
    /// It keeps the contract of `bpf_fastcall`.
    Fastcall,
    /// It may be called while a lock is held.
    UnderLock,
}

impl Kfunc {
    /// Whether the flag is set.
    pub fn has(&self, flag: KfuncFlag) -> bool {
        self.flags.contains(&flag)
    }

    /// Whether programs of this type may call it (at some attach type).
    pub const fn allowed_in(&self, program_type: ProgramType) -> bool {
        self.allowed.contains(program_type)
    }

    /// Whether programs of this type may call it at this attach type.
    pub fn allowed_at(&self, program_type: ProgramType, attach: Option<AttachType>) -> bool {
        let named = self.attach_rules.iter().find(|(ruled, _)| *ruled == program_type);
        let at = |attach_types: &AttachTypes| attach.is_some_and(|attach| attach_types.contains(attach));
        self.allowed_in(program_type) && named.is_none_or(|(_, attach_types)| at(attach_types))
    }

    /// Whether the kernel's rules ask for trusted pointers: said so, or because it releases one.
    pub fn takes_trusted(&self) -> bool {
        self.has(KfuncFlag::TrustedArgs) || self.has(KfuncFlag::Release)
    }
}
