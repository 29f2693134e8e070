//! The hook that a program is put on: what it is in the kernel's types, whether the program may be on it, and what
//! the program may call and return there.

use std::rc::Rc;

use kiln_platform::{
    AttachType, Feature, ProgramType, ProgramTypes, hook_refuses, is_disabled_lsm_hook, is_never_traced,
    is_sleepable_device_hook, is_sleepable_lsm_hook, is_sleepable_tracepoint, is_unsupported_member,
    is_untrusted_lsm_hook, iterator_allows, iterator_target, member_refuses, never_returns, raw_tracepoint,
    section_program_type,
};
use kiln_program::Program;
use kiln_program::btf::{Btf, Kind as BtfKind, TypeId};

use crate::code::Code;
use crate::error::{Fault, Step, reject, unsupported};
use crate::options::Options;
use crate::reason::Reason;
use crate::types::hook::{Hook, HookReturn, lsm_range};
use crate::types::{Types, WITHOUT_TYPES};

impl Types {
    /// The hook that the program names, found in the kernel's types.
    pub(crate) fn hook(&self, code: &Code<'_>) -> Step<Rc<Hook>> {
        if let Some(hook) = self.hook.get() {
            return Ok(Rc::clone(hook));
        }
        let hook = find_hook(self, code.program, code.program_type)?;
        Ok(Rc::clone(self.hook.get_or_init(|| Rc::new(hook))))
    }

    /// Whether programs on this hook may call a helper or kernel function that the others of their type may, or may not.
    pub(crate) fn hook_allows(&self, code: &Code<'_>, helper: &str, others_may: bool) -> bool {
        if code.program_type == ProgramType::StructOps {
            return others_may && !self.hook(code).is_ok_and(|hook| member_refuses(&hook.name, helper));
        }
        if !matches!(code.program_type, ProgramType::Tracing | ProgramType::Lsm) {
            return others_may;
        }
        let iterator = code.program.attach_type == Some(AttachType::TraceIter);
        match self.hook(code) {
            Ok(hook) if others_may => !hook_refuses(code.program_type, iterator, &hook.name, helper),
            Ok(hook) => iterator && iterator_allows(&hook.name, helper),
            Err(_) => others_may,
        }
    }

    /// Rules of the hook that hold whatever the program does.
    pub(crate) fn check_hook(&self, code: &Code<'_>, options: &Options) -> Step<()> {
        let program = code.program;
        check_sleepable(program, code.program_type)?;
        let described = section_program_type(&program.section).is_some_and(|rule| rule.target_by_btf);
        let described = described || code.program_type == ProgramType::StructOps;
        if !described || program.replaces.is_some() || self.kernel.is_none() {
            return Ok(());
        }
        let hook = match self.hook(code) {
            Ok(hook) => hook,
            Err(fault) if matches!(*fault, Fault::Unsupported(_)) => return Ok(()),
            Err(fault) => return Err(fault),
        };
        let raw = program.attach_type == Some(AttachType::TraceRawTp);
        if raw && program.sleepable && !is_sleepable_tracepoint(&hook.name) {
            return reject(Reason::KernelLacks, format!("programs on the tracepoint {} may not sleep", hook.name));
        }
        let name = &hook.name;
        if on_function(program) && is_never_traced(name) {
            return reject(Reason::KernelLacks, format!("no tracing program may be put on the function {name}"));
        }
        if on_function(program) && program.attach_type != Some(AttachType::TraceFentry) && never_returns(name) {
            return reject(Reason::KernelLacks, format!("{name} does not return: the program would never run"));
        }
        if !matches!(code.program_type, ProgramType::Lsm | ProgramType::StructOps) {
            return Ok(());
        }
        if !code.is_gpl() {
            let name = code.program_type.name();
            return reject(Reason::GplOnly, format!("{name} programs must have a GPL-compatible license"));
        }
        if code.program_type == ProgramType::StructOps {
            return Ok(());
        }
        if is_disabled_lsm_hook(&hook.name) {
            return reject(Reason::KernelLacks, format!("programs may not be attached to the LSM hook {}", hook.name));
        }
        let device = options.kernel_has(Feature::SleepableDeviceHooks) && is_sleepable_device_hook(&hook.name);
        if program.sleepable && !is_sleepable_lsm_hook(&hook.name) && !device {
            return reject(Reason::KernelLacks, format!("programs on the LSM hook {} may not sleep", hook.name));
        }
        Ok(())
    }

