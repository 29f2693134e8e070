//! Helper calls: arguments held to the prototype, what the call does, what R0 is afterwards.

use kiln_isa::Reg;
use kiln_platform::limits::MAX_VARIABLE_SIZE;
use kiln_platform::{ArgKind, Feature, Helper, MapType, Prototype, ReturnKind};

use crate::call::callback::{Later, check_same_map};
use crate::call::structure::Wanted;
use crate::domain::Scalar;
use crate::error::{Step, reject, unsupported};
use crate::objects::dynptr::Dynptr;
use crate::objects::fields::{FieldKind, Kptr};
use crate::path::{Next, Path, Use};
use crate::reason::Reason;
use crate::state::{Byte, DynptrKind, Held, Kind, LockKind, Register, Trust};

/// Helpers that write a map, which `BPF_F_RDONLY_PROG` forbids (kernel `record_func_map`).
const WRITE_MAPS: [&str; 4] = ["map_update_elem", "map_delete_elem", "map_push_elem", "map_pop_elem"];

/// What the arguments of one call said.
#[derive(Default)]
pub(crate) struct Call {
    /// The map argument.
    pub map: Option<Register>,
    /// The kptr that is changed.
    pub kptr: Option<Kptr>,
    /// The map value whose timer is passed.
    pub owner: Option<Register>,
    /// The greatest size passed for a memory argument.
    pub most_bytes: u64,
    /// The constant size asked for.
    pub allocation: Option<u64>,
    /// The resource given up.
    pub released: Option<u32>,
    /// The resource that an argument stands on.
    pub reference: u32,
    /// The function passed.
    pub callback: Option<usize>,
    /// Stack bytes to be filled: frame, lowest, length.
    pub fills: Vec<(usize, i32, i32)>,
    /// Bytes of the key known to be this constant.
    pub key: Option<u64>,
    /// The dynptr that is used.
    pub dynptr: Option<Dynptr>,
}

