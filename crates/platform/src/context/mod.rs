//! Context layouts: what the pointer in `r1` points at, and what each load from it gives.
//!
//! A context is not memory: the kernel rewrites each access to a field of `struct xdp_md` or `struct __sk_buff` into
//! one to its own structures. So only the fields listed exist, at the widths listed, and what a field holds after a
//! load depends on the field:
//!
//! ```text
//!   struct xdp_md   offset  widths   a load gives
//!     data             0    4        the packet's first byte
//!     data_end         4    4        one past its last byte
//!     ingress_ifindex 12    4        a number
//! ```
//!
//! Which fields may be read or written differs by program type, and for some by attach type.
//!
//! ```
//! use kiln_platform::{ContextError, FieldValue, ProgramType};
//! let context = ProgramType::Xdp.context();
//! assert_eq!(context.access(0, 4, false).unwrap().value(), FieldValue::PacketPointer);
//! assert_eq!(context.access(0, 4, true), Err(ContextError::NotWritable { field: "data" }));
//! assert_eq!(context.access(20, 4, false), Err(ContextError::NotAtAttachType { field: "egress_ifindex" }));
//! ```

mod cgroup;
mod objects;
mod packet;
mod socket_buffer;
mod tracing;

use crate::{AttachType, AttachTypes, KernelVersion, ProgramType, ProgramTypes};
use std::fmt;

pub use objects::{FLOW_KEYS, ObjectLayout, SOCK_COMMON, SOCKET, TCP_SOCKET};

/// The context of one program type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextLayout {
    /// The program type it is handed to.
    pub program_type: ProgramType,
    /// The structure's name in C.
    pub struct_name: &'static str,
    /// Bytes an access may span at most; for contexts whose size the event decides, the largest there can be.
    pub size: u32,
    /// The fields, by offset.
    pub fields: &'static [Field],
}

/// A named range of a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in C.
    pub name: &'static str,
    /// Bytes from the context's start.
    pub offset: u32,
    /// Bytes it spans: an array is one field.
    pub size: u32,
    /// Bytes of padding behind it that a load of field and padding together may take in.
    pub padding: u32,
    /// Loads must begin at the field's first byte.
    pub from_start: bool,
    /// What a load of it gives.
    pub value: FieldValue,
    /// Who may load, and how.
    pub load: Permission,
    /// Who may store, and how.
    pub store: Permission,
    /// The first kernel that has it.
    pub since: KernelVersion,
}

/// Who may access a field, and at which widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The widths in bytes, as bits: 1, 2, 4, 8 stand for themselves. Accesses are aligned to their width.
    pub widths: u8,
    /// The program types that may.
    pub program_types: ProgramTypes,
    /// The attach types at which they may.
    pub attach_types: AttachTypes,
}

/// What a load from a field gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldValue {
    /// A number as wide as the access.
    Scalar,
    /// The first byte of the packet (or option, or message).
    PacketPointer,
    /// One past its last byte.
    PacketEnd,
    /// The first byte of the metadata before the packet.
    PacketMeta,
    /// A full socket.
    Socket,
    /// A full socket, or 0.
    SocketOrNull,
    /// A socket of any kind, or 0.
    SockCommonOrNull,
    /// `struct bpf_flow_keys`.
    FlowKeys,
    /// The buffer of a writable raw tracepoint.
    TracepointBuffer,
    /// A kernel structure the kernel vouches for.
    BtfId(&'static str),
    /// An argument of the traced function: number or kernel structure, as its BTF says.
    TracedArgument,
}

/// An access a context allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldAccess {
    /// The field.
    pub field: &'static Field,
    /// Bytes between the field's start and the access.
    pub offset_in_field: u32,
    /// Bytes accessed.
    pub width: u32,
}

impl FieldAccess {
    /// What the load gives.
    pub const fn value(&self) -> FieldValue {
        self.field.value
    }
}

/// Why an access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextError {
    /// It starts before the context or ends behind it.
    OutOfBounds {
        /// Bytes the context has.
        size: u32,
    },
    /// No field starts or continues there, or the access runs out of it.
    NoField,
    /// The offset is not a multiple of the width.
    Misaligned,
    /// The field may be accessed, but not at this width.
    Width {
        /// The field.
        field: &'static str,
        /// The widths allowed, as bits.
        allowed: u8,
    },
    /// Programs of this type may not load it.
    NotReadable {
        /// The field.
        field: &'static str,
    },
    /// Programs of this type may not store to it.
    NotWritable {
        /// The field.
        field: &'static str,
    },
    /// Programs of this type may access it, but not at this attach type.
    NotAtAttachType {
        /// The field.
        field: &'static str,
    },
}

