//! Context layouts: what the pointer in `r1` points to, and what each load from it returns.
//!
//! A context is not memory: the kernel rewrites each access to a field of `struct xdp_md` or `struct __sk_buff` into
//! one to its own structures. So only the listed fields exist, at the listed widths, and each field determines the kind
//! of value that a load returns:
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
mod error;
mod field;
mod objects;
mod packet;
mod socket_buffer;
mod tracing;

use crate::{AttachType, AttachTypes, ProgramType};
use field::{checked_start, field_at};

pub use error::ContextError;
pub use field::{Field, FieldAccess, FieldValue, Permission};
pub use objects::{FLOW_KEYS, ObjectLayout, SOCK_COMMON, SOCKET, TCP_SOCKET};

/// The context of one program type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextLayout {
    /// The program type that gets it.
    pub program_type: ProgramType,
    /// The structure's name in C.
    pub struct_name: &'static str,
    /// Size in bytes; for contexts whose size depends on the event, the largest possible size.
    pub size: u32,
    /// Whether the kernel rewrites accesses. What a row does not say is rewritten.
    pub access: ContextAccess,
    /// The kernel's own structure behind it, which `bpf_cast_to_kern_ctx` gives.
    pub kernel_struct: Option<&'static str>,
    /// The fields, by offset.
    pub fields: &'static [Field],
}

/// What an access to a context is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContextAccess {
    /// The kernel rewrites it to accesses of its own structures: a load of four bytes may give an address of eight, and
    /// a load of fewer bytes is another access.
    Rewritten,
    /// A plain access to memory that the kernel wrote before the program runs. Loads of any size stay as they are.
    Memory,
}

impl ProgramType {
    /// The layout of the context of a program of this type.
    pub const fn context(self) -> &'static ContextLayout {
        &LAYOUTS[self as usize]
    }
}

impl ContextLayout {
    /// The field that an access of `width` bytes at `offset` is to, without an attach type.
    pub fn access(&self, offset: i64, width: u32, write: bool) -> Result<FieldAccess, ContextError> {
        self.access_at(None, offset, width, write)
    }

    /// The field that an access of `width` bytes at `offset` is to, in a program for this attach type.
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

const fn layout(
    program_type: ProgramType,
    struct_name: &'static str,
    size: u32,
    fields: &'static [Field],
) -> ContextLayout {
    ContextLayout { program_type, struct_name, size, access: ContextAccess::Rewritten, kernel_struct: None, fields }
}

impl ContextLayout {
    const fn memory(mut self) -> Self {
        self.access = ContextAccess::Memory;
        self
    }

    const fn of_kernel(mut self, structure: &'static str) -> Self {
        self.kernel_struct = Some(structure);
        self
    }
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

// long: one row for each program type
const fn layout_of(program_type: ProgramType) -> ContextLayout {
    use ProgramType::*;
    match program_type {
        SocketFilter | SchedCls | SchedAct | CgroupSkb | LwtIn | LwtOut | LwtXmit | LwtSeg6local | SkSkb => {
            layout(program_type, "__sk_buff", 192, socket_buffer::FIELDS).of_kernel("sk_buff")
        }
        FlowDissector => layout(program_type, "__sk_buff", 192, socket_buffer::FIELDS).of_kernel("bpf_flow_dissector"),
        Xdp => layout(program_type, "xdp_md", 24, packet::XDP).of_kernel("xdp_buff"),
        SkMsg => layout(program_type, "sk_msg_md", 80, packet::SOCKET_MESSAGE).of_kernel("sk_msg"),
        SkReuseport => layout(program_type, "sk_reuseport_md", 56, packet::REUSEPORT).of_kernel("sk_reuseport_kern"),
        SkLookup => layout(program_type, "bpf_sk_lookup", 72, packet::SOCKET_LOOKUP).of_kernel("bpf_sk_lookup_kern"),
        Netfilter => layout(program_type, "bpf_nf_ctx", 16, packet::NETFILTER).of_kernel("bpf_nf_ctx"),
        Kprobe => layout(program_type, "pt_regs", 168, tracing::REGISTERS).memory().of_kernel("pt_regs"),
        PerfEvent => {
            layout(program_type, "bpf_perf_event_data", 184, tracing::PERF_EVENT).of_kernel("bpf_perf_event_data_kern")
        }
        Tracepoint => {
            layout(program_type, "tracepoint record", crate::limits::MAX_TRACEPOINT_BYTES, tracing::TRACEPOINT).memory()
        }
        RawTracepoint => layout(program_type, "bpf_raw_tracepoint_args", 96, tracing::RAW_TRACEPOINT).memory(),
        RawTracepointWritable => {
            layout(program_type, "bpf_raw_tracepoint_args", 96, tracing::RAW_TRACEPOINT_WRITABLE).memory()
        }
        Tracing => layout(program_type, "u64 []", 96, tracing::TRACED_ARGUMENTS).memory(),
        Lsm | StructOps => layout(program_type, "u64 []", 96, tracing::TRACED_ARGUMENTS),
        Syscall => layout(program_type, "syscall context", crate::limits::MAX_SYSCALL_CONTEXT_BYTES, tracing::SYSCALL),
        CgroupSock => layout(program_type, "bpf_sock", 80, cgroup::SOCKET).of_kernel("sock"),
        CgroupSockAddr => {
            layout(program_type, "bpf_sock_addr", 72, cgroup::SOCKET_ADDRESS).of_kernel("bpf_sock_addr_kern")
        }
        SockOps => layout(program_type, "bpf_sock_ops", 224, cgroup::SOCKET_OPERATIONS).of_kernel("bpf_sock_ops_kern"),
        CgroupSockopt => layout(program_type, "bpf_sockopt", 40, cgroup::SOCKET_OPTION).of_kernel("bpf_sockopt_kern"),
        CgroupSysctl => layout(program_type, "bpf_sysctl", 8, cgroup::SYSCTL).of_kernel("bpf_sysctl_kern"),
        CgroupDevice => layout(program_type, "bpf_cgroup_dev_ctx", 12, cgroup::DEVICE).of_kernel("bpf_cgroup_dev_ctx"),
        LircMode2 => layout(program_type, "__u32", 4, cgroup::INFRARED),
        Ext => no_context(program_type),
    }
}
