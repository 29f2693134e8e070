//! Global functions, which the kernel verifies on their own: for any arguments of their BTF types.
//!
//! ```text
//!   int count(struct __sk_buff *skb, struct stats *s, u32 n)
//!   called:    r1 the context, r2 null or memory of sizeof(struct stats), r3 a number      r0 any number afterwards
//!   verified:  r1 the context, r2 memory that may be null, r3 any number
//! ```
//!
//! A function without BTF, or a static one, is explored at each call instead.

use kiln_isa::Reg;
use kiln_platform::Feature;

use crate::code::Code;
use crate::code::parameter::Parameter;
use crate::error::{About, Step, refuse, reject, unsupported};
use crate::options::Options;
use crate::path::{Findings, Next, Path};
use crate::reason::Reason;
use crate::rejection::Case;
use crate::state::{Caller, Frame, Holds, Kind, Register, State, Trust};
use crate::types::Types;

impl Path<'_> {
    /// Enters a global function, with anything its signature allows. `asleep`: as if called where the program may sleep,
    /// though by itself it may not.
    pub(crate) fn enter_global(&mut self, function: usize, asleep: bool) -> Step<()> {
        let Some(signature) = self.types.signatures[function].clone() else {
            return unsupported("a global function without BTF");
        };
        let instance = self.findings.liveness.root(self.code, function);
        let mut frame = Frame::new(function, 0, 0, Caller::Call, instance);
        for (index, parameter) in signature.parameters.iter().enumerate().take(5) {
            frame.registers[index + 1] = match parameter {
                Parameter::Number => Register::UNKNOWN,
                Parameter::Context => Register::pointer(Holds::Context),
                Parameter::Dynptr => self.borrowed_dynptr(),
                Parameter::Memory { bytes, nullable: true } => {
                    Register::pointer(Holds::Memory(*bytes)).or_null(self.fresh_id())
                }
                Parameter::Memory { bytes, nullable: false } => Register::pointer(Holds::Memory(*bytes)),
                // The caller may pass the pointer or the number that it was cast from.
                Parameter::Arena => Register::UNKNOWN,
                Parameter::UntrustedBytes => Register::UNTRUSTED_BYTES,
                Parameter::Structure { name, nullable, untrusted } => {
                    self.passed_structure(name, *nullable, *untrusted)
                }
                Parameter::Refused(what) => return reject(Reason::ArgumentType, what.clone()),
            };
        }
        let first = self.first_state(frame);
        let sleepable = first.sleepable || asleep;
        self.state = State { global: Some(signature.returns_value), sleepable, ..first };
        self.at = self.code.functions[function].start;
        Ok(())
    }

    pub(crate) fn call_global(&mut self, callee: usize) -> Step<Next> {
        let Some(signature) = self.types.signatures[callee].clone() else {
            return unsupported("a global function whose BTF is not understood");
        };
        let returns_nothing = signature.returns_nothing && self.options.kernel_has(Feature::VoidGlobals);
        if !signature.returns_value && !returns_nothing {
            return reject(Reason::ReturnValue, "a global function is called that does not return a number");
        }
        if !self.state.locks.is_empty() {
            let message = "a global function is called while a lock is held";
            return refuse(Reason::LockDiscipline, Case::GlobalUnderLock, message);
        }
        let sections = &self.state.sections;
        let switched_off = sections.preemption_off > 0 || !sections.interrupts.is_empty();
        if switched_off && !self.options.kernel_has(Feature::GlobalsInSections) {
            let message = "a global function is called with preemption or interrupts switched off";
            return reject(Reason::CriticalSection, message);
        }
        if signature.may_throw {
            self.state.check_nothing_held(self.code, "a global function that may throw is called")?;
        }
        if signature.may_sleep {
            self.state.check_may_sleep(self.code.functions[callee].name)?;
        }
        for (index, parameter) in signature.parameters.iter().enumerate().take(5) {
            let Some(reg) = Reg::new(index as u8 + 1) else { break };
            self.check_global_argument(reg, parameter).about(reg)?;
            if signature.changes_packet && matches!(parameter, Parameter::Memory { .. }) {
                self.check_packet_stays(reg, callee).about(reg)?;
            }
        }
        self.note_global_call(callee);
        self.state.clobber();
        if signature.changes_packet {
            self.state.forget_packet(self.options.stale_pointer());
        }
        if signature.returns_value {
            self.state.set(Reg::R0, Register::UNKNOWN);
        }
        Ok(Next::At(self.at + 1))
    }

    /// Notes a global function, to be verified by itself. Newer kernels verify it once more if a callback that may sleep
    /// calls it, in a program that may not.
    fn note_global_call(&mut self, callee: usize) {
        let asleep = self.state.sections.all_protect && !self.state.in_rcu_section() && !self.code.program.sleepable;
        let called = &mut self.findings.noted.globals_called;
        if !called.contains(&(callee, asleep)) {
            called.push((callee, asleep));
        }
    }

    /// A function sees packet bytes that it is passed as memory, and would not notice that they move.
    fn check_packet_stays(&self, reg: Reg, callee: usize) -> Step<()> {
        if !self.state.register(reg).is_packet() || !self.options.kernel_has(Feature::PacketsStay) {
            return Ok(());
        }
        let name = self.code.functions[callee].name;
        let message = format!("{reg} points into the packet, which {name} may change");
        refuse(Reason::ArgumentType, Case::PacketMayChange, message)
    }

    fn check_global_argument(&mut self, reg: Reg, parameter: &Parameter) -> Step<()> {
        let register = self.read(reg)?;
        let number = reg.number();
        let name = register.kind().name();
        match parameter {
            Parameter::Number => {
                if register.kind() != Kind::Scalar {
                    return reject(Reason::ArgumentType, format!("r{number} must be a number, it is {name}"));
                }
                Ok(())
            }
            Parameter::Context => {
                if !register.is_unmoved(Kind::Context) {
                    return reject(Reason::ArgumentType, format!("r{number} must be the context, it is {name}"));
                }
                Ok(())
            }
            Parameter::Dynptr => self.expect_dynptr(reg).map(|_| ()),
            Parameter::Memory { bytes, nullable } => {
                if register.is_zero() && *nullable {
                    self.findings.mark_precise(&register);
                    return Ok(());
                }
                if register.is_zero() {
                    let message = format!("r{number} is null, and the parameter is tagged as never null");
                    return refuse(Reason::PossiblyNull, Case::NullTaken, message);
                }
                if register.nullable && !*nullable {
                    return reject(Reason::PossiblyNull, format!("r{number} ({name}) may be null"));
                }
                let register = Register { nullable: false, ..register };
                self.check_memory_of_global(reg, &register, *bytes)
            }
            Parameter::Arena => match register.kind() {
                Kind::Arena | Kind::Scalar => Ok(()),
                _ => reject(
                    Reason::ArgumentType,
                    format!("r{number} must be an arena pointer or a number, it is {name}"),
                ),
            },
            // The function may read anything through them, and each read may fail.
            Parameter::UntrustedBytes | Parameter::Structure { untrusted: true, .. } => Ok(()),
            Parameter::Structure { name, nullable, .. } => {
                self.types.check_passed_structure(&mut self.findings, reg, &register, name, *nullable)
            }
            Parameter::Refused(what) => reject(Reason::ArgumentType, what.clone()),
        }
    }

    fn passed_structure(&mut self, name: &str, nullable: bool, untrusted: bool) -> Register {
        let trust = if untrusted { Trust::UNTRUSTED } else { Trust::TRUSTED };
        let pointer = Register::pointer(Holds::Structure(self.types.kernel_struct(name))).trusted(trust);
        let id = self.fresh_id();
        if nullable { pointer.or_null(id) } else { pointer }
    }

    /// Memory that a global function may read and write; of a structure, what it points to is read.
    fn check_memory_of_global(&mut self, reg: Reg, register: &Register, bytes: u32) -> Step<()> {
        let has_structures = register.trust.has(Trust::ALLOCATED) || self.options.kernel_has(Feature::StructureMemory);
        if register.kind() == Kind::BtfId && has_structures {
            check_unmoved(reg, register)?;
            if !register.trust.has(Trust::ALLOCATED) && self.options.kernel_has(Feature::GlobalMemoryIsWritten) {
                let message =
                    format!("r{} is a structure of the kernel, and the function may write to it", reg.number());
                return reject(Reason::ReadOnlyMemory, message);
            }
            return self.load_structure(reg, register, 0, bytes).map(drop);
        }
        self.check_shared_memory(reg, register, bytes.into()).unwrap_or_else(|| {
            let (number, kind) = (reg.number(), register.kind().name());
            reject(Reason::ArgumentType, format!("r{number} must be memory of {bytes} bytes, it is {kind}"))
        })
    }

    pub(crate) fn exit_global(&mut self, returns_value: bool) -> Step<Next> {
        if self.code.is_exception_callback(self.state.frame().function) {
            let result = self.read(Reg::R0)?;
            self.findings.check_program_end(self.code, self.options, &self.types, &self.state, &result)?;
            return Ok(Next::Done);
        }
        if returns_value {
            let result = self.read(Reg::R0)?;
            let arena = result.kind() == Kind::Arena && self.options.kernel_has(Feature::ArenaTypes);
            if result.kind() != Kind::Scalar && !arena {
                return reject(Reason::ReturnValue, "a global function must return a number");
            }
        }
        self.state.check_nothing_held(self.code, "a global function returns")?;
        Ok(Next::Done)
    }
}

