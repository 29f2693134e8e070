//! Contexts of cgroup hooks and of infrared remote controls.

use super::field::{ANY_WIDTH, DOUBLE_WORD, Field, FieldValue, NARROW, WORD, field, pointer};
use crate::{AttachType, AttachTypes};

const CREATE_OR_RELEASE: AttachTypes =
    AttachTypes::of(&[AttachType::CgroupInetSockCreate, AttachType::CgroupInetSockRelease]);
const POST_BIND4: AttachTypes = AttachTypes::of(&[AttachType::CgroupInet4PostBind]);
const POST_BIND6: AttachTypes = AttachTypes::of(&[AttachType::CgroupInet6PostBind]);

/// `struct bpf_sock`, as hooks on a socket's creation, binding and release see it.
pub(super) const SOCKET: &[Field] = &[
    field("bound_dev_if", 0, 4, WORD).readable_at(CREATE_OR_RELEASE).writable(WORD).since(4, 10),
    field("family", 4, 4, NARROW).only_from_start().since(4, 11),
    field("type", 8, 4, NARROW).only_from_start().since(4, 11),
    field("protocol", 12, 4, NARROW).only_from_start().since(4, 11),
    field("mark", 16, 4, WORD).readable_at(CREATE_OR_RELEASE).writable(WORD).since(4, 14),
    field("priority", 20, 4, WORD).readable_at(CREATE_OR_RELEASE).writable(WORD).since(4, 14),
    field("src_ip4", 24, 4, NARROW).readable_at(POST_BIND4).since(4, 17),
    field("src_ip6", 28, 16, NARROW).readable_at(POST_BIND6).since(4, 17),
    field("src_port", 44, 4, NARROW).only_from_start().readable_at(POST_BIND4.union(POST_BIND6)).since(4, 17),
    field("dst_port", 48, 2, NARROW).padded(2).since(5, 1),
    field("dst_ip4", 52, 4, NARROW).since(5, 1),
    field("dst_ip6", 56, 16, NARROW).since(5, 1),
    field("state", 72, 4, NARROW).only_from_start().since(5, 1),
    field("rx_queue_mapping", 76, 4, NARROW).only_from_start().since(5, 8),
];

const IPV4: AttachTypes = AttachTypes::of(&[
    AttachType::CgroupInet4Bind,
    AttachType::CgroupInet4Connect,
    AttachType::CgroupInet4Getpeername,
    AttachType::CgroupInet4Getsockname,
    AttachType::CgroupUdp4Sendmsg,
    AttachType::CgroupUdp4Recvmsg,
]);
const IPV6: AttachTypes = AttachTypes::of(&[
    AttachType::CgroupInet6Bind,
    AttachType::CgroupInet6Connect,
    AttachType::CgroupInet6Getpeername,
    AttachType::CgroupInet6Getsockname,
    AttachType::CgroupUdp6Sendmsg,
    AttachType::CgroupUdp6Recvmsg,
]);
const SENDMSG4: AttachTypes = AttachTypes::of(&[AttachType::CgroupUdp4Sendmsg]);
const SENDMSG6: AttachTypes = AttachTypes::of(&[AttachType::CgroupUdp6Sendmsg]);

/// `struct bpf_sock_addr`.
pub(super) const SOCKET_ADDRESS: &[Field] = &[
    field("user_family", 0, 4, WORD).since(4, 17),
    field("user_ip4", 4, 4, NARROW).readable_at(IPV4).writable(WORD).since(4, 17),
    field("user_ip6", 8, 16, ANY_WIDTH).readable_at(IPV6).writable(WORD | DOUBLE_WORD).since(4, 17),
    field("user_port", 24, 4, NARROW).writable(WORD).since(4, 17),
    field("family", 28, 4, WORD).since(4, 17),
    field("type", 32, 4, WORD).since(4, 17),
    field("protocol", 36, 4, WORD).since(4, 17),
    field("msg_src_ip4", 40, 4, NARROW).readable_at(SENDMSG4).writable(WORD).since(4, 18),
    field("msg_src_ip6", 44, 16, ANY_WIDTH).readable_at(SENDMSG6).writable(WORD | DOUBLE_WORD).since(4, 18),
    pointer("sk", 64, 8, FieldValue::Socket).since(5, 3),
];

