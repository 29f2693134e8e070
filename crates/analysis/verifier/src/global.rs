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
use kiln_platform::{Feature, KfuncFlag, Profile, ProgramType};
use kiln_program::btf::{Btf, Kind as BtfKind, TypeId};

use crate::code::{Code, Op};
use crate::error::{Step, reject, unsupported};
use crate::explain::Reason;
use crate::explore::{Explorer, Next};
use crate::memory::Use;
use crate::state::{Caller, Frame, Kind, Register, State};

/// What an argument of a global function is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    Number,
    Context,
    /// An initialized dynptr.
    Dynptr,
    /// Memory of that many bytes.
    Memory {
        bytes: u32,
        nullable: bool,
    },
    Unsupported(String),
}

/// What a global function takes and gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub parameters: Vec<Parameter>,
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
    program_type: ProgramType,
    profile: &Profile,
) -> Vec<Option<Signature>> {
    let effects = effects(code, program_type);
    let tags = profile.has(Feature::ArgumentTags);
    let signature = |(at, routine): (usize, &crate::code::Routine<'_>)| {
        if !routine.global || routine.btf_id == 0 {
            return None;
        }
        let mut signature = signature(btf?, TypeId(routine.btf_id), program_type, tags)?;
        (signature.changes_packet, signature.may_sleep) = (effects[at].changes_packet, effects[at].may_sleep);
        Some(signature)
    };
    code.functions.iter().enumerate().map(signature).collect()
}

fn signature(btf: &Btf, function: TypeId, program_type: ProgramType, all_tags: bool) -> Option<Signature> {
    let BtfKind::Function { prototype, .. } = *btf.kind(function) else { return None };
    let BtfKind::Prototype { result, .. } = *btf.kind(prototype) else { return None };
    let tags: Vec<(u32, String)> = btf
        .own_ids()
        .filter_map(|id| match btf.kind(id) {
            BtfKind::DeclTag { target, component: Some(index) } if *target == function => {
                Some((*index, btf.name(id).to_owned()))
            }
            _ => None,
        })
        // libbpf tells older kernels of contexts in another way.
        .filter(|(_, tag)| all_tags || tag == "arg:ctx")
        .collect();
    let parameter = |(index, parameter): (usize, &kiln_program::btf::Parameter)| {
        let tags: Vec<&str> =
            tags.iter().filter(|(of, _)| *of as usize == index).map(|(_, tag)| tag.as_str()).collect();
        parameter_kind(btf, parameter.type_id, &tags, program_type)
    };
    let parameters = btf.parameters(prototype).iter().enumerate().map(parameter).collect();
    let returns_value = result != TypeId::VOID;
    Some(Signature { parameters, returns_value, changes_packet: false, may_sleep: false })
}

fn parameter_kind(btf: &Btf, id: TypeId, tags: &[&str], program_type: ProgramType) -> Parameter {
    let Some(plain) = btf.resolve(id) else { return Parameter::Unsupported("a type that leads nowhere".to_owned()) };
    match btf.kind(plain) {
        BtfKind::Int { .. } | BtfKind::Enum { .. } => Parameter::Number,
        BtfKind::Pointer { target } => {
            if tags.contains(&"arg:ctx") {
                return Parameter::Context;
            }
            if let Some(tag) = tags.iter().find(|tag| !matches!(**tag, "arg:nonnull" | "arg:nullable")) {
                return Parameter::Unsupported(format!("the argument tag {tag}"));
            }
            let pointee = btf.resolve(*target).unwrap_or(TypeId::VOID);
            let name = btf.name(pointee);
            let typedef = btf.name(btf.without_qualifiers(*target).unwrap_or(TypeId::VOID));
            let context = program_type.context().struct_name;
            if name == context && program_type != ProgramType::Kprobe || typedef == "bpf_user_pt_regs_t" {
                return Parameter::Context;
            }
            if name == "bpf_dynptr" {
                return Parameter::Dynptr;
            }
            match btf.size_of(*target).and_then(|bytes| u32::try_from(bytes).ok()) {
                Some(bytes) if pointee != TypeId::VOID && bytes > 0 => {
                    Parameter::Memory { bytes, nullable: !tags.contains(&"arg:nonnull") }
                }
                _ => Parameter::Unsupported(format!("an argument that points to {name:?}, of unknown size")),
            }
        }
        _ => Parameter::Unsupported("an argument that is neither number nor pointer".to_owned()),
    }
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
        || op.kfunc == Some("bpf_xdp_pull_data")
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
        let mut frame = Frame::new(function, 0, 0, Caller::Call);
        for (index, parameter) in signature.parameters.iter().enumerate().take(5) {
            frame.registers[index + 1] = match parameter {
                Parameter::Number => Register::UNKNOWN,
                Parameter::Context => Register::pointer(Kind::Context, 0),
                Parameter::Dynptr => self.borrowed_dynptr(),
                Parameter::Memory { bytes, nullable: true } => {
                    Register::pointer(Kind::Memory, *bytes).or_null(self.fresh_id())
                }
                Parameter::Memory { bytes, nullable: false } => Register::pointer(Kind::Memory, *bytes),
                Parameter::Unsupported(what) => return unsupported(what.clone()),
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
            Parameter::Unsupported(what) => unsupported(what.clone()),
        }
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
