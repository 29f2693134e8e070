//! Loads, stores and atomics: what each kind of pointer allows, and what a load gives.

use kiln_isa::{Address, AtomicOp, Insn, PacketMode, Reg, Size, Source};
use kiln_platform::Feature;
use kiln_program::MapContents;

use crate::code::Position;
use crate::code::ends::End;
use crate::domain::Scalar;
use crate::error::{Step, refuse, reject, unsupported};
use crate::objects::arena::check_arena_atomic;
use crate::path::precision::EVERYTHING;
use crate::path::{Findings, Next, Path, Use};
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Caller, Kind, Register, Trust};
use crate::transfer::indirect::jump_address;

impl Path<'_> {
    pub(crate) fn load(&mut self, size: Size, signed: bool, dst: Reg, address: Address) -> Step<()> {
        let base = self.options.heap_address(self.read(address.base)?);
        let mut value = self.load_from(address.base, base, i64::from(address.offset), size)?;
        if signed && value.is_pointer() && base.kind() == Kind::Context {
            return reject(Reason::ContextAccess, "a pointer of the context is loaded with sign extension");
        }
        let relocated = base.relocated || self.relocated();
        if relocated && !value.is_pointer() {
            value = Register::scalar(Scalar::of_width(size.bits()));
        }
        if value.kind() == Kind::Scalar && size != Size::B8 && self.relocates_width() {
            value = Register::UNKNOWN;
        } else if value.kind() == Kind::Scalar && size != Size::B8 {
            value = if signed {
                let scalar = self.sign_extended(&value.scalar, size, kiln_isa::Width::W64);
                Register { origin: value.origin, ..Register::scalar(scalar) }
            } else {
                narrowed(value, size)
            };
        }
        self.write(dst, value)
    }

    /// A load that acquires, from memory that atomic instructions may access.
    pub(crate) fn load_acquire(&mut self, size: Size, dst: Reg, address: Address) -> Step<()> {
        self.check_atomic_base(address.base)?;
        self.check_cannot_fault(address.base)?;
        self.check_atomic_alignment(size, address)?;
        self.load(size, false, dst, address)
    }

    /// A plain load of a pointer that is perhaps not valid reads 0; one that acquires would stop the kernel.
    fn check_cannot_fault(&mut self, reg: Reg) -> Step<()> {
        let base = self.read(reg)?;
        let plain = base.kind() == Kind::BtfId && base.trust == Trust::NONE;
        if base.is_pointer() && (plain || base.trust.has(Trust::UNTRUSTED)) {
            let message = format!("a load that acquires through r{}, which may not be valid", reg.number());
            return reject(Reason::NotTrusted, message);
        }
        Ok(())
    }

    /// A store that releases, to memory that atomic instructions may access.
    pub(crate) fn store_release(&mut self, size: Size, address: Address, src: Reg) -> Step<()> {
        self.check_atomic_base(address.base)?;
        self.check_atomic_alignment(size, address)?;
        self.store(size, address, Source::Reg(src))
    }

    /// Memory may be accessed at any address on most machines, but not by an atomic instruction.
    fn check_atomic_alignment(&mut self, size: Size, address: Address) -> Step<()> {
        let base = self.options.heap_address(self.read(address.base)?);
        let aligned = base.is_aligned(i64::from(address.offset), size.bytes());
        if base.is_pointer() && base.kind() != Kind::Arena && !aligned {
            return reject(Reason::Misaligned, "atomic operation on an address that may be misaligned");
        }
        Ok(())
    }

    /// The kernel rewrites accesses of some memory, and does not for atomic instructions.
    fn check_atomic_base(&mut self, reg: Reg) -> Step<()> {
        let kind = self.read(reg)?.kind();
        let packet = matches!(kind, Kind::Context | Kind::Packet | Kind::PacketMeta | Kind::FlowKeys);
        let socket = matches!(kind, Kind::Socket | Kind::SockCommon | Kind::TcpSock | Kind::XdpSock);
        if packet || socket {
            let message = format!("atomic operation on r{} ({})", reg.number(), kind.name());
            return reject(Reason::BadInstruction, message);
        }
        Ok(())
    }

    fn load_from(&mut self, reg: Reg, base: Register, offset: i64, size: Size) -> Step<Register> {
        let bytes = size.bytes();
        let plain = matches!(self.code.op(self.at).node.insn, Insn::Load { .. });
        let merges = plain && self.options.kernel_has(Feature::MixedLoads);
        self.findings.check_usable(self.at, reg, &base, merges)?;
        if base.kind() == Kind::Context {
            self.findings.noted.access_context(&base, offset, bytes);
        }
        let unknown = Register::scalar(Scalar::of_width(size.bits()));
        match base.kind() {
            Kind::Context if self.is_context_memory() => {
                self.check_context_memory(reg, &base, offset, u64::from(bytes)).map(|()| unknown)
            }
            Kind::Context => self.load_context(reg, &base, offset, size),
            Kind::Stack => self.load_stack(reg, &base, offset, bytes),
            Kind::MapValue => {
                if let Some(kptr) = self.types.kptr_at(self.code, self.at, reg, &base, offset, size)? {
                    return self.load_kptr(&kptr);
                }
                self.code.check_table_alignment(reg, &base, offset, bytes)?;
                self.types.check_map_value(self.code, reg, &base, offset, bytes, Use::Read)?;
                if self.code.is_jump_table(&base) {
                    return jump_address(&base, offset, bytes);
                }
                Ok(self.frozen_value(&base, offset, bytes).unwrap_or(unknown))
            }
            Kind::Memory if base.trust.has(Trust::UNTRUSTED) => Ok(unknown),
            // Another kernel has the field elsewhere. Pointers have eight bytes.
            Kind::BtfId if bytes < 8 && (base.relocated || self.relocated()) => Ok(unknown),
            Kind::BtfId => self.load_structure(reg, &base, offset, bytes),
            Kind::Map => self.load_map_field(reg, &base, offset, bytes),
            _ => {
                self.code.check_memory(reg, &base, offset, u64::from(bytes), Use::Read)?;
                Ok(unknown)
            }
        }
    }

    pub(crate) fn store(&mut self, size: Size, address: Address, src: Source) -> Step<()> {
        let value = self.operand(src)?;
        let base = self.options.heap_address(self.read(address.base)?);
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
        self.findings.check_usable(self.at, reg, &base, false)?;
        if base.kind() != Kind::Stack {
            self.options.check_leak(&value, "is stored where it can be read")?;
        }
        if base.kind() == Kind::Context {
            self.findings.noted.access_context(&base, offset, size.bytes());
        }
        match base.kind() {
            Kind::Stack => self.store_stack(reg, &base, offset, size.bytes(), value, src),
            Kind::Context if self.is_context_memory() => {
                self.check_context_memory(reg, &base, offset, u64::from(size.bytes()))
            }
            Kind::Context => self.store_context(reg, &base, offset, size),
            Kind::MapValue => {
                if let Some(kptr) = self.types.kptr_at(self.code, self.at, reg, &base, offset, size)? {
                    return self.types.store_kptr(&mut self.findings, &kptr, &value);
                }
                self.code.check_table_alignment(reg, &base, offset, size.bytes())?;
                self.types.check_map_value(self.code, reg, &base, offset, size.bytes(), Use::Write)
            }
            Kind::BtfId => self.types.store_structure(self.code, self.options, reg, &base, offset, size.bytes()),
            _ => self.code.check_memory(reg, &base, offset, u64::from(size.bytes()), Use::Write),
        }
    }

    pub(crate) fn atomic(&mut self, op: AtomicOp, fetch: bool, size: Size, address: Address, src: Reg) -> Step<()> {
        if !matches!(size, Size::B4 | Size::B8) {
            return reject(Reason::BadInstruction, "atomic operations are on 4 or 8 bytes");
        }
        let operand = self.read(src)?;
        self.options.check_leak(&operand, "is stored where it can be read")?;
        if op == AtomicOp::CompareExchange {
            self.read(Reg::R0)?;
        }
        let base = self.options.heap_address(self.read(address.base)?);
        let offset = i64::from(address.offset);
        self.check_atomic_base(address.base)?;
        if base.kind() == Kind::Arena {
            check_arena_atomic(op, fetch)?;
        }
        self.check_atomic_alignment(size, address)?;
        let result = if op == AtomicOp::CompareExchange { Reg::R0 } else { src };
        if fetch && result == address.base {
            return reject(Reason::BadInstruction, "the value fetched would take the place of the address");
        }
        let before = self.load_from(address.base, base, offset, size)?;
        // Nothing else changes the program's stack.
        let before = match (base.kind(), before.kind()) {
            (Kind::Stack, Kind::Scalar) => narrowed(before, size),
            (Kind::Stack, _) => before,
            _ => Register::scalar(Scalar::of_width(size.bits())),
        };
        self.store_to(address.base, base, offset, size, Register::UNKNOWN, Source::Imm(0))?;
        if base.kind() == Kind::Stack {
            self.forget_stored(address.base, &base, offset, size)?;
        }
        match op {
            AtomicOp::CompareExchange => self.write(Reg::R0, before),
            _ if fetch => self.write(src, before),
            _ => Ok(()),
        }
    }

    pub(crate) fn load_packet(&mut self, mode: PacketMode) -> Step<Next> {
        if !self.code.program_type.allows_legacy_packet_loads() {
            return reject(Reason::BadInstruction, "LD_ABS and LD_IND are not allowed in this program type");
        }
        if !self.state.references.is_empty() {
            return reject(Reason::UnreleasedReference, "LD_ABS may end the program while a reference is held");
        }
        if !self.state.locks.is_empty() {
            return reject(Reason::LockDiscipline, "LD_ABS may end the program while a lock is held");
        }
        if self.code.functions.len() > 1 {
            self.options.check_feature_in_profile(Feature::PacketLoadsWithFunctions)?;
        }
        let context = self.read(Reg::R6)?;
        if !context.is_unmoved(Kind::Context) {
            return reject(Reason::ArgumentType, "r6 must hold the context for LD_ABS and LD_IND");
        }
        if let PacketMode::Indirect(reg) = mode {
            self.read(reg)?;
        }
        self.state.clobber();
        self.write(Reg::R0, Register { origin: EVERYTHING, ..Register::UNKNOWN })?;
        if self.state.frames.len() == 1 {
            return Ok(Next::At(self.at + 1));
        }
        if self.state.frame().caller != Caller::Call {
            return match self.options.kernel_has(Feature::CallbacksReturn) {
                true => End::PacketLoad.refuse(),
                false => unsupported("LD_ABS and LD_IND in callbacks"),
            };
        }
        // Out of bounds, the function returns 0; the kernel follows this path first.
        self.state.check_returns_number(self.code)?;
        self.push(self.state.clone(), self.at + 1);
        let next = self.exit()?;
        let findings = &mut self.findings;
        if let Some(trail) = &findings.trail {
            trail.lead_back(&mut findings.origins, self.code, self.state.trail, &mut self.state);
        }
        self.write(Reg::R0, Register { origin: EVERYTHING, ..Register::constant(0) })?;
        Ok(next)
    }

    /// The bytes of a frozen read-only map at a constant offset.
    fn frozen_value(&self, base: &Register, offset: i64, bytes: u32) -> Option<Register> {
        if base.inner {
            return None;
        }
        let MapContents::ReadOnly(data) = &self.code.map_of(base)?.contents else { return None };
        if self.any_load() || !self.options.kernel_has(Feature::ReadOnlyValues) {
            return None;
        }
        let start = usize::try_from(base.fixed_offset()? + offset).ok()?;
        let data = data.get(start..start + bytes as usize)?;
        let value = data.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        Some(Register::constant(value))
    }
}

