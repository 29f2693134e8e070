//! What the parameters of kernel functions ask for, by their types and the kernel's naming rules.

use kiln_platform::{Kfunc, KfuncFlag, KfuncMeaning, ProgramType, SpecialField, SpecialType};
use kiln_program::btf::{Btf, Kind as BtfKind, Parameter, TypeId};

use crate::error::{Step, unsupported};

/// What one parameter of a kfunc asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Argument {
    /// Nothing: the kernel or the compiler fills it in.
    Nothing,
    /// A number; `constant` (`__k`): one that is known.
    Number { constant: bool },
    /// A constant that says how many bytes the result points to.
    ResultBytes { read_only: bool },
    /// The context.
    Context,
    /// An object that the program allocated (`__alloc`).
    Allocated,
    /// One with a reference counter (`__refcounted_kptr`).
    Refcounted,
    /// `struct bpf_dynptr`; `uninitialized`: made by the call.
    Dynptr { uninitialized: bool },
    /// An open-coded iterator of this structure.
    Iterator(TypeId),
    /// `struct bpf_list_head`, `bpf_list_node`, `bpf_rb_root`, `bpf_rb_node`.
    Graph(SpecialType),
    /// `struct bpf_wq`, `bpf_timer`, `bpf_task_work`, `bpf_res_spin_lock`.
    Field(SpecialType),
    /// A place to keep the interrupt state (`__irq_flag`).
    InterruptFlags,
    /// A NUL-terminated constant (`__str`).
    ConstantString,
    /// A map (`__map`; since 7.3 `__const_map`).
    Map,
    /// A function of the program.
    Callback,
    /// A structure of the kernel, or memory like it, of `bytes`; `plain`: made of numbers only, so memory will do.
    Structure { id: TypeId, bytes: Option<u64>, plain: bool },
    /// Memory of that many bytes.
    Memory { bytes: Option<u64> },
    /// Memory whose size is the next argument; `constant` (`__szk`): a size that is known.
    Sized { constant: bool },
}

/// One parameter of a kfunc.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub argument: Argument,
    /// Null may be passed (`__nullable`).
    pub nullable: bool,
    /// Null may be passed, whatever the size (`__opt`).
    pub optional: bool,
}

/// What the parameter at an index asks for.
pub(crate) fn parameter(
    types: &Btf,
    kfunc: &Kfunc,
    program_type: ProgramType,
    parameters: &[Parameter],
    index: usize,
) -> Step<Taken> {
    let parameter = parameters[index];
    let name = types.text(parameter.name);
    let nullable = name.ends_with("__nullable");
    let taken = |argument| Ok(Taken { argument, nullable, optional: name.ends_with("__opt") });
    if name.ends_with("__ign") || name.ends_with("__prog") {
        return taken(Argument::Nothing);
    }
    let plain = types.resolve(parameter.type_id).unwrap_or(TypeId::VOID);
    let target = match *types.kind(plain) {
        BtfKind::Int { .. } | BtfKind::Enum { .. } => {
            return taken(match name {
                "rdonly_buf_size" => Argument::ResultBytes { read_only: true },
                "rdwr_buf_size" => Argument::ResultBytes { read_only: false },
                _ => Argument::Number { constant: name.ends_with("__k") },
            });
        }
        BtfKind::Pointer { target } => target,
        _ => return unsupported(format!("argument {} of {}", index + 1, kfunc.name)),
    };
    // Since 7.0, the functions of sessions take the context, as a `void *`.
    let of_session = matches!(kfunc.meaning, KfuncMeaning::SessionCookie | KfuncMeaning::SessionIsReturn);
    if of_session || kfunc.meaning == KfuncMeaning::CastContext || is_context_type(types, target, program_type) {
        return taken(Argument::Context);
    }
    let structure = types.resolve(target).unwrap_or(TypeId::VOID);
    let special = object(types, kfunc, index, name, structure);
    let next = parameters.get(index + 1).map_or("", |next| types.text(next.name));
    taken(special.unwrap_or_else(|| memory(types, name, structure, next)))
}

