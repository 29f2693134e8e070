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
use kiln_platform::limits::MAX_STACK_BYTES;
use kiln_platform::{Feature, Kfunc, KfuncFlag, KfuncMeaning, Profile, ProgramType};
use kiln_program::btf::{Kind as BtfKind, TypeId};
use kiln_program::{Extern, ExternKind, Reference};

use crate::call::callback::Later;
use crate::call::checked::KfuncCheck;
use crate::call::said::{KfuncCall, KfuncEffect};
use crate::code::Code;
use crate::error::{Step, refuse, reject, unsupported};
use crate::options::Options;
use crate::path::{Next, Path};
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Holds, Kind, Register, State, Trust};
use crate::types::parameters::{Taken, parameter};
use crate::types::{Types, WITHOUT_TYPES};

impl Path<'_> {
    pub(crate) fn call_kfunc(&mut self) -> Step<Next> {
        let symbol = match self.code.reference(self.at) {
            Reference::Extern(id) => self.code.object.externs.get(id.index()),
            _ => None,
        };
        let Some(symbol) = symbol.filter(|symbol| symbol.kind == ExternKind::Kfunc) else {
            return unsupported("a kernel function by number");
        };
        self.options.check_kfunc_in_profile(&symbol.name)?;
        if let Some(throw) = Kfunc::by_name(&symbol.name).filter(|kfunc| kfunc.meaning == KfuncMeaning::Throw) {
            self.code.check_kfunc_allowed(self.options, &self.state, throw)?;
            return self.throw();
        }
        if Kfunc::by_name(&symbol.name).is_some_and(|kfunc| kfunc.meaning == KfuncMeaning::Trap) {
            return reject(
                Reason::BadInstruction,
                "the compiler found no way to go on from here: an uninitialized variable?",
            );
        }
        let mut call = self.types.prepared_call(symbol, &self.options.profile)?;
        self.code.check_kfunc_allowed(self.options, &self.state, call.kfunc)?;
        if self.code.program_type == ProgramType::Lsm && !self.types.hook_allows(self.code, call.kfunc.name, true) {
            return reject(Reason::KfuncNotAllowed, format!("{} may not be called on this hook", call.kfunc.name));
        }
        if let KfuncMeaning::Lock { .. } = call.kfunc.meaning {
            self.push_failed_lock()?;
        }
        let taken = self.types.parameters_of(self.code, &call)?;
        KfuncCheck::all(self, &mut call, &taken)?;
        self.types.check_safe_drop(self.code, self.options, &call)?;
        KfuncEffect { path: self, call: &call }.carry_out()
    }
}

impl KfuncEffect<'_, '_> {
    /// What the call does, once its arguments are right.
    fn carry_out(&mut self) -> Step<Next> {
        let KfuncEffect { call, .. } = *self;
        let meaning = call.kfunc.meaning;
        match meaning {
            KfuncMeaning::AddToTree => {
                self.call_comparison()?;
                self.give_to_graph()?;
            }
            KfuncMeaning::AddToList => self.give_to_graph()?,
            KfuncMeaning::RunLater(later) => self.run_kfunc_later(Later::of(later))?,
            KfuncMeaning::Lock { interrupts } => self.path.take_resilient_lock(interrupts)?,
            KfuncMeaning::Unlock { interrupts } => self.path.give_up_resilient_lock(interrupts)?,
            _ => {}
        }
        self.release_kfunc()?;
        self.path.change_section(meaning)?;
        let result = self.kfunc_result()?;
        if let Some(iterator) = call.iterator {
            if call.kfunc.has(KfuncFlag::IteratorNext) {
                return self.path.next_of_iterator(iterator, result);
            }
            if call.kfunc.has(KfuncFlag::IteratorDestroy) {
                self.path.state.destroy_iterator(
                    &mut self.path.findings,
                    self.path.options.stale_pointer(),
                    iterator,
                )?;
            }
        }
        self.path.state.clobber();
        if meaning == KfuncMeaning::MovePacket {
            self.path.state.forget_packet(self.path.options.stale_pointer());
        }
        self.path.state.set(Reg::R0, result);
        Ok(Next::At(self.path.at + 1))
    }

    fn release_kfunc(&mut self) -> Step<()> {
        let KfuncEffect { call, .. } = *self;
        let id = match call.released {
            Some(reg) => self.path.state.register(reg).reference,
            None if call.given_back != 0 => call.given_back,
            None => return Ok(()),
        };
        self.path.state.release_reference(
            &mut self.path.findings,
            self.path.options.stale_pointer(),
            id,
            call.kfunc.name,
        )
    }

