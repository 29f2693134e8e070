//! Arguments of helpers, held to the prototype.

use kiln_isa::Reg;
use kiln_platform::limits::MAX_VARIABLE_SIZE;
use kiln_platform::{ArgKind, Feature, Helper, Lookup, ProgramType, Prototype, SpecialType, helper_id};

use crate::call::callback::check_same_map;
use crate::call::checked::{Argument, Check};
use crate::call::said::Call;
use crate::call::structure::Wanted;
use crate::error::{About, Step, refuse, reject, unsupported};
use crate::path::{Path, Use};
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Byte, Kind, Register, Trust};

/// What a helper does with memory that it is passed.
#[derive(Clone, Copy)]
struct Passed {
    bytes: u64,
    how: Use,
    /// It reads what is there, before it may write.
    reads: bool,
    /// Exactly that many bytes.
    constant: bool,
}

impl Passed {
    /// Memory of the map's key or value size.
    fn of_map(bytes: u32, how: Use) -> Passed {
        Passed { bytes: bytes.into(), how, reads: how == Use::Read, constant: true }
    }
}

impl Argument<'_> {
    /// The message that the argument must be something else.
    fn must_be(&self, expected: &str) -> String {
        format!(
            "argument {} of {} must be {expected}, r{} is {}{}",
            self.index + 1,
            self.helper.name,
            self.reg.number(),
            self.register.kind().name(),
            if self.register.nullable { " or null" } else { "" }
        )
    }

    fn wrong<T>(&self, expected: &str) -> Step<T> {
        reject(Reason::ArgumentType, self.must_be(expected))
    }

    fn odd_prototype<T>(&self) -> Step<T> {
        unsupported(format!("the prototype of {}", self.helper.name))
    }
}

impl<'c, 'p> Check<'c, 'p> {
    /// Holds all arguments of a call to the prototype, in their order.
    pub(crate) fn all(path: &mut Path<'p>, helper: &Helper, prototype: &Prototype, call: &mut Call) -> Step<()> {
        for (index, kind) in prototype.args.iter().enumerate() {
            let Some(reg) = Reg::new(index as u8 + 1) else { break };
            let register = path.read(reg)?;
            let argument = Argument { helper, prototype, index, reg, register };
            Check { path, call, argument }.hold_to(*kind).about(reg)?;
        }
        // Registers beyond the prototype (values to print) are read too.
        for index in prototype.args.len() + 1..=5 {
            let register = path.state.frame().registers[index];
            path.findings.expose_stack(&path.state, path.at, &register);
        }
        Ok(())
    }

    fn hold_to(mut self, kind: ArgKind) -> Step<()> {
        let Argument { helper, index, register, .. } = self.argument;
        let null = register.is_zero();
        if helper.id == helper_id::GET_LOCAL_STORAGE && index == 1 {
            if !null {
                return refuse(Reason::ArgumentType, Case::StorageFlags, self.argument.must_be("0"));
            }
            self.path.findings.mark_precise(&register);
        }
        if null && kind.nullable() {
            self.path.findings.mark_precise(&register);
            return Ok(());
        }
        if register.is_pointer() && register.nullable && kind != ArgKind::Anything && !kind.nullable() {
            return reject(Reason::PossiblyNull, self.argument.must_be("a pointer that is not null"));
        }
        if register.owns() && self.call.reference == 0 {
            self.call.reference = register.reference;
        }
        match kind {
            ArgKind::MapKey
            | ArgKind::MapValue
            | ArgKind::MapValueOrNull
            | ArgKind::UninitMapValue
            | ArgKind::Memory(_)
            | ArgKind::FixedMemory { .. }
            | ArgKind::Size { .. } => self.memory(kind),
            ArgKind::SockCommon
            | ArgKind::SocketOrNull
            | ArgKind::BtfSockCommon { .. }
            | ArgKind::ReleasedBtfSockCommon => self.socket(kind),
            ArgKind::ReleasedRingBufferMemory
            | ArgKind::SpinLock
            | ArgKind::Timer
            | ArgKind::BtfId { .. }
            | ArgKind::PercpuBtfId
            | ArgKind::KptrDest
            | ArgKind::ReleasedBtfIdOrNull
            | ArgKind::Dynptr(_) => self.object(kind),
            plain => self.plain(plain),
        }
    }

