//! The context of programs on hooks that the kernel's BTF describes: an array of the hook's arguments.
//!
//! ```text
//!   SEC("tp_btf/kfree_skb")     void (*)(void *, struct sk_buff *, void *, enum ..., struct sock *)
//!   r2 = *(u64 *)(r1 + 0)       a trusted pointer to sk_buff
//!   r2 = *(u64 *)(r1 + 16)      a number
//!   r2 = *(u64 *)(r1 + 24)      a trusted pointer to sock, or null
//! ```
//!
//! What a hook's prototype does not say (which arguments may be null, what may be returned) is in `kiln_platform`.

use std::rc::Rc;

use kiln_platform::limits::MAX_TRACED_ARGUMENTS;
use kiln_platform::{
    AttachType, IteratorArgument, IteratorTarget, ProgramType, RawTracepoint, hook_refuses, is_boolean_lsm_hook,
    is_disabled_lsm_hook, is_sleepable_lsm_hook, is_unsupported_member, is_untrusted_lsm_hook, iterator_allows,
    iterator_target, member_refuses, raw_tracepoint, section_program_type,
};
use kiln_program::btf::{Btf, Kind as BtfKind, Parameter, TypeId};

use super::access::WITHOUT_TYPES;
use super::walk::tag_trust;
use crate::domain::Scalar;
use crate::error::{Fault, Step, reject, unsupported};
use crate::explore::search::Explorer;
use crate::reason::Reason;
use crate::state::{Kind, Register, Trust};

/// The largest error number (kernel `MAX_ERRNO`).
const MAX_ERRNO: i32 = 4095;

/// What a program is attached to.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    /// Its name, without the kernel's prefix.
    pub name: String,
    /// Its function type in the kernel's BTF.
    prototype: TypeId,
    /// The kernel structure that a `struct_ops` program is put in.
    pub structure: Option<String>,
    /// What marks the parameters: their types' own names say nothing, those of a function like it do.
    marks: TypeId,
    /// The first parameter is the tracer's own.
    skips_first: bool,
    /// The arguments are what the kernel says, and stay so while the program runs.
    trusted: bool,
    tracepoint: Option<&'static RawTracepoint>,
    iterator: Option<&'static IteratorTarget>,
}

/// What a hook lets programs return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HookReturn {
    /// Nothing: r0 is not looked at.
    Nothing,
    /// Any number.
    Any,
    /// One of these, both included.
    Range(i32, i32),
}

