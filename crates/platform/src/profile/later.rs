//! Helpers and context fields that some program types got later than others.
//!
//! Measured: `tests/kernel.rs` runs under Linux 4.18, 5.0, 5.3, 5.4, 5.10, 5.15, 6.1, 6.12 and 6.18 (`scripts/under-kernel`) and fails for
//! a row that is missing. Between two of these, the release is the one in docs.ebpf.io, or else the later one.

use crate::{AttachType, AttachTypes, FieldAccess, KernelVersion, ProgramType, ProgramTypes};

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
    later(&["setsockopt", "getsockopt"], ProgramTypes::of(&[CgroupSock]), 6, 19),
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
    later(&["perf_event_output"], ProgramTypes::of(&[SocketFilter, SkSkb, CgroupSkb]), 5, 4),
    later(&["perf_event_output"], ProgramTypes::of(&[SockOps]), 5, 0),
    later(&["skb_change_head"], ProgramTypes::of(&[SchedCls, SchedAct]), 5, 4),
    later(&["skb_cgroup_id"], ProgramTypes::of(&[CgroupSkb]), 5, 3),
    later(
        &["map_push_elem", "map_pop_elem", "map_peek_elem"],
        ProgramTypes::of(&[Kprobe, Tracepoint, PerfEvent, RawTracepoint, CgroupDevice]),
        5,
        3,
    ),
    later(&["lwt_push_encap"], ProgramTypes::of(&[LwtXmit]), 5, 1),
    later(&["get_current_cgroup_id"], ProgramTypes::of(&[CgroupDevice]), 4, 20),
    later(&["get_socket_cookie"], ProgramTypes::of(&[SockOps, CgroupSockAddr]), 4, 19),
];

/// The first release in which programs of this type may call the helper, where that is later than the helper itself.
pub(super) fn helper_since(name: &str, program: ProgramType, attach: Option<AttachType>) -> Option<KernelVersion> {
    let at = |row: &Later| {
        row.attach_types == AttachTypes::ALL || attach.is_some_and(|attach| row.attach_types.contains(attach))
    };
    let mut rows = HELPERS.iter().filter(|row| row.programs.contains(program) && row.helpers.contains(&name));
    rows.find(|row| at(row)).map(|row| row.since)
}

/// Accesses of context fields that are younger than the fields.
struct LaterAccess {
    fields: &'static [&'static str],
    programs: ProgramTypes,
    /// The widths in bytes, as a mask: `1 | 2`.
    widths: u32,
    /// Whether reads are as old as the field.
    writes_only: bool,
    since: KernelVersion,
}

const fn access(
    fields: &'static [&'static str],
    programs: ProgramTypes,
    widths: u32,
    major: u8,
    minor: u8,
) -> LaterAccess {
    LaterAccess { fields, programs, widths, writes_only: false, since: KernelVersion::new(major, minor) }
}

const ALL_WIDTHS: u32 = 1 | 2 | 4 | 8;
/// Programs on the packets of a group of processes.
const ON_PACKETS: ProgramTypes = ProgramTypes::of(&[CgroupSkb]);

const ACCESSES: &[LaterAccess] = &[
    LaterAccess {
        writes_only: true,
        ..access(&["queue_mapping"], ProgramTypes::of(&[SchedCls, SchedAct]), ALL_WIDTHS, 5, 1)
    },
    access(&["data", "data_end", "family", "remote_port", "local_port"], ON_PACKETS, ALL_WIDTHS, 4, 20),
    access(&["remote_ip4", "local_ip4", "remote_ip6", "local_ip6"], ON_PACKETS, ALL_WIDTHS, 4, 20),
    LaterAccess { writes_only: true, ..access(&["mark", "priority"], ON_PACKETS, ALL_WIDTHS, 4, 20) },
    access(&["family", "type", "protocol", "src_port"], ProgramTypes::of(&[CgroupSock]), 1 | 2, 5, 1),
    access(&["user_ip6", "msg_src_ip6"], ProgramTypes::of(&[CgroupSockAddr]), 8, 5, 3),
    access(&["user_port"], ProgramTypes::of(&[CgroupSockAddr]), 1 | 2, 5, 8),
];

/// The first release in which programs of this type may access the field so, where that is later than the field itself.
pub(super) fn access_since(access: &FieldAccess, program: ProgramType, write: bool) -> Option<KernelVersion> {
    let meant = |row: &&LaterAccess| {
        row.fields.contains(&access.field.name)
            && row.programs.contains(program)
            && row.widths & access.width != 0
            && (write || !row.writes_only)
    };
    ACCESSES.iter().find(meant).map(|row| row.since)
}
