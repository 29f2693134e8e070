//! What one register, or one spilled register, holds.

use crate::domain::Scalar;

/// What kind of thing it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Never written, or no longer readable.
    Uninit,
    /// A number.
    Scalar,
    /// The context.
    Context,
    /// A stack frame; `object` is its depth.
    Stack,
    /// A map itself; `object` is its id.
    Map,
    /// A value of a map; `object` is the map's id.
    MapValue,
    /// A key of a map, as callbacks get it; `object` is the map's id.
    MapKey,
    /// The packet; `range` bytes from the variable part on are known to be there.
    Packet,
    /// The metadata before the packet.
    PacketMeta,
    /// The packet's end.
    PacketEnd,
    /// A full socket.
    Socket,
    /// A socket of any kind.
    SockCommon,
    /// TCP statistics.
    TcpSock,
    /// An `AF_XDP` socket.
    XdpSock,
    /// Plain memory of `object` bytes.
    Memory,
    /// A ring buffer record of `object` bytes.
    RingBuffer,
    /// A kernel structure known by BTF; `object` indexes the verifier's list of names.
    BtfId,
    /// `struct bpf_flow_keys`.
    FlowKeys,
    /// The buffer of a writable raw tracepoint.
    TracepointBuffer,
    /// A function; `object` is its index.
    Function,
    /// A dynptr that someone else holds: it may be used, not changed. `id` tells it from others.
    Dynptr,
    /// In facts only: paths disagree.
    Mixed,
}

/// One register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Register {
    pub kind: Kind,
    /// May be null.
    pub nullable: bool,
    /// Memory behind it must not be written.
    pub read_only: bool,
    /// A map of maps' inner map (or a value of one).
    pub inner: bool,
    /// Its offset comes from a CO-RE relocation that another kernel may resolve differently.
    pub relocated: bool,
    /// See [`Kind`].
    pub object: u32,
    /// The constant part of a pointer's offset.
    pub offset: i32,
    /// For packet pointers: bytes known to be there after the variable part.
    pub range: u32,
    /// Numbers: equal nonzero ids mean equal values. Pointers: which null check or packet check they share.
    pub id: u32,
    /// The resource it stands on, 0 for none.
    pub reference: u32,
    /// What it was got from: of a slice, the dynptr (its id); of an inner map and its values, the lookup; 0 for none.
    pub owner: u32,
    /// A slice of a packet, stale when the packet changes.
    pub in_packet: bool,
    /// Numbers: where the value comes from, for precision (see `precision`).
    pub origin: u32,
    /// The number, or the variable part of a pointer's offset.
    pub scalar: Scalar,
}

impl Register {
    pub(crate) const UNINIT: Register = Register {
        kind: Kind::Uninit,
        nullable: false,
        read_only: false,
        inner: false,
        relocated: false,
        object: 0,
        offset: 0,
        range: 0,
        id: 0,
        reference: 0,
        owner: 0,
        in_packet: false,
        origin: 0,
        scalar: Scalar::UNKNOWN,
    };

    pub(crate) const UNKNOWN: Register = Register { kind: Kind::Scalar, ..Register::UNINIT };

    pub(crate) const fn scalar(scalar: Scalar) -> Register {
        Register { scalar, ..Register::UNKNOWN }
    }

    pub(crate) const fn constant(value: u64) -> Register {
        Register::scalar(Scalar::constant(value))
    }

    pub(crate) const fn pointer(kind: Kind, object: u32) -> Register {
        Register { kind, object, scalar: Scalar::constant(0), ..Register::UNINIT }
    }

    pub(crate) const fn or_null(self, id: u32) -> Register {
        Register { nullable: true, id, ..self }
    }

    pub(crate) fn is_pointer(&self) -> bool {
        !matches!(self.kind, Kind::Uninit | Kind::Scalar | Kind::Mixed)
    }

    pub(crate) fn is_packet(&self) -> bool {
        self.in_packet || matches!(self.kind, Kind::Packet | Kind::PacketMeta | Kind::PacketEnd)
    }

    /// Whether it is the number 0 for sure.
    pub(crate) fn is_zero(&self) -> bool {
        self.kind == Kind::Scalar && self.scalar.as_constant() == Some(0)
    }

    /// The constant offset, where there is no variable part.
    pub(crate) fn fixed_offset(&self) -> Option<i64> {
        Some(i64::from(self.offset).wrapping_add(self.scalar.as_constant()? as i64))
    }
}

impl Kind {
    /// What the kernel's log calls it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Uninit => "uninitialized",
            Kind::Scalar => "scalar",
            Kind::Context => "ctx",
            Kind::Stack => "fp",
            Kind::Map => "map_ptr",
            Kind::MapValue => "map_value",
            Kind::MapKey => "map_key",
            Kind::Packet => "pkt",
            Kind::PacketMeta => "pkt_meta",
            Kind::PacketEnd => "pkt_end",
            Kind::Socket => "sock",
            Kind::SockCommon => "sock_common",
            Kind::TcpSock => "tcp_sock",
            Kind::XdpSock => "xdp_sock",
            Kind::Memory => "mem",
            Kind::RingBuffer => "ringbuf_mem",
            Kind::BtfId => "ptr_",
            Kind::FlowKeys => "flow_keys",
            Kind::TracepointBuffer => "tp_buffer",
            Kind::Function => "func",
            Kind::Dynptr => "dynptr_ptr",
            Kind::Mixed => "mixed",
        }
    }
}
