//! Loads, stores and atomics: what each kind of pointer allows, and what a load gives.

use kiln_isa::{Address, AtomicOp, Insn, PacketMode, Reg, Size, Source};
use kiln_platform::{
    FLOW_KEYS, Feature, FieldValue, MapType, ObjectLayout, PacketAccess, SOCK_COMMON, SOCKET, TCP_SOCKET,
};
use kiln_program::MapContents;

use crate::domain::{Scalar, Tnum};
use crate::error::{Step, reject, unsupported};
use crate::path::{Path, Use};
use crate::reason::Reason;
use crate::state::stack::slot_of;
use crate::state::{Byte, Caller, Kind, ObjectKind, Register, Slot, StackObject, Trust};

impl Path<'_> {
    pub(crate) fn load(&mut self, size: Size, signed: bool, dst: Reg, address: Address) -> Step<()> {
        let base = self.heap_address(self.read(address.base)?);
        let mut value = self.load_from(address.base, base, i64::from(address.offset), size)?;
        if signed && value.is_pointer() && base.kind == Kind::Context {
            return reject(Reason::ContextAccess, "a pointer of the context is loaded with sign extension");
        }
        let relocated = base.relocated || self.relocated();
        if relocated && !value.is_pointer() {
            value = Register::scalar(Scalar::of_width(size.bits()));
        }
        if value.kind == Kind::Scalar && size != Size::B8 && self.relocates_width() {
            value = Register::UNKNOWN;
        } else if value.kind == Kind::Scalar && size != Size::B8 {
            value = if signed {
                let scalar = self.sign_extended(&value.scalar, size, kiln_isa::Width::W64);
                Register { origin: value.origin, ..Register::scalar(scalar) }
            } else {
                narrowed(value, size)
            };
        }
        self.write(dst, value)
    }

    fn load_from(&mut self, reg: Reg, base: Register, offset: i64, size: Size) -> Step<Register> {
        let bytes = size.bytes();
        self.check_usable(reg, &base)?;
        let unknown = Register::scalar(Scalar::of_width(size.bits()));
        match base.kind {
            Kind::Context => self.load_context(reg, &base, offset, size),
            Kind::Stack => self.load_stack(reg, &base, offset, bytes),
            Kind::MapValue => {
                if let Some(kptr) = self.kptr_at(reg, &base, offset, size)? {
                    return self.load_kptr(&kptr);
                }
                self.check_map_value(reg, &base, offset, bytes, Use::Read)?;
                Ok(self.frozen_value(&base, offset, bytes).unwrap_or(unknown))
            }
            Kind::Memory if base.trust.has(Trust::UNTRUSTED) => Ok(unknown),
            Kind::BtfId => self.load_structure(reg, &base, offset, bytes),
            Kind::Map => self.load_map_field(reg, &base, offset, bytes),
            _ => {
                self.check_memory(reg, &base, offset, u64::from(bytes), Use::Read)?;
                Ok(unknown)
            }
        }
    }

    /// The pointer is one, and not null.
    fn check_usable(&mut self, reg: Reg, base: &Register) -> Step<()> {
        let number = reg.number();
        if !base.is_pointer() {
            return reject(Reason::NotAPointer, format!("r{number} is used as an address but holds a number"));
        }
        let before = std::mem::replace(&mut self.noted.accessed[self.at as usize], base.kind);
        let own_code = |kind| is_view(kind) || kind == Kind::Arena;
        if before != base.kind && before != Kind::Uninit && (own_code(before) || own_code(base.kind)) {
            return reject(
                Reason::NotAPointer,
                format!("r{number} is {} here on one path and {} on another", before.name(), base.kind.name()),
            );
        }
        if base.nullable {
            return reject(
                Reason::PossiblyNull,
                format!("r{number} ({}) may be null here: it was not compared with 0 on this path", base.kind.name()),
            );
        }
        Ok(())
    }

    pub(crate) fn store(&mut self, size: Size, address: Address, src: Source) -> Step<()> {
        let value = self.operand(src)?;
        let base = self.heap_address(self.read(address.base)?);
        self.store_to(address.base, base, i64::from(address.offset), size, value, src)
    }

    fn store_to(
        &mut self,
        reg: Reg,
        base: Register,
        offset: i64,
        size: Size,
        value: Register,
        src: Source,
    ) -> Step<()> {
        self.check_usable(reg, &base)?;
        if base.kind != Kind::Stack {
            self.check_leak(&value, "is stored where it can be read")?;
        }
        match base.kind {
            Kind::Stack => self.store_stack(reg, &base, offset, size.bytes(), value, src),
            Kind::Context => self.store_context(reg, &base, offset, size),
            Kind::MapValue => {
                if let Some(kptr) = self.kptr_at(reg, &base, offset, size)? {
                    return self.store_kptr(&kptr, &value);
                }
                self.check_map_value(reg, &base, offset, size.bytes(), Use::Write)
            }
            Kind::BtfId => self.store_structure(reg, &base, offset, size.bytes()),
            _ => self.check_memory(reg, &base, offset, u64::from(size.bytes()), Use::Write),
        }
    }

    pub(crate) fn atomic(&mut self, op: AtomicOp, fetch: bool, size: Size, address: Address, src: Reg) -> Step<()> {
        if !matches!(size, Size::B4 | Size::B8) {
            return reject(Reason::BadInstruction, "atomic operations are on 4 or 8 bytes");
        }
        let operand = self.read(src)?;
        self.check_leak(&operand, "is stored where it can be read")?;
        let expected = match op {
            AtomicOp::CompareExchange => Some(self.read(Reg::R0)?),
            _ => None,
        };
        let base = self.heap_address(self.read(address.base)?);
        let offset = i64::from(address.offset);
        let _ = expected;
        if matches!(
            base.kind,
            Kind::Context
                | Kind::Packet
                | Kind::PacketMeta
                | Kind::FlowKeys
                | Kind::Socket
                | Kind::SockCommon
                | Kind::TcpSock
                | Kind::XdpSock
        ) {
            return reject(
                Reason::BadInstruction,
                format!("atomic operation on r{} ({})", address.base.number(), base.kind.name()),
            );
        }
        if base.kind == Kind::Arena {
            self.check_arena_atomic(op, fetch)?;
        }
        let moved = base.scalar.tnum.add(Tnum::constant((i64::from(base.offset) + offset) as u64));
        if base.is_pointer() && base.kind != Kind::Arena && (moved.value | moved.mask) % u64::from(size.bytes()) != 0 {
            return reject(Reason::Misaligned, "atomic operation on an address that may be misaligned");
        }
        let result = if op == AtomicOp::CompareExchange { Reg::R0 } else { src };
        if fetch && result == address.base {
            return reject(Reason::BadInstruction, "the value fetched would take the place of the address");
        }
        let before = self.load_from(address.base, base, offset, size)?;
        // Nobody else changes what is on the stack.
        let before = match (base.kind, before.kind) {
            (Kind::Stack, Kind::Scalar) => narrowed(before, size),
            _ => Register::scalar(Scalar::of_width(size.bits())),
        };
        self.store_to(address.base, base, offset, size, Register::UNKNOWN, Source::Imm(0))?;
        match op {
            AtomicOp::CompareExchange => self.write(Reg::R0, before),
            _ if fetch => self.write(src, before),
            _ => Ok(()),
        }
    }

    pub(crate) fn load_packet(&mut self, mode: PacketMode, size: Size) -> Step<()> {
        if !self.program_type.allows_legacy_packet_loads() {
            return reject(Reason::BadInstruction, "LD_ABS and LD_IND are not allowed in this program type");
        }
        if !self.state.references.is_empty() {
            return reject(Reason::UnreleasedReference, "LD_ABS may end the program while a reference is held");
        }
        if !self.state.locks.is_empty() {
            return reject(Reason::LockDiscipline, "LD_ABS may end the program while a lock is held");
        }
        let context = self.read(Reg::R6)?;
        if context.kind != Kind::Context || context.fixed_offset() != Some(0) {
            return reject(Reason::ArgumentType, "r6 must hold the context for LD_ABS and LD_IND");
        }
        if let PacketMode::Indirect(reg) = mode {
            self.read(reg)?;
        }
        self.clobber();
        if self.state.frames.len() > 1 {
            // Out of bounds, the function returns 0.
            self.check_returns_number()?;
            let mut returned = self.state.clone();
            let site = returned.frame().call_site;
            if returned.frame().caller != Caller::Call {
                return unsupported("LD_ABS and LD_IND in callbacks");
            }
            returned.frames.pop();
            returned.set(Reg::R0, Register::constant(0));
            self.push(returned, site + 1);
        }
        self.write(Reg::R0, Register::scalar(Scalar::of_width(size.bits())))
    }

    // --- context ---

    fn context_offset(&self, reg: Reg, base: &Register, offset: i64) -> Step<i64> {
        match base.fixed_offset() {
            Some(0) => Ok(offset),
            Some(fixed) if self.program_type == kiln_platform::ProgramType::Syscall => Ok(fixed + offset),
            Some(fixed) => reject(
                Reason::ContextAccess,
                format!("r{}: the context is accessed through a pointer moved by {fixed}", reg.number()),
            ),
            None => reject(
                Reason::ContextAccess,
                format!("r{}: the context is accessed at an offset that is not constant", reg.number()),
            ),
        }
    }

    fn load_context(&mut self, reg: Reg, base: &Register, offset: i64, size: Size) -> Step<Register> {
        let at = self.context_offset(reg, base, offset)?;
        let layout = self.program_type.context();
        let access = match layout.access_at(self.code.program.attach_type, at, size.bytes(), false) {
            Ok(access) => access,
            Err(error) => {
                return reject(
                    Reason::ContextAccess,
                    format!("load of {} bytes at {}+{at}: {error}", size.bytes(), layout.struct_name),
                );
            }
        };
        self.check_field_in_profile(access.field)?;
        self.check_field_privilege(access.field.name, false)?;
        let or_null = |this: &mut Self, kind| Register::pointer(kind, 0).or_null(this.fresh_id());
        Ok(match access.value() {
            FieldValue::Scalar => Register::scalar(Scalar::of_width(size.bits())),
            FieldValue::PacketPointer => Register::pointer(Kind::Packet, 0),
            FieldValue::PacketEnd => Register::pointer(Kind::PacketEnd, 0),
            FieldValue::PacketMeta => Register::pointer(Kind::PacketMeta, 0),
            FieldValue::Socket => Register::pointer(Kind::Socket, 0),
            FieldValue::SocketOrNull => or_null(self, Kind::Socket),
            FieldValue::SockCommonOrNull => or_null(self, Kind::SockCommon),
            FieldValue::FlowKeys => Register::pointer(Kind::FlowKeys, 0),
            FieldValue::TracepointBuffer => Register::pointer(Kind::TracepointBuffer, 0),
            FieldValue::BtfId(name) => {
                Register::pointer(Kind::BtfId, self.types.kernel_struct(name)).trusted(Trust::TRUSTED)
            }
            FieldValue::TracedArgument => return self.load_hook_argument(at, size.bytes()),
        })
    }

    fn store_context(&mut self, reg: Reg, base: &Register, offset: i64, size: Size) -> Step<()> {
        let at = self.context_offset(reg, base, offset)?;
        if matches!(self.code.op(self.at).node.insn, Insn::Store { src: Source::Imm(_), .. }) {
            self.check_feature_in_profile(Feature::ContextImmediates)?;
        }
        let layout = self.program_type.context();
        match layout.access_at(self.code.program.attach_type, at, size.bytes(), true) {
            Ok(access) => {
                self.check_field_privilege(access.field.name, true)?;
                self.check_field_in_profile(access.field)
            }
            Err(error) => reject(
                Reason::ContextAccess,
                format!("store of {} bytes to {}+{at}: {error}", size.bytes(), layout.struct_name),
            ),
        }
    }

    // --- map values ---

    pub(crate) fn check_map_value(&self, reg: Reg, base: &Register, offset: i64, bytes: u32, how: Use) -> Step<()> {
        self.check_map_range(reg, base, offset, u64::from(bytes), how)?;
        self.check_special_fields(base, offset, u64::from(bytes))
    }

    pub(crate) fn check_map_range(&self, reg: Reg, base: &Register, offset: i64, bytes: u64, how: Use) -> Step<()> {
        let Some(map) = self.map_of(base) else { return unsupported("a value of an unknown map") };
        if how == Use::Write && (base.read_only || map.is_read_only()) {
            return reject(
                Reason::ReadOnlyMemory,
                format!("r{}: the value of map {} is read-only", reg.number(), map.name),
            );
        }
        if how == Use::Read && map.flags & kiln_program::WRITE_ONLY_FLAG != 0 {
            return reject(Reason::ReadOnlyMemory, format!("map {} is write-only for programs", map.name));
        }
        self.check_range(reg, base, offset, bytes, map.value_size.into(), Reason::MapValueBounds)
    }

    /// An access of `bytes` at base + offset stays within `size` bytes.
    pub(crate) fn check_range(
        &self,
        reg: Reg,
        base: &Register,
        offset: i64,
        bytes: u64,
        size: u64,
        reason: Reason,
    ) -> Step<()> {
        let fixed = i64::from(base.offset) + offset;
        let (lowest, highest) = (base.scalar.smin, base.scalar.umax);
        let start = i128::from(lowest) + i128::from(fixed);
        let end = i128::from(highest) + i128::from(fixed) + i128::from(bytes);
        if start < 0 {
            return reject(
                reason,
                format!(
                    "r{} ({}): the access may begin {} bytes before the memory",
                    reg.number(),
                    base.kind.name(),
                    -start
                ),
            );
        }
        if end > i128::from(size) {
            return reject(
                reason,
                format!("r{} ({}): the access may end at byte {end} of {size}", reg.number(), base.kind.name()),
            );
        }
        Ok(())
    }

    /// The bytes of a frozen read-only map at a constant offset.
    fn frozen_value(&self, base: &Register, offset: i64, bytes: u32) -> Option<Register> {
        if base.inner {
            return None;
        }
        let MapContents::ReadOnly(data) = &self.map_of(base)?.contents else { return None };
        if self.any_load() {
            return None;
        }
        let start = usize::try_from(base.fixed_offset()? + offset).ok()?;
        let data = data.get(start..start + bytes as usize)?;
        let value = data.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        Some(Register::constant(value))
    }

    // --- everything but context, stack and map values ---

    pub(crate) fn check_memory(&self, reg: Reg, base: &Register, offset: i64, bytes: u64, how: Use) -> Step<()> {
        let name = base.kind.name();
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
        match base.kind {
            Kind::Packet | Kind::PacketMeta => self.check_packet(reg, base, offset, bytes, how),
            Kind::Memory | Kind::RingBuffer => {
                if how == Use::Write && base.read_only {
                    return reject(Reason::ReadOnlyMemory, format!("r{number}: this memory is read-only"));
                }
                self.check_range(reg, base, offset, bytes, u64::from(base.object), Reason::MemoryBounds)
            }
            Kind::MapKey => {
                if how == Use::Write {
                    return reject(Reason::ReadOnlyMemory, format!("r{number}: a map key is read-only"));
                }
                let size = self.map_of(base).map_or(0, |map| u64::from(map.key_size));
                self.check_range(reg, base, offset, bytes, size, Reason::MemoryBounds)
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
            Kind::PacketEnd | Kind::Map | Kind::Function => {
                reject(Reason::NotAPointer, format!("r{number} ({name}) does not point to memory"))
            }
            Kind::BtfId => unsupported("access to kernel structures typed by BTF"),
            _ => reject(Reason::NotAPointer, format!("r{number} ({name}) cannot be accessed this way")),
        }
    }

    fn check_packet(&self, reg: Reg, base: &Register, offset: i64, bytes: u64, how: Use) -> Step<()> {
        let number = reg.number();
        if how == Use::Write && self.program_type.packet_access() != PacketAccess::ReadWrite {
            return reject(Reason::ReadOnlyMemory, "programs of this type may not write to the packet");
        }
        let fixed = i64::from(base.offset) + offset;
        if base.scalar.smin < 0 {
            return reject(
                Reason::PacketBounds,
                format!("r{number} ({}): the variable part of the offset may be negative", base.kind.name()),
            );
        }
        if fixed < 0 || fixed as u64 + bytes > base.range.max(0) as u64 {
            return reject(
                Reason::PacketBounds,
                format!(
                    "r{number} ({}): bytes {fixed} to {} are accessed, {} are known to be there",
                    base.kind.name(),
                    fixed + bytes as i64 - 1,
                    base.range.max(0)
                ),
            );
        }
        Ok(())
    }

    // --- stack ---

    fn load_stack(&mut self, reg: Reg, base: &Register, offset: i64, bytes: u32) -> Step<Register> {
        let (lowest, highest) = self.stack_range(reg, base, offset, u64::from(bytes))?;
        let frame = base.object as usize;
        check_stack_alignment(reg, base, offset, bytes)?;
        if lowest != highest {
            self.read_stack_bytes(frame, lowest, highest + bytes as i32 - lowest, false)?;
            let stack = &self.state.frames[frame].stack;
            let zero = |at| {
                let (index, within) = slot_of(at);
                stack.slot(index).bytes[within] == Byte::Zero
            };
            let zeros = (lowest..highest + bytes as i32).all(zero);
            return Ok(Register::scalar(if zeros { Scalar::constant(0) } else { Scalar::of_width(8 * bytes) }));
        }
        self.use_stack(frame, lowest)?;
        self.note_read(frame, lowest, bytes);
        let (index, within) = slot_of(lowest);
        let slot = *self.state.frames[frame].stack.slot(index);
        if let Some(object) = slot.object {
            return object_read(object, lowest);
        }
        if slot.bytes[within] == Byte::Spill {
            let held = slot.spilled_bytes();
            let register = slot.register;
            let known = bytes == held || self.kernel_has(Feature::NarrowFills);
            if !known && !register.is_pointer() && within as u32 + bytes <= held {
                return Ok(Register::scalar(Scalar::of_width(8 * bytes)));
            }
            if within == 0 && bytes <= held {
                self.note_history();
                if bytes == 8 && held == 8 {
                    return Ok(self.filled(frame, index, register));
                }
                if register.is_pointer() {
                    return reject(Reason::NotAPointer, "part of a spilled pointer is read");
                }
                return Ok(self.filled(frame, index, register));
            }
            if register.is_pointer() {
                return reject(Reason::NotAPointer, "part of a spilled pointer is read");
            }
            // Of a constant, the kernel knows the upper bytes only where it is 0.
            if register.is_zero() && within as u32 + bytes <= held {
                self.mark_precise(&register);
                return Ok(Register::constant(0));
            }
        }
        let read = &slot.bytes[within..within + bytes as usize];
        if read.contains(&Byte::Invalid) {
            self.uninitialized_read(|| format!("{bytes} bytes at r10{lowest:+} were never written"))?;
        }
        if read.iter().all(|byte| *byte == Byte::Zero) {
            return Ok(Register::constant(0));
        }
        Ok(Register::scalar(Scalar::of_width(8 * bytes)))
    }

    /// A register read back; the slot and the register are copies of each other.
    fn filled(&mut self, frame: usize, index: usize, mut register: Register) -> Register {
        if register.kind == Kind::Scalar && register.id == 0 && register.scalar.as_constant().is_none() {
            register.id = self.fresh_id();
            self.state.frames[frame].stack.slot_mut(index).register.id = register.id;
        }
        register
    }

    fn store_stack(
        &mut self,
        reg: Reg,
        base: &Register,
        offset: i64,
        bytes: u32,
        value: Register,
        src: Source,
    ) -> Step<()> {
        let (lowest, highest) = self.stack_range(reg, base, offset, u64::from(bytes))?;
        let frame = base.object as usize;
        check_stack_alignment(reg, base, offset, bytes)?;
        self.use_stack(frame, lowest)?;
        self.check_stack_store(frame, lowest, highest, bytes)?;
        if lowest != highest {
            return self.store_somewhere(frame, lowest, highest + bytes as i32 - lowest, &value);
        }
        self.note_write(frame, lowest, bytes);
        let (index, within) = slot_of(lowest);
        self.destroy_dynptr_at(frame, index)?;
        if value.is_pointer() {
            if bytes != 8 {
                return reject(Reason::NotAPointer, "part of a pointer is stored to the stack");
            }
            if frame + 1 != self.state.frames.len() && value.kind == Kind::Stack {
                return reject(Reason::NotAPointer, "a stack pointer is stored in the caller's frame");
            }
        } else if let (0, Source::Reg(src), Some(_)) = (within, src, Size::from_bytes(bytes)) {
            // Register and slot become copies of each other where all of it is stored.
            let linked = if bytes == 8 || value.scalar.umax >> (8 * bytes) == 0 && bytes < 8 {
                if *self.state.register(src) == value { self.linked(src, value) } else { value }
            } else {
                value
            };
            return self.spill(frame, index, bytes, linked);
        } else if within != 0 {
            return self.store_bytes(frame, index, within, bytes, &value);
        }
        self.spill(frame, index, bytes, value)
    }

    /// The register takes the slot's lowest bytes.
    fn spill(&mut self, frame: usize, index: usize, bytes: u32, value: Register) -> Step<()> {
        let value = match Size::from_bytes(bytes) {
            Some(_) if bytes < 8 && !self.kernel_has(Feature::NarrowSpills) => {
                return self.store_bytes(frame, index, 0, bytes, &value);
            }
            // As the kernel has it, the slot remembers all of the number, of which only the lowest bytes are there.
            _ if value.kind == Kind::Scalar && bytes < 8 && value.scalar.umax >> (8 * bytes) != 0 => {
                Register { id: 0, offset: 0, offset_in_half: false, ..value }
            }
            _ => value,
        };
        self.note_history();
        self.state.frames[frame].stack.slot_mut(index).spill(bytes as usize, value);
        if bytes == 8 {
            self.liveness.write(frame, 1 << index);
        }
        Ok(())
    }

    fn store_bytes(&mut self, frame: usize, index: usize, within: usize, bytes: u32, value: &Register) -> Step<()> {
        let zero = value.is_zero();
        if zero {
            self.mark_precise(value);
        }
        let slot = self.state.frames[frame].stack.slot_mut(index);
        // As the kernel has it, a spilled register ends with any other write to its slot, be it beside it.
        slot.scrub();
        slot.bytes[within..within + bytes as usize].fill(if zero { Byte::Zero } else { Byte::Misc });
        Ok(())
    }

    /// A store somewhere in a range of bytes.
    fn store_somewhere(&mut self, frame: usize, lowest: i32, length: i32, value: &Register) -> Step<()> {
        if value.is_pointer() {
            return unsupported("a pointer stored at a variable stack offset");
        }
        let zero = value.is_zero();
        self.note_vague_write(frame);
        for at in lowest..lowest + length {
            let (index, within) = slot_of(at);
            self.destroy_dynptr_at(frame, index)?;
            if self.state.frames[frame].stack.slot(index).bytes[within] == Byte::Invalid {
                // The byte counts as written from here on, though it may be another that was.
                self.uninitialized_read(|| format!("the byte at r10{at:+} may be written, and never was before"))?;
            }
            let slot = self.state.frames[frame].stack.slot_mut(index);
            let spilled_zero = zero && slot.bytes[within] == Byte::Spill && slot.register.is_zero();
            if !spilled_zero {
                slot.scrub();
            }
            if spilled_zero || zero && slot.bytes[within] == Byte::Zero {
                self.mark_precise(value);
            } else {
                slot.bytes[within] = Byte::Misc;
            }
        }
        Ok(())
    }

    /// Bytes read by something that does not care what they are; `clobbers` when it may write them too.
    pub(crate) fn read_stack_bytes(&mut self, frame: usize, lowest: i32, length: i32, clobbers: bool) -> Step<()> {
        self.use_stack(frame, lowest)?;
        self.note_read(frame, lowest, length as u32);
        for at in lowest..lowest + length {
            let (index, within) = slot_of(at);
            let slot = self.state.frames[frame].stack.slot(index);
            if let Some(object) = slot.object {
                return object_read(object, at);
            }
            let byte = slot.bytes[within];
            let spilled = slot.register;
            if byte == Byte::Spill {
                self.check_leak(&spilled, "on the stack is read as plain bytes")?;
                self.expose_stack(&spilled);
            }
            if byte == Byte::Invalid {
                self.uninitialized_read(|| format!("the byte at r10{at:+} was never written"))?;
            }
            if clobbers {
                let slot = self.state.frames[frame].stack.slot_mut(index);
                slot.scrub();
                slot.bytes[within] = Byte::Misc;
            }
        }
        if clobbers {
            self.note_vague_write(frame);
        }
        Ok(())
    }

    /// Bytes that a helper fills: all of them for `certain`, or perhaps.
    pub(crate) fn fill_stack_bytes(&mut self, frame: usize, lowest: i32, length: i32, certain: bool) -> Step<()> {
        self.use_stack(frame, lowest)?;
        if certain {
            self.note_write(frame, lowest, length as u32);
        } else {
            self.note_vague_write(frame);
        }
        for at in lowest..lowest + length {
            let (index, within) = slot_of(at);
            self.destroy_dynptr_at(frame, index)?;
            let slot: &mut Slot = self.state.frames[frame].stack.slot_mut(index);
            self.noted.reads_uninitialized_stack |= !certain && slot.bytes[within] == Byte::Invalid;
            slot.scrub();
            slot.bytes[within] = Byte::Misc;
            if certain && at & 7 == 0 && at + 8 <= lowest + length {
                self.liveness.write(frame, 1 << index);
            }
        }
        Ok(())
    }

    /// Whether any map type's value may hold fields that only helpers touch.
    pub(crate) fn is_local_storage(&self, map_type: MapType) -> bool {
        matches!(map_type, MapType::SkStorage | MapType::InodeStorage | MapType::TaskStorage | MapType::CgrpStorage)
    }
}

