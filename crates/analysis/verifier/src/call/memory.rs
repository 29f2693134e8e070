//! Memory that is passed on: which kinds a call takes (the kernel's `check_helper_mem_access`).
//!
//! ```text
//!   passed             helper                        kernel function        global function
//!   stack              yes; filled if it writes      yes                    yes
//!   map value, map key, memory, record of a ring
//!   buffer, buffer of an iterator   by all, if the program itself may read or write it so
//!   packet             if its prototype says so      yes                    yes
//!   context            by rules of its own           of a syscall program   of a syscall program
//!   kernel structure   read                          no                     read
//! ```
//!
//! This file has what two or all three share. Their own files have the rest.

use kiln_isa::Reg;
use kiln_platform::ProgramType;

use crate::error::Step;
use crate::path::{Path, Use};
use crate::state::{Kind, Register};

/// Both: a kernel function and a global function may read and write what they are passed.
pub(crate) const BOTH: &[Use] = &[Use::Read, Use::Write];

impl Path<'_> {
    /// Checks memory that a kernel function or a global function takes. Returns `None` if memory of this kind is not taken.
    pub(crate) fn check_shared_memory(&mut self, reg: Reg, register: &Register, bytes: u64) -> Option<Step<()>> {
        match register.kind() {
            Kind::Stack => Some(register.stack_range(reg, 0, bytes).and_then(|(lowest, highest)| {
                self.read_stack_bytes(register.frame(), lowest, highest - lowest + bytes as i32, true)
            })),
            // Whether the program may write to packets is not asked here.
            Kind::Packet | Kind::PacketMeta => Some(self.code.check_memory(reg, register, 0, bytes, Use::Read)),
            Kind::Context if self.code.program_type == ProgramType::Syscall => {
                Some(self.check_passed_context(reg, register, bytes))
            }
            _ => self.check_plain_memory(reg, register, bytes, BOTH),
        }
    }

    /// Checks memory that every call takes, for these uses. Returns `None` for any other kind.
    pub(crate) fn check_plain_memory(
        &mut self,
        reg: Reg,
        register: &Register,
        bytes: u64,
        uses: &[Use],
    ) -> Option<Step<()>> {
        let mut uses = uses.iter();
        match register.kind() {
            Kind::MapValue => {
                let ranges = uses.try_for_each(|how| self.code.check_map_range(reg, register, 0, bytes, *how));
                Some(ranges.and_then(|()| self.types.check_special_fields(self.code, register, 0, bytes)))
            }
            Kind::Memory | Kind::RingBuffer | Kind::MapKey | Kind::Buffer => {
                Some(uses.try_for_each(|how| self.code.check_memory(reg, register, 0, bytes, *how)))
            }
            _ => None,
        }
    }
}
