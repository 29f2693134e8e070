//! What one register, or one spilled register, holds.

use crate::domain::{Scalar, Tnum};

/// What a register holds: a number, or a pointer and what it points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holds {
    /// Never written, or no longer readable.
    Uninit,
    /// A number.
    Scalar,
    /// The context.
    Context,
    /// A pointer to a stack: of the frame at this depth.
    Stack(u32),
    /// The map with this id.
    Map(u32),
    /// A value of the map with this id.
    MapValue(u32),
    /// A key of the map with this id, as callbacks get it.
    MapKey(u32),
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
    /// Plain memory of this many bytes.
    Memory(u32),
    /// A ring buffer record of this many bytes.
    RingBuffer(u32),
    /// A structure known by BTF, of the kernel or the program: its index in the verifier's list of types.
    Structure(u32),
    /// `struct bpf_flow_keys`.
    FlowKeys,
    /// The buffer of a writable raw tracepoint.
    TracepointBuffer,
    /// Memory of a size that the loader of an iterator checks: only constant offsets.
    Buffer,
    /// The program's arena, somewhere.
    Arena,
    /// A function, by its index.
    Function(u32),
    /// The address of an instruction, from the map with this id; the offset is that of its entry.
    Insn(u32),
    /// A dynptr that another function holds: it may be used, not changed. The register's `id` identifies it.
    Dynptr(DynptrKind),
    /// In facts only: paths disagree.
    Mixed,
}

/// The kind of thing that a register holds, without which one it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Never written, or no longer readable.
    Uninit,
    /// A number.
    Scalar,
    /// The context.
    Context,
    /// A stack frame.
    Stack,
    /// A map itself.
    Map,
    /// A value of a map.
    MapValue,
    /// A key of a map, as callbacks get it.
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
    /// Plain memory.
    Memory,
    /// A ring buffer record.
    RingBuffer,
    /// A structure known by BTF, of the kernel or the program.
    BtfId,
    /// `struct bpf_flow_keys`.
    FlowKeys,
    /// The buffer of a writable raw tracepoint.
    TracepointBuffer,
    /// Memory of a size that the loader of an iterator checks: only constant offsets.
    Buffer,
    /// The program's arena, somewhere.
    Arena,
    /// A function.
    Function,
    /// The address of an instruction, from a jump table.
    Insn,
    /// A dynptr that another function holds: it may be used, not changed.
    Dynptr,
    /// In facts only: paths disagree.
    Mixed,
}

impl Holds {
    /// Returns the kind, without what it points to.
    pub(crate) const fn kind(self) -> Kind {
        match self {
            Holds::Uninit => Kind::Uninit,
            Holds::Scalar => Kind::Scalar,
            Holds::Context => Kind::Context,
            Holds::Stack(_) => Kind::Stack,
            Holds::Map(_) => Kind::Map,
            Holds::MapValue(_) => Kind::MapValue,
            Holds::MapKey(_) => Kind::MapKey,
            Holds::Packet => Kind::Packet,
            Holds::PacketMeta => Kind::PacketMeta,
            Holds::PacketEnd => Kind::PacketEnd,
            Holds::Socket => Kind::Socket,
            Holds::SockCommon => Kind::SockCommon,
            Holds::TcpSock => Kind::TcpSock,
            Holds::XdpSock => Kind::XdpSock,
            Holds::Memory(_) => Kind::Memory,
            Holds::RingBuffer(_) => Kind::RingBuffer,
            Holds::Structure(_) => Kind::BtfId,
            Holds::FlowKeys => Kind::FlowKeys,
            Holds::TracepointBuffer => Kind::TracepointBuffer,
            Holds::Buffer => Kind::Buffer,
            Holds::Arena => Kind::Arena,
            Holds::Function(_) => Kind::Function,
            Holds::Insn(_) => Kind::Insn,
            Holds::Dynptr(_) => Kind::Dynptr,
            Holds::Mixed => Kind::Mixed,
        }
    }
}

/// How far a pointer to a structure may be relied on: a set of the kernel's type flags.
///
/// ```text
///   TRUSTED                 valid while the program runs, and so are its fields that are listed as safe
///   RCU                     valid while the RCU section lasts
///   (none)                  the kernel's older sort: reads are safe, and helpers take it; new functions do not
///   UNTRUSTED               may point anywhere: only reads, each of which may fault and then gives 0
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Trust(u8);

