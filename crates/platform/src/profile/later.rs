//! Helpers and context fields that some program types got later than others.
//!
//! Measured: `tests/kernel.rs` runs under Linux 5.4, 5.10, 5.15, 6.1, 6.12 and 6.18 (`scripts/under-kernel`) and fails for
//! a row that is missing. Between two of these, the release is the one in docs.ebpf.io, or else the later one.

use crate::{AttachType, AttachTypes, KernelVersion, ProgramType, ProgramTypes};

/// Helpers, the program types that may call them only since that release, and the attach types where not all.
struct Later {
    helpers: &'static [&'static str],
    programs: ProgramTypes,
    attach_types: AttachTypes,
    since: KernelVersion,
}

const fn later(helpers: &'static [&'static str], programs: ProgramTypes, major: u8, minor: u8) -> Later {
    Later { helpers, programs, attach_types: AttachTypes::ALL, since: KernelVersion::new(major, minor) }
}

use ProgramType::*;

/// Tracing programs, and programs that user space runs.
const TRACERS: ProgramTypes = ProgramTypes::of(&[
    Kprobe,
    Tracepoint,
    PerfEvent,
    RawTracepoint,
    RawTracepointWritable,
    Tracing,
    Lsm,
    Syscall,
    Ext,
]);
const OTHERS: ProgramTypes = ProgramTypes::ALL.without(TRACERS);
/// Programs on packets and sockets that run for no task.
const NETWORK: ProgramTypes = ProgramTypes::of(&[
    SocketFilter,
    SchedCls,
    SchedAct,
    Xdp,
    CgroupSkb,
    LwtIn,
    LwtOut,
    LwtXmit,
    LwtSeg6local,
    SockOps,
    SkSkb,
    SkReuseport,
    SkLookup,
    FlowDissector,
    Netfilter,
]);
const ON_MESSAGES: ProgramTypes = ProgramTypes::of(&[SkMsg]);
const ON_TASKS: ProgramTypes =
    ProgramTypes::of(&[CgroupDevice, CgroupSock, CgroupSockAddr, CgroupSockopt, CgroupSysctl]);

/// Programs on sockets of a group of processes that run for a task.
const ON_SOCKETS: ProgramTypes = ProgramTypes::of(&[CgroupSock, CgroupSockAddr]);
/// Programs of a group of processes that had few helpers at first.
const ON_CALLS: ProgramTypes = ProgramTypes::of(&[CgroupDevice, CgroupSysctl, CgroupSockopt]);
const PROBES: ProgramTypes = ProgramTypes::of(&[Kprobe, Tracepoint, PerfEvent, RawTracepoint, RawTracepointWritable]);

const TRACING: ProgramTypes = ProgramTypes::of(&[Tracing]);
/// Where tracing programs may not sleep.
const WITHOUT_SLEEP: AttachTypes = AttachTypes::of(&[AttachType::TraceRawTp, AttachType::TraceIter]);
const ON_CONNECT: AttachTypes = AttachTypes::of(&[AttachType::CgroupInet4Connect, AttachType::CgroupInet6Connect]);