impl fmt::Display for ContextError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContextError::OutOfBounds { size } => {
                write!(formatter, "outside of the context's {size} bytes")
            }
            ContextError::NoField => formatter.write_str("no context field there"),
            ContextError::Misaligned => formatter.write_str("not aligned to its width"),
            ContextError::Width { field, allowed } => {
                write!(formatter, "field `{field}` cannot be accessed at this width (allowed:")?;
                for width in [1, 2, 4, 8].iter().filter(|width| allowed & **width != 0) {
                    write!(formatter, " {width}")?;
                }
                formatter.write_str(" bytes)")
            }
            ContextError::NotReadable { field } => {
                write!(formatter, "field `{field}` is not readable here")
            }
            ContextError::NotWritable { field } => {
                write!(formatter, "field `{field}` is read-only here")
            }
            ContextError::NotAtAttachType { field } => {
                write!(formatter, "field `{field}` is not accessible at this attach type")
            }
        }
    }
}

impl std::error::Error for ContextError {}

impl ProgramType {
    /// The layout of the context a program of this type is handed.
    pub const fn context(self) -> &'static ContextLayout {
        &LAYOUTS[self as usize]
    }
}

impl ContextLayout {
    /// The field behind an access of `width` bytes at `offset`, where no attach type was named.
    pub fn access(&self, offset: i64, width: u32, write: bool) -> Result<FieldAccess, ContextError> {
        self.access_at(None, offset, width, write)
    }

    /// The field behind an access of `width` bytes at `offset`, in a program for this attach type.
    pub fn access_at(
        &self,
        attach: Option<AttachType>,
        offset: i64,
        width: u32,
        write: bool,
    ) -> Result<FieldAccess, ContextError> {
        let start = checked_start(self.size, false, offset, width)?;
        let field = field_at(self.fields, start, width).ok_or(ContextError::NoField)?;
        let permission = if write { &field.store } else { &field.load };
        let refused = match write {
            true => ContextError::NotWritable { field: field.name },
            false => ContextError::NotReadable { field: field.name },
        };
        if permission.widths == 0 || !permission.program_types.contains(self.program_type) {
            return Err(refused);
        }
        let at_attach = |attach| permission.attach_types.contains(attach);
        if permission.attach_types != AttachTypes::ALL && !attach.is_some_and(at_attach) {
            return Err(ContextError::NotAtAttachType { field: field.name });
        }
        field.checked_width(permission, start, width)
    }

    /// The field that covers this offset.
    pub fn field_at(&self, offset: u32) -> Option<&'static Field> {
        field_at(self.fields, offset, 1)
    }
}

fn checked_start(size: u32, unaligned: bool, offset: i64, width: u32) -> Result<u32, ContextError> {
    let outside = ContextError::OutOfBounds { size };
    let start = u32::try_from(offset).map_err(|_| outside)?;
    if !matches!(width, 1 | 2 | 4 | 8) || !unaligned && start % width != 0 {
        return Err(ContextError::Misaligned);
    }
    match start.checked_add(width) {
        Some(end) if end <= size => Ok(start),
        _ => Err(outside),
    }
}

