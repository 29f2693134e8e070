//! Objects behind pointers that contexts and helpers hand out: sockets, TCP statistics, flow keys. Like contexts they
//! are views, with fields at fixed widths.

use super::error::ContextError;
use super::field::{ANY_WIDTH, DOUBLE_WORD, Field, FieldAccess, NARROW, WORD, field, field_at};

/// The layout of an object behind a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectLayout {
    /// The structure's name in C.
    pub struct_name: &'static str,
    /// Bytes it has.
    pub size: u32,
    /// It is plain memory: accesses need no alignment, unless the machine requires it.
    pub unaligned: bool,
    /// The fields, by offset.
    pub fields: &'static [Field],
}

impl ObjectLayout {
    /// The field that an access of `width` bytes at `offset` is to.
    pub fn access(&self, offset: i64, width: u32, write: bool) -> Result<FieldAccess, ContextError> {
        let start = super::checked_start(self.size, self.unaligned, offset, width)?;
        let field = field_at(self.fields, start, width).ok_or(ContextError::NoField)?;
        let permission = if write { &field.store } else { &field.load };
        if permission.widths == 0 {
            return Err(match write {
                true => ContextError::NotWritable { field: field.name },
                false => ContextError::NotReadable { field: field.name },
            });
        }
        field.checked_width(permission, start, width)
    }
}

const fn common(name: &'static str, offset: u32) -> Field {
    field(name, offset, 4, NARROW)
}

/// `struct bpf_sock` behind a pointer to a full socket.
pub const SOCKET: ObjectLayout = ObjectLayout {
    struct_name: "bpf_sock",
    size: 80,
    unaligned: false,
    fields: &[
        field("bound_dev_if", 0, 4, WORD).since(5, 1),
        common("family", 4).only_from_start().since(5, 1),
        common("type", 8).only_from_start().since(5, 1),
        common("protocol", 12).only_from_start().since(5, 1),
        field("mark", 16, 4, WORD).since(5, 1),
        field("priority", 20, 4, WORD).since(5, 1),
        common("src_ip4", 24).since(5, 1),
        field("src_ip6", 28, 16, NARROW).since(5, 1),
        common("src_port", 44).only_from_start().since(5, 1),
        field("dst_port", 48, 2, NARROW).padded(2).since(5, 1),
        common("dst_ip4", 52).since(5, 1),
        field("dst_ip6", 56, 16, NARROW).since(5, 1),
        common("state", 72).only_from_start().since(5, 1),
        common("rx_queue_mapping", 76).only_from_start().since(5, 8),
    ],
};

/// `struct bpf_sock` for a pointer to a socket of any kind: without the fields that only full sockets have.
pub const SOCK_COMMON: ObjectLayout = ObjectLayout {
    struct_name: "bpf_sock",
    size: 80,
    unaligned: false,
    fields: &[
        field("bound_dev_if", 0, 4, WORD).since(5, 1),
        common("family", 4).only_from_start().since(5, 1),
        common("src_ip4", 24).since(5, 1),
        field("src_ip6", 28, 16, NARROW).since(5, 1),
        common("src_port", 44).only_from_start().since(5, 1),
        field("dst_port", 48, 2, NARROW).padded(2).since(5, 1),
        common("dst_ip4", 52).since(5, 1),
        field("dst_ip6", 56, 16, NARROW).since(5, 1),
        common("state", 72).only_from_start().since(5, 1),
        common("rx_queue_mapping", 76).only_from_start().since(5, 8),
    ],
};

/// `struct bpf_tcp_sock`.
pub const TCP_SOCKET: ObjectLayout = ObjectLayout {
    struct_name: "bpf_tcp_sock",
    size: 112,
    unaligned: false,
    fields: &[
        field("snd_cwnd", 0, 4, WORD).since(5, 1),
        field("srtt_us", 4, 4, WORD).since(5, 1),
        field("rtt_min", 8, 4, WORD).since(5, 1),
        field("snd_ssthresh", 12, 4, WORD).since(5, 1),
        field("rcv_nxt", 16, 4, WORD).since(5, 1),
        field("snd_nxt", 20, 4, WORD).since(5, 1),
        field("snd_una", 24, 4, WORD).since(5, 1),
        field("mss_cache", 28, 4, WORD).since(5, 1),
        field("ecn_flags", 32, 4, WORD).since(5, 1),
        field("rate_delivered", 36, 4, WORD).since(5, 1),
        field("rate_interval_us", 40, 4, WORD).since(5, 1),
        field("packets_out", 44, 4, WORD).since(5, 1),
        field("retrans_out", 48, 4, WORD).since(5, 1),
        field("total_retrans", 52, 4, WORD).since(5, 1),
        field("segs_in", 56, 4, WORD).since(5, 1),
        field("data_segs_in", 60, 4, WORD).since(5, 1),
        field("segs_out", 64, 4, WORD).since(5, 1),
        field("data_segs_out", 68, 4, WORD).since(5, 1),
        field("lost_out", 72, 4, WORD).since(5, 1),
        field("sacked_out", 76, 4, WORD).since(5, 1),
        field("bytes_received", 80, 8, DOUBLE_WORD).since(5, 1),
        field("bytes_acked", 88, 8, DOUBLE_WORD).since(5, 1),
        field("dsack_dups", 96, 4, WORD).since(5, 3),
        field("delivered", 100, 4, WORD).since(5, 3),
        field("delivered_ce", 104, 4, WORD).since(5, 3),
        field("icsk_retransmits", 108, 4, WORD).since(5, 3),
    ],
};

/// `struct bpf_flow_keys`, which flow dissectors fill in: plain memory.
pub const FLOW_KEYS: ObjectLayout = ObjectLayout {
    struct_name: "bpf_flow_keys",
    size: 56,
    unaligned: true,
    fields: &[field("flow_keys", 0, 56, ANY_WIDTH).writable(ANY_WIDTH).since(4, 20)],
};
