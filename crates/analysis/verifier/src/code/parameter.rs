//! What a parameter of a global function asks for, from its BTF type and its tags.
//!
//! ```text
//!   int count(struct __sk_buff *skb,                   the context, by the structure's name
//!             void *ctx __arg_ctx,                     the context, by its tag ("arg:ctx")
//!             struct stats *s, struct key *k __arg_nonnull,   memory of that size, which may be null or not
//!             struct task_struct *t __arg_trusted,     a structure of the kernel
//!             struct node __arena *n, u32 limit)       a pointer into the arena, a number
//! ```
//!
//! Tags are declaration tags on the function, by the parameter's place.

use kiln_platform::{AttachType, ProgramType, ProgramTypes};
use kiln_program::btf::{Btf, Kind as BtfKind, TypeId};

/// What an argument of a global function is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    Number,
    Context,
    Dynptr,
    /// Memory of that many bytes.
    Memory {
        bytes: u32,
        nullable: bool,
    },
    /// A structure of the kernel; `untrusted`: one that may point anywhere.
    Structure {
        name: String,
        nullable: bool,
        untrusted: bool,
    },
    /// Bytes that may be anywhere, only to be read.
    UntrustedBytes,
    /// A pointer into the arena, or a number.
    Arena,
    /// Nothing can be passed: the function cannot be called.
    Refused(String),
}

/// Program types whose context is an array, or any structure.
const WITHOUT_CONTEXT_NAME: ProgramTypes = ProgramTypes::of(&[
    ProgramType::Tracing,
    ProgramType::Lsm,
    ProgramType::StructOps,
    ProgramType::Tracepoint,
    ProgramType::Syscall,
    ProgramType::Ext,
]);

/// The tags of one parameter.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Tags {
    context: bool,
    trusted: bool,
    untrusted: bool,
    nonnull: bool,
    nullable: bool,
    arena: bool,
}

impl Tags {
    fn of(btf: &Btf, function: TypeId, index: usize, hook: Hook) -> Result<Tags, String> {
        let mut tags = Tags::default();
        for id in btf.own_ids() {
            match btf.kind(id) {
                BtfKind::DeclTag { target, component: Some(of) } if *target == function && *of as usize == index => {}
                _ => continue,
            }
            let Some(tag) = btf.name(id).strip_prefix("arg:") else { continue };
            match tag {
                // Older kernels see no tags. For them libbpf rewrites a context's type, if the context has a name.
                "ctx" if !hook.all_tags => tags.context = !WITHOUT_CONTEXT_NAME.contains(hook.program_type),
                _ if !hook.all_tags => {}
                "ctx" => tags.context = true,
                "trusted" => tags.trusted = true,
                "untrusted" => tags.untrusted = true,
                "nonnull" => tags.nonnull = true,
                "nullable" => tags.nullable = true,
                "arena" => tags.arena = true,
                _ => return Err(format!("no kernel knows the argument tag arg:{tag}")),
            }
        }
        Ok(tags)
    }
}

/// The program that a function belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Hook {
    pub program_type: ProgramType,
    pub attach_type: Option<AttachType>,
    /// Whether the kernel knows all tags.
    pub all_tags: bool,
    /// Whether a type may say that it is an arena pointer.
    pub arena_types: bool,
}

/// What the parameter asks for. `types` is the kernel's BTF.
pub(crate) fn parameter(
    btf: &Btf,
    types: Option<&Btf>,
    function: TypeId,
    index: usize,
    id: TypeId,
    hook: Hook,
) -> Parameter {
    match Tags::of(btf, function, index, hook) {
        Ok(tags) => tagged_parameter(btf, types, id, tags, hook).unwrap_or_else(Parameter::Refused),
        Err(message) => Parameter::Refused(message),
    }
}

fn tagged_parameter(btf: &Btf, types: Option<&Btf>, id: TypeId, tags: Tags, hook: Hook) -> Result<Parameter, String> {
    let plain = btf.resolve(id).ok_or("a type that leads nowhere")?;
    let target = match *btf.kind(plain) {
        BtfKind::Pointer { target } => target,
        _ if tags != Tags::default() => return Err("a pointer's tag on something else".to_owned()),
        BtfKind::Int { .. } | BtfKind::Enum { .. } => return Ok(Parameter::Number),
        _ => return Err("an argument that is neither number nor pointer".to_owned()),
    };
    let only = |allowed: Tags, parameter: Parameter| {
        let expected =
            Tags { nullable: tags.nullable && allowed.nullable, nonnull: tags.nonnull && allowed.nonnull, ..allowed };
        if tags == expected { Ok(parameter) } else { Err("argument tags that do not go together".to_owned()) }
    };
    let none = Tags::default();
    if hook.arena_types && tags == none && is_arena_pointer(btf, plain) {
        return Ok(Parameter::Arena);
    }
    if tags.context || is_context(btf, target, hook.program_type) {
        if tags.context {
            check_context_type(btf, target, hook)?;
        }
        return only(Tags { context: tags.context, ..none }, Parameter::Context);
    }
    let pointee = btf.resolve(target).unwrap_or(TypeId::VOID);
    if matches!(btf.kind(pointee), BtfKind::Composite { .. }) && btf.name(pointee) == "bpf_dynptr" {
        return only(none, Parameter::Dynptr);
    }
    if tags.trusted {
        let name = structure_name(btf, types, pointee)?;
        let allowed = Tags { trusted: true, untrusted: tags.untrusted, nullable: true, ..none };
        return only(allowed, Parameter::Structure { name, nullable: tags.nullable, untrusted: false });
    }
    if tags.untrusted {
        let parameter = match btf.kind(pointee) {
            BtfKind::Void | BtfKind::Int { .. } | BtfKind::Enum { .. } => Parameter::UntrustedBytes,
            _ => Parameter::Structure { name: structure_name(btf, types, pointee)?, nullable: false, untrusted: true },
        };
        return only(Tags { untrusted: true, ..none }, parameter);
    }
    if tags.arena {
        return only(Tags { arena: true, ..none }, Parameter::Arena);
    }
    match btf.size_of(target).and_then(|bytes| u32::try_from(bytes).ok()) {
        Some(bytes) if pointee != TypeId::VOID => {
            only(Tags { nonnull: true, ..none }, Parameter::Memory { bytes, nullable: !tags.nonnull })
        }
        _ => match btf.name(pointee) {
            "" => Err("an argument that points to no type with a size".to_owned()),
            name => Err(format!("an argument that points to {name:?}, whose size is not known")),
        },
    }
}

