//! The properties in a kernel function's row.

use crate::{AttachType, AttachTypes, Cost, KernelVersion, ProgramType, ProgramTypes};

/// One kernel function that programs may call.
#[derive(Clone, Copy, Debug)]
pub struct Kfunc {
    /// Its name.
    pub name: &'static str,
    /// The first kernel that has it, for any program type.
    pub since: KernelVersion,
    /// The first kernel that has it no more, or with other flags: another row has these.
    pub until: Option<KernelVersion>,
    /// The program types that may call it.
    pub allowed: ProgramTypes,
    /// The attach types that may call it, for program types of `allowed` that restrict them.
    pub attach_rules: &'static [(ProgramType, AttachTypes)],
    /// The properties that BTF lacks.
    pub flags: &'static [KfuncFlag],
    /// What it does in addition to its prototype and flags.
    pub meaning: KfuncMeaning,
    /// What bounds the time that a call takes.
    pub cost: Cost,
}

/// Special meanings of kfuncs that the kernel's verifier knows by name (`special_kfunc_list` in
/// `kernel/bpf/verifier.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KfuncMeaning {
    /// No special meaning: only its prototype and flags.
    AsDeclared,
    /// Allocates an object of the type whose number is its first argument.
    NewObject {
        /// One for each CPU.
        per_cpu: bool,
    },
    /// Frees an object, or puts back a reference to it.
    DropObject {
        /// Whether the object was allocated for each CPU.
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
    /// Returns a node of a list or tree without removing it.
    FindNode,
    /// Takes a resilient lock, or fails.
    Lock {
        /// Whether interrupts are off while it is held.
        interrupts: bool,
    },
    /// Releases a resilient lock.
    Unlock {
        /// Whether it restores the interrupt state.
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
    /// Makes a function of the program run later.
    RunLater(Later),
    /// Throws an exception.
    Throw,
    /// Stands where the compiler found undefined behaviour: a program that may reach it is refused.
    Trap,
    /// Tells whether a session is at the traced function's return.
    SessionIsReturn,
    /// Makes a dynptr.
    MakeDynptr(DynptrSource),
    /// Makes a second dynptr to the memory of another one.
    CloneDynptr,
    /// Returns a pointer to a range of a dynptr's bytes.
    Slice {
        /// They may be written.
        writable: bool,
    },
    /// Returns the kernel's own structure for the context.
    CastContext,
    /// Casts an address to a type, for reading.
    CastReadOnly,
    /// Returns the eight bytes that entry and return of a session share.
    SessionCookie,
    /// Its result is untrusted.
    UntrustedResult,
    /// May move the packet: every packet pointer is stale afterwards.
    MovePacket,
    /// Begins an iterator over a control group's tasks, which only some programs may.
    IterateCssTasks,
    /// Only for programs bound to a network device.
    DeviceBound,
}

/// The mechanism that runs a function of the program later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Later {
    /// `struct bpf_wq`.
    Workqueue,
    /// `struct bpf_task_work`.
    TaskWork,
}

/// The memory of a dynptr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DynptrSource {
    /// A socket buffer.
    Skb,
    /// An XDP frame.
    Xdp,
    /// The metadata before a socket buffer's packet.
    SkbMeta,
    /// The contents of a file, which must be given back.
    File,
}

/// Properties of a kfunc that the kernel's BTF lacks (`KF_*` in `include/linux/btf.h`).
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
    /// It may crash the machine.
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
    /// Whether kernels of this release have it as this row describes it.
    pub fn is_of(&self, version: KernelVersion) -> bool {
        self.since <= version && self.until.is_none_or(|until| version < until)
    }

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

    /// Whether its pointers must be trusted: by its flag, or because it releases one.
    pub fn takes_trusted(&self) -> bool {
        self.has(KfuncFlag::TrustedArgs) || self.has(KfuncFlag::Release)
    }
}
