//! Calls of kernel functions: arguments held to the prototype in the kernel's BTF, by the kernel's naming rules.
//!
//! ```text
//!   int bpf_foo(struct task_struct *task, void *buffer, u32 buffer__sz, u64 kind__k, void *aux__prog)
//!               a structure               memory of that many bytes    a constant   the caller passes nothing
//! ```
//!
//! The prototype says what an argument is; the suffix of its name and the flags of the kfunc's row (`kiln_platform`) say
//! the rest. A kfunc that means more to the verifier than its prototype says is looked up by name in the file of its
//! subject: here is what all of them share.

use std::rc::Rc;

use kiln_isa::Reg;
use kiln_platform::limits::{MAX_STACK_BYTES, MAX_VARIABLE_SIZE};
use kiln_platform::{Kfunc, KfuncFlag, KfuncMeaning, ProgramType};
use kiln_program::btf::{Kind as BtfKind, TypeId};
use kiln_program::{Extern, ExternKind, Reference};

use crate::call::callback::{Later, check_same_map};
use crate::call::said::KfuncCall;
use crate::error::{Step, reject, unsupported};
use crate::path::{Next, Path, Use};
use crate::reason::Reason;
use crate::state::{Held, Kind, Register, Trust};
use crate::types::WITHOUT_TYPES;
use crate::types::parameters::{Argument, Taken, parameter};

