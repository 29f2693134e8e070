//! Sockets: lookup, references, options, storage, maps of sockets, SYN cookies.

use super::row::*;

/// Programs that may cast a socket to the structure of its protocol (`bpf_skc_to_*`).
const CASTERS: ProgramTypes = any_of(&[
    BTF_TRACERS,
    LWT,
    TC,
    SOCKET_FILTER,
    XDP,
    CGROUP_SKB,
    SOCK_OPS,
    SK_SKB,
    SK_MSG,
    CGROUP_SOCK_ADDR,
    FLOW_DISSECTOR,
    SK_LOOKUP,
]);

/// Programs that may look sockets up.
const LOOKERS: ProgramTypes = any_of(&[TC, XDP, CGROUP_SKB, SK_SKB, CGROUP_SOCK_ADDR]);

/// Programs that may read and set socket options.
const OPTION_SETTERS: ProgramTypes =
    any_of(&[SOCK_OPS, CGROUP_SOCK, CGROUP_SOCK_ADDR, CGROUP_SOCKOPT, STRUCT_OPS, LSM]);

/// Where only some attach types do.
const OPTION_SETTERS_AT: &[(ProgramType, AttachTypes)] = &[
    (ProgramType::CgroupSock, AttachTypes::of(&[AttachType::CgroupInetSockCreate])),
    (ProgramType::CgroupSockopt, SETSOCKOPT),
    (ProgramType::Lsm, LSM_CGROUP),
];

/// A cast of a socket to a structure of the kernel; 0 if the socket is another.
const fn cast(id: u32, name: &'static str, major: u8, minor: u8, to: &'static str) -> Helper {
    helper(id, name, major, minor)
        .cost(Cost::Constant)
        .args(&[BTF_SOCK])
        .returns(btf_result_or_null(to))
        .capability(PerfMon)
        .effect(ReadsMemory)
        .casts_argument()
        .allowed(CASTERS)
}

/// Makes or checks a SYN cookie.
const fn cookie(id: u32, name: &'static str, major: u8, minor: u8, args: &'static [ArgKind]) -> Helper {
    let row = helper(id, name, major, minor).args(args).gpl_only().packet_memory();
    row.effect(ChangesAllButStack).allowed(any_of(&[TC, XDP]))
}

