//! Loads and stores of the context: fields as the kernel describes them.

use kiln_isa::{Insn, Reg, Size, Source};
use kiln_platform::limits::MAX_SYSCALL_CONTEXT_BYTES;
use kiln_platform::{Feature, FieldValue, ProgramType};

use crate::code::Code;
use crate::domain::Scalar;
use crate::error::{Step, refuse, reject};
use crate::path::Path;
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Holds, Register, Trust};

impl Path<'_> {
    /// Whether the context is plain memory to the kernel's verifier: that of programs which user space runs.
    pub(crate) fn is_context_memory(&self) -> bool {
        self.code.program_type == ProgramType::Syscall && self.options.kernel_has(Feature::SyscallContextMemory)
    }

    /// Checks the context of a `syscall` program where a function takes memory. User space says how large it is.
    pub(crate) fn check_passed_context(&self, reg: Reg, base: &Register, bytes: u64) -> Step<()> {
        if !self.is_context_memory() {
            self.code.context_offset(reg, base, 0)?;
        }
        self.check_context_memory(reg, base, 0, bytes)
    }

    /// Checks an access to a context that is plain memory.
    pub(crate) fn check_context_memory(&self, reg: Reg, base: &Register, offset: i64, bytes: u64) -> Step<()> {
        base.check_range(reg, offset, bytes, u64::from(MAX_SYSCALL_CONTEXT_BYTES), Reason::ContextAccess)
    }

    pub(crate) fn load_context(&mut self, reg: Reg, base: &Register, offset: i64, size: Size) -> Step<Register> {
        let at = self.code.context_offset(reg, base, offset)?;
        let layout = self.code.program_type.context();
        let access = match layout.access_at(self.code.program.attach_type, at, size.bytes(), false) {
            Ok(access) => access,
            Err(error) => {
                return reject(
                    Reason::ContextAccess,
                    format!("load of {} bytes at {}+{at}: {error}", size.bytes(), layout.struct_name),
                );
            }
        };
        self.options.check_field_in_profile(self.code, &access, false)?;
        self.options.check_field_privilege(self.code, access.field, false)?;
        let or_null = |this: &mut Self, holds| Register::pointer(holds).or_null(this.fresh_id());
        Ok(match access.value() {
            FieldValue::Scalar => Register::scalar(Scalar::of_width(size.bits())),
            FieldValue::PacketPointer => Register::pointer(Holds::Packet),
            FieldValue::PacketEnd => Register::pointer(Holds::PacketEnd),
            FieldValue::PacketMeta => Register::pointer(Holds::PacketMeta),
            FieldValue::Socket => Register::pointer(Holds::Socket),
            FieldValue::SocketOrNull => or_null(self, Holds::Socket),
            FieldValue::SockCommonOrNull => or_null(self, Holds::SockCommon),
            FieldValue::FlowKeys => Register::pointer(Holds::FlowKeys),
            FieldValue::TracepointBuffer => Register::pointer(Holds::TracepointBuffer),
            FieldValue::BtfId(name) => {
                Register::pointer(Holds::Structure(self.types.kernel_struct(name))).trusted(Trust::TRUSTED)
            }
            FieldValue::TracedArgument => return self.load_hook_argument(at, size.bytes()),
        })
    }

    pub(crate) fn store_context(&mut self, reg: Reg, base: &Register, offset: i64, size: Size) -> Step<()> {
        let at = self.code.context_offset(reg, base, offset)?;
        if matches!(self.code.op(self.at).node.insn, Insn::Store { src: Source::Imm(_), .. }) {
            self.options.check_feature_in_profile(Feature::ContextImmediates)?;
        }
        let layout = self.code.program_type.context();
        let registers = self.code.program_type == ProgramType::Kprobe;
        let written = !registers || !self.options.kernel_has(Feature::WrittenRegisters);
        match layout.access_at(self.code.program.attach_type, at, size.bytes(), written) {
            Ok(access) => {
                self.options.check_field_privilege(self.code, access.field, true)?;
                self.options.check_field_in_profile(self.code, &access, true)
            }
            Err(error) => reject(
                Reason::ContextAccess,
                format!("store of {} bytes to {}+{at}: {error}", size.bytes(), layout.struct_name),
            ),
        }
    }
}

impl<'a> Code<'a> {
    pub(crate) fn context_offset(&self, reg: Reg, base: &Register, offset: i64) -> Step<i64> {
        match base.fixed_offset() {
            Some(0) => Ok(offset),
            Some(fixed) => refuse(
                Reason::ContextAccess,
                Case::Moved { by: fixed },
                format!("r{}: the context is accessed through a pointer moved by {fixed}", reg.number()),
            ),
            None => reject(
                Reason::ContextAccess,
                format!("r{}: the context is accessed at an offset that is not constant", reg.number()),
            ),
        }
    }
}
