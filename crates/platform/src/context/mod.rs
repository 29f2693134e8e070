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
    /// The fields, by offset.
    pub fields: &'static [Field],
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