fn field_at(fields: &'static [Field], start: u32, width: u32) -> Option<&'static Field> {
    let after = fields.partition_point(|field| field.offset <= start);
    let field = &fields[after.checked_sub(1)?];
    let inside = start.checked_add(width)? <= field.offset + field.size;
    let with_padding = start == field.offset && width == field.size + field.padding;
    (inside || with_padding).then_some(field)
}

/// Widths of a number that may be loaded in parts.
const NARROW: u8 = 1 | 2 | 4;
/// Only four bytes.
const WORD: u8 = 4;
/// Only eight bytes.
const DOUBLE_WORD: u8 = 8;
/// Any width.
const ANY_WIDTH: u8 = 1 | 2 | 4 | 8;

const NOBODY: Permission = Permission { widths: 0, program_types: ProgramTypes::NONE, attach_types: AttachTypes::ALL };

/// A number that every program type with this context may load at these widths.
const fn field(name: &'static str, offset: u32, size: u32, widths: u8) -> Field {
    Field {
        name,
        offset,
        size,
        padding: 0,
        from_start: false,
        value: FieldValue::Scalar,
        load: Permission { widths, program_types: ProgramTypes::ALL, attach_types: AttachTypes::ALL },
        store: NOBODY,
        since: KernelVersion::new(3, 19),
    }
}

/// A pointer as wide as the field.
const fn pointer(name: &'static str, offset: u32, size: u32, value: FieldValue) -> Field {
    let mut row = field(name, offset, size, size as u8);
    row.value = value;
    row
}

impl Field {
    fn checked_width(
        &'static self,
        permission: &Permission,
        start: u32,
        width: u32,
    ) -> Result<FieldAccess, ContextError> {
        if u32::from(permission.widths) & width == 0 {
            return Err(ContextError::Width { field: self.name, allowed: permission.widths });
        }
        let offset_in_field = start - self.offset;
        if self.from_start && offset_in_field != 0 {
            return Err(ContextError::NoField);
        }
        Ok(FieldAccess { field: self, offset_in_field, width })
    }

    const fn only_from_start(mut self) -> Self {
        self.from_start = true;
        self
    }

    const fn padded(mut self, padding: u32) -> Self {
        self.padding = padding;
        self
    }

    const fn since(mut self, major: u8, minor: u8) -> Self {
        self.since = KernelVersion::new(major, minor);
        self
    }

    const fn readable_in(mut self, program_types: ProgramTypes) -> Self {
        self.load.program_types = program_types;
        self
    }

    const fn readable_at(mut self, attach_types: AttachTypes) -> Self {
        self.load.attach_types = attach_types;
        self
    }

    const fn writable(mut self, widths: u8) -> Self {
        self.store = Permission { widths, ..self.load };
        self
    }

    const fn writable_in(mut self, widths: u8, program_types: ProgramTypes) -> Self {
        self.store = Permission { widths, program_types, attach_types: AttachTypes::ALL };
        self
    }

    const fn writable_at(mut self, attach_types: AttachTypes) -> Self {
        self.store.attach_types = attach_types;
        self
    }
}

const fn layout(
    program_type: ProgramType,
    struct_name: &'static str,
    size: u32,
    fields: &'static [Field],
) -> ContextLayout {
    ContextLayout { program_type, struct_name, size, fields }
}

const fn no_context(program_type: ProgramType) -> ContextLayout {
    layout(program_type, "void", 0, &[])
}

const LAYOUT_COUNT: usize = ProgramType::ALL.len() + 1;

static LAYOUTS: [ContextLayout; LAYOUT_COUNT] = layouts();

const fn layouts() -> [ContextLayout; LAYOUT_COUNT] {
    let mut all = [no_context(ProgramType::Ext); LAYOUT_COUNT];
    let mut index = 0;
    while index < ProgramType::ALL.len() {
        let program_type = ProgramType::ALL[index];
        all[program_type as usize] = layout_of(program_type);
        index += 1;
    }
    all
}

const fn layout_of(program_type: ProgramType) -> ContextLayout {
    use ProgramType::*;
    match program_type {
        SocketFilter | SchedCls | SchedAct | CgroupSkb | LwtIn | LwtOut | LwtXmit | LwtSeg6local | SkSkb
        | FlowDissector => layout(program_type, "__sk_buff", 192, socket_buffer::FIELDS),
        Xdp => layout(program_type, "xdp_md", 24, packet::XDP),
        SkMsg => layout(program_type, "sk_msg_md", 80, packet::SOCKET_MESSAGE),
        SkReuseport => layout(program_type, "sk_reuseport_md", 56, packet::REUSEPORT),
        SkLookup => layout(program_type, "bpf_sk_lookup", 72, packet::SOCKET_LOOKUP),
        Netfilter => layout(program_type, "bpf_nf_ctx", 16, packet::NETFILTER),
        Kprobe => layout(program_type, "pt_regs", 168, tracing::REGISTERS),
        PerfEvent => layout(program_type, "bpf_perf_event_data", 184, tracing::PERF_EVENT),
        Tracepoint => {
            layout(program_type, "tracepoint record", crate::limits::MAX_TRACEPOINT_BYTES, tracing::TRACEPOINT)
        }
        RawTracepoint => layout(program_type, "bpf_raw_tracepoint_args", 96, tracing::RAW_TRACEPOINT),
        RawTracepointWritable => layout(program_type, "bpf_raw_tracepoint_args", 96, tracing::RAW_TRACEPOINT_WRITABLE),
        Tracing | Lsm | StructOps => layout(program_type, "u64 []", 96, tracing::TRACED_ARGUMENTS),
        Syscall => layout(program_type, "syscall context", crate::limits::MAX_SYSCALL_CONTEXT_BYTES, tracing::SYSCALL),
        CgroupSock => layout(program_type, "bpf_sock", 80, cgroup::SOCKET),
        CgroupSockAddr => layout(program_type, "bpf_sock_addr", 72, cgroup::SOCKET_ADDRESS),
        SockOps => layout(program_type, "bpf_sock_ops", 224, cgroup::SOCKET_OPERATIONS),
        CgroupSockopt => layout(program_type, "bpf_sockopt", 40, cgroup::SOCKET_OPTION),
        CgroupSysctl => layout(program_type, "bpf_sysctl", 8, cgroup::SYSCTL),
        CgroupDevice => layout(program_type, "bpf_cgroup_dev_ctx", 12, cgroup::DEVICE),
        LircMode2 => layout(program_type, "__u32", 4, cgroup::INFRARED),
        Ext => no_context(program_type),
    }
}
