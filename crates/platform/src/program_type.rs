//! Program types: which kind of event runs a program, which context it gets, and what it may do.
//!
//! ```
//! use kiln_platform::{PacketAccess, ProgramType};
//! assert_eq!(ProgramType::from_name("xdp"), Some(ProgramType::Xdp));
//! assert_eq!(ProgramType::Xdp.packet_access(), PacketAccess::ReadWrite);
//! assert!(!ProgramType::Xdp.allows_legacy_packet_loads());
//! ```

use crate::kind::kernel_enum;

kernel_enum! {
    /// The kind of a program (`enum bpf_prog_type`).
    enum ProgramType, set ProgramTypes;
    SocketFilter = 1, "socket_filter", "BPF_PROG_TYPE_SOCKET_FILTER", (3, 19);
    Kprobe = 2, "kprobe", "BPF_PROG_TYPE_KPROBE", (4, 1);
    SchedCls = 3, "sched_cls", "BPF_PROG_TYPE_SCHED_CLS", (4, 1);
    SchedAct = 4, "sched_act", "BPF_PROG_TYPE_SCHED_ACT", (4, 1);
    Tracepoint = 5, "tracepoint", "BPF_PROG_TYPE_TRACEPOINT", (4, 7);
    Xdp = 6, "xdp", "BPF_PROG_TYPE_XDP", (4, 8);
    PerfEvent = 7, "perf_event", "BPF_PROG_TYPE_PERF_EVENT", (4, 9);
    CgroupSkb = 8, "cgroup_skb", "BPF_PROG_TYPE_CGROUP_SKB", (4, 10);
    CgroupSock = 9, "cgroup_sock", "BPF_PROG_TYPE_CGROUP_SOCK", (4, 10);
    LwtIn = 10, "lwt_in", "BPF_PROG_TYPE_LWT_IN", (4, 10);
    LwtOut = 11, "lwt_out", "BPF_PROG_TYPE_LWT_OUT", (4, 10);
    LwtXmit = 12, "lwt_xmit", "BPF_PROG_TYPE_LWT_XMIT", (4, 10);
    SockOps = 13, "sock_ops", "BPF_PROG_TYPE_SOCK_OPS", (4, 13);
    SkSkb = 14, "sk_skb", "BPF_PROG_TYPE_SK_SKB", (4, 14);
    CgroupDevice = 15, "cgroup_device", "BPF_PROG_TYPE_CGROUP_DEVICE", (4, 15);
    SkMsg = 16, "sk_msg", "BPF_PROG_TYPE_SK_MSG", (4, 17);
    RawTracepoint = 17, "raw_tracepoint", "BPF_PROG_TYPE_RAW_TRACEPOINT", (4, 17);
    CgroupSockAddr = 18, "cgroup_sock_addr", "BPF_PROG_TYPE_CGROUP_SOCK_ADDR", (4, 17);
    LwtSeg6local = 19, "lwt_seg6local", "BPF_PROG_TYPE_LWT_SEG6LOCAL", (4, 18);
    LircMode2 = 20, "lirc_mode2", "BPF_PROG_TYPE_LIRC_MODE2", (4, 18);
    SkReuseport = 21, "sk_reuseport", "BPF_PROG_TYPE_SK_REUSEPORT", (4, 19);
    FlowDissector = 22, "flow_dissector", "BPF_PROG_TYPE_FLOW_DISSECTOR", (4, 20);
    CgroupSysctl = 23, "cgroup_sysctl", "BPF_PROG_TYPE_CGROUP_SYSCTL", (5, 2);
    RawTracepointWritable = 24, "raw_tracepoint_writable", "BPF_PROG_TYPE_RAW_TRACEPOINT_WRITABLE", (5, 2);
    CgroupSockopt = 25, "cgroup_sockopt", "BPF_PROG_TYPE_CGROUP_SOCKOPT", (5, 3);
    Tracing = 26, "tracing", "BPF_PROG_TYPE_TRACING", (5, 5);
    StructOps = 27, "struct_ops", "BPF_PROG_TYPE_STRUCT_OPS", (5, 6);
    Ext = 28, "ext", "BPF_PROG_TYPE_EXT", (5, 6);
    Lsm = 29, "lsm", "BPF_PROG_TYPE_LSM", (5, 7);
    SkLookup = 30, "sk_lookup", "BPF_PROG_TYPE_SK_LOOKUP", (5, 9);
    Syscall = 31, "syscall", "BPF_PROG_TYPE_SYSCALL", (5, 14);
    Netfilter = 32, "netfilter", "BPF_PROG_TYPE_NETFILTER", (6, 4);
}

/// Whether packet pointers may be used, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PacketAccess {
    /// The context holds no packet pointers.
    None,
    /// Packet bytes may be loaded.
    Read,
    /// Packet bytes may be loaded and stored.
    ReadWrite,
}

impl ProgramType {
    /// What the program may do with bytes between `data` and `data_end`.
    pub const fn packet_access(self) -> PacketAccess {
        use ProgramType::*;
        match self {
            SchedCls | SchedAct | Xdp | LwtXmit | SkSkb | SkMsg | CgroupSockopt => PacketAccess::ReadWrite,
            LwtIn | LwtOut | LwtSeg6local | SkReuseport | FlowDissector | CgroupSkb | SockOps => PacketAccess::Read,
            _ => PacketAccess::None,
        }
    }

    /// Whether the classic packet loads `LD_ABS` and `LD_IND` may be used.
    pub const fn allows_legacy_packet_loads(self) -> bool {
        matches!(self, ProgramType::SocketFilter | ProgramType::SchedCls | ProgramType::SchedAct)
    }

    /// Whether a program of this type may be loaded without privilege (where the system allows it at all).
    pub const fn allowed_unprivileged(self) -> bool {
        matches!(self, ProgramType::SocketFilter | ProgramType::CgroupSkb)
    }

    /// Whether the context is a socket buffer (`struct __sk_buff`).
    pub const fn has_socket_buffer(self) -> bool {
        SOCKET_BUFFER.contains(self)
    }
}

/// The program types whose context is `struct __sk_buff`.
pub const SOCKET_BUFFER: ProgramTypes = ProgramTypes::of(&[
    ProgramType::SocketFilter,
    ProgramType::SchedCls,
    ProgramType::SchedAct,
    ProgramType::CgroupSkb,
    ProgramType::LwtIn,
    ProgramType::LwtOut,
    ProgramType::LwtXmit,
    ProgramType::LwtSeg6local,
    ProgramType::SkSkb,
    ProgramType::FlowDissector,
]);
