//! Builders, flags and groups of program types for kfunc rows.

pub(super) use super::properties::KfuncFlag::{self, *};
pub(super) use super::properties::KfuncMeaning::{self, *};
pub(super) use super::properties::{DynptrSource, Kfunc, Later};
pub(super) use crate::AttachTypes;
pub(super) use crate::Cost;
pub(super) use crate::ProgramType;
use crate::rows::setters;
use crate::{AttachType, KernelVersion, ProgramTypes};

/// A row: name, first kernel, who may call it, flags.
pub(super) const fn kfunc(
    name: &'static str,
    major: u8,
    minor: u8,
    allowed: ProgramTypes,
    flags: &'static [KfuncFlag],
) -> Kfunc {
    let since = KernelVersion::new(major, minor);
    let (meaning, cost) = (KfuncMeaning::AsDeclared, Cost::Constant);
    Kfunc { name, since, until: None, allowed, attach_rules: &[], flags, meaning, cost }
}

setters! { Kfunc:
    /// It does more than its prototype and flags say.
    means(meaning: KfuncMeaning) => meaning = meaning;
    /// What bounds the time that a call takes; [`Cost::Constant`] where a row does not say.
    cost(cost: Cost) => cost = cost;
    /// From this release on, kernels have it no more, or as another row says.
    until(major: u8, minor: u8) => until = Some(KernelVersion::new(major, minor));
    /// For these program types, only at these attach types.
    only_at(rules: &'static [(ProgramType, AttachTypes)]) => attach_rules = rules;
}

const fn types(types: &[ProgramType]) -> ProgramTypes {
    ProgramTypes::of(types)
}

/// Every program type (the kernel's common hook).
pub(super) const ALL: ProgramTypes = ProgramTypes::ALL;
/// The kernel's tracing hook.
pub(super) const TRACING_HOOK: ProgramTypes =
    types(&[ProgramType::Tracing, ProgramType::Tracepoint, ProgramType::PerfEvent, ProgramType::Lsm]);
/// The kernel's hook for programs on control groups.
pub(super) const CGROUP_HOOK: ProgramTypes = types(&[
    ProgramType::CgroupSkb,
    ProgramType::CgroupSock,
    ProgramType::CgroupDevice,
    ProgramType::CgroupSockAddr,
    ProgramType::CgroupSockopt,
    ProgramType::CgroupSysctl,
    ProgramType::SockOps,
]);
/// The kernel's hook for lightweight tunnels.
const LWT: ProgramTypes =
    types(&[ProgramType::LwtIn, ProgramType::LwtOut, ProgramType::LwtXmit, ProgramType::LwtSeg6local]);
/// Program types with the general set of kfuncs.
pub(super) const GENERIC: ProgramTypes = TRACING_HOOK.union(CGROUP_HOOK).union(types(&[
    ProgramType::SchedCls,
    ProgramType::Xdp,
    ProgramType::StructOps,
    ProgramType::Syscall,
]));
pub(super) const CPUMASK: ProgramTypes = TRACING_HOOK.union(types(&[ProgramType::StructOps, ProgramType::Syscall]));
/// Program types that have a socket buffer to make a dynptr of.
pub(super) const SOCKET_BUFFER_TYPES: ProgramTypes = TRACING_HOOK.union(CGROUP_HOOK).union(LWT).union(types(&[
    ProgramType::SchedCls,
    ProgramType::SchedAct,
    ProgramType::SkSkb,
    ProgramType::SocketFilter,
    ProgramType::Netfilter,
]));
pub(super) const CRYPTO: ProgramTypes = types(&[ProgramType::SchedCls, ProgramType::SchedAct, ProgramType::Xdp]);
pub(super) const CONNTRACK: ProgramTypes = types(&[ProgramType::SchedCls, ProgramType::Xdp]);
/// Functions that exist for tests.
pub(super) const TEST: ProgramTypes = TRACING_HOOK.union(types(&[ProgramType::SchedCls, ProgramType::Syscall]));
/// Schedulers, and programs that inspect them.
pub(super) const SCX: ProgramTypes = TRACING_HOOK.union(types(&[ProgramType::StructOps, ProgramType::Syscall]));
/// Schedulers and syscall programs.
pub(super) const SCX_UNLOCKED: ProgramTypes = types(&[ProgramType::StructOps, ProgramType::Syscall]);

/// Traffic control.
pub(super) const TC: ProgramTypes = types(&[ProgramType::SchedCls, ProgramType::SchedAct]);
/// Iterators.
pub(super) const ITERATOR: AttachTypes = AttachTypes::of(&[AttachType::TraceIter]);
/// Programs at entry and return of a function.
pub(super) const FSESSION: AttachTypes = AttachTypes::of(&[AttachType::TraceFsession]);
/// Probes that run at entry and return.
pub(super) const SESSION: AttachTypes =
    AttachTypes::of(&[AttachType::TraceKprobeSession, AttachType::TraceUprobeSession]);

pub(super) const KPROBE_OR_TRACING: ProgramTypes = types(&[ProgramType::Kprobe, ProgramType::Tracing]);
pub(super) const LSM: ProgramTypes = types(&[ProgramType::Lsm]);
pub(super) const LSM_OR_SYSCALL: ProgramTypes = types(&[ProgramType::Lsm, ProgramType::Syscall]);
pub(super) const CGROUP_SKB: ProgramTypes = types(&[ProgramType::CgroupSkb]);
pub(super) const SCHED_CLS: ProgramTypes = types(&[ProgramType::SchedCls]);
pub(super) const STRUCT_OPS: ProgramTypes = types(&[ProgramType::StructOps]);
pub(super) const SYSCALL: ProgramTypes = types(&[ProgramType::Syscall]);
pub(super) const TRACING: ProgramTypes = types(&[ProgramType::Tracing]);
pub(super) const XDP: ProgramTypes = types(&[ProgramType::Xdp]);