impl Path<'_> {
    pub(crate) fn call_kfunc(&mut self) -> Step<Next> {
        let symbol = match self.reference() {
            Reference::Extern(id) => self.code.object.externs.get(id.index()),
            _ => None,
        };
        let Some(symbol) = symbol.filter(|symbol| symbol.kind == ExternKind::Kfunc) else {
            return unsupported("a kernel function by number");
        };
        self.check_kfunc_in_profile(&symbol.name)?;
        if let Some(throw) = Kfunc::by_name(&symbol.name).filter(|kfunc| kfunc.meaning == KfuncMeaning::Throw) {
            self.check_kfunc_allowed(throw)?;
            return self.throw();
        }
        let mut call = self.prepared_call(symbol)?;
        self.check_kfunc_allowed(call.kfunc)?;
        if let KfuncMeaning::Lock { .. } = call.kfunc.meaning {
            self.push_failed_lock()?;
        }
        self.check_kfunc_arguments(&mut call)?;
        self.finish_kfunc(call)
    }

    /// The kfunc's row and prototype.
    fn prepared_call(&mut self, symbol: &Extern) -> Step<KfuncCall> {
        let name = &symbol.name;
        if self.types.kernel.is_none() {
            return unsupported(format!("the kernel function {name}: {WITHOUT_TYPES}"));
        }
        let Some(prototype) = self.types.find_function(name) else {
            return reject(Reason::KernelLacks, format!("this kernel has no function {name}"));
        };
        let Some(kfunc) = Kfunc::by_name(name) else {
            return unsupported(format!("the kernel function {name}"));
        };
        Ok(KfuncCall {
            kfunc,
            prototype,
            reference: 0,
            released: None,
            constant: None,
            map: None,
            callback: None,
            result_bytes: None,
            object: None,
            owning: false,
            root: None,
            value: None,
            dynptr: None,
            iterator: None,
        })
    }

    fn check_kfunc_allowed(&self, kfunc: &Kfunc) -> Step<()> {
        let name = kfunc.name;
        if !kfunc.allowed_at(self.program_type, self.code.program.attach_type) {
            return reject(
                Reason::KfuncNotAllowed,
                format!("{name} may not be called by {} programs here", self.program_type.name()),
            );
        }
        if kfunc.meaning == KfuncMeaning::DeviceBound {
            return reject(Reason::KfuncNotAllowed, format!("{name} is for programs bound to a network device"));
        }
        if !self.is_gpl() {
            return reject(Reason::GplOnly, format!("{name}: kernel functions are for GPL-compatible programs"));
        }
        if kfunc.has(KfuncFlag::Sleepable) {
            self.check_may_sleep(name)?;
        }
        if kfunc.has(KfuncFlag::RcuProtected) && !self.in_rcu_section() {
            return reject(
                Reason::KfuncNotAllowed,
                format!("{name} must be called between bpf_rcu_read_lock and unlock"),
            );
        }
        if !self.state.locks.is_empty() && !kfunc.has(KfuncFlag::UnderLock) {
            return reject(Reason::LockDiscipline, format!("{name} is called while a lock is held"));
        }
        Ok(())
    }

    fn check_kfunc_arguments(&mut self, call: &mut KfuncCall) -> Step<()> {
        let taken = self.parameters_of(call)?;
        if taken.len() > 5 {
            return unsupported(format!("{}: more than five arguments", call.kfunc.name));
        }
        let mut index = 0;
        while let Some(one) = taken.get(index) {
            let Some(reg) = Reg::new(index as u8 + 1) else { break };
            self.check_kfunc_argument(call, reg, one)?;
            // The size is checked with its memory.
            index += if matches!(one.argument, Argument::Sized { .. }) { 2 } else { 1 };
        }
        if call.kfunc.has(KfuncFlag::Release) && call.released.is_none() {
            return reject(Reason::NotHeld, format!("{} asks for a reference that is held", call.kfunc.name));
        }
        Ok(())
    }

    /// What each parameter asks for.
    fn parameters_of(&mut self, call: &KfuncCall) -> Step<Rc<[Taken]>> {
        let name = call.kfunc.name;
        if let Some(known) = self.parameters.get(name) {
            return Ok(Rc::clone(known));
        }
        let taken: Rc<[Taken]> = self.read_parameters(call)?.into();
        self.parameters.insert(name, Rc::clone(&taken));
        Ok(taken)
    }

    fn read_parameters(&self, call: &KfuncCall) -> Step<Vec<Taken>> {
        let Some(types) = self.types.kernel.as_deref() else { return unsupported(WITHOUT_TYPES) };
        let parameters = types.parameters(call.prototype);
        let one = |index: usize| parameter(types, call.kfunc, self.program_type, parameters, index);
        (0..parameters.len()).map(one).collect()
    }

    fn check_kfunc_argument(&mut self, call: &mut KfuncCall, reg: Reg, taken: &Taken) -> Step<()> {
        if taken.argument == Argument::Nothing {
            let register = *self.state.register(reg);
            self.expose_stack(&register);
            return Ok(());
        }
        let register = self.read(reg)?;
        let (kfunc, number) = (call.kfunc, reg.number());
        let what = |expected: &str| {
            let kind = register.kind.name();
            format!("argument {number} of {} must be {expected}, r{number} is {kind}", kfunc.name)
        };
        match taken.argument {
            Argument::Number { constant } => return self.check_kfunc_number(call, &register, constant, &what),
            Argument::ResultBytes { read_only } => {
                let bytes = register.scalar.as_constant().filter(|_| register.kind == Kind::Scalar);
                let Some(bytes) = bytes.filter(|bytes| *bytes <= u64::from(u32::MAX)) else {
                    return reject(Reason::ArgumentSize, what("a constant size that fits 32 bits"));
                };
                self.mark_precise(&register);
                call.result_bytes = Some((bytes, read_only));
                return Ok(());
            }
            _ => {}
        }
        let null = register.is_zero();
        let careful = kfunc.takes_trusted() || kfunc.has(KfuncFlag::Rcu);
        if careful && (null || register.nullable) && !taken.nullable {
            return reject(Reason::PossiblyNull, what("a pointer that is not null"));
        }
        if register.reference != 0 {
            call.reference = register.reference;
            if kfunc.has(KfuncFlag::Release) {
                call.released = Some(reg);
            }
        }
        let sized = matches!(taken.argument, Argument::Sized { .. });
        if null && taken.nullable && !sized {
            self.mark_precise(&register);
            return Ok(());
        }
        let typed = matches!(register.kind, Kind::BtfId | Kind::Socket | Kind::SockCommon | Kind::TcpSock | Kind::Map);
        match &taken.argument {
            Argument::Context => {
                if register.kind != Kind::Context || register.fixed_offset() != Some(0) {
                    return reject(Reason::ArgumentType, what("the context, unmodified"));
                }
                Ok(())
            }
            Argument::Map => {
                if register.kind == Kind::BtfId {
                    let map = self.types.find_struct("bpf_map").unwrap_or(TypeId::VOID);
                    return self.check_structure_argument(call, reg, &register, map, &what);
                }
                if register.kind != Kind::Map {
                    return reject(Reason::ArgumentType, what("a map"));
                }
                if let Some(value) = &call.value {
                    check_same_map(value, &register)?;
                }
                call.map = Some(register);
                self.check_trusted(kfunc, reg, &register)
            }
            Argument::ConstantString => self.check_constant_string(reg, &register, what("a constant string")),
            Argument::Callback => {
                if register.kind != Kind::Function {
                    return reject(Reason::ArgumentType, what("a function of this program"));
                }
                call.callback = Some(register.object as usize);
                Ok(())
            }
            Argument::Structure { id, .. } if typed => self.check_structure_argument(call, reg, &register, *id, &what),
            Argument::Structure { plain: true, bytes: Some(bytes), .. } | Argument::Memory { bytes: Some(bytes) } => {
                self.check_kfunc_memory(reg, &register, *bytes, &what)
            }
            Argument::Structure { .. } => reject(Reason::ArgumentType, what("a structure of the kernel")),
            Argument::Memory { .. } => reject(Reason::ArgumentType, what("memory of a known size")),
            Argument::Sized { constant } => self.check_sized_argument(call, reg, &register, taken, *constant, &what),
            special => self.check_special_kfunc_argument(call, reg, &register, special),
        }
    }

    /// Arguments that the files of other subjects know.
    fn check_special_kfunc_argument(
        &mut self,
        call: &mut KfuncCall,
        reg: Reg,
        register: &Register,
        argument: &Argument,
    ) -> Step<()> {
        match argument {
            Argument::Allocated => self.check_allocated_argument(call, register),
            Argument::Refcounted => self.check_refcounted_argument(call, register),
            Argument::Graph(name) => self.check_graph_argument(call, register, name),
            Argument::Field(name) => self.check_field_of_kfunc(call, register, name),
            Argument::Dynptr { uninitialized } => self.dynptr_kfunc_argument(call, reg, *uninitialized),
            Argument::Iterator(structure) => self.iterator_argument(call, reg, *structure),
            // Saved and restored with its lock or section.
            Argument::InterruptFlags => Ok(()),
            _ => unsupported(format!("the kernel function {}, argument {}", call.kfunc.name, reg.number())),
        }
    }

    fn check_kfunc_number(
        &mut self,
        call: &mut KfuncCall,
        register: &Register,
        constant: bool,
        what: &dyn Fn(&str) -> String,
    ) -> Step<()> {
        if register.kind != Kind::Scalar {
            return reject(Reason::ArgumentType, what("a number"));
        }
        if constant {
            let Some(value) = register.scalar.as_constant() else {
                return reject(Reason::ArgumentSize, what("a constant"));
            };
            self.mark_precise(register);
            call.constant = Some(value);
        }
        Ok(())
    }

    /// Pointers to kernel structures: as trusted as the kfunc asks, and of the right type.
    fn check_structure_argument(
        &mut self,
        call: &KfuncCall,
        reg: Reg,
        register: &Register,
        wanted: TypeId,
        what: &dyn Fn(&str) -> String,
    ) -> Step<()> {
        let kfunc = call.kfunc;
        self.check_trusted(kfunc, reg, register)?;
        let flawed = register.nullable
            || register.trust.without(Trust::TRUSTED.with(Trust::ALLOCATED).with(Trust::NOT_OWNING)) != Trust::NONE;
        if register.kind == Kind::BtfId && flawed && !register.trust.has(Trust::RCU) {
            return reject(Reason::NotTrusted, what("a pointer that may be relied on and is not null"));
        }
        let index = self.types.kernel_type(wanted);
        let (Some(wanted), Some(held)) = (self.types.pointed(index).cloned(), self.structure_of(register)) else {
            return unsupported(WITHOUT_TYPES);
        };
        let Some(offset) = register.fixed_offset() else {
            return reject(Reason::ArgumentType, what("a pointer at a constant offset"));
        };
        let releases = call.released == Some(reg);
        if releases && offset != 0 {
            return reject(Reason::NotHeld, what("the pointer as it was acquired, unmodified"));
        }
        let strictly = releases || is_no_cast_alias(&held.name, &wanted.name);
        let flexible = !register.trust.has(Trust::ALLOCATED);
        let projected = matches!((&*wanted.name, &*held.name), ("__sk_buff", "sk_buff") | ("xdp_md", "xdp_buff"));
        if projected || self.types.is_at(&held, offset, &wanted, strictly, flexible) {
            return Ok(());
        }
        reject(Reason::ArgumentType, what(&format!("a pointer to {}, not to {}", wanted.name, held.name)))
    }

    fn check_trusted(&self, kfunc: &Kfunc, reg: Reg, register: &Register) -> Step<()> {
        if register.is_trusted() || !kfunc.takes_trusted() && !kfunc.has(KfuncFlag::Rcu) {
            return Ok(());
        }
        if kfunc.has(KfuncFlag::Rcu) && register.trust.has(Trust::RCU) {
            return Ok(());
        }
        let wanted = if kfunc.has(KfuncFlag::Rcu) { "trusted, or protected by RCU" } else { "trusted or acquired" };
        reject(Reason::NotTrusted, format!("{}: the pointer in r{} must be {wanted}", kfunc.name, reg.number()))
    }

    /// Memory that a kfunc may read and write.
    fn check_kfunc_memory(
        &mut self,
        reg: Reg,
        register: &Register,
        bytes: u64,
        what: &dyn Fn(&str) -> String,
    ) -> Step<()> {
        if register.is_zero() {
            self.mark_precise(register);
            return Ok(());
        }
        let register = &Register { nullable: false, ..*register };
        match register.kind {
            Kind::Stack => {
                let (lowest, highest) = self.stack_range(reg, register, 0, bytes)?;
                if bytes == 0 {
                    return Ok(());
                }
                self.read_stack_bytes(register.object as usize, lowest, highest - lowest + bytes as i32, true)
            }
            Kind::MapValue => {
                self.check_map_range(reg, register, 0, bytes, Use::Read)?;
                self.check_map_range(reg, register, 0, bytes, Use::Write)?;
                self.check_special_fields(register, 0, bytes)
            }
            Kind::Memory | Kind::RingBuffer | Kind::MapKey => {
                self.check_memory(reg, register, 0, bytes, Use::Read)?;
                self.check_memory(reg, register, 0, bytes, Use::Write)
            }
            Kind::Packet | Kind::PacketMeta => self.check_memory(reg, register, 0, bytes, Use::Read),
            Kind::Context if self.program_type == ProgramType::Syscall => {
                self.check_memory(reg, register, 0, bytes, Use::Read)
            }
            _ => reject(Reason::ArgumentType, what(&format!("memory of {bytes} bytes"))),
        }
    }

    /// Memory, and its size in the next register.
    fn check_sized_argument(
        &mut self,
        call: &mut KfuncCall,
        reg: Reg,
        register: &Register,
        taken: &Taken,
        constant: bool,
        what: &dyn Fn(&str) -> String,
    ) -> Step<()> {
        let Some(next) = Reg::new(reg.number() + 1) else { return Ok(()) };
        let size = self.read(next)?;
        let complain = |text: &str| {
            reject(Reason::ArgumentSize, format!("{}: the size in r{} {text}", call.kfunc.name, next.number()))
        };
        if size.kind != Kind::Scalar {
            return complain("must be a number");
        }
        if !(register.is_zero() && taken.optional) {
            if size.scalar.smin < 0 {
                return complain("may be negative");
            }
            if size.scalar.umax >= MAX_VARIABLE_SIZE {
                return complain("has no upper bound");
            }
            let most = size.scalar.umax;
            if register.is_zero() && most > 0 && !taken.nullable {
                return reject(Reason::PossiblyNull, what("memory, as its size is not 0"));
            }
            self.check_kfunc_memory(reg, register, most, what)?;
        }
        self.mark_precise(&size);
        if constant {
            let Some(value) = size.scalar.as_constant() else { return complain("must be a constant") };
            call.constant = Some(value);
        }
        Ok(())
    }

    /// What the call does, once its arguments are right.
    fn finish_kfunc(&mut self, call: KfuncCall) -> Step<Next> {
        let meaning = call.kfunc.meaning;
        match meaning {
            KfuncMeaning::AddToTree => {
                self.call_comparison(&call)?;
                self.give_to_graph(&call)?;
            }
            KfuncMeaning::AddToList => self.give_to_graph(&call)?,
            KfuncMeaning::RunLater(later) => self.run_kfunc_later(&call, Later::of(later))?,
            KfuncMeaning::Lock { interrupts } => self.take_resilient_lock(interrupts)?,
            KfuncMeaning::Unlock { interrupts } => self.give_up_resilient_lock(interrupts)?,
            _ => {}
        }
        self.release_kfunc(&call)?;
        self.change_section(meaning)?;
        let result = self.kfunc_result(&call)?;
        if let Some(iterator) = call.iterator {
            if call.kfunc.has(KfuncFlag::IteratorNext) {
                return self.next_of_iterator(iterator, result);
            }
            if call.kfunc.has(KfuncFlag::IteratorDestroy) {
                self.destroy_iterator(iterator)?;
            }
        }
        self.clobber();
        if meaning == KfuncMeaning::MovePacket {
            self.forget_packet();
        }
        self.state.set(Reg::R0, result);
        Ok(Next::At(self.at + 1))
    }

    fn release_kfunc(&mut self, call: &KfuncCall) -> Step<()> {
        let Some(reg) = call.released else { return Ok(()) };
        let id = self.state.register(reg).reference;
        self.release_reference(id, call.kfunc.name)
    }

    /// What is in R0 afterwards.
    fn kfunc_result(&mut self, call: &KfuncCall) -> Step<Register> {
        if let Some(result) = self.special_result(call)? {
            return Ok(result);
        }
        if let Some(slice) = self.slice_result(call)? {
            return Ok(slice);
        }
        let Some(types) = self.types.kernel.clone() else { return unsupported(WITHOUT_TYPES) };
        let BtfKind::Prototype { result, .. } = *types.kind(call.prototype) else {
            return unsupported(format!("the prototype of {}", call.kfunc.name));
        };
        let result = types.resolve(result).unwrap_or(TypeId::VOID);
        let target = match *types.kind(result) {
            BtfKind::Void => return Ok(Register::UNINIT),
            BtfKind::Pointer { target } => target,
            _ => return Ok(Register::UNKNOWN),
        };
        let structure = types.resolve(target).unwrap_or(TypeId::VOID);
        let pointer = match types.kind(structure) {
            BtfKind::Void => return Ok(Register::UNKNOWN),
            BtfKind::Composite { .. } => {
                Register::pointer(Kind::BtfId, self.types.kernel_type(structure)).trusted(self.result_trust(call.kfunc))
            }
            _ => {
                let known = types.size_of(structure).map(|bytes| (bytes, true));
                let Some((bytes, read_only)) = call.result_bytes.or(known) else {
                    return unsupported(format!("what {} returns", call.kfunc.name));
                };
                let size = u32::try_from(bytes).unwrap_or(0);
                Register { read_only, reference: call.reference, ..Register::pointer(Kind::Memory, size) }
            }
        };
        Ok(self.acquired(call.kfunc, pointer))
    }

    fn result_trust(&self, kfunc: &Kfunc) -> Trust {
        if kfunc.meaning == KfuncMeaning::UntrustedResult {
            Trust::UNTRUSTED
        } else if kfunc.has(KfuncFlag::RcuProtected) {
            Trust::RCU
        } else {
            Trust::NONE
        }
    }

    /// A result that may be null, or has to be released, as the kfunc's flags say.
    pub(crate) fn acquired(&mut self, kfunc: &Kfunc, mut pointer: Register) -> Register {
        if kfunc.has(KfuncFlag::RetNull) {
            pointer = pointer.or_null(self.fresh_id());
        }
        if kfunc.has(KfuncFlag::Acquire) {
            let id = if pointer.id != 0 { pointer.id } else { self.fresh_id() };
            pointer.id = if pointer.nullable { id } else { pointer.id };
            pointer.reference = id;
            self.state.references.push(Held { id, at: self.at });
        }
        pointer
    }

    /// Results that say more than the prototype.
    fn special_result(&mut self, call: &KfuncCall) -> Step<Option<Register>> {
        if let Some(result) = self.graph_result(call)? {
            return Ok(Some(result));
        }
        match call.kfunc.meaning {
            KfuncMeaning::CastContext => {
                let Some(name) = kernel_context(self.program_type) else {
                    return reject(
                        Reason::KfuncNotAllowed,
                        format!("{} programs have no context of the kernel's own", self.program_type.name()),
                    );
                };
                let index = self.types.kernel_struct(name);
                Ok(Some(Register::pointer(Kind::BtfId, index).trusted(Trust::TRUSTED)))
            }
            // On the other path, the one without the lock, it is an error.
            KfuncMeaning::Lock { .. } => Ok(Some(Register::constant(0))),
            KfuncMeaning::CastReadOnly => self.read_only_cast(call).map(Some),
            KfuncMeaning::SessionCookie => Ok(Some(Register::pointer(Kind::Memory, 8))),
            _ => Ok(None),
        }
    }

    /// An address taken for one of a type: a structure, or bytes.
    fn read_only_cast(&mut self, call: &KfuncCall) -> Step<Register> {
        let Some(types) = self.types.kernel.clone() else { return unsupported(WITHOUT_TYPES) };
        // The bytes behind it may be the program's own.
        let source = *self.state.register(Reg::R1);
        if let (Kind::Stack, Some(accesses)) = (source.kind, &mut self.accesses) {
            let function = self.state.frames[source.object as usize].function;
            accesses.alias(function, -(MAX_STACK_BYTES as i32), MAX_STACK_BYTES);
        }
        if self.awaits_type_numbers() {
            return unsupported("the number that a kernel gives a structure, which the loader has yet to write");
        }
        let id = TypeId(call.constant.and_then(|id| u32::try_from(id).ok()).unwrap_or(u32::MAX));
        let plain = types.resolve(id).unwrap_or(TypeId::VOID);
        match types.kind(plain) {
            BtfKind::Composite { .. } => {
                let index = self.types.kernel_type(plain);
                Ok(Register::pointer(Kind::BtfId, index).trusted(Trust::UNTRUSTED))
            }
            BtfKind::Void if id == TypeId::VOID => Ok(Register::UNTRUSTED_BYTES),
            _ => reject(Reason::ArgumentType, "bpf_rdonly_cast takes the id of a structure, or 0"),
        }
    }
}

