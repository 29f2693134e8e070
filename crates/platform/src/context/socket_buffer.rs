//! `struct __sk_buff`: one layout, with other rights in each of the ten program types that get it.

use super::field::{ANY_WIDTH, DOUBLE_WORD, Field, FieldValue, NARROW, WORD, field, pointer};
use crate::{ProgramType, ProgramTypes, SOCKET_BUFFER};

const TC: ProgramTypes = ProgramTypes::of(&[ProgramType::SchedCls, ProgramType::SchedAct]);
const CGROUP_SKB: ProgramTypes = ProgramTypes::of(&[ProgramType::CgroupSkb]);
const SK_SKB: ProgramTypes = ProgramTypes::of(&[ProgramType::SkSkb]);
const SOCKET_FILTER: ProgramTypes = ProgramTypes::of(&[ProgramType::SocketFilter]);
const FLOW_DISSECTOR: ProgramTypes = ProgramTypes::of(&[ProgramType::FlowDissector]);
const LWT: ProgramTypes =
    ProgramTypes::of(&[ProgramType::LwtIn, ProgramType::LwtOut, ProgramType::LwtXmit, ProgramType::LwtSeg6local]);

/// Flow dissectors run before the buffer is complete: they see only its bytes and the keys to fill in.
const BUFFERS: ProgramTypes = SOCKET_BUFFER.without(FLOW_DISSECTOR);
/// Program types that may access the packet's bytes directly.
const DIRECT: ProgramTypes = SOCKET_BUFFER.without(SOCKET_FILTER);
/// Program types that run only when there is a socket.
const WITH_SOCKET: ProgramTypes = CGROUP_SKB.union(SK_SKB);

const fn number(name: &'static str, offset: u32) -> Field {
    field(name, offset, 4, NARROW).readable_in(BUFFERS)
}

/// The fields, by offset.
pub(super) const FIELDS: &[Field] = &[
    number("len", 0),
    number("pkt_type", 4),
    number("mark", 8).readable_in(BUFFERS.without(SK_SKB)).writable_in(WORD, TC.union(CGROUP_SKB).union(LWT)),
    number("queue_mapping", 12).writable_in(WORD, TC),
    number("protocol", 16),
    number("vlan_present", 20),
    number("vlan_tci", 24),
    number("vlan_proto", 28).since(4, 1),
    number("priority", 32).writable_in(WORD, BUFFERS.without(SOCKET_FILTER)).since(4, 1),
    number("ingress_ifindex", 36).since(4, 2),
    number("ifindex", 40).since(4, 2),
    number("tc_index", 44).writable_in(WORD, TC.union(SK_SKB)).since(4, 2),
    field("cb", 48, 20, ANY_WIDTH).readable_in(BUFFERS).writable_in(ANY_WIDTH, BUFFERS.without(SK_SKB)).since(4, 2),
    number("hash", 68).since(4, 3),
    number("tc_classid", 72).readable_in(TC).writable_in(WORD, TC).since(4, 3),
    pointer("data", 76, 4, FieldValue::PacketPointer)
        .readable_in(DIRECT)
        .loaded_with_privilege_in(CGROUP_SKB)
        .since(4, 7),
    pointer("data_end", 80, 4, FieldValue::PacketEnd)
        .readable_in(DIRECT)
        .loaded_with_privilege_in(CGROUP_SKB)
        .since(4, 7),
    number("napi_id", 84).since(4, 12),
    number("family", 88).readable_in(WITH_SOCKET).since(4, 14),
    field("remote_ip4", 92, 4, WORD).readable_in(WITH_SOCKET).since(4, 14),
    field("local_ip4", 96, 4, WORD).readable_in(WITH_SOCKET).since(4, 14),
    field("remote_ip6", 100, 16, WORD).readable_in(WITH_SOCKET).since(4, 14),
    field("local_ip6", 116, 16, WORD).readable_in(WITH_SOCKET).since(4, 14),
    number("remote_port", 132).readable_in(WITH_SOCKET).since(4, 14),
    number("local_port", 136).readable_in(WITH_SOCKET).since(4, 14),
    pointer("data_meta", 140, 4, FieldValue::PacketMeta).readable_in(TC).since(4, 15),
    pointer("flow_keys", 144, 8, FieldValue::FlowKeys).readable_in(FLOW_DISSECTOR).since(4, 20),
    field("tstamp", 152, 8, DOUBLE_WORD)
        .readable_in(TC.union(CGROUP_SKB))
        .writable_in(DOUBLE_WORD, TC.union(CGROUP_SKB))
        .stored_with_privilege_in(CGROUP_SKB)
        .since(5, 0),
    number("wire_len", 160).readable_in(TC).since(5, 0),
    number("gso_segs", 164).since(5, 1),
    pointer("sk", 168, 8, FieldValue::SockCommonOrNull).readable_in(BUFFERS).since(5, 1),
    number("gso_size", 176).since(5, 6),
    field("tstamp_type", 180, 1, 1).readable_in(TC).since(5, 18),
    field("hwtstamp", 184, 8, DOUBLE_WORD).readable_in(TC.union(CGROUP_SKB)).since(5, 16),
];