/// Accesses to the stack are aligned wherever a variable offset may lead (`check_generic_ptr_alignment`).
fn check_stack_alignment(reg: Reg, base: &Register, offset: i64, bytes: u32) -> Step<()> {
    let fixed = i64::from(base.offset) + offset;
    let at = base.scalar.tnum.add(Tnum::constant(fixed as u64));
    if (at.value | at.mask) & u64::from(bytes - 1) == 0 {
        return Ok(());
    }
    let place = match base.scalar.as_constant() {
        Some(moved) => format!("r10{:+}", fixed + moved as i64),
        None => format!("r10{fixed:+} and what r{} was moved by", reg.number()),
    };
    reject(Reason::Misaligned, format!("{bytes} bytes at {place}: not aligned"))
}

/// The bytes of a kernel object are not the program's to read.
fn object_read<T>(object: StackObject, at: i32) -> Step<T> {
    let (reason, name) = match object.kind {
        ObjectKind::Dynptr(_) => (Reason::DynptrMisuse, "dynptr"),
        ObjectKind::Iterator(_) => (Reason::IteratorMisuse, "iterator"),
        ObjectKind::IrqFlags(_) => (Reason::CriticalSection, "saved interrupt state"),
    };
    reject(reason, format!("the byte at r10{at:+} is part of a {name}, whose bytes may not be read"))
}

/// Memory whose accesses the kernel rewrites, so that an instruction must always be about the same kind.
fn is_view(kind: Kind) -> bool {
    matches!(kind, Kind::Context | Kind::Socket | Kind::SockCommon | Kind::TcpSock | Kind::XdpSock | Kind::BtfId)
}

/// The lowest bytes of a number, zero-extended.
pub(crate) fn narrowed(register: Register, size: Size) -> Register {
    if register.kind != Kind::Scalar || size == Size::B8 || register.scalar.umax >> size.bits() == 0 {
        return register;
    }
    let low = crate::domain::narrowed_as_kernel(&register.scalar, size);
    Register { origin: register.origin, ..Register::scalar(low) }
}