impl Path<'_> {
    pub(crate) fn call_helper(&mut self, number: u32) -> Step<Next> {
        let Some(helper) = self.code.op(self.at).helper else {
            return reject(Reason::HelperNotAllowed, format!("there is no helper number {number}"));
        };
        self.check_allowed(helper)?;
        self.check_helper_privilege(helper)?;
        let prototype = helper.prototype_for(self.program_type);
        self.check_licence(helper, prototype)?;
        if !self.state.locks.is_empty() && helper.name != "spin_unlock" {
            return reject(Reason::LockDiscipline, format!("{} is called while a lock is held", helper.name));
        }
        let mut call = Call::default();
        for (index, kind) in prototype.args.iter().enumerate() {
            let Some(reg) = Reg::new(index as u8 + 1) else { break };
            self.check_argument(helper, prototype, index, reg, *kind, &mut call)?;
        }
        // What is passed beyond the prototype (values to print) is read, too.
        for index in prototype.args.len() + 1..=5 {
            let register = self.state.frame().registers[index];
            self.expose_stack(&register);
        }
        self.check_map_fits(helper, &call)?;
        for (frame, lowest, length) in std::mem::take(&mut call.fills) {
            self.fill_stack_bytes(frame, lowest, length, always_fills(helper))?;
        }
        self.release(helper, &call)?;
        if helper.runs_callback() {
            return self.call_with_callback(helper, &call);
        }
        let before = self.state.register(Reg::R1).to_owned();
        match helper.name {
            "tail_call" => self.tail_call()?,
            "spin_lock" => self.take_lock(LockKind::Spin, &before)?,
            "spin_unlock" => self.give_up_lock(LockKind::Spin, &before)?,
            "timer_set_callback" => self.run_later(call.callback, &before, Later::TIMER)?,
            "dynptr_from_mem" if before.kind != Kind::MapValue => {
                let message = format!("dynptr_from_mem takes a map's value, r1 is {}", before.kind.name());
                return reject(Reason::ArgumentType, message);
            }
            _ => {}
        }
        let result = self.result_of(helper, prototype, &call)?;
        self.clobber();
        let writes_packet = helper.name == "dynptr_write"
            && call.dynptr.is_some_and(|dynptr| matches!(dynptr.kind, DynptrKind::Skb | DynptrKind::SkbMeta));
        if helper.changes_packet_data || writes_packet {
            self.forget_packet();
        }
        self.state.set(Reg::R0, result);
        Ok(Next::At(self.at + 1))
    }

    fn check_allowed(&self, helper: &Helper) -> Step<()> {
        let allowed = match self.code.program.attach_type {
            Some(attach) => helper.allowed_at(self.program_type, attach),
            None => helper.allowed_in(self.program_type),
        };
        if self.hook_allows(helper.name, allowed) {
            return self.check_helper_in_profile(helper);
        }
        reject(
            Reason::HelperNotAllowed,
            format!("{} may not be called by {} programs", helper.name, self.program_type.name()),
        )
    }

    fn check_licence(&self, helper: &Helper, prototype: &Prototype) -> Step<()> {
        if prototype.gpl_only && !self.is_gpl() {
            return reject(
                Reason::GplOnly,
                format!(
                    "{} is for GPL-compatible programs, this one's license is {:?}",
                    helper.name, self.code.object.license
                ),
            );
        }
        if prototype.might_sleep { self.check_may_sleep(helper.name) } else { Ok(()) }
    }

    fn check_map_fits(&self, helper: &Helper, call: &Call) -> Step<()> {
        let Some(map) = call.map.as_ref().and_then(|register| self.map_of(register)) else { return Ok(()) };
        let sockets = matches!(map.map_type, MapType::Sockmap | MapType::Sockhash);
        let refused = sockets && !self.may_change_socket_maps(helper);
        if map.is_read_only() && WRITE_MAPS.contains(&helper.name) {
            return reject(Reason::ReadOnlyMemory, format!("map {} is read-only: {} writes it", map.name, helper.name));
        }
        if map.map_type.allows_helper(helper) && !refused {
            return Ok(());
        }
        reject(
            Reason::MapHelperMismatch,
            format!("{} cannot be used with map {} of type {}", helper.name, map.name, map.map_type.name()),
        )
    }

    fn check_argument(
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
    fn map_argument(&self, call: &Call) -> Step<(u32, u32)> {
        match call.map.as_ref().and_then(|register| self.map_of(register)) {
            Some(map) => Ok((map.key_size, map.value_size)),
            None => unsupported("a map whose definition is not known"),
        }
    }

    /// The size argument, and the memory argument before it.
    #[allow(clippy::too_many_arguments)]
    fn check_sized(
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
    fn check_buffer(
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
    fn check_memory_argument(
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

    /// A NUL-terminated string in frozen read-only memory.
    pub(crate) fn check_constant_string(&self, reg: Reg, register: &Register, message: String) -> Step<()> {
        let number = reg.number();
        let data = match (register.kind, self.map_of(register)) {
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
            _ => reject(Reason::ArgumentType, format!("r{number}: the string is not NUL-terminated")),
        }
    }

    /// The key, where it is a small constant on the stack.
    fn constant_key(&mut self, register: &Register, size: u32) -> Option<u64> {
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

    fn release(&mut self, helper: &Helper, call: &Call) -> Step<()> {
        match call.released {
            Some(id) if call.kptr.is_some() => self.give_to_kptr(id, helper.name),
            Some(id) => self.release_reference(id, helper.name),
            None => Ok(()),
        }
    }

    /// Program types in which sockets are not locked, so that socket maps may be changed by the generic helpers.
    fn may_change_socket_maps(&self, helper: &Helper) -> bool {
        use kiln_platform::ProgramType;
        match helper.name {
            "map_update_elem" | "map_delete_elem" => match self.program_type {
                ProgramType::SocketFilter
                | ProgramType::SchedCls
                | ProgramType::SchedAct
                | ProgramType::Xdp
                | ProgramType::SkReuseport
                | ProgramType::FlowDissector
                | ProgramType::SkLookup => true,
                ProgramType::SockOps => helper.name == "map_delete_elem",
                ProgramType::Tracing => self.code.program.attach_type == Some(kiln_platform::AttachType::TraceIter),
                _ => false,
            },
            _ => true,
        }
    }

    fn tail_call(&mut self) -> Step<()> {
        self.check_nothing_held("a tail call is made")?;
        let map = self.state.register(Reg::R2).object;
        self.check_tail_call_map(map)?;
        let index = *self.state.register(Reg::R3);
        self.mark_precise(&index);
        if self.state.frames.len() > 1 {
            // Where it succeeds, another program runs in place of this function, and returns to its caller.
            self.check_returns_number()?;
            let mut returned = self.state.clone();
            let frame = returned.frame();
            let site = frame.call_site;
            if frame.caller != crate::state::Caller::Call {
                return unsupported("tail calls in callbacks");
            }
            returned.frames.pop();
            returned.set(Reg::R0, Register::UNKNOWN);
            returned.packet_bytes = 0;
            let stale = self.stale_pointer();
            returned.for_each_where(Register::is_packet, |register| *register = stale);
            self.push(returned, site + 1);
        }
        Ok(())
    }

    pub(crate) fn result_of(&mut self, helper: &'static Helper, prototype: &Prototype, call: &Call) -> Step<Register> {
        let mut result = match prototype.returns {
            ReturnKind::Integer => Register::scalar(self.integer_result(helper, call)),
            ReturnKind::Void => Register::UNINIT,
            ReturnKind::MapValueOrNull => self.lookup_result(helper, call)?,
            ReturnKind::MapValue => match &call.map {
                Some(map) => Register { inner: map.inner, ..Register::pointer(Kind::MapValue, map.object) },
                None => return unsupported(format!("the result of {}", helper.name)),
            },
            ReturnKind::SocketOrNull => Register::pointer(Kind::Socket, 0).or_null(self.fresh_id()),
            ReturnKind::TcpSockOrNull => Register::pointer(Kind::TcpSock, 0).or_null(self.fresh_id()),
            ReturnKind::SockCommonOrNull => Register::pointer(Kind::SockCommon, 0).or_null(self.fresh_id()),
            ReturnKind::RingBufferMemoryOrNull => {
                let size = call.allocation.and_then(|size| u32::try_from(size).ok()).unwrap_or(0);
                Register::pointer(Kind::RingBuffer, size).or_null(self.fresh_id())
            }
            ReturnKind::BtfId { type_name, nullable, trusted } => {
                let index = self.types.kernel_struct(type_name);
                let trust = if trusted { Trust::TRUSTED } else { Trust::NONE };
                let pointer = Register::pointer(Kind::BtfId, index).trusted(trust);
                if nullable { pointer.or_null(self.fresh_id()) } else { pointer }
            }
            ReturnKind::DynptrMemoryOrNull => {
                let Some(dynptr) = call.dynptr else { return unsupported(format!("the result of {}", helper.name)) };
                self.slice_of(&dynptr, call.allocation.and_then(|size| u32::try_from(size).ok()).unwrap_or(0))
            }
            ReturnKind::PercpuVariable { nullable } => {
                let Some(variable) = call.owner else { return unsupported(format!("the result of {}", helper.name)) };
                let own = self.own_of_percpu(&variable)?;
                if nullable { own.or_null(self.fresh_id()) } else { own }
            }
            ReturnKind::KptrOrNull => match &call.kptr {
                Some(kptr) => self.taken_from_kptr(kptr)?,
                None => return unsupported(format!("the result of {}", helper.name)),
            },
        };
        let socket_map = matches!(
            call.map.as_ref().and_then(|map| self.map_type_of(map)),
            Some(MapType::Sockmap | MapType::Sockhash)
        );
        if helper.acquires || helper.name == "map_lookup_elem" && socket_map {
            let id = if result.id != 0 { result.id } else { self.fresh_id() };
            result.id = id;
            result.reference = id;
            self.state.references.push(Held { id, at: self.at });
        } else if helper.casts_argument {
            result.reference = call.reference;
        }
        Ok(result)
    }

    fn integer_result(&self, helper: &Helper, call: &Call) -> Scalar {
        match helper.name {
            "get_stack" | "get_task_stack" | "probe_read_str" | "probe_read_kernel_str" | "probe_read_user_str" => {
                Scalar::signed_range(-4095, call.most_bytes as i64)
            }
            "get_smp_processor_id" => {
                let known = self.options.processors.filter(|_| !self.any_load()).unwrap_or(MAX_PROCESSORS);
                Scalar::unsigned_range(0, u64::from(known.saturating_sub(1)))
            }
            _ => Scalar::UNKNOWN,
        }
    }

    fn lookup_result(&mut self, helper: &Helper, call: &Call) -> Step<Register> {
        use kiln_platform::Lookup;
        let Some(argument) = call.map else { return unsupported(format!("the result of {}", helper.name)) };
        let Some(map) = self.map_of(&argument) else { return unsupported("a map whose definition is not known") };
        let (name, map_type, entries) = (map.name.clone(), map.map_type, map.max_entries);
        let lookup = map_type.rules().lookup;
        let value = Register {
            inner: argument.inner,
            owner: argument.owner,
            ..Register::pointer(Kind::MapValue, argument.object)
        };
        let in_array = matches!(map_type, MapType::Array | MapType::PercpuArray)
            && !self.options.unprivileged
            && map.flags & INNER_MAP == 0
            && call.key.is_some_and(|key| key < u64::from(entries))
            && helper.name == "map_lookup_elem"
            && self.kernel_has(Feature::ConstantArrayKeys)
            && !self.any_load();
        let id = self.fresh_id();
        if in_array {
            let locked = self.record_of(&value).is_some_and(|record| record.has_lock());
            return Ok(Register { id: if locked { id } else { 0 }, ..value });
        }
        let storage = self.is_local_storage(map_type);
        Ok(match lookup {
            Lookup::Value => value.or_null(id),
            _ if storage => value.or_null(id),
            Lookup::ReadOnlyValue => Register { read_only: true, ..value }.or_null(id),
            Lookup::InnerMap => {
                Register { inner: true, owner: id, ..Register::pointer(Kind::Map, argument.object) }.or_null(id)
            }
            Lookup::Socket => Register::pointer(Kind::Socket, 0).or_null(id),
            Lookup::XdpSocket => Register::pointer(Kind::XdpSock, 0).or_null(id),
            Lookup::None => {
                return reject(
                    Reason::MapHelperMismatch,
                    format!("{} cannot be used with map {name} of type {}", helper.name, map_type.name()),
                );
            }
        })
    }
}

/// The flag of an array that may stand in a map of maps for one of another size (`BPF_F_INNER_MAP`).
const INNER_MAP: u32 = 0x1000;

/// Processors that a kernel is built for at most (`CONFIG_NR_CPUS`).
const MAX_PROCESSORS: u32 = 8192;

/// Whether the helper writes all of its output, come what may. What the others leave, when they fail or have less to
/// give, is what was there.
fn always_fills(helper: &Helper) -> bool {
    matches!(
        helper.name,
        "skb_load_bytes"
            | "skb_load_bytes_relative"
            | "probe_read"
            | "probe_read_user"
            | "probe_read_kernel"
            | "get_current_comm"
            | "perf_event_read_value"
            | "perf_prog_read_value"
    )
}
