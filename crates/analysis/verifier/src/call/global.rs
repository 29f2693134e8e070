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
use kiln_platform::{Feature, KfuncFlag, KfuncMeaning, ProgramType};
use kiln_program::btf::{Btf, Kind as BtfKind, TypeId};

use crate::call::parameter::{Hook, Parameter, parameter};
use crate::code::{Code, Op};
use crate::error::{Step, reject, unsupported};
use crate::explore::search::{Explorer, Next};
use crate::options::Options;
use crate::reason::Reason;
use crate::state::{Caller, Frame, Kind, Register, State, Trust};
use crate::transfer::memory::Use;

/// What a global function takes and gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub parameters: Vec<Parameter>,
    /// A number; the kernel refuses to call a function that returns none.
    pub returns_value: bool,
    /// Packet pointers are stale after a call.
    pub changes_packet: bool,
    /// It may only be called where the program may sleep.
    pub may_sleep: bool,
}

/// The signature of each function that is global and has BTF.
pub(crate) fn signatures(
    code: &Code<'_>,
    btf: Option<&Btf>,
    options: &Options,
    program_type: ProgramType,
) -> Vec<Option<Signature>> {
    let all_tags = options.profile.has(Feature::ArgumentTags);
    let hook = Hook { program_type, attach_type: code.program.attach_type, all_tags };
    let effects = effects(code, program_type);
    let signature = |(at, routine): (usize, &crate::code::Routine<'_>)| {
        if !routine.global || routine.btf_id == 0 {
            return None;
        }
        let mut signature = signature(btf?, options.kernel_types.as_deref(), TypeId(routine.btf_id), hook)?;
        (signature.changes_packet, signature.may_sleep) = (effects[at].changes_packet, effects[at].may_sleep);
        Some(signature)
    };
    code.functions.iter().enumerate().map(signature).collect()
}

fn signature(btf: &Btf, types: Option<&Btf>, function: TypeId, hook: Hook) -> Option<Signature> {
    let BtfKind::Function { prototype, .. } = *btf.kind(function) else { return None };
    let BtfKind::Prototype { result, .. } = *btf.kind(prototype) else { return None };
    let parameters = btf.parameters(prototype).iter().enumerate();
    let parameters = parameters.map(|(index, of)| parameter(btf, types, function, index, of.type_id, hook)).collect();
    let result = btf.resolve(result).unwrap_or(TypeId::VOID);
    let returns_value = matches!(btf.kind(result), BtfKind::Int { .. } | BtfKind::Enum { .. });
    Some(Signature { parameters, returns_value, changes_packet: false, may_sleep: false })
}

/// Functions that BTF says return no number.
pub(crate) fn without_number(code: &Code<'_>, btf: Option<&Btf>) -> Vec<bool> {
    let returns_none = |id: u32| -> Option<bool> {
        let btf = btf?;
        let BtfKind::Function { prototype, .. } = *btf.kind(TypeId(id)) else { return None };
        let BtfKind::Prototype { result, .. } = *btf.kind(prototype) else { return None };
        let result = btf.resolve(result).unwrap_or(TypeId::VOID);
        Some(!matches!(btf.kind(result), BtfKind::Int { .. } | BtfKind::Enum { .. }))
    };
    let known = |routine: &crate::code::Routine<'_>| routine.btf_id != 0 && returns_none(routine.btf_id) == Some(true);
    code.functions.iter().map(known).collect()
}

/// What a function may do that its callers must know of.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Effects {
    changes_packet: bool,
    may_sleep: bool,
}

/// The effects of each function, its own and those of functions it calls.
fn effects(code: &Code<'_>, program_type: ProgramType) -> Vec<Effects> {
    let mut known = vec![Effects::default(); code.functions.len()];
    let mut again = true;
    while again {
        again = false;
        for op in &code.ops {
            let callee = op.callee.map(|callee| known[callee]).unwrap_or_default();
            let before = known[op.function];
            let after = Effects {
                changes_packet: before.changes_packet || callee.changes_packet || changes_packet(op),
                may_sleep: before.may_sleep || callee.may_sleep || may_sleep(op, program_type),
            };
            if after != before {
                known[op.function] = after;
                again = true;
            }
        }
    }
    known
}

