//! What the kernel's log calls registers, arguments and places.

use kiln_platform::ArgKind;

use crate::code::{Code, Position};
use crate::state::{Kind, Register, Trust};

/// The slot of an instruction, as the kernel counts: over all functions in their order.
pub(crate) fn slot(code: &Code<'_>, at: Position) -> u32 {
    code.ops[..at as usize].iter().map(|op| op.node.insn.slots()).sum()
}

/// The kernel's name of a register's type.
pub(crate) fn type_name(register: &Register) -> String {
    let name = match register.kind() {
        // A map that was looked up is the value of another until it is compared with null.
        Kind::Map if register.nullable => Kind::MapValue.name(),
        kind => kind.name(),
    };
    let trusted = register.kind() == Kind::BtfId && register.trust.has(Trust::TRUSTED);
    let trust = if trusted { "trusted_" } else { "" };
    match (register.nullable, register.kind()) {
        (true, Kind::Map | Kind::Socket | Kind::XdpSock) if register.inner => "map_value_or_null".to_owned(),
        (true, Kind::BtfId) => format!("{trust}{name}or_null_"),
        _ if trusted => format!("{trust}{name}"),
        (true, _) => format!("{name}_or_null"),
        (false, Kind::Memory) if register.read_only => format!("rdonly_{name}"),
        (false, Kind::Uninit) => "?".to_owned(),
        (false, _) => name.to_owned(),
    }
}

/// Known bits as the kernel prints them.
pub(crate) fn tnum(register: &Register) -> String {
    let tnum = register.scalar.tnum;
    format!("({:#x}; {:#x})", tnum.value, tnum.mask)
}

/// The types that the kernel lists for an argument.
pub(crate) fn expected(kind: ArgKind) -> Option<&'static str> {
    Some(match kind {
        ArgKind::Context | ArgKind::ContextOrNull => "ctx",
        ArgKind::ConstMapPtr => "map_ptr",
        ArgKind::MapKey
        | ArgKind::MapValue
        | ArgKind::MapValueOrNull
        | ArgKind::UninitMapValue
        | ArgKind::Memory(_)
        | ArgKind::FixedMemory { .. } => "fp, pkt, pkt_meta, map_key, map_value, mem, ringbuf_mem, buf, trusted_ptr_",
        ArgKind::SockCommon => "sock_common, sock, tcp_sock, xdp_sock",
        ArgKind::BtfSockCommon { .. } | ArgKind::ReleasedBtfSockCommon => {
            "sock_common, sock, tcp_sock, xdp_sock, ptr_, trusted_ptr_"
        }
        ArgKind::SocketOrNull => "sock",
        ArgKind::StackOrNull => "fp",
        ArgKind::ReleasedRingBufferMemory => "ringbuf_mem",
        ArgKind::Callback => "func",
        ArgKind::ConstString | ArgKind::Timer => "map_value",
        ArgKind::SpinLock | ArgKind::KptrDest => "map_value, ptr_",
        ArgKind::BtfId { .. } | ArgKind::ReleasedBtfIdOrNull => "ptr_, trusted_ptr_, rcu_ptr_",
        ArgKind::PercpuBtfId => "percpu_ptr_, percpu_rcu_ptr_, percpu_trusted_ptr_",
        ArgKind::Dynptr(_) => "fp, dynptr_ptr",
        ArgKind::Size { .. } | ArgKind::ConstAllocSize => "scalar",
        ArgKind::Anything => return None,
    })
}