impl Findings {
    /// Checks that an address register holds a pointer that is not null, of the same kind on all paths. If the kernel
    /// `merges`, it makes one load of those from memory and from structures, which may fault.
    fn check_usable(&mut self, at: Position, reg: Reg, base: &Register, merges: bool) -> Step<()> {
        let number = reg.number();
        if !base.is_pointer() {
            return reject(Reason::NotAPointer, format!("r{number} is used as an address but holds a number"));
        }
        // Loads that may fault are one kind of code, whatever the pointer is to.
        let kind = match base.kind() {
            Kind::Memory if base.trust.has(Trust::UNTRUSTED) => Kind::BtfId,
            kind => kind,
        };
        let before = std::mem::replace(&mut self.noted.accessed[at as usize], kind);
        if before != kind && !self.noted.kinds.contains(&kind) {
            self.noted.kinds.push(kind);
        }
        let memory = |kind| matches!(kind, Kind::Memory | Kind::RingBuffer | Kind::BtfId);
        let merged = merges && memory(before) && memory(kind);
        if merged && before == Kind::BtfId {
            self.noted.accessed[at as usize] = before;
        }
        let own_code = |kind| is_view(kind) || kind == Kind::Arena;
        if !merged && before != kind && before != Kind::Uninit && (own_code(before) || own_code(kind)) {
            return refuse(
                Reason::NotAPointer,
                Case::TwoKinds,
                format!("r{number} is {} here on one path and {} on another", before.name(), base.kind().name()),
            );
        }
        if base.nullable {
            return reject(
                Reason::PossiblyNull,
                format!("r{number} ({}) may be null here: it was not compared with 0 on this path", base.kind().name()),
            );
        }
        Ok(())
    }
}

/// Whether the kernel rewrites accesses of this memory. Then an instruction must access the same kind on all paths.
fn is_view(kind: Kind) -> bool {
    matches!(kind, Kind::Context | Kind::Socket | Kind::SockCommon | Kind::TcpSock | Kind::XdpSock | Kind::BtfId)
}

/// The lowest bytes of a number, zero-extended.
pub(crate) fn narrowed(register: Register, size: Size) -> Register {
    if register.kind() != Kind::Scalar || size == Size::B8 || register.scalar.umax >> size.bits() == 0 {
        return register;
    }
    let low = crate::domain::narrowed_as_kernel(&register.scalar, size);
    Register { origin: register.origin, ..Register::scalar(low) }
}
