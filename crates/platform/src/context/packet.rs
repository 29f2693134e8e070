//! Contexts of the packet and socket hooks that are not socket buffers.

use super::field::{DOUBLE_WORD, Field, FieldValue, NARROW, WORD, field, pointer};
use crate::{AttachType, AttachTypes};

/// `struct xdp_md`.
pub(super) const XDP: &[Field] = &[
    pointer("data", 0, 4, FieldValue::PacketPointer).since(4, 8),
    pointer("data_end", 4, 4, FieldValue::PacketEnd).since(4, 8),
    pointer("data_meta", 8, 4, FieldValue::PacketMeta).since(4, 15),
    field("ingress_ifindex", 12, 4, WORD).since(4, 16),
    field("rx_queue_index", 16, 4, WORD).since(4, 16),
    field("egress_ifindex", 20, 4, WORD).readable_at(AttachTypes::of(&[AttachType::XdpDevmap])).since(5, 8),
];

/// `struct sk_msg_md`.
pub(super) const SOCKET_MESSAGE: &[Field] = &[
    pointer("data", 0, 8, FieldValue::PacketPointer).since(4, 17),
    pointer("data_end", 8, 8, FieldValue::PacketEnd).since(4, 17),
    field("family", 16, 4, WORD).since(4, 18),
    field("remote_ip4", 20, 4, WORD).since(4, 18),
    field("local_ip4", 24, 4, WORD).since(4, 18),
    field("remote_ip6", 28, 16, WORD).since(4, 18),
    field("local_ip6", 44, 16, WORD).since(4, 18),
    field("remote_port", 60, 4, WORD).since(4, 18),
    field("local_port", 64, 4, WORD).since(4, 18),
    field("size", 68, 4, WORD).since(5, 0),
    pointer("sk", 72, 8, FieldValue::Socket).since(5, 8),
];

/// `struct sk_reuseport_md`.
pub(super) const REUSEPORT: &[Field] = &[
    pointer("data", 0, 8, FieldValue::PacketPointer).since(4, 19),
    pointer("data_end", 8, 8, FieldValue::PacketEnd).since(4, 19),
    field("len", 16, 4, NARROW).since(4, 19),
    field("eth_protocol", 20, 4, 2 | 4).since(4, 19),
    field("ip_protocol", 24, 4, NARROW).since(4, 19),
    field("bind_inany", 28, 4, NARROW).since(4, 19),
    field("hash", 32, 4, WORD).since(4, 19),
    pointer("sk", 40, 8, FieldValue::Socket).since(5, 14),
    pointer("migrating_sk", 48, 8, FieldValue::SockCommonOrNull).since(5, 14),
];

/// `struct bpf_sk_lookup`.
pub(super) const SOCKET_LOOKUP: &[Field] = &[
    pointer("sk", 0, 8, FieldValue::SocketOrNull).since(5, 9),
    field("family", 8, 4, NARROW).since(5, 9),
    field("protocol", 12, 4, NARROW).since(5, 9),
    field("remote_ip4", 16, 4, NARROW).since(5, 9),
    field("remote_ip6", 20, 16, NARROW).since(5, 9),
    field("remote_port", 36, 4, NARROW).since(5, 9),
    field("local_ip4", 40, 4, NARROW).since(5, 9),
    field("local_ip6", 44, 16, NARROW).since(5, 9),
    field("local_port", 60, 4, NARROW).since(5, 9),
    field("ingress_ifindex", 64, 4, NARROW).since(5, 17),
];

/// `struct bpf_nf_ctx`.
pub(super) const NETFILTER: &[Field] = &[
    Field { value: FieldValue::BtfId("nf_hook_state"), ..field("state", 0, 8, DOUBLE_WORD) }.since(6, 4),
    Field { value: FieldValue::BtfId("sk_buff"), ..field("skb", 8, 8, DOUBLE_WORD) }.since(6, 4),
];