impl Trust {
    /// Nothing is said of it.
    pub(crate) const NONE: Trust = Trust(0);
    /// `PTR_TRUSTED`.
    pub(crate) const TRUSTED: Trust = Trust(1);
    /// `PTR_UNTRUSTED`.
    pub(crate) const UNTRUSTED: Trust = Trust(2);
    /// `MEM_RCU`.
    pub(crate) const RCU: Trust = Trust(4);
    /// `MEM_PERCPU`: no pointer yet, but the offset of each processor's own.
    pub(crate) const PERCPU: Trust = Trust(8);
    /// `MEM_USER`: user memory.
    pub(crate) const USER: Trust = Trust(16);
    /// `MEM_ALLOC`: an object that the program allocated, of a type of its own BTF.
    pub(crate) const ALLOCATED: Trust = Trust(32);
    /// `NON_OWN_REF`: to an object that something else owns.
    pub(crate) const NOT_OWNING: Trust = Trust(64);

    pub(crate) const fn with(self, other: Trust) -> Trust {
        Trust(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Trust) -> Trust {
        Trust(self.0 & !other.0)
    }

    /// Whether any of the other's flags is set.
    pub(crate) const fn has(self, other: Trust) -> bool {
        self.0 & other.0 != 0
    }
}

/// A packet pointer's range where it was found to be the packet's end or beyond.
pub(crate) const AT_END: i32 = -1;
/// A packet pointer's range where it was found to be beyond the packet's end.
pub(crate) const BEYOND_END: i32 = -2;

/// What was added to a copy of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Added {
    Nothing,
    /// A constant, to all 64 bits.
    Whole,
    /// A constant, to the lower half alone; the upper half is zero.
    Half,
}

/// One register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Register {
    pub holds: Holds,
    /// May be null.
    pub nullable: bool,
    /// Memory behind it must not be written.
    pub read_only: bool,
    /// What a lookup in a map found that is no value of that map: an inner map (or a value of one), a socket. The kernel calls
    /// it a value until it is tested for null.
    pub inner: bool,
    /// Its offset comes from a CO-RE relocation that another kernel may resolve differently.
    pub relocated: bool,
    /// The constant part of a pointer's offset.
    pub offset: i32,
    /// Numbers: whether the offset, which may be 0, was added since it became a copy (the kernel's `BPF_ADD_CONST`).
    pub added: Added,
    /// For packet pointers: bytes known to be there after the variable part; or, below 0, [`AT_END`] or [`BEYOND_END`].
    pub range: i32,
    /// Numbers: equal nonzero ids mean equal values. Pointers: which null check or packet check they share.
    pub id: u32,
    /// The reference that it depends on, 0 for none.
    pub reference: u32,
    /// The id of what it comes from: for a slice the dynptr, for an inner map and its values the lookup; 0 for none.
    pub owner: u32,
    /// A slice of a packet, stale when the packet changes.
    pub in_packet: bool,
    /// A slice of a dynptr: the kernel's type of it names the dynptr's kind, so it is no key or value of a map.
    pub sliced: bool,
    /// It was added to a number: the kernel forgets that the pointer owns its reference.
    pub summed: bool,
    /// Of pointers to structures: how far it may be relied on.
    pub trust: Trust,
    /// Numbers: where the value comes from, for precision (see `precision`).
    pub origin: u32,
    /// The number, or the variable part of a pointer's offset.
    pub scalar: Scalar,
}

impl Register {
    pub(crate) const UNINIT: Register = Register {
        holds: Holds::Uninit,
        nullable: false,
        read_only: false,
        inner: false,
        relocated: false,
        offset: 0,
        added: Added::Nothing,
        range: 0,
        id: 0,
        reference: 0,
        owner: 0,
        in_packet: false,
        sliced: false,
        summed: false,
        trust: Trust::NONE,
        origin: 0,
        scalar: Scalar::UNKNOWN,
    };

    pub(crate) const UNKNOWN: Register = Register { holds: Holds::Scalar, ..Register::UNINIT };

    /// Bytes at an address that may be anything: only reads, each of which may fault and then gives 0.
    pub(crate) const UNTRUSTED_BYTES: Register = Register {
        holds: Holds::Memory(0),
        read_only: true,
        trust: Trust::UNTRUSTED,
        scalar: Scalar::constant(0),
        ..Register::UNINIT
    };

    pub(crate) const fn scalar(scalar: Scalar) -> Register {
        Register { scalar, ..Register::UNKNOWN }
    }

    pub(crate) const fn constant(value: u64) -> Register {
        Register::scalar(Scalar::constant(value))
    }

    pub(crate) const fn pointer(holds: Holds) -> Register {
        Register { holds, scalar: Scalar::constant(0), ..Register::UNINIT }
    }

    pub(crate) const fn or_null(self, id: u32) -> Register {
        Register { nullable: true, id, ..self }
    }

    /// What kind of thing it holds.
    pub(crate) const fn kind(&self) -> Kind {
        self.holds.kind()
    }

