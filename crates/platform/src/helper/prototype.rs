//! The arguments and results of helpers.
//!
//! The kernel describes each helper with up to five argument types and a return type; the verifier checks a call
//! against them. [`ArgKind`] and [`ReturnKind`] have one variant for each of these types. A memory argument is sized by
//! the argument after it:
//!
//! ```text
//!   long bpf_skb_load_bytes(skb,      offset,    to,                      len)
//!        returns Integer    Context   Anything   Memory(WRITE_UNINIT)     Size { zero_allowed: false }
//! ```

use crate::{MapType, ProgramTypes};

/// What one argument of a helper must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgKind {
    /// Anything initialised (a pointer too, where pointers may leak).
    Anything,
    /// The program's context pointer, unchanged.
    Context,
    /// The context pointer or the constant 0.
    ContextOrNull,
    /// A map, as `ld_imm64` loads it.
    ConstMapPtr,
    /// Memory of the map's key size, initialised.
    MapKey,
    /// Memory of the map's value size, initialised.
    MapValue,
    /// Memory of the map's value size, initialised, or the constant 0.
    MapValueOrNull,
    /// Memory of the map's value size that the helper fills.
    UninitMapValue,
    /// Memory whose size is the next argument (always [`ArgKind::Size`]).
    Memory(Memory),
    /// Memory of a size fixed by the helper.
    FixedMemory {
        /// Bytes accessed.
        size: u32,
        /// How it is accessed.
        memory: Memory,
        /// Whether it must be aligned to its size.
        aligned: bool,
    },
    /// The size in bytes of the memory argument before it.
    Size {
        /// Whether 0 may be passed.
        zero_allowed: bool,
    },
    /// A constant: how many bytes the returned memory has.
    ConstAllocSize,
    /// Any part of the stack, or the constant 0: passed to a callback unchanged.
    StackOrNull,
    /// A `bpf_spin_lock` in a map value or an allocated object.
    SpinLock,
    /// A `bpf_timer` in a map value.
    Timer,
    /// `PTR_TO_SOCK_COMMON`: a socket of any kind, a request or time-wait one included.
    SockCommon,
    /// A full socket, or the constant 0.
    SocketOrNull,
    /// A socket, as a context's `sk` (null-checked), a lookup's result, or the kernel's own `struct sock_common`.
    BtfSockCommon {
        /// Whether 0 may be passed.
        nullable: bool,
    },
    /// A socket as above, whose reference the call releases.
    ReleasedBtfSockCommon,
    /// A kernel structure, typed by BTF.
    BtfId {
        /// The structure's name in the kernel's BTF.
        type_name: &'static str,
        /// Whether 0 may be passed.
        nullable: bool,
    },
    /// A per-CPU variable of the kernel.
    PercpuBtfId,
    /// A kernel object (of the kptr field's type) or 0, owned by the program; the call takes ownership.
    ReleasedBtfIdOrNull,
    /// A kptr field of a map value or allocated object.
    KptrDest,
    /// A record reserved in a ring buffer; the call takes ownership.
    ReleasedRingBufferMemory,
    /// A dynptr on the stack.
    Dynptr(DynptrUse),
    /// A function of this program, as `ld_imm64` loads it.
    Callback,
    /// A NUL-terminated constant in a read-only map, its offset known.
    ConstString,
}

/// How a helper uses a memory argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Memory {
    /// The helper reads it: every byte must be initialised (on the stack).
    pub reads: bool,
    /// The helper writes it: it must be writable. (Kernels before 6.12 did not ask that everywhere.)
    pub writes: bool,
    /// The constant 0 may be passed (with size 0, where a size follows).
    pub nullable: bool,
}

impl Memory {
    /// Read only.
    pub const READ: Memory = Memory { reads: true, writes: false, nullable: false };
    /// Filled by the helper; need not be initialised.
    pub const WRITE_UNINIT: Memory = Memory { reads: false, writes: true, nullable: false };
    /// Initialised, read, and written back.
    pub const READ_WRITE: Memory = Memory { reads: true, writes: true, nullable: false };

    /// Returns such memory, or the constant 0.
    pub const fn or_null(self) -> Memory {
        Memory { nullable: true, ..self }
    }
}

/// Which dynptr an argument must be, and what the call does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DynptrUse {
    /// An initialised dynptr of any kind.
    Any,
    /// 16 bytes of stack that become a dynptr over local memory. That memory, the first argument, must be a map value:
    /// the kernel takes no other here.
    MakesLocal,
    /// 16 bytes of stack that become a dynptr over a reserved ring buffer record (a reference to release).
    MakesRingBuffer,
    /// A ring buffer dynptr; the call takes ownership.
    ReleasesRingBuffer,
}

