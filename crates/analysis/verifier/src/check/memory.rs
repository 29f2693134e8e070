//! Accesses to memory are inside of it, and of a kind that it allows.

use kiln_isa::Reg;
use kiln_platform::{FLOW_KEYS, ObjectLayout, PacketAccess, SOCK_COMMON, SOCKET, TCP_SOCKET};

use crate::code::Code;
use crate::error::{Step, refuse, reject, unsupported};
use crate::path::Use;
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Kind, Register};
use crate::types::Types;

impl Types {
    pub(crate) fn check_map_value(
        &self,
        code: &Code<'_>,
        reg: Reg,
        base: &Register,
        offset: i64,
        bytes: u32,
        how: Use,
    ) -> Step<()> {
        code.check_map_range(reg, base, offset, u64::from(bytes), how)?;
        self.check_special_fields(code, base, offset, u64::from(bytes))
    }
}

impl<'a> Code<'a> {
    pub(crate) fn check_map_range(&self, reg: Reg, base: &Register, offset: i64, bytes: u64, how: Use) -> Step<()> {
        let Some(map) = self.map_of(base) else { return unsupported("a value of an unknown map") };
        if how == Use::Write && (base.read_only || map.is_read_only()) {
            return reject(
                Reason::ReadOnlyMemory,
                format!("r{}: the value of map {} is read-only", reg.number(), map.name),
            );
        }
        if how == Use::Read && map.flags & kiln_program::WRITE_ONLY_FLAG != 0 {
            let message = format!("map {} is write-only for programs", map.name);
            return refuse(Reason::ReadOnlyMemory, Case::WriteOnlyMap, message);
        }
        base.check_range(reg, offset, bytes, map.direct_bytes(), Reason::MapValueBounds)
    }

    pub(crate) fn check_memory(&self, reg: Reg, base: &Register, offset: i64, bytes: u64, how: Use) -> Step<()> {
        let name = base.kind().name();
        let number = reg.number();
        let object = |layout: &ObjectLayout| -> Step<()> {
            let Some(fixed) = base.fixed_offset() else {
                return reject(Reason::ContextAccess, format!("r{number} ({name}): the offset is not constant"));
            };
            match layout.access(fixed + offset, bytes as u32, how == Use::Write) {
                Ok(_) => Ok(()),
                Err(error) => reject(
                    Reason::ContextAccess,
                    format!("{bytes} bytes at {}+{}: {error}", layout.struct_name, fixed + offset),
                ),
            }
        };
        match base.kind() {
            Kind::Packet | Kind::PacketMeta => self.check_packet(reg, base, offset, bytes, how),
            Kind::Memory | Kind::RingBuffer => {
                if how == Use::Write && base.read_only {
                    return reject(Reason::ReadOnlyMemory, format!("r{number}: this memory is read-only"));
                }
                base.check_range(reg, offset, bytes, u64::from(base.bytes()), Reason::MemoryBounds)
            }
            Kind::MapKey => {
                if how == Use::Write {
                    return reject(Reason::ReadOnlyMemory, format!("r{number}: a map key is read-only"));
                }
                let size = self.map_of(base).map_or(0, |map| u64::from(map.key_size));
                base.check_range(reg, offset, bytes, size, Reason::MemoryBounds)
            }
            Kind::Arena => Ok(()),
            Kind::Socket => object(&SOCKET),
            Kind::SockCommon => object(&SOCK_COMMON),
            Kind::TcpSock => object(&TCP_SOCKET),
            Kind::FlowKeys => object(&FLOW_KEYS),
            Kind::XdpSock => {
                if how == Use::Read && bytes == 4 && base.fixed_offset().map(|fixed| fixed + offset) == Some(0) {
                    return Ok(());
                }
                reject(Reason::ContextAccess, "an xdp_sock has one field, queue_id")
            }
            Kind::Buffer if how == Use::Write && base.read_only => {
                reject(Reason::ReadOnlyMemory, format!("r{number}: this buffer is read-only"))
            }
            Kind::TracepointBuffer | Kind::Buffer => {
                let Some(fixed) = base.fixed_offset() else {
                    return reject(Reason::MemoryBounds, format!("r{number} ({name}): the offset is not constant"));
                };
                if fixed + offset < 0 {
                    return reject(Reason::MemoryBounds, format!("r{number} ({name}): before the buffer"));
                }
                Ok(())
            }
            Kind::PacketEnd | Kind::Map | Kind::Function | Kind::Insn => {
                reject(Reason::NotAPointer, format!("r{number} ({name}) does not point to memory"))
            }
            Kind::BtfId => unsupported("access to kernel structures typed by BTF"),
            _ => reject(Reason::NotAPointer, format!("r{number} ({name}) cannot be accessed this way")),
        }
    }

