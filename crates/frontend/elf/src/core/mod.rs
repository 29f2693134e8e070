//! CO-RE: fitting an object's instructions to the types of another kernel.
//!
//! A compiled object knows where fields are in *its* idea of the kernel's structs. For marked accesses, clang records
//! the field, and a loader looks the field up in the BTF of the kernel that will run the program:
//!
//! ```text
//!   r1 = *(u32 *)(r2 + 2340)     record: byte offset of task_struct, access 0:87 (the 88th member, `pid`)
//!   target's task_struct has pid at 2504
//!   r1 = *(u32 *)(r2 + 2504)
//! ```
//!
//! The rules are libbpf's:
//! - candidates are the target's types of the same kind whose *essential* name (without a `___flavor` suffix) is the
//!   same; [`spec`] walks the access in each, by member names; those that have it must agree on the result;
//! - queries (does the field, type or enum value exist?) give 0 if nothing matches;
//! - any other relocation without a match *poisons* its instruction: it becomes a call of a helper that does not exist.
//!   So a program that guards the access with a query still loads, and one that does not is rejected.
//!
//! Resolving is for running or analysing a program against one kernel. A resolved object is no longer portable and must
//! not be passed to [`crate::ElfObject::write`], because libbpf would relocate it again.

mod spec;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use kiln_isa::{CallTarget, Imm64, Insn, Size, Source};
use kiln_program::btf::compat::{self, essential};
use kiln_program::btf::{Btf, Kind, TypeId};
use kiln_program::{CoreId, CoreRelocation, InsnId, Node, Object, Reference};

use crate::error::{Error, Result, invalid};
use spec::{Spec, Value};

/// Steps that comparing types may take for one relocation; real types need hundreds.
const STEP_LIMIT: u32 = 1 << 20;

// `enum bpf_core_relo_kind`.
const FIELD_BYTE_OFFSET: u32 = 0;
const FIELD_BYTE_SIZE: u32 = 1;
const FIELD_EXISTS: u32 = 2;
const FIELD_SIGNED: u32 = 3;
const FIELD_LSHIFT_U64: u32 = 4;
const FIELD_RSHIFT_U64: u32 = 5;
const TYPE_ID_LOCAL: u32 = CoreRelocation::TYPE_ID_LOCAL;
const TYPE_ID_TARGET: u32 = CoreRelocation::TYPE_ID_TARGET;
const TYPE_EXISTS: u32 = 8;
const TYPE_SIZE: u32 = 9;
const ENUM_VALUE_EXISTS: u32 = 10;
const ENUM_VALUE: u32 = 11;
const TYPE_MATCHES: u32 = 12;

/// What [`resolve_core`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreSummary {
    /// Instructions that got the target's value (which may be the same).
    pub patched: usize,
    /// Instructions that became a call of [`CoreRelocation::POISON_HELPER`], because the target lacks what they need.
    pub poisoned: Vec<InsnId>,
}

/// Applies every CO-RE relocation of an object for a kernel with these types. Afterwards only
/// poisoned nodes have a relocation: it says what the kernel lacks.
///
/// # Errors
/// Returns [`Error::InvalidInput`] if the object has no usable BTF, a record does not fit its instruction or types, or
/// the target's types disagree about a result. The object is then partly resolved.
pub fn resolve_core(object: &mut Object, target: &Btf) -> std::result::Result<CoreSummary, Error> {
    let name = object.name.clone();
    resolve(object, target).map_err(|fault| fault.in_file(&name))
}

fn resolve(object: &mut Object, target: &Btf) -> Result<CoreSummary> {
    let mut summary = CoreSummary::default();
    if object.core.is_empty() {
        return Ok(summary);
    }
    let Some(Ok(local)) = object.btf.as_deref().map(Btf::parse) else {
        return invalid(".BTF", 0, "CO-RE relocations need the object's own types");
    };
    let mut resolver = Resolver { local: &local, target, flavors: None, known: HashMap::new() };
    for index in 0..object.functions.len() {
        for position in 0..object.functions[index].nodes.len() {
            let node = &object.functions[index].nodes[position];
            let Some(id) = node.core else { continue };
            let Some(relocation) = object.core.get(id.index()) else { continue };
            let fail = |message: String| {
                let function = &object.functions[index];
                let place = format!("CO-RE relocation of instruction {position} of {}", function.name);
                invalid(&function.section, 0, format!("{place}: {message}"))
            };
            let patch = match resolver.patch(id, relocation) {
                Ok(patch) => patch,
                Err(message) => return fail(message),
            };
            let mut node = node.clone();
            match apply(&mut node, &patch) {
                Ok(true) => {
                    node.core = None;
                    summary.patched += 1;
                }
                Ok(false) => {
                    node.insn = Insn::Call(CallTarget::Helper(CoreRelocation::POISON_HELPER));
                    node.reference = Reference::None;
                    summary.poisoned.push(node.id);
                }
                Err(message) => return fail(message),
            }
            object.functions[index].nodes[position] = node;
        }
    }
    Ok(summary)
}

/// How to change an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Patch {
    Poison,
    /// Replace the value by the object's own types with the value by the target's types.
    Set {
        local: Value,
        target: Value,
    },
}