/// `struct bpf_sock_ops`.
pub(super) const SOCKET_OPERATIONS: &[Field] = &[
    field("op", 0, 4, WORD).since(4, 13),
    field("reply", 4, 4, WORD).writable(WORD).since(4, 13),
    field("args[1..4]", 8, 12, WORD).since(4, 13),
    field("family", 20, 4, WORD).since(4, 13),
    field("remote_ip4", 24, 4, WORD).since(4, 13),
    field("local_ip4", 28, 4, WORD).since(4, 13),
    field("remote_ip6", 32, 16, WORD).since(4, 13),
    field("local_ip6", 48, 16, WORD).since(4, 13),
    field("remote_port", 64, 4, WORD).since(4, 13),
    field("local_port", 68, 4, WORD).since(4, 13),
    field("is_fullsock", 72, 4, WORD).since(4, 16),
    field("snd_cwnd", 76, 4, WORD).since(4, 16),
    field("srtt_us", 80, 4, WORD).since(4, 16),
    field("bpf_sock_ops_cb_flags", 84, 4, WORD).since(4, 16),
    field("state", 88, 4, WORD).since(4, 16),
    field("rtt_min", 92, 4, WORD).since(4, 16),
    field("snd_ssthresh", 96, 4, WORD).since(4, 16),
    field("rcv_nxt", 100, 4, WORD).since(4, 16),
    field("snd_nxt", 104, 4, WORD).since(4, 16),
    field("snd_una", 108, 4, WORD).since(4, 16),
    field("mss_cache", 112, 4, WORD).since(4, 16),
    field("ecn_flags", 116, 4, WORD).since(4, 16),
    field("rate_delivered", 120, 4, WORD).since(4, 16),
    field("rate_interval_us", 124, 4, WORD).since(4, 16),
    field("packets_out", 128, 4, WORD).since(4, 16),
    field("retrans_out", 132, 4, WORD).since(4, 16),
    field("total_retrans", 136, 4, WORD).since(4, 16),
    field("segs_in", 140, 4, WORD).since(4, 16),
    field("data_segs_in", 144, 4, WORD).since(4, 16),
    field("segs_out", 148, 4, WORD).since(4, 16),
    field("data_segs_out", 152, 4, WORD).since(4, 16),
    field("lost_out", 156, 4, WORD).since(4, 16),
    field("sacked_out", 160, 4, WORD).since(4, 16),
    field("sk_txhash", 164, 4, WORD).writable(WORD).since(4, 16),
    field("bytes_received", 168, 8, DOUBLE_WORD).since(4, 16),
    field("bytes_acked", 176, 8, DOUBLE_WORD).since(4, 16),
    pointer("sk", 184, 8, FieldValue::SocketOrNull).since(5, 3),
    pointer("skb_data", 192, 8, FieldValue::PacketPointer).since(5, 10),
    pointer("skb_data_end", 200, 8, FieldValue::PacketEnd).since(5, 10),
    field("skb_len", 208, 4, WORD).since(5, 10),
    field("skb_tcp_flags", 212, 4, NARROW).only_from_start().since(5, 10),
    field("skb_hwtstamp", 216, 8, DOUBLE_WORD).since(6, 2),
];

const GETSOCKOPT: AttachTypes = AttachTypes::of(&[AttachType::CgroupGetsockopt]);
const SETSOCKOPT: AttachTypes = AttachTypes::of(&[AttachType::CgroupSetsockopt]);

/// `struct bpf_sockopt`.
pub(super) const SOCKET_OPTION: &[Field] = &[
    pointer("sk", 0, 8, FieldValue::Socket).since(5, 3),
    pointer("optval", 8, 8, FieldValue::PacketPointer).since(5, 3),
    pointer("optval_end", 16, 8, FieldValue::PacketEnd).since(5, 3),
    field("level", 24, 4, WORD).writable(WORD).writable_at(SETSOCKOPT).since(5, 3),
    field("optname", 28, 4, WORD).writable(WORD).writable_at(SETSOCKOPT).since(5, 3),
    field("optlen", 32, 4, WORD).writable(WORD).since(5, 3),
    field("retval", 36, 4, WORD).readable_at(GETSOCKOPT).writable(WORD).since(5, 3),
];

/// `struct bpf_sysctl`.
pub(super) const SYSCTL: &[Field] =
    &[field("write", 0, 4, NARROW).since(5, 2), field("file_pos", 4, 4, NARROW).writable(WORD).since(5, 2)];

/// `struct bpf_cgroup_dev_ctx`.
pub(super) const DEVICE: &[Field] = &[
    field("access_type", 0, 4, NARROW).since(4, 15),
    field("major", 4, 4, WORD).since(4, 15),
    field("minor", 8, 4, WORD).since(4, 15),
];

/// The sample an infrared program gets.
pub(super) const INFRARED: &[Field] = &[field("sample", 0, 4, WORD).since(4, 18)];