const HELPERS: &[Later] = &[
    Later {
        attach_types: AttachTypes::ALL.without(AttachTypes::of(&[AttachType::TraceRawTp])),
        ..later(&["get_attach_cookie"], ProgramTypes::of(&[Tracing, Lsm]), 5, 19)
    },
    later(&["strtol", "strtoul"], ProgramTypes::ALL.without(ProgramTypes::of(&[CgroupSysctl])), 6, 1),
    later(
        &["get_current_pid_tgid", "get_current_comm", "get_cgroup_classid", "get_current_ancestor_cgroup_id"],
        ProgramTypes::of(&[CgroupDevice, CgroupSockopt, CgroupSysctl]),
        6,
        1,
    ),
    later(&["get_current_cgroup_id", "get_current_ancestor_cgroup_id"], NETWORK, 6, 4),
    later(&["get_current_pid_tgid"], NETWORK, 6, 10),
    later(&["get_ns_current_pid_tgid"], OTHERS, 6, 10),
    later(&["get_attach_cookie"], ProgramTypes::of(&[RawTracepoint, RawTracepointWritable]), 6, 10),
    Later {
        attach_types: AttachTypes::of(&[AttachType::TraceRawTp]),
        ..later(&["get_attach_cookie"], ProgramTypes::of(&[Tracing]), 6, 10)
    },
    later(&["current_task_under_cgroup"], ON_TASKS, 6, 12),
    later(&["get_netns_cookie"], ProgramTypes::of(&[SocketFilter, SchedCls, SchedAct, CgroupSkb]), 6, 15),
    later(&["get_current_uid_gid"], NETWORK, 6, 16),
    later(&["get_current_comm", "current_task_under_cgroup"], NETWORK.union(ON_MESSAGES), 6, 16),
    later(
        &["get_cgroup_classid"],
        ProgramTypes::of(&[
            SocketFilter,
            Xdp,
            CgroupSkb,
            SockOps,
            SkSkb,
            SkReuseport,
            SkLookup,
            FlowDissector,
            Netfilter,
            Kprobe,
            Tracepoint,
            PerfEvent,
            RawTracepoint,
            RawTracepointWritable,
            Tracing,
            Syscall,
        ]),
        6,
        16,
    ),
    later(
        &[
            "perf_event_read",
            "perf_event_read_value",
            "send_signal",
            "send_signal_thread",
            "get_task_stack",
            "copy_from_user",
            "copy_from_user_task",
            "task_storage_get",
            "task_storage_delete",
            "get_branch_snapshot",
            "find_vma",
        ],
        OTHERS,
        6,
        16,
    ),
    // Stable updates of older releases removed it.
    later(&["skb_pull_data"], ProgramTypes::of(&[LwtSeg6local]), 6, 16),
    Later {
        attach_types: AttachTypes::of(&[AttachType::CgroupUnixGetpeername, AttachType::CgroupUnixGetsockname]),
        ..later(&["setsockopt", "getsockopt"], ProgramTypes::of(&[CgroupSockAddr]), 6, 18)
    },
    later(&["copy_from_user"], PROBES, 6, 1),
    Later { attach_types: WITHOUT_SLEEP, ..later(&["copy_from_user"], TRACING, 6, 1) },
    later(&["spin_lock", "spin_unlock", "get_current_ancestor_cgroup_id"], PROBES.union(TRACING), 5, 15),
    later(&["get_socket_cookie"], TRACING, 5, 12),
    later(&["sk_storage_get", "sk_storage_delete"], TRACING, 5, 11),
    later(&["get_netns_cookie"], ProgramTypes::of(&[SockOps, SkMsg, CgroupSockopt]), 5, 15),
    later(&["setsockopt", "getsockopt"], ProgramTypes::of(&[CgroupSockopt]), 5, 15),
    Later {
        attach_types: ON_CONNECT,
        ..later(&["setsockopt", "getsockopt"], ProgramTypes::of(&[CgroupSockAddr]), 5, 8)
    },
    later(&["setsockopt", "getsockopt"], ProgramTypes::of(&[CgroupSockAddr]), 5, 12),
    later(
        &["get_current_pid_tgid", "get_current_cgroup_id", "get_cgroup_classid"],
        ON_SOCKETS.union(ON_MESSAGES),
        5,
        10,
    ),
    later(&["get_current_comm"], ON_SOCKETS, 5, 10),
    later(&["perf_event_output"], ON_SOCKETS.union(ON_MESSAGES).union(ON_CALLS), 5, 10),
    later(&["get_current_uid_gid"], ON_MESSAGES, 5, 10),
    later(&["sk_storage_get"], ProgramTypes::of(&[CgroupSock, SkMsg]), 5, 10),
    later(&["sk_storage_delete"], ON_MESSAGES, 5, 10),
    later(&["get_socket_cookie"], ProgramTypes::of(&[CgroupSock]), 5, 10),
    later(
        &[
            "get_numa_node_id",
            "get_prandom_u32",
            "get_smp_processor_id",
            "ktime_get_ns",
            "tail_call",
            "spin_lock",
            "spin_unlock",
        ],
        ON_CALLS,
        5,
        10,
    ),
    later(&["perf_event_read_value"], PROBES.without(ProgramTypes::of(&[Kprobe])), 5, 10),
    later(
        &["sk_lookup_tcp", "sk_lookup_udp", "skc_lookup_tcp", "sk_release", "skb_ancestor_cgroup_id"],
        ProgramTypes::of(&[CgroupSkb]),
        5,
        10,
    ),
    later(&["skb_adjust_room"], ProgramTypes::of(&[SkSkb]), 5, 10),
    later(&["get_current_task"], OTHERS, 5, 10),
];

/// The first release in which programs of this type may call the helper, where that is later than the helper itself.
pub(super) fn helper_since(name: &str, program: ProgramType, attach: Option<AttachType>) -> Option<KernelVersion> {
    let at = |row: &Later| {
        row.attach_types == AttachTypes::ALL || attach.is_some_and(|attach| row.attach_types.contains(attach))
    };
    let mut rows = HELPERS.iter().filter(|row| row.programs.contains(program) && row.helpers.contains(&name));
    rows.find(|row| at(row)).map(|row| row.since)
}

/// A context field that is older than its use in some program types.
const FIELDS: &[(&str, ProgramTypes, KernelVersion)] = &[];

/// The first release in which programs of this type may access the field, where that is later than the field itself.
pub(super) fn field_since(name: &str, program: ProgramType) -> Option<KernelVersion> {
    let row = FIELDS.iter().find(|(field, programs, _)| *field == name && programs.contains(program));
    row.map(|(_, _, since)| *since)
}
