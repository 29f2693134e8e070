//! Socket buffers: bytes, checksums, VLANs, redirection, routing.

use super::row::*;

/// The rows, in the order of their numbers.
pub(super) const HELPERS: &[Helper] = &[
    helper(9, "skb_store_bytes", 4, 1)
        .when_ignored("the packet may be unchanged")
        .args(&[Context, Anything, READ, SIZE, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(any_of(&[TC, LWT_XMIT, SK_SKB])),
    helper(10, "l3_csum_replace", 4, 1)
        .when_ignored("the packet may leave with a wrong checksum")
        .args(&[Context, Anything, Anything, Anything, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(any_of(&[TC, LWT_XMIT])),
    helper(11, "l4_csum_replace", 4, 1)
        .when_ignored("the packet may leave with a wrong checksum")
        .args(&[Context, Anything, Anything, Anything, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(any_of(&[TC, LWT_XMIT])),
    helper(13, "clone_redirect", 4, 2)
        .when_ignored("the copy may not be sent")
        .args(&[Context, Anything, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(any_of(&[TC, LWT_XMIT])),
    helper(18, "skb_vlan_push", 4, 3)
        .when_ignored("the packet may have no tag")
        .args(&[Context, Anything, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(TC),
    helper(19, "skb_vlan_pop", 4, 3)
        .when_ignored("the packet may keep its tag")
        .args(&[Context])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(TC),
    helper(23, "redirect", 4, 4)
        .cost(Cost::Constant)
        .when_ignored("its result is the action: a redirect that fails must not be answered with success")
        .args(&[Anything, Anything])
        .effect(ChangesOutside)
        .allowed(any_of(&[TC, XDP, LWT_XMIT])),
    helper(24, "get_route_realm", 4, 4)
        .cost(Cost::Constant)
        .args(&[Context])
        .effect(ReadsMemory)
        .allowed(any_of(&[LWT, TC])),
    helper(26, "skb_load_bytes", 4, 5)
        .when_ignored("the buffer holds zeros if the packet is too short")
        .args(&[Context, Anything, WRITE_UNINIT, SIZE])
        .effect(WritesArguments)
        .fills(Fills::Always)
        .allowed(any_of(&[LWT, TC, SOCKET_FILTER, CGROUP_SKB, SK_SKB, SK_REUSEPORT, FLOW_DISSECTOR])),
    helper(28, "csum_diff", 4, 6)
        .args(&[READ_OR_NULL, SIZE_OR_ZERO, READ_OR_NULL, SIZE_OR_ZERO, Anything])
        .packet_memory()
        .effect(ReadsMemory)
        .allowed(any_of(&[LWT, TC, XDP])),
    helper(31, "skb_change_proto", 4, 8)
        .when_ignored("the packet may be unchanged")
        .args(&[Context, Anything, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(TC),
    helper(32, "skb_change_type", 4, 8).args(&[Context, Anything]).effect(ChangesAllButStack).allowed(TC),
    helper(33, "skb_under_cgroup", 4, 8)
        .args(&[Context, ConstMapPtr, Anything])
        .effect(ReadsMemory)
        .allowed(any_of(&[LWT, TC])),
    helper(34, "get_hash_recalc", 4, 8)
        .cost(Cost::Constant)
        .args(&[Context])
        .effect(ChangesAllButStack)
        .allowed(any_of(&[LWT, TC])),
    helper(38, "skb_change_tail", 4, 9)
        .when_ignored("the packet may have its old size")
        .args(&[Context, Anything, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(any_of(&[TC, LWT_XMIT, SK_SKB])),
    helper(39, "skb_pull_data", 4, 9)
        .args(&[Context, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(any_of(&[LWT, TC, SK_SKB])),
    helper(40, "csum_update", 4, 9)
        .cost(Cost::Constant)
        .args(&[Context, Anything])
        .effect(ChangesAllButStack)
        .allowed(any_of(&[TC, LWT_XMIT])),
    helper(41, "set_hash_invalid", 4, 9)
        .cost(Cost::Constant)
        .args(&[Context])
        .effect(ChangesAllButStack)
        .allowed(any_of(&[TC, LWT_XMIT])),
    helper(43, "skb_change_head", 4, 10)
        .when_ignored("the packet may have its old size")
        .args(&[Context, Anything, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(any_of(&[TC, LWT_XMIT, SK_SKB])),
    helper(48, "set_hash", 4, 13)
        .cost(Cost::Constant)
        .args(&[Context, Anything])
        .effect(ChangesAllButStack)
        .allowed(TC),
    helper(50, "skb_adjust_room", 4, 13)
        .when_ignored("the packet may have its old size")
        .args(&[Context, Anything, Anything, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(any_of(&[TC, SK_SKB])),
    helper(66, "skb_get_xfrm_state", 4, 18)
        .args(&[Context, Anything, WRITE_UNINIT, SIZE, Anything])
        .effect(WritesArguments)
        .allowed(TC),
    helper(68, "skb_load_bytes_relative", 4, 18)
        .when_ignored("the buffer holds zeros if the packet is too short")
        .args(&[Context, Anything, WRITE_UNINIT, SIZE, Anything])
        .effect(WritesArguments)
        .fills(Fills::Always)
        .allowed(any_of(&[TC, SOCKET_FILTER, CGROUP_SKB, SK_REUSEPORT])),
    helper(69, "fib_lookup", 4, 18)
        .when_ignored("the route may not have been found, and what it would have filled in is not there")
        .args(&[Context, READ_WRITE, SIZE, Anything])
        .gpl_only()
        .effect(ChangesOutside)
        .allowed(any_of(&[TC, XDP])),
    helper(79, "skb_cgroup_id", 4, 18)
        .cost(Cost::Constant)
        .args(&[Context])
        .effect(ReadsMemory)
        .allowed(any_of(&[TC, CGROUP_SKB])),
    helper(83, "skb_ancestor_cgroup_id", 4, 19)
        .cost(Cost::Constant)
        .args(&[Context, Anything])
        .effect(ReadsMemory)
        .allowed(any_of(&[TC, CGROUP_SKB])),
    helper(97, "skb_ecn_set_ce", 5, 1).args(&[Context]).effect(ChangesAllButStack).allowed(any_of(&[TC, CGROUP_SKB])),
    helper(135, "csum_level", 5, 8)
        .cost(Cost::Constant)
        .args(&[Context, Anything])
        .effect(ChangesAllButStack)
        .allowed(any_of(&[TC, LWT_XMIT])),
    helper(151, "skb_cgroup_classid", 5, 10).cost(Cost::Constant).args(&[Context]).effect(ReadsMemory).allowed(TC),
    helper(152, "redirect_neigh", 5, 10)
        .when_ignored("its result is the action: a redirect that fails must not be answered with success")
        .args(&[Anything, READ_OR_NULL, SIZE_OR_ZERO, Anything])
        .effect(ChangesAllButStack)
        .allowed(TC),
    helper(155, "redirect_peer", 5, 10)
        .cost(Cost::Constant)
        .when_ignored("its result is the action: a redirect that fails must not be answered with success")
        .args(&[Anything, Anything])
        .effect(ChangesAllButStack)
        .allowed(TC),
    helper(163, "check_mtu", 5, 12)
        .args(&[Context, Anything, aligned(4, Memory::READ_WRITE), Anything, Anything])
        .gpl_only()
        .effect(WritesArguments)
        .allowed(any_of(&[TC, XDP])),
    helper(192, "skb_set_tstamp", 5, 18)
        .cost(Cost::Constant)
        .args(&[Context, Anything, Anything])
        .effect(ChangesAllButStack)
        .allowed(TC),
];
