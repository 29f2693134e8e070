//! Arguments of helpers, held to the prototype.

use kiln_isa::Reg;
use kiln_platform::limits::MAX_VARIABLE_SIZE;
use kiln_platform::{ArgKind, Helper, MapType, Prototype};

use crate::call::callback::check_same_map;
use crate::call::said::Call;
use crate::call::structure::Wanted;
use crate::error::{Step, reject, unsupported};
use crate::objects::fields::FieldKind;
use crate::path::{Path, Use};
use crate::reason::Reason;
use crate::state::{Byte, Kind, Register, Trust};

impl Path<'_> {
    pub(crate) fn check_argument(
        &mut self,
        helper: &Helper,
        prototype: &Prototype,
        index: usize,
        reg: Reg,
        kind: ArgKind,
        call: &mut Call,
    ) -> Step<()> {
        let register = self.read(reg)?;
        let what = |expected: &str| {
            format!(
                "argument {} of {} must be {expected}, r{} is {}{}",
                index + 1,
                helper.name,
                reg.number(),
                register.kind.name(),
                if register.nullable { " or null" } else { "" }
            )
        };
        let null = register.is_zero();
        if helper.name == "get_local_storage" && index == 1 {
            if !null {
                return reject(Reason::ArgumentType, what("0"));
            }
            self.mark_precise(&register);
        }
        if null && kind.nullable() {
            self.mark_precise(&register);
            return Ok(());
        }
        if register.is_pointer() && register.nullable && kind != ArgKind::Anything && !kind.nullable() {
            return reject(Reason::PossiblyNull, what("a pointer that is not null"));
        }
        if register.reference != 0 && call.reference == 0 {
            call.reference = register.reference;
        }
        match kind {
            ArgKind::Anything => {
                self.check_leak(&register, "is passed as a number")?;
                self.expose_stack(&register);
            }
            ArgKind::Context | ArgKind::ContextOrNull => {
                if register.kind != Kind::Context || register.fixed_offset() != Some(0) {
                    return reject(Reason::ArgumentType, what("the context, unmodified"));
                }
            }
            ArgKind::ConstMapPtr => {
                if register.kind != Kind::Map {
                    return reject(Reason::ArgumentType, what("a map"));
                }
                if let Some(owner) = call.owner {
                    check_same_map(&owner, &register)?;
                }
                call.map = Some(register);
            }
            ArgKind::MapKey => {
                let (size, _) = self.map_argument(call)?;
                call.key = self.constant_key(&register, size);
                self.check_buffer(prototype, reg, &register, u64::from(size), Use::Read, true, call)?;
            }
            ArgKind::MapValue | ArgKind::MapValueOrNull
                if matches!(
                    call.map.as_ref().and_then(|map| self.map_type_of(map)),
                    Some(MapType::Sockmap | MapType::Sockhash)
                ) =>
            {
                self.check_typed_argument(&register, Wanted::Socket { released: false }, what("a socket"))?;
            }
            ArgKind::MapValue | ArgKind::MapValueOrNull => {
                let (_, size) = self.map_argument(call)?;
                self.check_buffer(prototype, reg, &register, u64::from(size), Use::Read, true, call)?;
            }
            ArgKind::UninitMapValue => {
                let (_, size) = self.map_argument(call)?;
                self.check_buffer(prototype, reg, &register, u64::from(size), Use::Write, true, call)?;
            }
            ArgKind::Memory(_) => {
                // Checked with its size, which comes next; here only that it can be memory at all.
                let next = prototype.args.get(index + 1);
                if !matches!(next, Some(ArgKind::Size { .. })) {
                    return unsupported(format!("the prototype of {}", helper.name));
                }
            }
            ArgKind::FixedMemory { size, memory, aligned } => {
                if aligned
                    && register.kind == Kind::Stack
                    && register.fixed_offset().is_some_and(|offset| offset % i64::from(size) != 0)
                {
                    return reject(Reason::Misaligned, what("aligned memory"));
                }
                let how = if memory.writes { Use::Write } else { Use::Read };
                self.check_memory_argument(prototype, reg, &register, u64::from(size), how, memory.reads, true, call)?;
            }
            ArgKind::Size { zero_allowed } => {
                self.check_sized(helper, prototype, index, reg, &register, zero_allowed, call)?;
            }
            ArgKind::ConstAllocSize => {
                let Some(size) = register.scalar.as_constant().filter(|_| register.kind == Kind::Scalar) else {
                    return reject(Reason::ArgumentSize, what("a constant size"));
                };
                if size > u64::from(u32::MAX) {
                    return reject(Reason::ArgumentSize, what("a size that fits 32 bits"));
                }
                self.mark_precise(&register);
                call.allocation = Some(size);
            }
            ArgKind::StackOrNull => {
                if register.kind != Kind::Stack {
                    return reject(Reason::ArgumentType, what("a pointer to the stack, or 0"));
                }
            }
            ArgKind::SockCommon => {
                if !matches!(register.kind, Kind::Socket | Kind::SockCommon | Kind::TcpSock | Kind::XdpSock) {
                    return reject(Reason::ArgumentType, what("a socket of a context or lookup"));
                }
            }
            ArgKind::SocketOrNull => {
                if register.kind != Kind::Socket {
                    return reject(Reason::ArgumentType, what("a full socket of a context or lookup"));
                }
            }
            ArgKind::BtfSockCommon { .. } | ArgKind::ReleasedBtfSockCommon => {
                let wanted = Wanted::Socket { released: kind.releases() };
                self.check_typed_argument(&register, wanted, what("a socket"))?;
                if kind.releases() {
                    if register.reference == 0 || register.fixed_offset() != Some(0) {
                        return reject(Reason::NotHeld, what("a socket that this program acquired, unmodified"));
                    }
                    call.released = Some(register.reference);
                }
            }
            ArgKind::ReleasedRingBufferMemory => {
                if register.kind != Kind::RingBuffer {
                    return reject(Reason::ArgumentType, what("a reserved ring buffer record"));
                }
                if register.reference == 0 || register.fixed_offset() != Some(0) {
                    return reject(Reason::NotHeld, what("a record as it was reserved, unmodified"));
                }
                call.released = Some(register.reference);
            }
            ArgKind::Callback => {
                if register.kind != Kind::Function {
                    return reject(Reason::ArgumentType, what("a function of this program"));
                }
                call.callback = Some(register.object as usize);
            }
            ArgKind::ConstString => self.check_constant_string(reg, &register, what("a constant string"))?,
            ArgKind::SpinLock => self.check_lock_argument(&register, FieldKind::SpinLock, what("a bpf_spin_lock"))?,
            ArgKind::Timer => {
                self.check_field_argument(&register, FieldKind::Timer, what("a bpf_timer"))?;
                call.owner = Some(register);
            }
            ArgKind::BtfId { type_name, .. } => {
                let message = what(&format!("a pointer to struct {type_name}"));
                self.check_typed_argument(&register, Wanted::Structure(type_name), message)?;
            }
            ArgKind::PercpuBtfId => {
                if register.kind != Kind::BtfId
                    || !register.trust.has(Trust::PERCPU)
                    || register.trust.has(Trust::ALLOCATED)
                {
                    return reject(Reason::ArgumentType, what("a per-CPU variable"));
                }
                call.owner = Some(register);
            }
            ArgKind::KptrDest => {
                call.kptr = Some(self.check_kptr_slot(&register, what("a kptr in a value or object"))?)
            }
            ArgKind::ReleasedBtfIdOrNull => {
                let Some(kptr) = call.kptr else { return unsupported(format!("the prototype of {}", helper.name)) };
                call.released =
                    Some(self.check_kptr_given(&kptr, &register, what("an object that the program owns"))?);
            }
            ArgKind::Dynptr(how) => self.dynptr_argument(helper, reg, how, call)?,
        }
        Ok(())
    }

    /// Bytes in a key and in a value of the map argument.
    pub(crate) fn map_argument(&self, call: &Call) -> Step<(u32, u32)> {
        match call.map.as_ref().and_then(|register| self.map_of(register)) {
            Some(map) => Ok((map.key_size, map.value_size)),
            None => unsupported("a map whose definition is not known"),
        }
    }

    /// The size argument, and the memory argument before it.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn check_sized(
        &mut self,
        helper: &Helper,
        prototype: &Prototype,
        index: usize,
        reg: Reg,
        size: &Register,
        zero_allowed: bool,
        call: &mut Call,
    ) -> Step<()> {
        let complain = |text: &str| {
            reject(Reason::ArgumentSize, format!("argument {} of {}: r{} {text}", index + 1, helper.name, reg.number()))
        };
        if size.kind != Kind::Scalar {
            return complain("must be a number");
        }
        if size.scalar.smin < 0 {
            return complain("may be negative: the size has no lower bound");
        }
        if size.scalar.umin == 0 && !zero_allowed {
            return complain("may be 0");
        }
        if size.scalar.umax >= MAX_VARIABLE_SIZE {
            return complain("has no upper bound");
        }
        let Some(ArgKind::Memory(memory)) = index.checked_sub(1).and_then(|at| prototype.args.get(at)).copied() else {
            return unsupported(format!("the prototype of {}", helper.name));
        };
        let Some(reg) = Reg::new(index as u8) else { return Ok(()) };
        let pointer = self.read(reg)?;
        let most = size.scalar.umax;
        call.most_bytes = most;
        self.mark_precise(size);
        if pointer.is_zero() {
            self.mark_precise(&pointer);
            if memory.nullable && most == 0 {
                return Ok(());
            }
            if memory.nullable {
                return reject(
                    Reason::PossiblyNull,
                    format!("{}: null is passed with a size of up to {most}", helper.name),
                );
            }
        }
        let constant = size.scalar.as_constant().is_some();
        let how = if memory.writes { Use::Write } else { Use::Read };
        self.check_memory_argument(prototype, reg, &pointer, most, how, memory.reads, constant, call)
    }

    /// Memory of the map's key or value size.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn check_buffer(
        &mut self,
        prototype: &Prototype,
        reg: Reg,
        register: &Register,
        bytes: u64,
        how: Use,
        constant: bool,
        call: &mut Call,
    ) -> Step<()> {
        self.check_memory_argument(prototype, reg, register, bytes, how, how == Use::Read, constant, call)
    }

    /// Memory that a helper reads or writes; `constant` when exactly that many bytes.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn check_memory_argument(
        &mut self,
        prototype: &Prototype,
        reg: Reg,
        register: &Register,
        bytes: u64,
        how: Use,
        reads: bool,
        constant: bool,
        call: &mut Call,
    ) -> Step<()> {
        let number = reg.number();
        match register.kind {
            Kind::Stack => {
                let (lowest, highest) = self.stack_range(reg, register, 0, bytes)?;
                let frame = register.object as usize;
                let length = bytes as i32;
                if length == 0 {
                    return Ok(());
                }
                if how == Use::Write && !reads && constant && lowest == highest {
                    self.check_no_dynptr(frame, lowest, length)?;
                    call.fills.push((frame, lowest, length));
                    return Ok(());
                }
                self.read_stack_bytes(frame, lowest, highest - lowest + length, how == Use::Write)
            }
            Kind::Packet | Kind::PacketMeta => {
                if !prototype.packet_memory {
                    return reject(
                        Reason::ArgumentType,
                        format!("r{number}: this helper does not take packet memory; copy it to the stack first"),
                    );
                }
                self.check_memory(reg, register, 0, bytes, how)
            }
            Kind::MapValue => {
                self.check_map_range(reg, register, 0, bytes, how)?;
                self.check_special_fields(register, 0, bytes)
            }
            Kind::Memory | Kind::RingBuffer | Kind::MapKey => self.check_memory(reg, register, 0, bytes, how),
            Kind::TracepointBuffer | Kind::Buffer => self.check_memory(reg, register, 0, bytes, how),
            Kind::BtfId => self.check_structure_memory(reg, register, bytes, how),
            _ => reject(
                Reason::ArgumentType,
                format!("r{number} ({}) is not memory that a helper can use", register.kind.name()),
            ),
        }
    }

    /// The key, where it is a small constant on the stack.
    pub(crate) fn constant_key(&mut self, register: &Register, size: u32) -> Option<u64> {
        if register.kind != Kind::Stack || size != 4 {
            return None;
        }
        let at = i32::try_from(register.fixed_offset()?).ok()?;
        if !(-512..0).contains(&at) {
            return None;
        }
        let (index, within) = crate::state::stack::slot_of(at);
        let slot = self.state.frames.get(register.object as usize)?.stack.slot(index);
        let bytes = slot.bytes.get(within..within + 4)?;
        if bytes.iter().all(|byte| *byte == Byte::Zero) {
            return Some(0);
        }
        // As the kernel has it, a key is what was stored as one: the low half of a longer number is none, and its upper
        // half is the whole of it.
        let spilled = slot.bytes[within..].iter().take_while(|byte| **byte == Byte::Spill).count();
        if spilled != 4 || slot.register.kind != Kind::Scalar {
            return None;
        }
        let register = slot.register;
        let key = register.scalar.as_constant()?;
        // What the key is decides whether the result may be null: a path with another key is another path.
        self.mark_precise(&register);
        (within == 0 || key == 0).then_some(key)
    }
}
