//! Which structures may be passed where one is asked for.
//!
//! ```text
//!   asked for  struct sock          passed  struct sock            the same
//!                                           struct tcp_sock        begins with one: inet_connection_sock, inet_sock
//!                                           bpf_sock of a lookup   the kernel's own name for it is sock
//! ```

use kiln_program::btf::TypeId;

use super::walk::type_at;
use super::{Pointed, Types};
use crate::explore::Explorer;
use crate::state::{Kind, Register};

/// Levels of nesting looked into.
const MAX_NESTING: usize = 32;

impl Types {
    /// Whether `offset` bytes into `held` there is a `wanted`; `strictly`: it is one itself.
    pub(crate) fn is_at(&self, held: &Pointed, offset: i64, wanted: &Pointed, strictly: bool, flexible: bool) -> bool {
        let same = |id: TypeId| held.of_kernel == wanted.of_kernel && id == wanted.id;
        if offset == 0 && same(held.id) {
            return true;
        }
        let (Some(types), Ok(mut offset)) = (self.definitions(held), u32::try_from(offset)) else { return false };
        if strictly {
            return false;
        }
        let mut id = held.id;
        for _ in 0..MAX_NESTING {
            match type_at(types, id, offset, flexible) {
                Some(inner) if same(inner) => return true,
                Some(inner) => (id, offset) = (inner, 0),
                None => return false,
            }
        }
        false
    }
}

impl Explorer<'_> {
    /// The structure that a pointer is to, where the kernel has one for its kind.
    pub(crate) fn structure_of(&mut self, register: &Register) -> Option<Pointed> {
        let name = match register.kind {
            Kind::BtfId => return self.types.pointed(register.object).cloned(),
            Kind::Socket => "sock",
            Kind::SockCommon => "sock_common",
            Kind::TcpSock => "tcp_sock",
            Kind::Map => "bpf_map",
            _ => return None,
        };
        let index = self.types.kernel_struct(name);
        self.types.pointed(index).cloned()
    }
}