/// The kernel's own context structure, for programs that may see it.
fn kernel_context(program_type: ProgramType) -> Option<&'static str> {
    use ProgramType::*;
    Some(match program_type {
        SocketFilter | SchedCls | SchedAct | CgroupSkb | LwtIn | LwtOut | LwtXmit | LwtSeg6local | SkSkb => "sk_buff",
        Xdp => "xdp_buff",
        CgroupSock => "sock",
        CgroupSockAddr => "bpf_sock_addr_kern",
        SockOps => "bpf_sock_ops_kern",
        SkMsg => "sk_msg",
        FlowDissector => "bpf_flow_dissector",
        Kprobe => "pt_regs",
        PerfEvent => "bpf_perf_event_data_kern",
        CgroupDevice => "bpf_cgroup_dev_ctx",
        CgroupSysctl => "bpf_sysctl_kern",
        CgroupSockopt => "bpf_sockopt_kern",
        SkReuseport => "sk_reuseport_kern",
        SkLookup => "bpf_sk_lookup_kern",
        Netfilter => "bpf_nf_ctx",
        _ => return None,
    })
}

/// Whether one name is the other with `___init` behind: structures in preparation are not cast to finished ones.
fn is_no_cast_alias(first: &str, second: &str) -> bool {
    let is = |long: &str, short: &str| long.strip_suffix("___init") == Some(short);
    is(first, second) || is(second, first)
}
