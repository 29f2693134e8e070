//! Which structures may be passed where one is asked for.
//!
//! ```text
//!   asked for  struct sock          passed  struct sock            the same
//!                                           struct tcp_sock        begins with one: inet_connection_sock, inet_sock
//!                                           bpf_sock of a lookup   the kernel's own name for it is sock
//! ```

use kiln_isa::Reg;

use crate::call::checked::Check;
use crate::error::{Step, reject, unsupported};
use crate::path::Use;
use crate::reason::Reason;
use crate::state::{Kind, Register, Trust};
use crate::types::{Pointed, Types, WITHOUT_TYPES};

impl Types {
    /// The structure that a pointer is to, where the kernel has one for its kind.
    pub(crate) fn structure_of(&mut self, register: &Register) -> Option<Pointed> {
        let name = match register.kind() {
            Kind::BtfId => return self.pointed(register.type_index()).cloned(),
            Kind::Socket => "sock",
            Kind::SockCommon => "sock_common",
            Kind::TcpSock => "tcp_sock",
            Kind::Map => "bpf_map",
            _ => return None,
        };
        let index = self.kernel_struct(name);
        self.pointed(index).cloned()
    }
}

/// What a helper asks of a pointer to a structure of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// A structure of this name, or one that begins with it.
    Structure(&'static str),
    /// A socket of any kind, as contexts, lookups and the kernel itself have them.
    Socket {
        /// It is given up by the call.
        released: bool,
    },
}

impl Types {
    /// Holds a helper's argument to a structure of the kernel.
    pub(crate) fn check_typed_argument(&mut self, register: &Register, wanted: Wanted, message: String) -> Step<()> {
        let name = match wanted {
            Wanted::Structure(name) => name,
            Wanted::Socket { .. } => {
                let own = [Kind::Socket, Kind::SockCommon, Kind::TcpSock, Kind::XdpSock];
                if own.contains(&register.kind()) {
                    return Ok(());
                }
                "sock_common"
            }
        };
        if register.kind() != Kind::BtfId {
            return reject(Reason::ArgumentType, message);
        }
        let under_rcu = matches!(wanted, Wanted::Structure(_));
        let relied = register.trust.without(Trust::TRUSTED);
        if relied != Trust::NONE && !(under_rcu && relied == Trust::RCU) {
            return reject(Reason::NotTrusted, format!("{message} that may be relied on"));
        }
        let Some(offset) = register.fixed_offset() else {
            return reject(Reason::ArgumentType, format!("{message}, at a constant offset"));
        };
        let held = self.pointed_definition(register)?;
        let index = self.kernel_struct(name);
        let Some(of) = self.pointed(index).cloned() else { return unsupported(WITHOUT_TYPES) };
        if self.is_at(&held, offset, &of, false, true) {
            return Ok(());
        }
        reject(Reason::ArgumentType, format!("{message}; it points to {}", held.name))
    }
}

impl Check<'_, '_> {
    /// A kernel structure as memory that a helper reads.
    pub(crate) fn check_structure_memory(&mut self, reg: Reg, register: &Register, bytes: u64, how: Use) -> Step<()> {
        let number = reg.number();
        if register.trust != Trust::TRUSTED {
            return reject(
                Reason::NotTrusted,
                format!("r{number}: only trusted structures of the kernel are memory to helpers"),
            );
        }
        if how == Use::Write {
            return reject(
                Reason::ReadOnlyMemory,
                format!("r{number}: the helper may write to a structure of the kernel"),
            );
        }
        let Ok(size) = u32::try_from(bytes) else {
            return reject(Reason::StructureAccess, format!("r{number}: {bytes} bytes of a structure"));
        };
        self.path.load_structure(reg, register, 0, size).map(drop)
    }
}