/// Whether a type is a pointer with the tag `arena`, by which compilers say what `__arena` means.
pub(crate) fn is_arena_pointer(btf: &Btf, id: TypeId) -> bool {
    let BtfKind::Pointer { target } = *btf.kind(id) else { return false };
    matches!(btf.kind(target), BtfKind::TypeTag { .. }) && btf.name(target) == "arena"
}

/// The kernel's name of a structure of the program's, which may be a flavour of it (`task_struct___old`).
fn structure_name(btf: &Btf, types: Option<&Btf>, pointee: TypeId) -> Result<String, String> {
    let name = btf.name(pointee);
    let name = name.split_once("___").map_or(name, |(name, _)| name);
    let is_structure = matches!(btf.kind(pointee), BtfKind::Composite { .. }) && !name.is_empty();
    let known = types.is_none_or(|types| types.find(name, |kind| matches!(kind, BtfKind::Composite { .. })).is_some());
    if is_structure && known { Ok(name.to_owned()) } else { Err(format!("{name:?} is no structure of the kernel")) }
}

/// The name that the kernel gives the context's structure; `None` where it has none of its own.
fn context_name(program_type: ProgramType) -> Option<&'static str> {
    match program_type {
        ProgramType::Tracepoint
        | ProgramType::Tracing
        | ProgramType::Lsm
        | ProgramType::StructOps
        | ProgramType::Syscall
        | ProgramType::LircMode2
        | ProgramType::Ext => None,
        _ => Some(program_type.context().struct_name),
    }
}

fn is_register_typedef(btf: &Btf, target: TypeId) -> bool {
    btf.without_qualifiers(target).is_some_and(|id| btf.name(id) == "bpf_user_pt_regs_t")
}

/// Whether a pointer to this type is the context, without a tag.
fn is_context(btf: &Btf, target: TypeId, program_type: ProgramType) -> bool {
    if program_type == ProgramType::Kprobe && is_register_typedef(btf, target) {
        return true;
    }
    let Some(plain) = btf.resolve(target) else { return false };
    let Some(context) = context_name(program_type) else { return false };
    let name = btf.name(plain);
    let projected = matches!((context, name), ("__sk_buff", "sk_buff") | ("xdp_md", "xdp_buff"));
    matches!(btf.kind(plain), BtfKind::Composite { .. }) && (name == context || projected)
}

/// What a parameter tagged as the context may point to.
fn check_context_type(btf: &Btf, target: TypeId, hook: Hook) -> Result<(), String> {
    use ProgramType::{
        Ext, Kprobe, Lsm, PerfEvent, RawTracepoint, RawTracepointWritable, StructOps, Syscall, Tracepoint, Tracing,
    };
    let plain = btf.resolve(target).unwrap_or(TypeId::VOID);
    let name = btf.name(plain);
    let is_structure = matches!(btf.kind(plain), BtfKind::Composite { .. });
    let is_u64 = matches!(btf.kind(plain), BtfKind::Int { .. }) && btf.size_of(plain) == Some(8);
    let special = match hook.program_type {
        Kprobe | PerfEvent => is_register_typedef(btf, target) || is_structure && name == "pt_regs",
        RawTracepoint | RawTracepointWritable | Lsm | StructOps => is_u64,
        Tracing => match hook.attach_type {
            Some(AttachType::TraceRawTp) => is_u64 || is_structure && name == "bpf_raw_tracepoint_args",
            Some(AttachType::TraceIter) => is_structure && name.starts_with("bpf_iter__"),
            _ => is_u64,
        },
        Tracepoint | Syscall | Ext => true,
        _ => false,
    };
    if special || plain == TypeId::VOID {
        return Ok(());
    }
    match context_name(hook.program_type) {
        Some(context) if is_structure && name == context => Ok(()),
        Some(context) => Err(format!("a context argument that should be `struct {context} *`")),
        None => Err("a context argument that should be `void *`".to_owned()),
    }
}