impl Findings {
    /// Older kernels verify global functions that nothing calls, too.
    pub(crate) fn call_every_global(&mut self, code: &Code<'_>, options: &Options) {
        if !options.kernel_has(Feature::LazyGlobals) {
            let globals = (1..code.functions.len()).filter(|at| {
                let routine = &code.functions[*at];
                routine.global && routine.btf_id != 0 && !self.noted.calls_global(*at)
            });
            let globals: Vec<(usize, bool)> = globals.map(|at| (at, false)).collect();
            self.noted.globals_called.extend(globals);
        }
    }
}

/// Some pointers to structures are passed only as they were made (`check_func_arg_reg_off`).
fn check_unmoved(reg: Reg, register: &Register) -> Step<()> {
    let trust = register.trust;
    let shared = trust.has(Trust::ALLOCATED) && trust.has(Trust::RCU) && !trust.has(Trust::NOT_OWNING);
    if register.offset != 0 && (shared || trust.has(Trust::UNTRUSTED.with(Trust::PERCPU).with(Trust::USER))) {
        let message = format!("r{} was moved by {}: pass the object as it was read", reg.number(), register.offset);
        return reject(Reason::ArgumentType, message);
    }
    Ok(())
}

impl Types {
    fn check_passed_structure(
        &mut self,
        findings: &mut Findings,
        reg: Reg,
        register: &Register,
        name: &str,
        nullable: bool,
    ) -> Step<()> {
        let number = reg.number();
        if register.is_zero() && nullable {
            findings.mark_precise(register);
            return Ok(());
        }
        if register.nullable && !nullable {
            return reject(Reason::PossiblyNull, format!("r{number} ({}) may be null", register.kind().name()));
        }
        let wanted = self.kernel_struct(name);
        let (held, wanted) = (self.pointed(register.type_index()).cloned(), self.pointed(wanted).cloned());
        let fits = match (register.kind(), register.fixed_offset(), held, wanted) {
            (Kind::BtfId, Some(offset), Some(held), Some(wanted)) => {
                !register.trust.has(Trust::UNTRUSTED.with(Trust::USER).with(Trust::PERCPU).with(Trust::ALLOCATED))
                    && self.is_at(&held, offset, &wanted, false, false)
            }
            _ => false,
        };
        if fits {
            return Ok(());
        }
        reject(
            Reason::ArgumentType,
            format!("r{number} must be a trusted `struct {name} *`, it is {}", register.kind().name()),
        )
    }
}