    /// Numbers, the context, maps, functions and strings.
    fn plain(&mut self, kind: ArgKind) -> Step<()> {
        let Argument { reg, register, .. } = self.argument;
        match kind {
            ArgKind::Context | ArgKind::ContextOrNull => {
                if !register.is_unmoved(Kind::Context) {
                    return self.argument.wrong("the context, unmodified");
                }
            }
            ArgKind::ConstMapPtr => {
                if register.kind() != Kind::Map {
                    return self.argument.wrong("a map");
                }
                if let Some(owner) = self.call.owner {
                    check_same_map(&owner, &register)?;
                }
                self.call.map = Some(register);
            }
            ArgKind::ConstAllocSize => {
                let Some(size) = register.scalar.as_constant().filter(|_| register.kind() == Kind::Scalar) else {
                    let message = self.argument.must_be("a constant size");
                    return refuse(Reason::ArgumentSize, Case::NotConstant, message);
                };
                if size > u64::from(u32::MAX) {
                    return reject(Reason::ArgumentSize, self.argument.must_be("a size that fits 32 bits"));
                }
                self.path.findings.mark_precise(&register);
                self.call.allocation = Some(size);
            }
            ArgKind::StackOrNull => {
                if register.kind() != Kind::Stack {
                    return self.argument.wrong("a pointer to the stack, or 0");
                }
            }
            ArgKind::Callback => {
                if !register.is_unmoved(Kind::Function) {
                    return self.argument.wrong("a function of this program, unmodified");
                }
                self.call.callback = register.function();
            }
            ArgKind::ConstString => {
                self.path.code.check_constant_string(reg, &register, self.argument.must_be("a constant string"))?;
            }
            _ => {
                self.path.options.check_leak(&register, "is passed as a number")?;
                self.path.findings.expose_stack(&self.path.state, self.path.at, &register);
            }
        }
        Ok(())
    }

    /// Memory, and the size of what was passed before.
    fn memory(&mut self, kind: ArgKind) -> Step<()> {
        let Argument { prototype, index, reg, register, .. } = self.argument;
        match kind {
            ArgKind::MapKey => {
                let (size, _) = self.map_argument()?;
                self.call.key = self.constant_key(size);
                self.check_map_memory()?;
                self.check_memory(reg, &register, Passed::of_map(size, Use::Read))
            }
            ArgKind::MapValue | ArgKind::MapValueOrNull if self.of_sockets() => {
                let message = self.argument.must_be("a socket");
                self.path.types.check_typed_argument(&register, Wanted::Socket { released: false }, message)
            }
            ArgKind::MapValue | ArgKind::MapValueOrNull | ArgKind::UninitMapValue => {
                let (_, size) = self.map_argument()?;
                let how = if kind == ArgKind::UninitMapValue { Use::Write } else { Use::Read };
                self.check_map_memory()?;
                self.check_memory(reg, &register, Passed::of_map(size, how))
            }
            ArgKind::FixedMemory { size, memory, aligned } => {
                if aligned && register.is_pointer() && !register.is_aligned(0, size) {
                    return reject(Reason::Misaligned, self.argument.must_be("aligned memory"));
                }
                let how = if memory.writes { Use::Write } else { Use::Read };
                let passed = Passed { bytes: size.into(), how, reads: memory.reads, constant: true };
                self.check_memory(reg, &register, passed)
            }
            ArgKind::Size { zero_allowed } => self.check_sized(zero_allowed),
            // Checked with its size, which comes next; here only that it can be memory at all.
            _ => match prototype.args.get(index + 1) {
                Some(ArgKind::Size { .. }) => Ok(()),
                _ => self.argument.odd_prototype(),
            },
        }
    }

    fn socket(&mut self, kind: ArgKind) -> Step<()> {
        let register = self.argument.register;
        match kind {
            ArgKind::SockCommon => {
                if !matches!(register.kind(), Kind::Socket | Kind::SockCommon | Kind::TcpSock | Kind::XdpSock) {
                    return self.argument.wrong("a socket of a context or lookup");
                }
            }
            ArgKind::SocketOrNull => {
                // What a map's lookup found is a value of the map until it is tested.
                if register.kind() != Kind::Socket || register.nullable && register.inner {
                    return self.argument.wrong("a full socket of a context or lookup");
                }
            }
            _ => {
                let wanted = Wanted::Socket { released: kind.releases() };
                self.path.types.check_typed_argument(&register, wanted, self.argument.must_be("a socket"))?;
                if kind.releases() {
                    if !register.owns() || register.fixed_offset() != Some(0) {
                        let message = self.argument.must_be("a socket that this program acquired, unmodified");
                        return reject(Reason::NotHeld, message);
                    }
                    self.call.released = Some(register.reference);
                }
            }
        }
        Ok(())
    }

