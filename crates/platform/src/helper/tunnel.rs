//! Tunnels: keys and options of collect-metadata devices, lightweight tunnels and segment routing.

use super::row::*;

/// The rows, in the order of their numbers.
pub(super) const HELPERS: &[Helper] = &[
    helper(20, "skb_get_tunnel_key", 4, 3)
        .when_ignored("the key holds zeros if there is no tunnel")
        .args(&[Context, WRITE_UNINIT, SIZE, Anything])
        .effect(WritesArguments)
        .allowed(any_of(&[TC, LWT_XMIT])),
    helper(21, "skb_set_tunnel_key", 4, 3)
        .when_ignored("the packet may leave without the tunnel")
        .args(&[Context, READ, SIZE, Anything])
        .effect(ChangesAllButStack)
        .allowed(any_of(&[TC, LWT_XMIT])),
    helper(29, "skb_get_tunnel_opt", 4, 6)
        .args(&[Context, WRITE_UNINIT, SIZE])
        .effect(WritesArguments)
        .allowed(any_of(&[TC, LWT_XMIT])),
    helper(30, "skb_set_tunnel_opt", 4, 6)
        .when_ignored("the packet may leave without the tunnel's options")
        .args(&[Context, READ, SIZE])
        .effect(ChangesAllButStack)
        .allowed(any_of(&[TC, LWT_XMIT])),
    helper(73, "lwt_push_encap", 4, 18)
        .when_ignored("the packet may leave without its encapsulation")
        .args(&[Context, Anything, READ, SIZE])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(any_of(&[LWT_IN, LWT_XMIT])),
    helper(74, "lwt_seg6_store_bytes", 4, 18)
        .args(&[Context, Anything, READ, SIZE])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(LWT_SEG6LOCAL),
    helper(75, "lwt_seg6_adjust_srh", 4, 18)
        .args(&[Context, Anything, Anything])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(LWT_SEG6LOCAL),
    helper(76, "lwt_seg6_action", 4, 18)
        .args(&[Context, Anything, READ, SIZE])
        .changes_packet_data()
        .effect(ChangesAllButStack)
        .allowed(LWT_SEG6LOCAL),
];