impl Explorer<'_> {
    /// The hook that the program names, found in the kernel's types.
    pub(crate) fn hook(&self) -> Step<Rc<Hook>> {
        if let Some(hook) = self.types.hook.get() {
            return Ok(Rc::clone(hook));
        }
        let hook = self.find_hook()?;
        Ok(Rc::clone(self.types.hook.get_or_init(|| Rc::new(hook))))
    }

    fn find_hook(&self) -> Step<Hook> {
        if self.program_type == ProgramType::StructOps {
            return self.find_member();
        }
        let program = self.code.program;
        let named = section_program_type(&program.section).and_then(|rule| rule.hook(&program.section));
        let Some(name) = named else { return unsupported("a program whose section names no hook") };
        let Some(types) = self.types.kernel.as_deref() else { return unsupported(WITHOUT_TYPES) };
        let lsm = self.program_type == ProgramType::Lsm;
        let (full_name, raw) = match program.attach_type {
            Some(AttachType::TraceRawTp) => (format!("btf_trace_{name}"), true),
            Some(AttachType::TraceIter) => (format!("bpf_iter_{name}"), false),
            _ if lsm => (format!("bpf_lsm_{name}"), false),
            _ => (name.to_owned(), false),
        };
        let prototype = if raw { tracepoint_prototype(types, name) } else { self.types.find_function(&full_name) };
        let Some(prototype) = prototype else {
            return reject(Reason::KernelLacks, format!("this kernel has no hook {name} ({full_name})"));
        };
        let trusted = match program.attach_type {
            Some(AttachType::TraceRawTp | AttachType::TraceIter) => true,
            _ => lsm && !is_untrusted_lsm_hook(name),
        };
        Ok(Hook {
            name: name.to_owned(),
            structure: None,
            prototype,
            marks: prototype,
            skips_first: raw,
            trusted,
            tracepoint: raw_tracepoint(name).filter(|_| raw),
            iterator: iterator_target(name).filter(|_| program.attach_type == Some(AttachType::TraceIter)),
        })
    }

    /// The member of a kernel structure that a `struct_ops` program is put in.
    fn find_member(&self) -> Step<Hook> {
        let named = self.code.program.target.as_deref().and_then(|target| target.split_once('.'));
        let Some((structure, member)) = named else { return unsupported("a program in no struct_ops map") };
        let Some(types) = self.types.kernel.as_deref() else { return unsupported(WITHOUT_TYPES) };
        let lacks = |what: &str| reject(Reason::KernelLacks, format!("this kernel has {what} {structure}.{member}"));
        let registered = self.types.find_struct(&format!("bpf_struct_ops_{structure}")).is_some();
        let id = self.types.find_struct(structure).filter(|_| registered);
        let found = id.and_then(|id| types.members(id).iter().find(|known| types.text(known.name) == member));
        let Some(found) = found else { return lacks("no struct_ops member") };
        let prototype = match types.resolve(found.type_id).map(|id| types.kind(id)) {
            Some(BtfKind::Pointer { target }) => types.resolve(*target),
            _ => None,
        };
        let prototype = prototype.filter(|id| matches!(types.kind(*id), BtfKind::Prototype { .. }));
        let Some(prototype) = prototype else { return lacks("no function in") };
        if is_unsupported_member(structure, member, self.code.program.sleepable) {
            return lacks("no program for");
        }
        // The kernel's stand-in for the member has names for its parameters.
        let marks = self.types.find_function(&format!("{structure}__{member}")).unwrap_or(prototype);
        Ok(Hook {
            name: format!("{structure}.{member}"),
            structure: Some(structure.to_owned()),
            prototype,
            marks,
            skips_first: false,
            trusted: true,
            tracepoint: None,
            iterator: None,
        })
    }

    /// Whether programs on this hook may call a helper that the others of their type may, or may not.
    pub(crate) fn hook_allows(&self, helper: &str, others_may: bool) -> bool {
        if self.program_type == ProgramType::StructOps {
            return others_may && !self.hook().is_ok_and(|hook| member_refuses(&hook.name, helper));
        }
        if !matches!(self.program_type, ProgramType::Tracing | ProgramType::Lsm) {
            return others_may;
        }
        let iterator = self.code.program.attach_type == Some(AttachType::TraceIter);
        match self.hook() {
            Ok(hook) if others_may => !hook_refuses(self.program_type, iterator, &hook.name, helper),
            Ok(hook) => iterator && iterator_allows(&hook.name, helper),
            Err(_) => others_may,
        }
    }

    /// Rules of the hook that hold whatever the program does.
    pub(crate) fn check_hook(&self) -> Step<()> {
        let program = self.code.program;
        let described = section_program_type(&program.section).is_some_and(|rule| rule.target_by_btf);
        let described = described || self.program_type == ProgramType::StructOps;
        if !described || self.program_type == ProgramType::Ext || self.types.kernel.is_none() {
            return Ok(());
        }
        let hook = match self.hook() {
            Ok(hook) => hook,
            Err(fault) if matches!(*fault, Fault::Unsupported(_)) => return Ok(()),
            Err(fault) => return Err(fault),
        };
        if !matches!(self.program_type, ProgramType::Lsm | ProgramType::StructOps) {
            return Ok(());
        }
        if !self.is_gpl() {
            let name = self.program_type.name();
            return reject(Reason::GplOnly, format!("{name} programs must have a GPL-compatible license"));
        }
        if self.program_type == ProgramType::StructOps {
            return Ok(());
        }
        if is_disabled_lsm_hook(&hook.name) {
            return reject(Reason::KernelLacks, format!("programs may not be attached to the LSM hook {}", hook.name));
        }
        if program.sleepable && !is_sleepable_lsm_hook(&hook.name) {
            return reject(Reason::KernelLacks, format!("programs on the LSM hook {} may not sleep", hook.name));
        }
        Ok(())
    }

    /// What the hook lets the program return.
    pub(crate) fn hook_return(&self) -> Step<HookReturn> {
        let hook = self.hook()?;
        let Some(types) = self.types.kernel.as_deref() else { return unsupported(WITHOUT_TYPES) };
        let void = matches!(*types.kind(hook.prototype), BtfKind::Prototype { result: TypeId::VOID, .. });
        Ok(match (self.program_type, self.code.program.attach_type) {
            (ProgramType::Lsm, Some(AttachType::LsmCgroup)) if void => HookReturn::Range(1, 1),
            (ProgramType::Lsm, Some(AttachType::LsmCgroup)) => HookReturn::Range(0, 1),
            (ProgramType::Lsm, _) if void => HookReturn::Nothing,
            (ProgramType::Lsm, _) => lsm_range(&hook.name),
            _ if void => HookReturn::Nothing,
            _ => HookReturn::Any,
        })
    }

    /// A load from the array of arguments.
    pub(crate) fn load_hook_argument(&mut self, at: i64, bytes: u32) -> Step<Register> {
        let refused =
            |why: String| reject(Reason::ContextAccess, format!("load of {bytes} bytes at argument byte {at}: {why}"));
        let limit = 8 * i64::from(MAX_TRACED_ARGUMENTS);
        if !(0..limit).contains(&at) || at % 8 != 0 {
            return refused("arguments are 8 bytes each, and are loaded from their first".to_owned());
        }
        let hook = self.hook()?;
        let Some(types) = self.types.kernel.clone() else { return unsupported(WITHOUT_TYPES) };
        let BtfKind::Prototype { result, .. } = *types.kind(hook.prototype) else {
            return unsupported("a hook that is no function");
        };
        let parameters = types.parameters(hook.prototype);
        let index = argument_at(&types, parameters, result, at as u64);
        let parameters = if hook.skips_first { parameters.get(1..).unwrap_or_default() } else { parameters };
        let unknown = Register::scalar(Scalar::of_width(8 * bytes));
        let Some(parameter) = parameters.get(index) else {
            let target = match *types.kind(types.resolve(result).unwrap_or(TypeId::VOID)) {
                BtfKind::Pointer { target } => Some(target),
                _ => None,
            };
            let traces_return = self.code.program.attach_type == Some(AttachType::TraceFexit);
            if let (true, true, Some(target)) = (index == parameters.len(), traces_return, target) {
                let returned = Parameter { name: 0, type_id: result };
                return self.pointer_argument(&types, &hook, index, &returned, target);
            }
            return match self.returned_value(&types, &hook, index == parameters.len(), result) {
                Some(Some((lowest, highest))) => {
                    Ok(Register::scalar(Scalar::signed_range(i64::from(lowest), i64::from(highest))))
                }
                Some(None) => Ok(unknown),
                None => refused(format!("{} has no argument {}", hook.name, index + 1)),
            };
        };
        let plain = types.resolve(parameter.type_id).unwrap_or(TypeId::VOID);
        let target = match *types.kind(plain) {
            BtfKind::Int { .. } | BtfKind::Enum { .. } | BtfKind::Composite { .. } => return Ok(unknown),
            BtfKind::Pointer { target } => target,
            _ => return refused(format!("argument {} is neither a number nor a pointer", index + 1)),
        };
        if bytes != 8 {
            return refused(format!("argument {} is a pointer of 8 bytes", index + 1));
        }
        self.pointer_argument(&types, &hook, index, parameter, target)
    }

    /// Whether the value returned may be read behind the arguments, and its range where that is known.
    #[allow(clippy::option_option)]
    fn returned_value(&self, types: &Btf, hook: &Hook, behind: bool, result: TypeId) -> Option<Option<(i32, i32)>> {
        let plain = types.resolve(result).unwrap_or(TypeId::VOID);
        let number = matches!(types.kind(plain), BtfKind::Int { .. } | BtfKind::Enum { .. });
        match self.code.program.attach_type {
            _ if !behind => None,
            Some(AttachType::LsmMac) if number => match lsm_range(&hook.name) {
                HookReturn::Range(lowest, highest) => Some(Some((lowest, highest))),
                _ => Some(None),
            },
            Some(AttachType::LsmCgroup | AttachType::TraceFexit) if number => Some(None),
            Some(AttachType::ModifyReturn) if number => Some(None),
            _ => None,
        }
    }

    fn pointer_argument(
        &mut self,
        types: &Btf,
        hook: &Hook,
        index: usize,
        parameter: &Parameter,
        target: TypeId,
    ) -> Step<Register> {
        let special = hook
            .iterator
            .and_then(|iterator| iterator.arguments.iter().find(|(at, _)| *at == index).map(|(_, argument)| *argument));
        match special {
            Some(IteratorArgument::ReadOnlyBuffer) => {
                let buffer = Register { read_only: true, ..Register::pointer(Kind::Buffer, 0) };
                return Ok(buffer.or_null(self.fresh_id()));
            }
            Some(IteratorArgument::Buffer) => {
                return Ok(Register::pointer(Kind::Buffer, 0).or_null(self.fresh_id()));
            }
            _ => {}
        }
        let structure = types.resolve(target).unwrap_or(TypeId::VOID);
        match types.kind(structure) {
            // To the verifier, a pointer to nothing known is a number; so is one to a number.
            BtfKind::Void | BtfKind::Int { .. } => return Ok(Register::UNKNOWN),
            BtfKind::Composite { .. } => {}
            _ => {
                return reject(
                    Reason::ContextAccess,
                    format!("argument {} of {} points to no structure", index + 1, hook.name),
                );
            }
        }
        if hook.tracepoint.is_some_and(|row| row.errors.contains(&index)) {
            return Ok(Register::UNKNOWN);
        }
        let mut trust = if hook.trusted { Trust::TRUSTED } else { Trust::NONE };
        let mark = types.parameters(hook.marks).get(index).filter(|_| hook.structure.is_some()).unwrap_or(parameter);
        let mut nullable = types.text(mark.name).ends_with("__nullable")
            || hook.tracepoint.is_some_and(|row| row.nullable.contains(&index));
        match special {
            Some(IteratorArgument::Nullable) => (trust, nullable) = (Trust::NONE, true),
            Some(IteratorArgument::TrustedNullable) => (trust, nullable) = (Trust::TRUSTED, true),
            _ => {}
        }
        if let BtfKind::TypeTag { .. } = types.kind(target) {
            trust = trust.with(tag_trust(types.name(target)).without(Trust::RCU));
        }
        let mut object = self.types.kernel_type(structure);
        if hook.structure.as_deref() == Some("tcp_congestion_ops") && types.name(structure) == "sock" {
            // What controls congestion sees the whole TCP socket.
            object = self.types.kernel_struct("tcp_sock");
        }
        let pointer = Register::pointer(Kind::BtfId, object).trusted(trust);
        Ok(if nullable { pointer.or_null(self.fresh_id()) } else { pointer })
    }
}

