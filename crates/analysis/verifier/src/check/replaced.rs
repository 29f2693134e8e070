//! What a `freplace` program stands for: a global function of another program.
//!
//! ```text
//!   SEC("freplace/length") int shorter(struct __sk_buff *skb)         int length(struct __sk_buff *skb)
//!     of type ext, which says nothing                        --->       called by SEC("tc") prog
//!     is verified as a function of a program of type sched_cls, and may do what such programs may
//! ```
//!
//! The kernel's `bpf_check_attach_target` and `btf_check_type_match`.

use kiln_platform::{Feature, ProgramType};
use kiln_program::btf::{Btf, Kind, Linkage, TypeId};
use kiln_program::{FunctionId, Object, Program, Replaced};

use crate::code::prepared::Prepared;
use crate::code::signature::{Effects, effects};
use crate::error::{Step, reject, unsupported};
use crate::options::Options;
use crate::path::Path;
use crate::reason::Reason;

/// An `ext` program of an object, as it stands for a function of another object's programs: what it may do depends on that.
///
/// # Errors
/// Says why it cannot.
pub fn replacing(
    own: &Prepared<'_>,
    program: &Program,
    target: &Prepared<'_>,
    function: &str,
    options: &Options,
) -> Result<Program, String> {
    let (host, at) = host(target.object, function)?;
    let program_type = host.program_type.ok_or_else(|| format!("program {} has no type", host.name))?;
    match program_type {
        ProgramType::Ext => return Err(format!("{function} is itself a function of a freplace program")),
        ProgramType::Tracing | ProgramType::Lsm | ProgramType::StructOps => {
            return Err(format!("functions of {program_type} programs cannot be replaced here"));
        }
        _ => {}
    }
    let (Some(types), Some(others)) = (&own.btf, &target.accepted_btf) else {
        return Err("both objects need BTF (clang -g)".to_owned());
    };
    let type_of = |object: &Object, id: FunctionId| TypeId(object.function(id).btf_id);
    alike((types, type_of(own.object, program.entry)), (others, type_of(target.object, at)))?;
    let code = target.lay_out(host, options).map_err(|error| error.to_string())?;
    let index = code.functions.iter().position(|routine| routine.id == at).unwrap_or(0);
    let Effects { changes_packet, may_sleep, .. } = effects(&code, program_type, options)[index];
    let replaced = Replaced { program: host.name.clone(), function: function.to_owned(), changes_packet, may_sleep };
    Ok(Program {
        program_type: Some(program_type),
        attach_type: host.attach_type,
        sleepable: host.sleepable,
        replaces: Some(replaced),
        ..program.clone()
    })
}

/// The function of that name, and a program that uses it.
fn host<'o>(object: &'o Object, function: &str) -> Result<(&'o Program, FunctionId), String> {
    let at = object.functions.iter().position(|each| each.name == function);
    let at = FunctionId(at.ok_or_else(|| format!("{} has no function {function}", object.name))? as u32);
    let uses = |program: &&Program| object.reachable_functions(program.entry).contains(&at);
    let host = object.programs.iter().find(uses);
    Ok((host.ok_or_else(|| format!("no program of {} uses {function}", object.name))?, at))
}

/// Whether a function may stand for another: what the kernel compares of their types.
fn alike(own: (&Btf, TypeId), other: (&Btf, TypeId)) -> Result<(), String> {
    let prototype = |(btf, id): (&Btf, TypeId)| match *btf.kind(id) {
        Kind::Function { prototype, linkage: Linkage::Global } => Ok(prototype),
        Kind::Function { .. } => Err(format!("{} is not a global function", btf.name(id))),
        _ => Err("a function has no type".to_owned()),
    };
    let result = |btf: &Btf, prototype: TypeId| match *btf.kind(prototype) {
        Kind::Prototype { result, .. } => Ok(btf.resolve(result).unwrap_or(TypeId::VOID)),
        _ => Err("a function has no prototype".to_owned()),
    };
    let (mine, theirs) = (prototype(own)?, prototype(other)?);
    let same_kind = |mine: TypeId, theirs: TypeId| {
        std::mem::discriminant(own.0.kind(mine)) == std::mem::discriminant(other.0.kind(theirs))
    };
    if !same_kind(result(own.0, mine)?, result(other.0, theirs)?) {
        return Err("they return different types".to_owned());
    }
    let (mine, theirs) = (own.0.parameters(mine), other.0.parameters(theirs));
    if mine.len() != theirs.len() {
        let plural = if mine.len() == 1 { "" } else { "s" };
        return Err(format!("it takes {} argument{plural}, and what it replaces takes {}", mine.len(), theirs.len()));
    }
    for (index, (mine, theirs)) in mine.iter().zip(theirs).enumerate() {
        let differs = || Err(format!("argument {} has another type than in what it replaces", index + 1));
        let plain = |btf: &Btf, id: TypeId| btf.resolve(id).unwrap_or(TypeId::VOID);
        let (mine, theirs) = (plain(own.0, mine.type_id), plain(other.0, theirs.type_id));
        match (own.0.kind(mine), other.0.kind(theirs)) {
            (Kind::Pointer { target: mine }, Kind::Pointer { target: theirs }) => {
                let name = |btf: &Btf, id: TypeId| {
                    let id = plain(btf, id);
                    matches!(btf.kind(id), Kind::Composite { union: false, .. }).then(|| btf.name(id).to_owned())
                };
                let (mine, theirs) = (name(own.0, *mine), name(other.0, *theirs));
                if mine.is_none() || mine != theirs {
                    return differs();
                }
            }
            (Kind::Int { .. } | Kind::Enum { .. }, _)
                if same_kind(mine, theirs) && own.0.size_of(mine) == other.0.size_of(theirs) => {}
            _ => return differs(),
        }
    }
    Ok(())
}

impl Path<'_> {
    /// The start of a program that replaces a function: it is given what that function takes.
    pub(crate) fn enter_replacement(&mut self, replaced: &Replaced) -> Step<()> {
        self.enter_global(0, false)?;
        self.state.global = None;
        let Some(signature) = &self.types.signatures[0] else {
            return unsupported("a freplace program without BTF");
        };
        if !self.options.kernel_has(Feature::ReplacedEffects) {
            return Ok(());
        }
        let beyond = match () {
            () if signature.changes_packet && !replaced.changes_packet => "moves packet data",
            () if signature.may_sleep && !replaced.may_sleep => "may sleep",
            () => return Ok(()),
        };
        reject(
            Reason::KernelLacks,
            format!("the program {beyond}, and {}, which it replaces, does not", replaced.function),
        )
    }
}