    /// Objects that the kernel watches over.
    fn object(&mut self, kind: ArgKind) -> Step<()> {
        let Argument { helper: _, reg: _, register, .. } = self.argument;
        match kind {
            ArgKind::ReleasedRingBufferMemory => {
                if register.kind() != Kind::RingBuffer {
                    return self.argument.wrong("a reserved ring buffer record");
                }
                if !register.owns() || register.fixed_offset() != Some(0) {
                    let message = self.argument.must_be("a record as it was reserved, unmodified");
                    return reject(Reason::NotHeld, message);
                }
                self.call.released = Some(register.reference);
            }
            ArgKind::SpinLock => {
                let message = self.argument.must_be("a bpf_spin_lock");
                self.path.types.check_lock_argument(self.path.code, &register, SpecialType::SpinLock, message)?;
            }
            ArgKind::Timer => {
                let message = self.argument.must_be("a bpf_timer");
                self.path.types.check_field_argument(self.path.code, &register, SpecialType::Timer, message)?;
                self.call.owner = Some(register);
            }
            ArgKind::BtfId { type_name, .. } => {
                let message = self.argument.must_be(&format!("a pointer to struct {type_name}"));
                self.path.types.check_typed_argument(&register, Wanted::Structure(type_name), message)?;
            }
            ArgKind::PercpuBtfId => {
                let percpu = register.trust.has(Trust::PERCPU) && !register.trust.has(Trust::ALLOCATED);
                if register.kind() != Kind::BtfId || !percpu {
                    return self.argument.wrong("a per-CPU variable");
                }
                self.call.owner = Some(register);
            }
            ArgKind::KptrDest => {
                let message = self.argument.must_be("a kptr in a value or object");
                let shared = self.path.options.kernel_has(Feature::ExchangesUnderLock);
                self.call.kptr = Some(self.path.types.check_kptr_slot(self.path.code, &register, shared, message)?);
            }
            ArgKind::ReleasedBtfIdOrNull => {
                let Some(kptr) = self.call.kptr else { return self.argument.odd_prototype() };
                let message = self.argument.must_be("an object that the program owns");
                self.call.released = Some(self.path.types.check_kptr_given(&kptr, &register, message)?);
            }
            ArgKind::Dynptr(how) => self.dynptr_argument(how)?,
            _ => return self.argument.odd_prototype(),
        }
        Ok(())
    }

    /// Whether the map argument holds sockets.
    fn of_sockets(&self) -> bool {
        let map_type = self.call.map.as_ref().and_then(|map| self.path.code.map_type_of(map));
        map_type.is_some_and(|map_type| map_type.rules().lookup == Lookup::Socket)
    }

    /// Bytes in a key and in a value of the map argument.
    fn map_argument(&self) -> Step<(u32, u32)> {
        match self.call.map.as_ref().and_then(|register| self.path.code.map_of(register)) {
            Some(map) => Ok((map.key_size, map.value_size)),
            None => unsupported("a map whose definition is not known"),
        }
    }

    /// The size argument, and the memory argument before it.
    fn check_sized(&mut self, zero_allowed: bool) -> Step<()> {
        let Argument { helper, prototype, index, reg, register: size } = self.argument;
        let complain = |case: Case, text: &str| {
            refuse(
                Reason::ArgumentSize,
                case,
                format!("argument {} of {}: r{} {text}", index + 1, helper.name, reg.number()),
            )
        };
        if size.kind() != Kind::Scalar {
            return complain(Case::Plain, "must be a number");
        }
        if size.scalar.smin < 0 {
            return complain(Case::Negative, "may be negative: the size has no lower bound");
        }
        if size.scalar.umin == 0 && !zero_allowed {
            return complain(Case::Zero, "may be 0");
        }
        if size.scalar.umax >= MAX_VARIABLE_SIZE {
            return complain(Case::Plain, "has no upper bound");
        }
        let Some(ArgKind::Memory(memory)) = index.checked_sub(1).and_then(|at| prototype.args.get(at)).copied() else {
            return self.argument.odd_prototype();
        };
        let Some(reg) = Reg::new(index as u8) else { return Ok(()) };
        let pointer = self.path.read(reg)?;
        let most = size.scalar.umax;
        self.call.most_bytes = most;
        self.path.findings.mark_precise(&size);
        if pointer.is_zero() {
            self.path.findings.mark_precise(&pointer);
            if memory.nullable && most == 0 {
                return Ok(());
            }
            if memory.nullable {
                return reject(
                    Reason::PossiblyNull,
                    format!("{}: null is passed with a size of up to {most}", helper.name),
                )
                .about(reg);
            }
        }
        let constant = size.scalar.as_constant().is_some();
        let how = if memory.writes { Use::Write } else { Use::Read };
        self.check_memory(reg, &pointer, Passed { bytes: most, how, reads: memory.reads, constant }).about(reg)
    }