/// The rows, in the order of their numbers.
pub(super) const HELPERS: &[Helper] = &[
    helper(46, "get_socket_cookie", 4, 12)
        .cost(Cost::Constant)
        .args(&[Context])
        .variants(&[variant(
            any_of(&[BTF_TRACERS, SK_REUSEPORT]),
            Prototype::new(&[BTF_SOCK_OR_NULL], ReturnKind::Integer),
        )])
        .effect(ChangesAllButStack)
        .allowed(any_of(&[
            BTF_TRACERS,
            TC,
            SOCKET_FILTER,
            CGROUP_SKB,
            CGROUP_SOCK,
            SOCK_OPS,
            SK_SKB,
            CGROUP_SOCK_ADDR,
            SK_REUSEPORT,
        ])),
    helper(47, "get_socket_uid", 4, 12).cost(Cost::Constant).args(&[Context]).effect(ReadsMemory).allowed(any_of(&[
        TC,
        SOCKET_FILTER,
        CGROUP_SKB,
        SK_SKB,
    ])),
    helper(49, "setsockopt", 4, 13)
        .when_ignored("the option may not be set")
        .args(&[BTF_SOCK, Anything, Anything, READ, SIZE])
        .variants(&[variant(
            any_of(&[SOCK_OPS, CGROUP_SOCK, CGROUP_SOCK_ADDR]),
            Prototype::new(&[Context, Anything, Anything, READ, SIZE], ReturnKind::Integer),
        )])
        .effect(ChangesAllButStack)
        .allowed(OPTION_SETTERS)
        .attach_rules(OPTION_SETTERS_AT),
    helper(52, "sk_redirect_map", 4, 14)
        .when_ignored("its result is the action: without it, nothing is redirected")
        .args(&[Context, ConstMapPtr, Anything, Anything])
        .effect(ChangesAllButStack)
        .allowed(SK_SKB),
    helper(53, "sock_map_update", 4, 14)
        .when_ignored("the socket may not be in the map")
        .args(&[Context, ConstMapPtr, MapKey, Anything])
        .packet_memory()
        .effect(ChangesAllButStack)
        .allowed(SOCK_OPS),
    helper(57, "getsockopt", 4, 15)
        .args(&[BTF_SOCK, Anything, Anything, WRITE_UNINIT, SIZE])
        .variants(&[variant(
            any_of(&[SOCK_OPS, CGROUP_SOCK, CGROUP_SOCK_ADDR]),
            Prototype::new(&[Context, Anything, Anything, WRITE_UNINIT, SIZE], ReturnKind::Integer),
        )])
        .effect(ChangesAllButStack)
        .allowed(OPTION_SETTERS)
        .attach_rules(OPTION_SETTERS_AT),
    helper(59, "sock_ops_cb_flags_set", 4, 16).args(&[Context, Anything]).effect(ChangesAllButStack).allowed(SOCK_OPS),
    helper(60, "msg_redirect_map", 4, 17)
        .when_ignored("its result is the action: without it, nothing is redirected")
        .args(&[Context, ConstMapPtr, Anything, Anything])
        .effect(ChangesAllButStack)
        .allowed(SK_MSG),
    helper(61, "msg_apply_bytes", 4, 17).args(&[Context, Anything]).effect(ChangesAllButStack).allowed(SK_MSG),
    helper(62, "msg_cork_bytes", 4, 17).args(&[Context, Anything]).effect(ChangesAllButStack).allowed(SK_MSG),
    helper(63, "msg_pull_data", 4, 17)
        .args(&[Context, Anything, Anything, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(SK_MSG),
    helper(64, "bind", 4, 17)
        .when_ignored("the socket may not be bound")
        .args(&[Context, READ, SIZE])
        .effect(ChangesAllButStack)
        .allowed(CGROUP_SOCK_ADDR)
        .attach_rules(&[(ProgramType::CgroupSockAddr, CONNECT)]),
    helper(70, "sock_hash_update", 4, 18)
        .when_ignored("the socket may not be in the map")
        .args(&[Context, ConstMapPtr, MapKey, Anything])
        .packet_memory()
        .effect(ChangesAllButStack)
        .allowed(SOCK_OPS),
    helper(71, "msg_redirect_hash", 4, 18)
        .when_ignored("its result is the action: without it, nothing is redirected")
        .args(&[Context, ConstMapPtr, MapKey, Anything])
        .effect(ChangesAllButStack)
        .allowed(SK_MSG),
    helper(72, "sk_redirect_hash", 4, 18)
        .when_ignored("its result is the action: without it, nothing is redirected")
        .args(&[Context, ConstMapPtr, MapKey, Anything])
        .effect(ChangesAllButStack)
        .allowed(SK_SKB),
    helper(82, "sk_select_reuseport", 4, 19)
        .when_ignored("the packet may go to another socket")
        .args(&[Context, ConstMapPtr, MapKey, Anything])
        .effect(ChangesAllButStack)
        .allowed(SK_REUSEPORT),
    helper(84, "sk_lookup_tcp", 4, 20)
        .args(&[Context, READ, SIZE_OR_ZERO, Anything, Anything])
        .returns(ReturnKind::SocketOrNull)
        .packet_memory()
        .variants(&[variant(
            CGROUP_SOCK_ADDR,
            Prototype::new(&[Context, READ, SIZE_OR_ZERO, Anything, Anything], ReturnKind::SocketOrNull),
        )])
        .acquires()
        .effect(ChangesAllButStack)
        .allowed(LOOKERS),
    helper(85, "sk_lookup_udp", 4, 20)
        .args(&[Context, READ, SIZE_OR_ZERO, Anything, Anything])
        .returns(ReturnKind::SocketOrNull)
        .packet_memory()
        .variants(&[variant(
            CGROUP_SOCK_ADDR,
            Prototype::new(&[Context, READ, SIZE_OR_ZERO, Anything, Anything], ReturnKind::SocketOrNull),
        )])
        .acquires()
        .effect(ChangesAllButStack)
        .allowed(LOOKERS),
    helper(86, "sk_release", 4, 20).args(&[ReleasedBtfSockCommon]).effect(ChangesAllButStack).allowed(any_of(&[
        TC,
        XDP,
        CGROUP_SKB,
        SK_SKB,
        CGROUP_SOCK_ADDR,
        SK_LOOKUP,
    ])),
    helper(90, "msg_push_data", 4, 20)
        .args(&[Context, Anything, Anything, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(SK_MSG),
    helper(91, "msg_pop_data", 5, 0)
        .args(&[Context, Anything, Anything, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(SK_MSG),
    helper(95, "sk_fullsock", 5, 1)
        .cost(Cost::Constant)
        .args(&[SockCommon])
        .returns(ReturnKind::SocketOrNull)
        .effect(ReadsMemory)
        .casts_argument()
        .allowed(any_of(&[TC, CGROUP_SKB])),
    helper(96, "tcp_sock", 5, 1)
        .cost(Cost::Constant)
        .args(&[SockCommon])
        .returns(ReturnKind::TcpSockOrNull)
        .effect(ReadsMemory)
        .casts_argument()
        .allowed(any_of(&[TC, CGROUP_SKB, SOCK_OPS, CGROUP_SOCKOPT])),
    helper(98, "get_listener_sock", 5, 1)
        .cost(Cost::Constant)
        .args(&[SockCommon])
        .returns(ReturnKind::SocketOrNull)
        .effect(ReadsMemory)
        .allowed(any_of(&[TC, CGROUP_SKB])),
    helper(99, "skc_lookup_tcp", 5, 2)
        .args(&[Context, READ, SIZE_OR_ZERO, Anything, Anything])
        .returns(ReturnKind::SockCommonOrNull)
        .packet_memory()
        .variants(&[variant(
            CGROUP_SOCK_ADDR,
            Prototype::new(&[Context, READ, SIZE_OR_ZERO, Anything, Anything], ReturnKind::SockCommonOrNull),
        )])
        .acquires()
        .effect(ChangesAllButStack)
        .allowed(LOOKERS),
    cookie(100, "tcp_check_syncookie", 5, 2, &[BTF_SOCK, READ, SIZE, READ, SIZE]),
    helper(107, "sk_storage_get", 5, 2)
        .args(&[ConstMapPtr, BTF_SOCK, MapValueOrNull, Anything])
        .returns(ReturnKind::MapValueOrNull)
        .variants(&[
            variant(
                any_of(&[TRACING, SYSCALL]),
                Prototype::new(
                    &[ConstMapPtr, btf_or_null("sock_common"), MapValueOrNull, Anything],
                    ReturnKind::MapValueOrNull,
                ),
            ),
            variant(
                CGROUP_SOCK,
                Prototype::new(&[ConstMapPtr, Context, MapValueOrNull, Anything], ReturnKind::MapValueOrNull),
            ),
        ])
        .effect(ChangesAllButStack)
        .allowed(any_of(&[
            BTF_TRACERS,
            TC,
            CGROUP_SKB,
            CGROUP_SOCK,
            SOCK_OPS,
            SK_MSG,
            CGROUP_SOCK_ADDR,
            CGROUP_SOCKOPT,
            STRUCT_OPS,
        ])),
    helper(108, "sk_storage_delete", 5, 2)
        .args(&[ConstMapPtr, BTF_SOCK])
        .variants(&[variant(
            any_of(&[TRACING, SYSCALL]),
            Prototype::new(&[ConstMapPtr, btf_or_null("sock_common")], ReturnKind::Integer),
        )])
        .effect(ChangesAllButStack)
        .allowed(any_of(&[
            BTF_TRACERS,
            TC,
            CGROUP_SKB,
            SOCK_OPS,
            SK_MSG,
            CGROUP_SOCK_ADDR,
            CGROUP_SOCKOPT,
            STRUCT_OPS,
        ])),
    cookie(110, "tcp_gen_syncookie", 5, 4, &[BTF_SOCK, READ, SIZE, READ, SIZE]),
    helper(116, "tcp_send_ack", 5, 6).args(&[btf("tcp_sock"), Anything]).effect(ChangesAllButStack).allowed(STRUCT_OPS),
    helper(122, "get_netns_cookie", 5, 7)
        .cost(Cost::Constant)
        .args(&[ContextOrNull])
        .effect(ChangesAllButStack)
        .allowed(any_of(&[
            TC,
            SOCKET_FILTER,
            CGROUP_SKB,
            CGROUP_SOCK,
            SOCK_OPS,
            SK_MSG,
            CGROUP_SOCK_ADDR,
            CGROUP_SOCKOPT,
        ])),
    helper(124, "sk_assign", 5, 7)
        .when_ignored("the packet may go to another socket")
        .args(&[Context, BTF_SOCK, Anything])
        .variants(&[variant(SK_LOOKUP, Prototype::new(&[Context, SocketOrNull, Anything], ReturnKind::Integer))])
        .effect(ChangesAllButStack)
        .allowed(any_of(&[TC, SK_LOOKUP])),
    helper(128, "sk_cgroup_id", 5, 8).cost(Cost::Constant).args(&[BTF_SOCK]).effect(ReadsMemory).allowed(CGROUP_SKB),
    helper(129, "sk_ancestor_cgroup_id", 5, 8)
        .cost(Cost::Constant)
        .args(&[BTF_SOCK, Anything])
        .effect(ReadsMemory)
        .allowed(CGROUP_SKB),
    cast(136, "skc_to_tcp6_sock", 5, 9, "tcp6_sock"),
    cast(137, "skc_to_tcp_sock", 5, 9, "tcp_sock"),
    cast(138, "skc_to_tcp_timewait_sock", 5, 9, "tcp_timewait_sock"),
    cast(139, "skc_to_tcp_request_sock", 5, 9, "tcp_request_sock"),
    cast(140, "skc_to_udp6_sock", 5, 9, "udp6_sock"),
    helper(142, "load_hdr_opt", 5, 10)
        .args(&[Context, READ_WRITE, SIZE, Anything])
        .effect(WritesArguments)
        .allowed(SOCK_OPS),
    helper(143, "store_hdr_opt", 5, 10)
        .when_ignored("the header may lack the option")
        .args(&[Context, READ, SIZE, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(SOCK_OPS),
    helper(144, "reserve_hdr_opt", 5, 10)
        .when_ignored("the header may lack room for the option")
        .args(&[Context, Anything, Anything])
        .effect(ChangesAllButStack)
        .allowed(SOCK_OPS),
    helper(178, "skc_to_unix_sock", 5, 16)
        .cost(Cost::Constant)
        .args(&[BTF_SOCK])
        .returns(btf_result_or_null("unix_sock"))
        .capability(PerfMon)
        .effect(ReadsMemory)
        .allowed(CASTERS),
    helper(196, "skc_to_mptcp_sock", 5, 19)
        .cost(Cost::Constant)
        .args(&[SockCommon])
        .returns(btf_result_or_null("mptcp_sock"))
        .capability(PerfMon)
        .effect(ReadsMemory)
        .casts_argument()
        .allowed(CASTERS),
    cookie(204, "tcp_raw_gen_syncookie_ipv4", 6, 0, &[fixed(20, Memory::READ), READ, SIZE_OR_ZERO]),
    cookie(205, "tcp_raw_gen_syncookie_ipv6", 6, 0, &[fixed(40, Memory::READ), READ, SIZE_OR_ZERO]),
    cookie(206, "tcp_raw_check_syncookie_ipv4", 6, 0, &[fixed(20, Memory::READ), fixed(20, Memory::READ)]),
    cookie(207, "tcp_raw_check_syncookie_ipv6", 6, 0, &[fixed(40, Memory::READ), fixed(20, Memory::READ)]),
];