    pub(crate) fn check_packet(&self, reg: Reg, base: &Register, offset: i64, bytes: u64, how: Use) -> Step<()> {
        let number = reg.number();
        if how == Use::Write && self.program_type.packet_access() != PacketAccess::ReadWrite {
            return refuse(
                Reason::ReadOnlyMemory,
                Case::PacketIsReadOnly,
                "programs of this type may not write to the packet",
            );
        }
        let fixed = i64::from(base.offset) + offset;
        if base.scalar.smin.saturating_add(fixed) < 0 {
            return reject(
                Reason::PacketBounds,
                format!("r{number} ({}): the variable part of the offset may be negative", base.kind().name()),
            );
        }
        if fixed < 0 || fixed as u64 + bytes > base.range.max(0) as u64 {
            let last = fixed + bytes as i64 - 1;
            let accessed = match fixed == last {
                true => format!("byte {fixed} is accessed"),
                false => format!("bytes {fixed} to {last} are accessed"),
            };
            return reject(
                Reason::PacketBounds,
                format!("r{number} ({}): {accessed}, {} are known to be there", base.kind().name(), base.range.max(0)),
            );
        }
        Ok(())
    }

    /// A NUL-terminated string in frozen read-only memory.
    pub(crate) fn check_constant_string(&self, reg: Reg, register: &Register, message: String) -> Step<()> {
        let number = reg.number();
        let data = match (register.kind(), self.map_of(register)) {
            // An inner map holds what it holds, not its template's contents.
            (Kind::MapValue, Some(map)) if !register.inner => match &map.contents {
                kiln_program::MapContents::ReadOnly(data) => data,
                _ => return reject(Reason::ArgumentType, format!("{message}: map {} is not read-only", map.name)),
            },
            _ => return reject(Reason::ArgumentType, message),
        };
        let start = register.fixed_offset().and_then(|offset| usize::try_from(offset).ok());
        let tail = start.and_then(|start| data.get(start..));
        match tail {
            Some(tail) if tail.contains(&0) => Ok(()),
            _ => refuse(
                Reason::ArgumentType,
                Case::NotTerminated,
                format!("r{number}: the string is not NUL-terminated"),
            ),
        }
    }
}

impl Register {
    /// An access of `bytes` at base + offset stays within `size` bytes.
    pub(crate) fn check_range(&self, reg: Reg, offset: i64, bytes: u64, size: u64, reason: Reason) -> Step<()> {
        let fixed = i64::from(self.offset) + offset;
        let (lowest, highest) = (self.scalar.smin, self.scalar.umax);
        let start = i128::from(lowest) + i128::from(fixed);
        let end = i128::from(highest) + i128::from(fixed) + i128::from(bytes);
        if start < 0 {
            return refuse(
                reason,
                Case::Access { bytes },
                match lowest < -i64::from(u32::MAX) {
                    true => format!(
                        "r{} ({}): the number that is added may be negative, and nothing bounds it from below",
                        reg.number(),
                        self.kind().name()
                    ),
                    false => format!(
                        "r{} ({}): the access may begin {} bytes before the memory",
                        reg.number(),
                        self.kind().name(),
                        -start
                    ),
                },
            );
        }
        if end > i128::from(size) {
            return refuse(
                reason,
                Case::Access { bytes },
                match highest > u64::from(u32::MAX) {
                    true => format!(
                        "r{} ({}): nothing bounds the number that is added from above; the memory has {size} bytes",
                        reg.number(),
                        self.kind().name()
                    ),
                    false => {
                        format!(
                            "r{} ({}): the access may end at byte {end} of {size}",
                            reg.number(),
                            self.kind().name()
                        )
                    }
                },
            );
        }
        Ok(())
    }
}