/// What an LSM hook that returns a number may return.
fn lsm_range(name: &str) -> HookReturn {
    if is_boolean_lsm_hook(name) { HookReturn::Range(0, 1) } else { HookReturn::Range(-MAX_ERRNO, 0) }
}

/// The type of a raw tracepoint's probe: of the function that the kernel made for it, where BTF has one of that name,
/// or of the `btf_trace_` typedef, which has no names for its parameters.
fn tracepoint_prototype(types: &Btf, name: &str) -> Option<TypeId> {
    let typedef = types.find(&format!("btf_trace_{name}"), |kind| matches!(kind, BtfKind::Typedef { .. }))?;
    let made = types.find(&format!("__bpf_trace_{name}"), |kind| matches!(kind, BtfKind::Function { .. }));
    if let Some(BtfKind::Function { prototype, .. }) = made.map(|id| types.kind(id)) {
        return Some(*prototype);
    }
    let BtfKind::Pointer { target } = *types.kind(types.resolve(typedef)?) else { return None };
    let prototype = types.resolve(target)?;
    matches!(types.kind(prototype), BtfKind::Prototype { .. }).then_some(prototype)
}

/// Which parameter lies at a byte of the array; the number of them for the value returned, and more behind that.
fn argument_at(types: &Btf, parameters: &[Parameter], result: TypeId, at: u64) -> usize {
    let bytes = |id: TypeId| types.size_of(id).unwrap_or(0).next_multiple_of(8);
    let mut end = 0;
    for (index, parameter) in parameters.iter().enumerate() {
        end += bytes(parameter.type_id);
        if at < end {
            return index;
        }
    }
    if at < end + bytes(result) { parameters.len() } else { parameters.len() + 1 }
}
