//! Builders, argument shorthands and groups of program types for helper rows. The tables import all of them, so that a
//! row reads like a sentence.

pub(super) use super::properties::Capability::{self, *};
pub(super) use super::properties::Effect::{self, *};
pub(super) use super::properties::{Cost, Fills, Follows, Helper, Stable};
pub(super) use super::prototype::ArgKind::{self, *};
pub(super) use super::prototype::{DynptrUse, Memory, Prototype, ReturnKind, Variant};
use crate::rows::setters;
pub(super) use crate::{AttachType, AttachTypes, KernelVersion, ProgramType, ProgramTypes};

/// Begins a row. Defaults: no arguments, an integer result, any effect, no program type may call it.
pub(super) const fn helper(id: u32, name: &'static str, major: u8, minor: u8) -> Helper {
    Helper {
        id,
        name,
        since: KernelVersion::new(major, minor),
        prototype: Prototype::new(&[], ReturnKind::Integer),
        variants: &[],
        allowed: ProgramTypes::NONE,
        attach_rules: &[],
        capability: Capability::None,
        effect: Effect::Any,
        cost: Cost::Unknown,
        follows: Follows::Nothing,
        fills: Fills::Unknown,
        stable: Stable::Never,
        returns_size: false,
        answer_bits: u64::MAX,
        moves_on: false,
        needs_frame: false,
        reads_all_arguments: false,
        calls_later: false,
        reaches_out: false,
        changes_packet_data: false,
        acquires: false,
        casts_argument: false,
        fastcall: false,
        when_ignored: Option::None,
        replaced_by: Option::None,
    }
}

/// A prototype that holds for some program types only.
pub(super) const fn variant(program_types: ProgramTypes, prototype: Prototype) -> Variant {
    Variant { program_types, prototype }
}