    /// The depth of the frame that it points into; 0, the program's own, where it points into none.
    pub(crate) const fn frame(&self) -> usize {
        match self.holds {
            Holds::Stack(frame) => frame as usize,
            _ => 0,
        }
    }

    /// Whether the reference may be given back through it.
    pub(crate) const fn owns(&self) -> bool {
        self.reference != 0 && !self.summed
    }

    /// Whether it points to bytes that may be anywhere, whose offset the kernel does not follow.
    pub(crate) fn is_untrusted_bytes(&self) -> bool {
        self.kind() == Kind::Memory && self.trust.has(Trust::UNTRUSTED)
    }

    /// Whether this many bytes, a power of two, at an offset from the pointer are aligned wherever its variable part leads
    /// (`check_ptr_alignment`).
    pub(crate) fn is_aligned(&self, offset: i64, bytes: u32) -> bool {
        // Packets begin two bytes behind a multiple of four (`NET_IP_ALIGN`).
        let header = if matches!(self.holds, Holds::Packet | Holds::PacketMeta) { 2 } else { 0 };
        let fixed = i64::from(self.offset) + offset + header;
        let at = self.scalar.tnum.add(Tnum::constant(fixed as u64));
        (at.value | at.mask) & u64::from(bytes - 1) == 0
    }

    /// The map that it is, or points into.
    pub(crate) const fn map(&self) -> Option<u32> {
        match self.holds {
            Holds::Map(map) | Holds::MapValue(map) | Holds::MapKey(map) | Holds::Insn(map) => Some(map),
            _ => None,
        }
    }

    /// The index of the structure's type; one that no type has, where it points to none.
    pub(crate) const fn type_index(&self) -> u32 {
        match self.holds {
            Holds::Structure(index) => index,
            _ => u32::MAX,
        }
    }

    /// Bytes of the memory that it points to, where that is of a size of its own.
    pub(crate) const fn bytes(&self) -> u32 {
        match self.holds {
            Holds::Memory(bytes) | Holds::RingBuffer(bytes) => bytes,
            _ => 0,
        }
    }

    /// The function that it points to.
    pub(crate) const fn function(&self) -> Option<usize> {
        match self.holds {
            Holds::Function(function) => Some(function as usize),
            _ => None,
        }
    }

    pub(crate) fn is_pointer(&self) -> bool {
        !matches!(self.kind(), Kind::Uninit | Kind::Scalar | Kind::Mixed)
    }

    pub(crate) fn is_packet(&self) -> bool {
        self.in_packet || matches!(self.kind(), Kind::Packet | Kind::PacketMeta | Kind::PacketEnd)
    }

    /// Returns the pointer with this trust.
    pub(crate) const fn trusted(self, trust: Trust) -> Register {
        Register { trust, ..self }
    }

    /// Whether the kernel vouches for what it points to (`is_trusted_reg`).
    pub(crate) fn is_trusted(&self) -> bool {
        const VOUCHED: Trust = Trust::TRUSTED.with(Trust::ALLOCATED).with(Trust::NOT_OWNING);
        if self.owns() {
            return true;
        }
        let flawed = self.nullable || self.trust.without(VOUCHED) != Trust::NONE;
        let always = matches!(self.kind(), Kind::Socket | Kind::SockCommon | Kind::TcpSock | Kind::Map);
        !flawed && (always || self.trust.has(VOUCHED))
    }

    /// Whether it is certainly the number 0.
    pub(crate) fn is_zero(&self) -> bool {
        self.kind() == Kind::Scalar && self.scalar.as_constant() == Some(0)
    }

    /// Whether it is a pointer of this kind, as it was made: moved by nothing.
    pub(crate) fn is_unmoved(&self, kind: Kind) -> bool {
        self.kind() == kind && self.fixed_offset() == Some(0)
    }

    /// A pointer's constant offset, if it has no variable part.
    pub(crate) fn fixed_offset(&self) -> Option<i64> {
        if !self.is_pointer() {
            return None;
        }
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
            Kind::Buffer => "buf",
            Kind::Arena => "arena",
            Kind::Function => "func",
            Kind::Insn => "insn",
            Kind::Dynptr => "dynptr_ptr",
            Kind::Mixed => "mixed",
        }
    }
}

/// What memory a dynptr gives access to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DynptrKind {
    /// A map's value, or whatever a caller handed on.
    Local,
    /// A ring buffer record, to be submitted or discarded.
    RingBuffer,
    /// The packet of a socket buffer.
    Skb,
    /// The packet of an XDP program.
    Xdp,
    /// The metadata before the packet.
    SkbMeta,
    /// The contents of a file, to be given back.
    File,
}