struct Resolver<'a> {
    local: &'a Btf,
    target: &'a Btf,
    /// The target's types with a flavor, by essential name.
    flavors: Option<HashMap<&'a str, Vec<TypeId>>>,
    known: HashMap<CoreId, Patch>,
}

impl<'a> Resolver<'a> {
    fn patch(&mut self, id: CoreId, relocation: &CoreRelocation) -> std::result::Result<Patch, String> {
        if let Some(known) = self.known.get(&id) {
            return Ok(known.clone());
        }
        let patch = self.compute(relocation)?;
        self.known.insert(id, patch.clone());
        Ok(patch)
    }

    fn compute(&mut self, relocation: &CoreRelocation) -> std::result::Result<Patch, String> {
        let kind = relocation.kind;
        if kind > TYPE_MATCHES {
            return Err(format!("kind {kind} is unknown"));
        }
        let local = Spec::parse(self.local, relocation)?;
        let own = local.value(self.local, kind)?;
        if kind == TYPE_ID_LOCAL {
            return Ok(Patch::Set { local: own.clone(), target: own });
        }
        let name = self.local.name(local.root);
        if name.is_empty() {
            return Err("the type has no name to look up".to_owned());
        }
        let mut found: Option<(Spec, Value)> = None;
        let mut steps = STEP_LIMIT;
        for candidate in self.candidates(local.root) {
            let Some(spec) = local.find_in(self.local, self.target, candidate, kind, &mut steps)? else { continue };
            let value = spec.value(self.target, kind)?;
            match &found {
                None => found = Some((spec, value)),
                Some((first, agreed)) if first.bit_offset == spec.bit_offset && agreed.number == value.number => {}
                Some(_) => return Err(format!("the kernel's types named {} disagree", essential(name))),
            }
        }
        match (found, kind) {
            (Some((_, target)), _) => Ok(Patch::Set { local: own, target }),
            (None, FIELD_EXISTS | ENUM_VALUE_EXISTS | TYPE_ID_TARGET | TYPE_EXISTS | TYPE_SIZE | TYPE_MATCHES) => {
                Ok(Patch::Set { local: own, target: Value::number(0) })
            }
            (None, _) => Ok(Patch::Poison),
        }
    }

    /// The target's candidate types for a type of the object.
    fn candidates(&mut self, local: TypeId) -> Vec<TypeId> {
        let target = self.target;
        let flavors = self.flavors.get_or_insert_with(|| {
            let mut flavors: HashMap<&str, Vec<TypeId>> = HashMap::new();
            for id in (1..target.type_count() as u32).map(TypeId) {
                let name = target.name(id);
                if essential(name).len() < name.len() {
                    flavors.entry(essential(name)).or_default().push(id);
                }
            }
            flavors
        });
        let name = essential(self.local.name(local));
        let mut ids: Vec<_> = target.named(name).chain(flavors.get(name).into_iter().flatten().copied()).collect();
        ids.retain(|id| compat::same_kind(self.local.kind(local), target.kind(*id)));
        ids
    }
}

/// Patches an instruction; `false` when it has to be poisoned.
fn apply(node: &mut Node, patch: &Patch) -> std::result::Result<bool, String> {
    let Patch::Set { local, target } = patch else { return Ok(false) };
    match &mut node.insn {
        Insn::Alu { src: Source::Imm(imm), .. } => {
            check_encoded(local, *imm as u32, local.number as u32)?;
            *imm = target.number as u32 as i32;
        }
        Insn::LoadImm64 { imm: Imm64::Value(value), .. } => {
            check_encoded(local, *value, local.number)?;
            *value = target.number;
        }
        Insn::Load { size, address, .. } | Insn::Store { size, address, .. } | Insn::Atomic { size, address, .. } => {
            check_encoded(local, i64::from(address.offset), local.number as i64)?;
            let Ok(offset) = i16::try_from(target.number) else {
                return Err(format!("an offset of {} bytes does not fit the instruction", target.number));
            };
            if !local.can_be_read_as(target) {
                return Ok(false);
            }
            if let (Some(from), Some(to)) = (local.size, target.size)
                && from != to
            {
                if u64::from(size.bytes()) != from {
                    return Err(format!("it accesses {} bytes of a field of {from}", size.bytes()));
                }
                *size = match u32::try_from(to).ok().and_then(Size::from_bytes) {
                    Some(size) => size,
                    None => return Err(format!("the field has {to} bytes now, which no instruction accesses")),
                };
            }
            address.offset = offset;
        }
        _ => return Err("it has no field that could be patched".to_owned()),
    }
    Ok(true)
}

/// The instruction must hold the value by the object's own types; otherwise the record does not belong to it.
fn check_encoded<T>(local: &Value, encoded: T, expected: T) -> std::result::Result<(), String>
where
    T: PartialEq + std::fmt::Display,
{
    if local.exact && encoded != expected {
        return Err(format!("it holds {encoded}, but the object's types say {expected}"));
    }
    Ok(())
}

/// Whether a value of one type can be loaded instead of one of the other, wider or narrower.
fn only_size_differs(local: &Kind, target: &Kind) -> bool {
    matches!(
        (local, target),
        (Kind::Pointer { .. }, Kind::Pointer { .. })
            | (Kind::Int { signed: false, .. }, Kind::Int { signed: false, .. })
    )
}