setters! { Helper:
    args(args: &'static [ArgKind]) => prototype.args = args;
    returns(returns: ReturnKind) => prototype.returns = returns;
    cost(cost: Cost) => cost = cost;
    gpl_only => prototype.gpl_only = true;
    packet_memory => prototype.packet_memory = true;
    might_sleep => prototype.might_sleep = true;
    variants(variants: &'static [Variant]) => variants = variants;
    allowed(allowed: ProgramTypes) => allowed = allowed;
    attach_rules(rules: &'static [(ProgramType, AttachTypes)]) => attach_rules = rules;
    capability(capability: Capability) => capability = capability;
    effect(effect: Effect) => effect = effect;
    follows(follows: Follows) => follows = follows;
    fills(fills: Fills) => fills = fills;
    stable(stable: Stable) => stable = stable;
    returns_size => returns_size = true;
    answers(bits: u64) => answer_bits = bits;
    moves_on => moves_on = true;
    needs_frame => needs_frame = true;
    reads_all_arguments => reads_all_arguments = true;
    calls_later => calls_later = true;
    reaches_out => reaches_out = true;
    changes_packet_data => changes_packet_data = true;
    acquires => acquires = true;
    casts_argument => casts_argument = true;
    fastcall => fastcall = true;
    when_ignored(what: &'static str) => when_ignored = Some(what);
    replaced_by(names: &'static str) => replaced_by = Some(names);
}

/// The size of the memory argument before it, at least 1.
pub(super) const SIZE: ArgKind = ArgKind::Size { zero_allowed: false };
/// The size of the memory argument before it, which may be 0.
pub(super) const SIZE_OR_ZERO: ArgKind = ArgKind::Size { zero_allowed: true };
/// Memory the helper reads.
pub(super) const READ: ArgKind = ArgKind::Memory(Memory::READ);
/// Memory the helper reads, or 0.
pub(super) const READ_OR_NULL: ArgKind = ArgKind::Memory(Memory::READ.or_null());
/// Memory the helper fills.
pub(super) const WRITE_UNINIT: ArgKind = ArgKind::Memory(Memory::WRITE_UNINIT);
/// Memory the helper reads and writes.
pub(super) const READ_WRITE: ArgKind = ArgKind::Memory(Memory::READ_WRITE);
/// Memory the helper reads and writes, or 0.
pub(super) const READ_WRITE_OR_NULL: ArgKind = ArgKind::Memory(Memory::READ_WRITE.or_null());
/// A socket, typed by BTF or as contexts and lookups give it.
pub(super) const BTF_SOCK: ArgKind = ArgKind::BtfSockCommon { nullable: false };
/// A socket, typed by BTF or as contexts and lookups give it, or 0.
pub(super) const BTF_SOCK_OR_NULL: ArgKind = ArgKind::BtfSockCommon { nullable: true };

/// A kernel structure as an argument.
pub(super) const fn btf(type_name: &'static str) -> ArgKind {
    ArgKind::BtfId { type_name, nullable: false }
}

/// A kernel structure, or 0, as an argument.
pub(super) const fn btf_or_null(type_name: &'static str) -> ArgKind {
    ArgKind::BtfId { type_name, nullable: true }
}

/// Memory of `size` bytes, at any alignment.
pub(super) const fn fixed(size: u32, memory: Memory) -> ArgKind {
    ArgKind::FixedMemory { size, memory, aligned: false }
}

/// Memory of `size` bytes, aligned to its size.
pub(super) const fn aligned(size: u32, memory: Memory) -> ArgKind {
    ArgKind::FixedMemory { size, memory, aligned: true }
}

/// A kernel structure, or 0, as a result.
pub(super) const fn btf_result_or_null(type_name: &'static str) -> ReturnKind {
    ReturnKind::BtfId { type_name, nullable: true, trusted: false }
}

/// A kernel structure as a result.
pub(super) const fn btf_result(type_name: &'static str) -> ReturnKind {
    ReturnKind::BtfId { type_name, nullable: false, trusted: false }
}

/// A trusted kernel structure as a result.
pub(super) const fn btf_result_trusted(type_name: &'static str) -> ReturnKind {
    ReturnKind::BtfId { type_name, nullable: false, trusted: true }
}

/// The program types in any of the groups.
pub(super) const fn any_of(groups: &[ProgramTypes]) -> ProgramTypes {
    let mut union = ProgramTypes::NONE;
    let mut index = 0;
    while index < groups.len() {
        union = union.union(groups[index]);
        index += 1;
    }
    union
}

/// Every program type except `Ext`, which follows the rules of the program that it replaces.
pub(super) const ALL: ProgramTypes = ProgramTypes::ALL.without(ProgramTypes::of(&[ProgramType::Ext]));
/// Programs on kernel and user probes, tracepoints and performance events, and tracing programs typed by BTF.
pub(super) const TRACERS: ProgramTypes =
    any_of(&[KPROBE, TRACEPOINT, PERF_EVENT, RAW_TRACEPOINT, RAW_TRACEPOINT_WRITABLE, BTF_TRACERS]);
/// Programs whose arguments are typed by BTF, and syscall programs.
pub(super) const BTF_TRACERS: ProgramTypes = any_of(&[TRACING, LSM, SYSCALL]);
/// Both kinds of raw tracepoint.
pub(super) const RAW_TRACEPOINTS: ProgramTypes = any_of(&[RAW_TRACEPOINT, RAW_TRACEPOINT_WRITABLE]);
/// Traffic control.
pub(super) const TC: ProgramTypes = any_of(&[SCHED_CLS, SCHED_ACT]);
/// Lightweight tunnels.
pub(super) const LWT: ProgramTypes = any_of(&[LWT_IN, LWT_OUT, LWT_XMIT, LWT_SEG6LOCAL]);

pub(super) const SOCKET_FILTER: ProgramTypes = ProgramTypes::of(&[ProgramType::SocketFilter]);
pub(super) const KPROBE: ProgramTypes = ProgramTypes::of(&[ProgramType::Kprobe]);
pub(super) const SCHED_CLS: ProgramTypes = ProgramTypes::of(&[ProgramType::SchedCls]);
pub(super) const SCHED_ACT: ProgramTypes = ProgramTypes::of(&[ProgramType::SchedAct]);
pub(super) const TRACEPOINT: ProgramTypes = ProgramTypes::of(&[ProgramType::Tracepoint]);
pub(super) const XDP: ProgramTypes = ProgramTypes::of(&[ProgramType::Xdp]);
pub(super) const PERF_EVENT: ProgramTypes = ProgramTypes::of(&[ProgramType::PerfEvent]);
pub(super) const CGROUP_SKB: ProgramTypes = ProgramTypes::of(&[ProgramType::CgroupSkb]);
pub(super) const CGROUP_SOCK: ProgramTypes = ProgramTypes::of(&[ProgramType::CgroupSock]);
pub(super) const LWT_IN: ProgramTypes = ProgramTypes::of(&[ProgramType::LwtIn]);
pub(super) const LWT_OUT: ProgramTypes = ProgramTypes::of(&[ProgramType::LwtOut]);
pub(super) const LWT_XMIT: ProgramTypes = ProgramTypes::of(&[ProgramType::LwtXmit]);
pub(super) const SOCK_OPS: ProgramTypes = ProgramTypes::of(&[ProgramType::SockOps]);
pub(super) const SK_SKB: ProgramTypes = ProgramTypes::of(&[ProgramType::SkSkb]);
pub(super) const CGROUP_DEVICE: ProgramTypes = ProgramTypes::of(&[ProgramType::CgroupDevice]);
pub(super) const SK_MSG: ProgramTypes = ProgramTypes::of(&[ProgramType::SkMsg]);
pub(super) const RAW_TRACEPOINT: ProgramTypes = ProgramTypes::of(&[ProgramType::RawTracepoint]);
pub(super) const CGROUP_SOCK_ADDR: ProgramTypes = ProgramTypes::of(&[ProgramType::CgroupSockAddr]);
pub(super) const LWT_SEG6LOCAL: ProgramTypes = ProgramTypes::of(&[ProgramType::LwtSeg6local]);
pub(super) const LIRC_MODE2: ProgramTypes = ProgramTypes::of(&[ProgramType::LircMode2]);
pub(super) const SK_REUSEPORT: ProgramTypes = ProgramTypes::of(&[ProgramType::SkReuseport]);
pub(super) const FLOW_DISSECTOR: ProgramTypes = ProgramTypes::of(&[ProgramType::FlowDissector]);
pub(super) const CGROUP_SYSCTL: ProgramTypes = ProgramTypes::of(&[ProgramType::CgroupSysctl]);
pub(super) const RAW_TRACEPOINT_WRITABLE: ProgramTypes = ProgramTypes::of(&[ProgramType::RawTracepointWritable]);
pub(super) const CGROUP_SOCKOPT: ProgramTypes = ProgramTypes::of(&[ProgramType::CgroupSockopt]);
pub(super) const TRACING: ProgramTypes = ProgramTypes::of(&[ProgramType::Tracing]);
pub(super) const STRUCT_OPS: ProgramTypes = ProgramTypes::of(&[ProgramType::StructOps]);
pub(super) const LSM: ProgramTypes = ProgramTypes::of(&[ProgramType::Lsm]);
pub(super) const SK_LOOKUP: ProgramTypes = ProgramTypes::of(&[ProgramType::SkLookup]);
pub(super) const SYSCALL: ProgramTypes = ProgramTypes::of(&[ProgramType::Syscall]);

/// `connect` over IPv4 and IPv6.
pub(super) const CONNECT: AttachTypes =
    AttachTypes::of(&[AttachType::CgroupInet4Connect, AttachType::CgroupInet6Connect]);
/// The address hooks that may refuse the call, and so may set the return value.
pub(super) const ADDRESS_VERDICT: AttachTypes = AttachTypes::of(&[
    AttachType::CgroupInet4Bind,
    AttachType::CgroupInet6Bind,
    AttachType::CgroupInet4Connect,
    AttachType::CgroupInet6Connect,
    AttachType::CgroupUnixConnect,
    AttachType::CgroupUdp4Sendmsg,
    AttachType::CgroupUdp6Sendmsg,
    AttachType::CgroupUnixSendmsg,
]);
/// LSM hooks attached to a cgroup.
pub(super) const LSM_CGROUP: AttachTypes = AttachTypes::of(&[AttachType::LsmCgroup]);
/// `setsockopt`.
pub(super) const SETSOCKOPT: AttachTypes = AttachTypes::of(&[AttachType::CgroupSetsockopt]);
/// Iterators.
pub(super) const ITERATOR: AttachTypes = AttachTypes::of(&[AttachType::TraceIter]);
/// Programs called through a trampoline, which keeps the traced function's arguments.
pub(super) const TRAMPOLINE: AttachTypes = AttachTypes::of(&[
    AttachType::TraceFentry,
    AttachType::TraceFexit,
    AttachType::TraceFsession,
    AttachType::ModifyReturn,
]);
/// Tracing programs that were attached with a cookie.
pub(super) const TRACING_WITH_COOKIE: AttachTypes = AttachTypes::of(&[
    AttachType::TraceRawTp,
    AttachType::TraceFentry,
    AttachType::TraceFexit,
    AttachType::TraceFsession,
    AttachType::ModifyReturn,
]);