/// What a pointer asks for by its parameter's name or its structure's: something that the kernel watches over.
fn object(types: &Btf, kfunc: &Kfunc, index: usize, name: &str, structure: TypeId) -> Option<Argument> {
    if name.ends_with("__alloc") {
        return Some(Argument::Allocated);
    }
    if name.ends_with("__refcounted_kptr") {
        return Some(Argument::Refcounted);
    }
    if name.ends_with("__irq_flag") {
        return Some(Argument::InterruptFlags);
    }
    let iterates = [KfuncFlag::IteratorNew, KfuncFlag::IteratorNext, KfuncFlag::IteratorDestroy];
    if index == 0 && iterates.iter().any(|flag| kfunc.has(*flag)) || name.ends_with("__iter") {
        return Some(Argument::Iterator(structure));
    }
    if types.name(structure) == "bpf_dynptr" {
        return Some(Argument::Dynptr { uninitialized: name.ends_with("__uninit") });
    }
    match SpecialField::by_name(types.name(structure))?.kind {
        kind @ (SpecialType::ListHead | SpecialType::ListNode | SpecialType::TreeRoot | SpecialType::TreeNode) => {
            Some(Argument::Graph(kind))
        }
        SpecialType::SpinLock | SpecialType::Refcount => None,
        kind => Some(Argument::Field(kind)),
    }
}

/// What any other pointer asks for; `size` is the name of the next parameter.
fn memory(types: &Btf, name: &str, structure: TypeId, size: &str) -> Argument {
    if name.ends_with("__str") {
        return Argument::ConstantString;
    }
    if name.ends_with("__map") || name.ends_with("__const_map") {
        return Argument::Map;
    }
    if matches!(types.kind(structure), BtfKind::Prototype { .. }) {
        return Argument::Callback;
    }
    let constant = size.ends_with("__szk");
    let sized = constant || size.ends_with("__sz");
    let is_structure = matches!(types.kind(structure), BtfKind::Composite { .. });
    if sized {
        return Argument::Sized { constant };
    }
    let bytes = types.size_of(structure);
    if is_structure {
        let plain = is_plain(types, structure);
        return Argument::Structure { id: structure, bytes, plain };
    }
    Argument::Memory { bytes }
}

/// Whether a pointer to this type is one to the context of this kind of program.
fn is_context_type(types: &Btf, target: TypeId, program_type: ProgramType) -> bool {
    let typedef = types.name(types.without_qualifiers(target).unwrap_or(TypeId::VOID));
    if typedef == "bpf_user_pt_regs_t" && program_type == ProgramType::Kprobe {
        return true;
    }
    let structure = types.resolve(target).unwrap_or(TypeId::VOID);
    if !matches!(types.kind(structure), BtfKind::Composite { .. }) {
        return false;
    }
    let (name, context) = (types.name(structure), program_type.context().struct_name);
    name == context || matches!((context, name), ("__sk_buff", "sk_buff") | ("xdp_md", "xdp_buff"))
}

/// Members looked at before a structure counts as made of other things too: the kernel has none so large.
const MAX_PLAIN_MEMBERS: u32 = 4096;

/// Whether a structure is made of numbers only, so that any memory will do.
pub(crate) fn is_plain(types: &Btf, id: TypeId) -> bool {
    let mut budget = MAX_PLAIN_MEMBERS;
    is_plain_within(types, id, 0, &mut budget)
}

fn is_plain_within(types: &Btf, id: TypeId, depth: u32, budget: &mut u32) -> bool {
    let is_number = |id: TypeId| {
        let plain = types.resolve(id).unwrap_or(TypeId::VOID);
        matches!(types.kind(plain), BtfKind::Int { .. } | BtfKind::Enum { .. })
    };
    types.members(id).iter().all(|member| {
        *budget = budget.saturating_sub(1);
        let plain = types.resolve(member.type_id).unwrap_or(TypeId::VOID);
        let plain = match *types.kind(plain) {
            BtfKind::Composite { .. } => depth < 3 && is_plain_within(types, plain, depth + 1, budget),
            BtfKind::Array { element, count, .. } => count > 0 && is_number(element),
            _ => is_number(plain),
        };
        plain && *budget > 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_told_by_the_name_of_the_parameter() {
        // A header, no records, an empty string.
        let header = [0xeb9f, 1, 24, 0, 0, 0, 0, 0, 0, 0, 1, 0].map(u16::to_le_bytes).concat();
        let types = Btf::parse(&[header, vec![0]].concat()).expect("BTF");
        let asks = |name: &str| matches!(memory(&types, name, TypeId::VOID, "flags"), Argument::Map);
        assert!(asks("p__map") && asks("p__const_map"));
        assert!(!asks("map") && !asks("const_map"));
    }
}
