//! What a program is attached to, as the kernel's BTF describes it.

use kiln_platform::{
    AttachType, IteratorTarget, ProgramType, RawTracepoint, is_boolean_lsm_hook, is_unsupported_member,
    is_untrusted_lsm_hook, iterator_target, raw_tracepoint, section_program_type,
};
use kiln_program::Program;
use kiln_program::btf::{Btf, Kind as BtfKind, Parameter, TypeId};

use super::WITHOUT_TYPES;
use crate::error::{Step, reject, unsupported};
use crate::reason::Reason;
use crate::types::Types;

/// The largest error number (kernel `MAX_ERRNO`).
const MAX_ERRNO: i32 = 4095;

/// What a program is attached to.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    /// Its name, without the kernel's prefix.
    pub name: String,
    /// Its function type in the kernel's BTF.
    pub prototype: TypeId,
    /// The kernel structure that a `struct_ops` program is put in.
    pub structure: Option<String>,
    /// What marks the parameters: their types' own names say nothing, those of a function like it do.
    pub marks: TypeId,
    /// The first parameter is the tracer's own.
    pub skips_first: bool,
    /// The arguments are what the kernel says, and stay so while the program runs.
    pub trusted: bool,
    pub tracepoint: Option<&'static RawTracepoint>,
    pub iterator: Option<&'static IteratorTarget>,
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

/// The hook that the program names, found in the kernel's types.
pub(crate) fn find_hook(kernel: &Types, program: &Program, program_type: ProgramType) -> Step<Hook> {
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

/// What an LSM hook that returns a number may return.
pub(crate) fn lsm_range(name: &str) -> HookReturn {
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
pub(crate) fn argument_at(types: &Btf, parameters: &[Parameter], result: TypeId, at: u64) -> usize {
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