/// What a helper returns in `r0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReturnKind {
    /// A number.
    Integer,
    /// Nothing: `r0` is unreadable afterwards.
    Void,
    /// A value of the map argument, or 0 (for maps of maps, an inner map; for socket maps, a socket).
    MapValueOrNull,
    /// A value of the map argument.
    MapValue,
    /// A full socket, or 0.
    SocketOrNull,
    /// A TCP socket's statistics (`struct bpf_tcp_sock`), or 0.
    TcpSockOrNull,
    /// A socket of any kind, or 0.
    SockCommonOrNull,
    /// A reserved ring buffer record of the size asked for, or 0.
    RingBufferMemoryOrNull,
    /// Memory of a dynptr, of the size asked for, or 0.
    DynptrMemoryOrNull,
    /// A kernel variable: memory of its size, or a typed kernel object, read-only.
    PercpuVariable {
        /// Whether 0 may be returned.
        nullable: bool,
    },
    /// A kernel structure, typed by BTF.
    BtfId {
        /// The structure's name in the kernel's BTF.
        type_name: &'static str,
        /// Whether 0 may be returned.
        nullable: bool,
        /// Whether the kernel trusts it (it may be handed on to kfuncs).
        trusted: bool,
    },
    /// The kernel object that was in the kptr slot, or 0.
    KptrOrNull,
}

/// Arguments, return value, and the flags that go with them. A helper has one, or several by program type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prototype {
    /// The arguments, in `r1`, `r2`, ...
    pub args: &'static [ArgKind],
    /// The value in `r0`.
    pub returns: ReturnKind,
    /// Only programs whose license is GPL-compatible may call it.
    pub gpl_only: bool,
    /// Packet pointers may be passed as memory arguments.
    pub packet_memory: bool,
    /// Only sleepable programs may call it.
    pub might_sleep: bool,
}

/// A prototype that holds for some program types instead of the helper's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The program types it holds for.
    pub program_types: ProgramTypes,
    /// The prototype.
    pub prototype: Prototype,
}

impl Prototype {
    /// A prototype with no flags.
    pub const fn new(args: &'static [ArgKind], returns: ReturnKind) -> Self {
        Self { args, returns, gpl_only: false, packet_memory: false, might_sleep: false }
    }

    /// The argument whose reference the call gives up, if any (counted from 0).
    pub fn released_argument(&self) -> Option<usize> {
        self.args.iter().position(|kind| kind.releases())
    }
}

impl ArgKind {
    /// The actual kind of the argument if the map argument before it is of this type: a value for a map of sockets is a
    /// socket, and a bloom filter reads a value instead of filling it.
    pub const fn with_map(self, map_type: MapType) -> ArgKind {
        match (self, map_type) {
            (ArgKind::MapValue, MapType::Sockmap | MapType::Sockhash) => ArgKind::BtfSockCommon { nullable: false },
            (ArgKind::UninitMapValue, MapType::BloomFilter) => ArgKind::MapValue,
            _ => self,
        }
    }

    /// Whether the call releases the reference in the argument.
    pub const fn releases(self) -> bool {
        matches!(
            self,
            ArgKind::ReleasedBtfSockCommon
                | ArgKind::ReleasedBtfIdOrNull
                | ArgKind::ReleasedRingBufferMemory
                | ArgKind::Dynptr(DynptrUse::ReleasesRingBuffer)
        )
    }

    /// Whether the helper may write the memory that the argument points to.
    pub const fn writes_memory(self) -> bool {
        match self {
            ArgKind::UninitMapValue => true,
            ArgKind::Memory(memory) | ArgKind::FixedMemory { memory, .. } => memory.writes,
            ArgKind::Dynptr(DynptrUse::MakesLocal | DynptrUse::MakesRingBuffer) => true,
            _ => false,
        }
    }

    /// Whether the helper reads the memory that the argument points to.
    pub const fn reads_memory(self) -> bool {
        match self {
            ArgKind::MapKey | ArgKind::MapValue | ArgKind::MapValueOrNull | ArgKind::ConstString => true,
            ArgKind::Memory(memory) | ArgKind::FixedMemory { memory, .. } => memory.reads,
            _ => false,
        }
    }

    /// Whether the constant 0 may be passed in place of a pointer.
    pub const fn nullable(self) -> bool {
        match self {
            ArgKind::ContextOrNull
            | ArgKind::MapValueOrNull
            | ArgKind::StackOrNull
            | ArgKind::SocketOrNull
            | ArgKind::ReleasedBtfIdOrNull => true,
            ArgKind::Memory(memory) | ArgKind::FixedMemory { memory, .. } => memory.nullable,
            ArgKind::BtfSockCommon { nullable } | ArgKind::BtfId { nullable, .. } => nullable,
            _ => false,
        }
    }
}