fn changes_packet(op: &Op<'_>) -> bool {
    op.helper.is_some_and(|helper| helper.changes_packet_data || helper.name == "tail_call")
        || op.kfunc_meaning() == Some(KfuncMeaning::MovePacket)
}

fn may_sleep(op: &Op<'_>, program_type: ProgramType) -> bool {
    op.helper.is_some_and(|helper| helper.prototype_for(program_type).might_sleep)
        || op.kfunc_row().is_some_and(|kfunc| kfunc.has(KfuncFlag::Sleepable))
}

impl Explorer<'_> {
    /// Older kernels verify global functions that nothing calls, too.
    pub(crate) fn call_every_global(&mut self) {
        if !self.kernel_has(Feature::LazyGlobals) {
            let globals = (1..self.code.functions.len()).filter(|at| {
                let routine = &self.code.functions[*at];
                routine.global && routine.btf_id != 0 && !self.globals_called.contains(at)
            });
            let globals: Vec<usize> = globals.collect();
            self.globals_called.extend(globals);
        }
    }

    /// A state at the start of a global function called with anything its signature allows.
    pub(crate) fn enter_global(&mut self, function: usize) -> Step<()> {
        let Some(signature) = self.signatures[function].clone() else {
            return unsupported("a global function without BTF");
        };
        let instance = self.liveness.root(self.code, function);
        let mut frame = Frame::new(function, 0, 0, Caller::Call, instance);
        for (index, parameter) in signature.parameters.iter().enumerate().take(5) {
            frame.registers[index + 1] = match parameter {
                Parameter::Number => Register::UNKNOWN,
                Parameter::Context => Register::pointer(Kind::Context, 0),
                Parameter::Dynptr => self.borrowed_dynptr(),
                Parameter::Memory { bytes, nullable: true } => {
                    Register::pointer(Kind::Memory, *bytes).or_null(self.fresh_id())
                }
                Parameter::Memory { bytes, nullable: false } => Register::pointer(Kind::Memory, *bytes),
                // The caller may pass the pointer or the number that it was cast from.
                Parameter::Arena => Register::UNKNOWN,
                Parameter::UntrustedBytes => Register::UNTRUSTED_BYTES,
                Parameter::Structure { name, nullable, untrusted } => {
                    self.passed_structure(name, *nullable, *untrusted)
                }
                Parameter::Refused(what) => return reject(Reason::ArgumentType, what.clone()),
            };
        }
        self.global = Some(signature.returns_value);
        self.state = State { frames: vec![frame], sleepable: self.code.program.sleepable, ..State::default() };
        self.at = self.code.functions[function].start;
        Ok(())
    }

    pub(crate) fn call_global(&mut self, callee: usize) -> Step<Next> {
        let Some(signature) = self.signatures[callee].clone() else {
            return unsupported("a global function whose BTF is not understood");
        };
        if !signature.returns_value {
            return reject(Reason::ReturnValue, "a global function is called that does not return a number");
        }
        if !self.state.locks.is_empty() {
            return reject(Reason::LockDiscipline, "a global function is called while a lock is held");
        }
        if signature.may_sleep {
            self.check_may_sleep(self.code.functions[callee].name)?;
        }
        for (index, parameter) in signature.parameters.iter().enumerate().take(5) {
            let Some(reg) = Reg::new(index as u8 + 1) else { break };
            self.check_global_argument(reg, parameter)?;
        }
        if !self.globals_called.contains(&callee) {
            self.globals_called.push(callee);
        }
        self.clobber();
        if signature.changes_packet {
            self.forget_packet();
        }
        if signature.returns_value {
            self.state.set(Reg::R0, Register::UNKNOWN);
        }
        Ok(Next::At(self.at + 1))
    }

    fn check_global_argument(&mut self, reg: Reg, parameter: &Parameter) -> Step<()> {
        let register = self.read(reg)?;
        let number = reg.number();
        let name = register.kind.name();
        match parameter {
            Parameter::Number => {
                if register.kind != Kind::Scalar {
                    return reject(Reason::ArgumentType, format!("r{number} must be a number, it is {name}"));
                }
                Ok(())
            }
            Parameter::Context => {
                if register.kind != Kind::Context || register.fixed_offset() != Some(0) {
                    return reject(Reason::ArgumentType, format!("r{number} must be the context, it is {name}"));
                }
                Ok(())
            }
            Parameter::Dynptr => self.expect_dynptr(reg).map(|_| ()),
            Parameter::Memory { bytes, nullable } => {
                if register.is_zero() && *nullable {
                    self.mark_precise(&register);
                    return Ok(());
                }
                if register.nullable && !*nullable {
                    return reject(Reason::PossiblyNull, format!("r{number} ({name}) may be null"));
                }
                let register = Register { nullable: false, ..register };
                self.check_shared_memory(reg, &register, *bytes)
            }
            Parameter::Arena => match register.kind {
                Kind::Arena | Kind::Scalar => Ok(()),
                _ => reject(
                    Reason::ArgumentType,
                    format!("r{number} must be an arena pointer or a number, it is {name}"),
                ),
            },
            // The function may read anything through them, and each read may fail.
            Parameter::UntrustedBytes | Parameter::Structure { untrusted: true, .. } => Ok(()),
            Parameter::Structure { name, nullable, .. } => self.check_passed_structure(reg, &register, name, *nullable),
            Parameter::Refused(what) => reject(Reason::ArgumentType, what.clone()),
        }
    }

    fn passed_structure(&mut self, name: &str, nullable: bool, untrusted: bool) -> Register {
        let trust = if untrusted { Trust::UNTRUSTED } else { Trust::TRUSTED };
        let pointer = Register::pointer(Kind::BtfId, self.types.kernel_struct(name)).trusted(trust);
        let id = self.fresh_id();
        if nullable { pointer.or_null(id) } else { pointer }
    }

    fn check_passed_structure(&mut self, reg: Reg, register: &Register, name: &str, nullable: bool) -> Step<()> {
        let number = reg.number();
        if register.is_zero() && nullable {
            self.mark_precise(register);
            return Ok(());
        }
        if register.nullable && !nullable {
            return reject(Reason::PossiblyNull, format!("r{number} ({}) may be null", register.kind.name()));
        }
        let wanted = self.types.kernel_struct(name);
        let (held, wanted) = (self.types.pointed(register.object).cloned(), self.types.pointed(wanted).cloned());
        let fits = match (register.kind, register.fixed_offset(), held, wanted) {
            (Kind::BtfId, Some(offset), Some(held), Some(wanted)) => {
                !register.trust.has(Trust::UNTRUSTED.with(Trust::USER).with(Trust::PERCPU).with(Trust::ALLOCATED))
                    && self.types.is_at(&held, offset, &wanted, false, false)
            }
            _ => false,
        };
        if fits {
            return Ok(());
        }
        reject(
            Reason::ArgumentType,
            format!("r{number} must be a trusted `struct {name} *`, it is {}", register.kind.name()),
        )
    }

    /// Memory that a global function may read and write.
    fn check_shared_memory(&mut self, reg: Reg, register: &Register, bytes: u32) -> Step<()> {
        match register.kind {
            Kind::Stack => {
                let (lowest, highest) = self.stack_range(reg, register, 0, u64::from(bytes))?;
                self.read_stack_bytes(register.object as usize, lowest, highest - lowest + bytes as i32, true)
            }
            Kind::MapValue => {
                self.check_map_value(reg, register, 0, bytes, Use::Read)?;
                self.check_map_value(reg, register, 0, bytes, Use::Write)
            }
            Kind::Memory | Kind::RingBuffer | Kind::Packet | Kind::PacketMeta | Kind::MapKey => {
                self.check_memory(reg, register, 0, u64::from(bytes), Use::Read)?;
                self.check_memory(reg, register, 0, u64::from(bytes), Use::Write)
            }
            kind => reject(
                Reason::ArgumentType,
                format!("r{} must be memory of {bytes} bytes, it is {}", reg.number(), kind.name()),
            ),
        }
    }

    pub(crate) fn exit_global(&mut self, returns_value: bool) -> Step<Next> {
        if self.is_exception_callback(self.state.frame().function) {
            let result = self.read(Reg::R0)?;
            self.check_program_end(&result)?;
            return Ok(Next::Done);
        }
        if returns_value {
            let result = self.read(Reg::R0)?;
            if result.kind != Kind::Scalar {
                return reject(Reason::ReturnValue, "a global function must return a number");
            }
        }
        self.check_nothing_held("a global function returns")?;
        Ok(Next::Done)
    }
}