    /// Returns what R0 holds afterwards.
    fn kfunc_result(&mut self) -> Step<Register> {
        let KfuncEffect { call, .. } = *self;
        if let Some(result) = self.special_result()? {
            return Ok(result);
        }
        if let Some(slice) = self.slice_result()? {
            return Ok(slice);
        }
        let Some(types) = self.path.types.kernel.clone() else { return unsupported(WITHOUT_TYPES) };
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
            BtfKind::Composite { .. } => Register::pointer(Holds::Structure(self.path.types.kernel_type(structure)))
                .trusted(result_trust(call.kfunc)),
            _ => {
                let known = types.size_of(structure).map(|bytes| (bytes, true));
                let Some((bytes, read_only)) = call.result_bytes.or(known) else {
                    return unsupported(format!("what {} returns", call.kfunc.name));
                };
                let size = u32::try_from(bytes).unwrap_or(0);
                Register { read_only, reference: call.reference, ..Register::pointer(Holds::Memory(size)) }
            }
        };
        Ok(self.path.acquired(call.kfunc, pointer))
    }

    /// Results that say more than the prototype.
    fn special_result(&mut self) -> Step<Option<Register>> {
        let KfuncEffect { call, .. } = *self;
        if let Some(result) = self.graph_result()? {
            return Ok(Some(result));
        }
        match call.kfunc.meaning {
            KfuncMeaning::CastContext => {
                let Some(name) = self.path.code.program_type.context().kernel_struct else {
                    return reject(
                        Reason::KfuncNotAllowed,
                        format!("{} programs have no context of the kernel's own", self.path.code.program_type.name()),
                    );
                };
                let index = self.path.types.kernel_struct(name);
                Ok(Some(Register::pointer(Holds::Structure(index)).trusted(Trust::TRUSTED)))
            }
            // On the other path, the one without the lock, it is an error.
            KfuncMeaning::Lock { .. } => Ok(Some(Register::constant(0))),
            KfuncMeaning::CastReadOnly => self.read_only_cast().map(Some),
            KfuncMeaning::SessionCookie => Ok(Some(Register::pointer(Holds::Memory(8)))),
            _ => Ok(None),
        }
    }

    /// An address taken for one of a type: a structure, or bytes.
    fn read_only_cast(&mut self) -> Step<Register> {
        let KfuncEffect { call, .. } = *self;
        let Some(types) = self.path.types.kernel.clone() else { return unsupported(WITHOUT_TYPES) };
        // The bytes behind it may be the program's own.
        let source = *self.path.state.register(Reg::R1);
        if let (Kind::Stack, Some(accesses)) = (source.kind(), &mut self.path.findings.accesses) {
            let function = self.path.state.frames[source.frame()].function;
            accesses.alias(function, -(MAX_STACK_BYTES as i32), MAX_STACK_BYTES);
        }
        if self.path.code.awaits_type_numbers() {
            return unsupported("the number that a kernel gives a structure, which the loader has yet to write");
        }
        let id = TypeId(call.constant.and_then(|id| u32::try_from(id).ok()).unwrap_or(u32::MAX));
        let plain = types.resolve(id).unwrap_or(TypeId::VOID);
        match types.kind(plain) {
            BtfKind::Composite { .. } => {
                let index = self.path.types.kernel_type(plain);
                Ok(Register::pointer(Holds::Structure(index)).trusted(Trust::UNTRUSTED))
            }
            BtfKind::Void if id == TypeId::VOID => Ok(Register::UNTRUSTED_BYTES),
            _ => reject(Reason::ArgumentType, "bpf_rdonly_cast takes the id of a structure, or 0"),
        }
    }
}

impl Types {
    /// The kfunc's row and prototype.
    fn prepared_call(&mut self, symbol: &Extern, profile: &Profile) -> Step<KfuncCall> {
        let name = &symbol.name;
        if self.kernel.is_none() {
            return unsupported(format!("the kernel function {name}: {WITHOUT_TYPES}"));
        }
        let Some(prototype) = self.find_function(name) else {
            return reject(Reason::KernelLacks, format!("this kernel has no function {name}"));
        };
        let Some(kfunc) = Kfunc::at(name, profile.version()) else {
            return unsupported(format!("the kernel function {name}"));
        };
        Ok(KfuncCall {
            kfunc,
            prototype,
            reference: 0,
            released: None,
            given_back: 0,
            trusted: kfunc.takes_trusted() || profile.has(Feature::TrustedByDefault),
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

    /// What each parameter asks for.
    fn parameters_of(&mut self, code: &Code<'_>, call: &KfuncCall) -> Step<Rc<[Taken]>> {
        let name = call.kfunc.name;
        if let Some(known) = self.parameters.get(name) {
            return Ok(Rc::clone(known));
        }
        let taken: Rc<[Taken]> = self.read_parameters(code, call)?.into();
        self.parameters.insert(name, Rc::clone(&taken));
        Ok(taken)
    }

    fn read_parameters(&self, code: &Code<'_>, call: &KfuncCall) -> Step<Vec<Taken>> {
        let Some(types) = self.kernel.as_deref() else { return unsupported(WITHOUT_TYPES) };
        let parameters = types.parameters(call.prototype);
        let one = |index: usize| parameter(types, call.kfunc, code.program_type, parameters, index);
        (0..parameters.len()).map(one).collect()
    }
}

impl<'a> Code<'a> {
    fn check_kfunc_allowed(&self, options: &Options, state: &State, kfunc: &Kfunc) -> Step<()> {
        let name = kfunc.name;
        // Since then raw tracepoints have the kernel's tracing hook.
        let as_tracing = self.program_type == ProgramType::RawTracepoint
            && options.kernel_has(Feature::RawTracepointKfuncs)
            && kfunc.allowed_at(ProgramType::Tracepoint, None);
        if !as_tracing && !kfunc.allowed_at(self.program_type, self.program.attach_type) {
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
            state.check_may_sleep(name)?;
        }
        if kfunc.has(KfuncFlag::RcuProtected) && !state.in_rcu_section() {
            return reject(
                Reason::KfuncNotAllowed,
                format!("{name} must be called between bpf_rcu_read_lock and unlock"),
            );
        }
        if !state.locks.is_empty() && !kfunc.has(KfuncFlag::UnderLock) {
            let message = format!("{name} is called while a lock is held");
            return refuse(Reason::LockDiscipline, Case::CallUnderLock, message);
        }
        Ok(())
    }
}

/// How far the kfunc's result may be relied on.
fn result_trust(kfunc: &Kfunc) -> Trust {
    if kfunc.meaning == KfuncMeaning::UntrustedResult {
        Trust::UNTRUSTED
    } else if kfunc.has(KfuncFlag::RcuProtected) {
        Trust::RCU
    } else {
        Trust::NONE
    }
}