    /// Checks where a key or a value for a map is. To the kernel (`check_reg_type`), a helper may write to it. So it is not in
    /// memory that the program may only read.
    fn check_map_memory(&mut self) -> Step<()> {
        let Argument { reg, register, .. } = self.argument;
        let refused = match register.kind() {
            Kind::Memory => register.read_only || register.sliced,
            Kind::Buffer => register.read_only,
            Kind::BtfId => return self.check_structure_memory(reg, &register, 0, Use::Write),
            _ => false,
        };
        if refused { self.argument.wrong("memory of this program, such as a copy on its stack") } else { Ok(()) }
    }

    /// Memory that the helper reads or writes.
    fn check_memory(&mut self, reg: Reg, register: &Register, passed: Passed) -> Step<()> {
        let Passed { bytes, how, reads, constant } = passed;
        let number = reg.number();
        match register.kind() {
            Kind::Stack => {
                let (lowest, highest) = register.stack_range(reg, 0, bytes)?;
                if lowest != highest {
                    self.path.options.check_feature_in_profile(Feature::VariableStackArguments)?;
                }
                let frame = register.frame();
                let length = bytes as i32;
                if length > 0 && how == Use::Write && !reads && constant && lowest == highest {
                    self.path.state.check_no_dynptr(frame, lowest, length)?;
                    self.call.fills.push((frame, lowest, length));
                    return Ok(());
                }
                self.path.read_stack_bytes(frame, lowest, highest - lowest + length, how == Use::Write)
            }
            Kind::Packet | Kind::PacketMeta => {
                // The kernel does not ask the helper about the value of a socket's option.
                let is_option = self.path.code.program_type == ProgramType::CgroupSockopt;
                if !self.argument.prototype.packet_memory && !is_option {
                    return refuse(
                        Reason::ArgumentType,
                        Case::NoPacketMemory,
                        format!("r{number}: this helper does not take packet memory; copy it to the stack first"),
                    );
                }
                self.path.code.check_memory(reg, register, 0, bytes, how)
            }
            Kind::Memory if register.is_untrusted_bytes() => {
                let message = format!("r{number}: these bytes may be anywhere, helpers do not take them");
                reject(Reason::ArgumentType, message)
            }
            Kind::BtfId => self.check_structure_memory(reg, register, bytes, how),
            Kind::Context if self.path.is_context_memory() => self.path.check_context_memory(reg, register, 0, bytes),
            kind => self.path.check_plain_memory(reg, register, bytes, &[how]).unwrap_or_else(|| {
                let message = format!("r{number} ({}) is not memory that a helper can use", kind.name());
                reject(Reason::ArgumentType, message)
            }),
        }
    }

    /// The key, where it is a small constant on the stack.
    pub(crate) fn constant_key(&mut self, size: u32) -> Option<u64> {
        let register = self.argument.register;
        if register.kind() != Kind::Stack || size != 4 {
            return None;
        }
        let at = i32::try_from(register.fixed_offset()?).ok()?;
        if !(-512..0).contains(&at) {
            return None;
        }
        let (index, within) = crate::state::stack::slot_of(at);
        let slot = self.path.state.frames.get(register.frame())?.stack.slot(index);
        let bytes = slot.bytes.get(within..within + 4)?;
        if bytes.iter().all(|byte| *byte == Byte::Zero) {
            return Some(0);
        }
        // The kernel knows a key only if it was stored as a whole: the low half of a longer number is not known, and
        // for the upper half it takes the whole number.
        let spilled = slot.bytes[within..].iter().take_while(|byte| **byte == Byte::Spill).count();
        if spilled != 4 || slot.register.kind() != Kind::Scalar {
            return None;
        }
        let register = slot.register;
        let key = register.scalar.as_constant()?;
        // The key decides whether the result may be null, so states with different keys are different.
        self.path.findings.mark_precise(&register);
        (within == 0 || key == 0).then_some(key)
    }
}