    /// What the hook lets the program return.
    pub(crate) fn hook_return(&self, code: &Code<'_>) -> Step<HookReturn> {
        let hook = self.hook(code)?;
        let Some(types) = self.kernel.as_deref() else { return unsupported(WITHOUT_TYPES) };
        let void = matches!(*types.kind(hook.prototype), BtfKind::Prototype { result: TypeId::VOID, .. });
        Ok(match (code.program_type, code.program.attach_type) {
            (ProgramType::Lsm, Some(AttachType::LsmCgroup)) if void => HookReturn::Range(1, 1),
            (ProgramType::Lsm, Some(AttachType::LsmCgroup)) => HookReturn::Range(0, 1),
            (ProgramType::Lsm, _) if void => HookReturn::Nothing,
            (ProgramType::Lsm, _) => lsm_range(&hook.name),
            _ if void => HookReturn::Nothing,
            _ => HookReturn::Any,
        })
    }
}

/// Types of programs that may be loaded as sleepable (the kernel's `can_be_sleepable`); since when, the profile says.
const SLEEPABLE: ProgramTypes = ProgramTypes::of(&[
    ProgramType::Lsm,
    ProgramType::Kprobe,
    ProgramType::StructOps,
    ProgramType::Tracing,
    ProgramType::Tracepoint,
    ProgramType::RawTracepoint,
    ProgramType::Syscall,
]);

fn check_sleepable(program: &Program, program_type: ProgramType) -> Step<()> {
    if program.sleepable && !SLEEPABLE.contains(program_type) {
        return reject(Reason::KernelLacks, format!("{} programs may not sleep", program_type.name()));
    }
    Ok(())
}

/// Whether the program runs where a function of the kernel begins or ends.
fn on_function(program: &Program) -> bool {
    use AttachType::{ModifyReturn, TraceFentry, TraceFexit, TraceFsession};
    matches!(program.attach_type, Some(TraceFentry | TraceFexit | TraceFsession | ModifyReturn))
}

/// The hook that the program names, found in the kernel's types.
fn find_hook(kernel: &Types, program: &Program, program_type: ProgramType) -> Step<Hook> {
    if program_type == ProgramType::StructOps {
        return find_member(kernel, program);
    }
    let named = section_program_type(&program.section).and_then(|rule| rule.hook(&program.section));
    let Some(name) = named else { return unsupported("a program whose section names no hook") };
    let Some(types) = kernel.kernel.as_deref() else { return unsupported(WITHOUT_TYPES) };
    let lsm = program_type == ProgramType::Lsm;
    let (full_name, raw) = match program.attach_type {
        Some(AttachType::TraceRawTp) => (format!("btf_trace_{name}"), true),
        Some(AttachType::TraceIter) => (format!("bpf_iter_{name}"), false),
        _ if lsm => (format!("bpf_lsm_{name}"), false),
        _ => (name.to_owned(), false),
    };
    let prototype = if raw { tracepoint_prototype(types, name) } else { kernel.find_function(&full_name) };
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
fn find_member(kernel: &Types, program: &Program) -> Step<Hook> {
    let named = program.target.as_deref().and_then(|target| target.split_once('.'));
    let Some((structure, member)) = named else { return unsupported("a program in no struct_ops map") };
    let Some(types) = kernel.kernel.as_deref() else { return unsupported(WITHOUT_TYPES) };
    let lacks = |what: &str| reject(Reason::KernelLacks, format!("this kernel has {what} {structure}.{member}"));
    let registered = kernel.find_struct(&format!("bpf_struct_ops_{structure}")).is_some();
    let id = kernel.find_struct(structure).filter(|_| registered);
    let found = id.and_then(|id| types.members(id).iter().find(|known| types.text(known.name) == member));
    let Some(found) = found else { return lacks("no struct_ops member") };
    let prototype = match types.resolve(found.type_id).map(|id| types.kind(id)) {
        Some(BtfKind::Pointer { target }) => types.resolve(*target),
        _ => None,
    };
    let prototype = prototype.filter(|id| matches!(types.kind(*id), BtfKind::Prototype { .. }));
    let Some(prototype) = prototype else { return lacks("no function in") };
    if is_unsupported_member(structure, member, program.sleepable) {
        return lacks("no program for");
    }
    // The kernel's stand-in for the member has names for its parameters.
    let marks = kernel.find_function(&format!("{structure}__{member}")).unwrap_or(prototype);
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
