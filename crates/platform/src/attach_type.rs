//! Attach types: where a program is attached. Some rules (return values, readable context fields, helpers) depend on
//! it.

use crate::kind::kernel_enum;

kernel_enum! {
    /// Where a program is attached (`enum bpf_attach_type`).
    enum AttachType, set AttachTypes;
    CgroupInetIngress = 0, "cgroup_inet_ingress", "BPF_CGROUP_INET_INGRESS", (4, 10);
    CgroupInetEgress = 1, "cgroup_inet_egress", "BPF_CGROUP_INET_EGRESS", (4, 10);
    CgroupInetSockCreate = 2, "cgroup_inet_sock_create", "BPF_CGROUP_INET_SOCK_CREATE", (4, 10);
    CgroupSockOps = 3, "cgroup_sock_ops", "BPF_CGROUP_SOCK_OPS", (4, 13);
    SkSkbStreamParser = 4, "sk_skb_stream_parser", "BPF_SK_SKB_STREAM_PARSER", (4, 14);
    SkSkbStreamVerdict = 5, "sk_skb_stream_verdict", "BPF_SK_SKB_STREAM_VERDICT", (4, 14);
    CgroupDevice = 6, "cgroup_device", "BPF_CGROUP_DEVICE", (4, 15);
    SkMsgVerdict = 7, "sk_msg_verdict", "BPF_SK_MSG_VERDICT", (4, 17);
    CgroupInet4Bind = 8, "cgroup_inet4_bind", "BPF_CGROUP_INET4_BIND", (4, 17);
    CgroupInet6Bind = 9, "cgroup_inet6_bind", "BPF_CGROUP_INET6_BIND", (4, 17);
    CgroupInet4Connect = 10, "cgroup_inet4_connect", "BPF_CGROUP_INET4_CONNECT", (4, 17);
    CgroupInet6Connect = 11, "cgroup_inet6_connect", "BPF_CGROUP_INET6_CONNECT", (4, 17);
    CgroupInet4PostBind = 12, "cgroup_inet4_post_bind", "BPF_CGROUP_INET4_POST_BIND", (4, 17);
    CgroupInet6PostBind = 13, "cgroup_inet6_post_bind", "BPF_CGROUP_INET6_POST_BIND", (4, 17);
    CgroupUdp4Sendmsg = 14, "cgroup_udp4_sendmsg", "BPF_CGROUP_UDP4_SENDMSG", (4, 18);
    CgroupUdp6Sendmsg = 15, "cgroup_udp6_sendmsg", "BPF_CGROUP_UDP6_SENDMSG", (4, 18);
    LircMode2 = 16, "lirc_mode2", "BPF_LIRC_MODE2", (4, 18);
    FlowDissector = 17, "flow_dissector", "BPF_FLOW_DISSECTOR", (4, 20);
    CgroupSysctl = 18, "cgroup_sysctl", "BPF_CGROUP_SYSCTL", (5, 2);
    CgroupUdp4Recvmsg = 19, "cgroup_udp4_recvmsg", "BPF_CGROUP_UDP4_RECVMSG", (5, 2);
    CgroupUdp6Recvmsg = 20, "cgroup_udp6_recvmsg", "BPF_CGROUP_UDP6_RECVMSG", (5, 2);
    CgroupGetsockopt = 21, "cgroup_getsockopt", "BPF_CGROUP_GETSOCKOPT", (5, 3);
    CgroupSetsockopt = 22, "cgroup_setsockopt", "BPF_CGROUP_SETSOCKOPT", (5, 3);
    TraceRawTp = 23, "trace_raw_tp", "BPF_TRACE_RAW_TP", (5, 5);
    TraceFentry = 24, "trace_fentry", "BPF_TRACE_FENTRY", (5, 5);
    TraceFexit = 25, "trace_fexit", "BPF_TRACE_FEXIT", (5, 5);
    ModifyReturn = 26, "modify_return", "BPF_MODIFY_RETURN", (5, 7);
    LsmMac = 27, "lsm_mac", "BPF_LSM_MAC", (5, 7);
    TraceIter = 28, "trace_iter", "BPF_TRACE_ITER", (5, 8);
    CgroupInet4Getpeername = 29, "cgroup_inet4_getpeername", "BPF_CGROUP_INET4_GETPEERNAME", (5, 8);
    CgroupInet6Getpeername = 30, "cgroup_inet6_getpeername", "BPF_CGROUP_INET6_GETPEERNAME", (5, 8);
    CgroupInet4Getsockname = 31, "cgroup_inet4_getsockname", "BPF_CGROUP_INET4_GETSOCKNAME", (5, 8);
    CgroupInet6Getsockname = 32, "cgroup_inet6_getsockname", "BPF_CGROUP_INET6_GETSOCKNAME", (5, 8);
    XdpDevmap = 33, "xdp_devmap", "BPF_XDP_DEVMAP", (5, 8);
    CgroupInetSockRelease = 34, "cgroup_inet_sock_release", "BPF_CGROUP_INET_SOCK_RELEASE", (5, 9);
    XdpCpumap = 35, "xdp_cpumap", "BPF_XDP_CPUMAP", (5, 9);
    SkLookup = 36, "sk_lookup", "BPF_SK_LOOKUP", (5, 9);
    Xdp = 37, "xdp", "BPF_XDP", (5, 9);
    SkSkbVerdict = 38, "sk_skb_verdict", "BPF_SK_SKB_VERDICT", (5, 13);
    SkReuseportSelect = 39, "sk_reuseport_select", "BPF_SK_REUSEPORT_SELECT", (5, 14);
    SkReuseportSelectOrMigrate = 40, "sk_reuseport_select_or_migrate", "BPF_SK_REUSEPORT_SELECT_OR_MIGRATE", (5, 14);
    PerfEvent = 41, "perf_event", "BPF_PERF_EVENT", (5, 15);
    TraceKprobeMulti = 42, "trace_kprobe_multi", "BPF_TRACE_KPROBE_MULTI", (5, 18);
    LsmCgroup = 43, "lsm_cgroup", "BPF_LSM_CGROUP", (6, 0);
    StructOps = 44, "struct_ops", "BPF_STRUCT_OPS", (6, 4);
    Netfilter = 45, "netfilter", "BPF_NETFILTER", (6, 4);
    TcxIngress = 46, "tcx_ingress", "BPF_TCX_INGRESS", (6, 6);
    TcxEgress = 47, "tcx_egress", "BPF_TCX_EGRESS", (6, 6);
    TraceUprobeMulti = 48, "trace_uprobe_multi", "BPF_TRACE_UPROBE_MULTI", (6, 6);
    CgroupUnixConnect = 49, "cgroup_unix_connect", "BPF_CGROUP_UNIX_CONNECT", (6, 7);
    CgroupUnixSendmsg = 50, "cgroup_unix_sendmsg", "BPF_CGROUP_UNIX_SENDMSG", (6, 7);
    CgroupUnixRecvmsg = 51, "cgroup_unix_recvmsg", "BPF_CGROUP_UNIX_RECVMSG", (6, 7);
    CgroupUnixGetpeername = 52, "cgroup_unix_getpeername", "BPF_CGROUP_UNIX_GETPEERNAME", (6, 7);
    CgroupUnixGetsockname = 53, "cgroup_unix_getsockname", "BPF_CGROUP_UNIX_GETSOCKNAME", (6, 7);
    NetkitPrimary = 54, "netkit_primary", "BPF_NETKIT_PRIMARY", (6, 7);
    NetkitPeer = 55, "netkit_peer", "BPF_NETKIT_PEER", (6, 7);
    TraceKprobeSession = 56, "trace_kprobe_session", "BPF_TRACE_KPROBE_SESSION", (6, 10);
    TraceUprobeSession = 57, "trace_uprobe_session", "BPF_TRACE_UPROBE_SESSION", (6, 13);
    TraceFsession = 58, "trace_fsession", "BPF_TRACE_FSESSION", (7, 0);
}
