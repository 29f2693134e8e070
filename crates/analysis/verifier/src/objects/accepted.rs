//! Whether the kernel takes a program's types. It refuses them all for one fault, and the loader then goes on without: maps
//! have no special fields, and no function's type is known (`btf_check_all_metas`, `btf_check_all_types`).
//!
//! Compilers make such types of parameters without a name (`__attribute__((naked))`), and of C++ and Rust types, whose names
//! have brackets.

use kiln_program::btf::{Btf, Kind, Linkage, TypeId};

use super::fields::Tables;

/// The most bytes of a name (kernel `KSYM_NAME_LEN`, since 6.1).
const MAX_NAME_BYTES: usize = 512;

impl Tables<'_> {
    /// Whether the kernel takes the program's types.
    pub(crate) fn accepted(&self) -> bool {
        let Some(btf) = self.own else { return true };
        let faulty = |id: TypeId| has_bad_name(btf, id) || has_bad_layout(btf, id);
        !btf.own_ids().any(faulty) && self.structures_accepted(btf)
    }
}

/// Letters, digits, `_` and `.`, and no digit in front (`btf_name_valid_identifier`).
fn is_identifier(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
    let first = name.bytes().next();
    first.is_some_and(|byte| !byte.is_ascii_digit()) && name.bytes().all(allowed) && name.len() <= MAX_NAME_BYTES
}

/// Whether the type, or a part of it, has a name that its kind may not have.
fn has_bad_name(btf: &Btf, id: TypeId) -> bool {
    let name = btf.get(id).map_or(0, |ty| ty.name);
    let named = |name: u32| is_identifier(btf.text(name));
    let named_if_at_all = |name: u32| name == 0 || named(name);
    let good = match btf.kind(id) {
        Kind::Void | Kind::Int { .. } | Kind::Float { .. } => true,
        Kind::Pointer { .. } | Kind::Array { .. } | Kind::Qualifier { .. } => name == 0,
        Kind::Forward { .. } | Kind::Typedef { .. } | Kind::Variable { .. } => named(name),
        Kind::Composite { .. } | Kind::Enum { .. } => named_if_at_all(name),
        Kind::TypeTag { .. } | Kind::DeclTag { .. } => !btf.text(name).is_empty(),
        Kind::Section { .. } => {
            let name = btf.text(name);
            !name.is_empty() && name.bytes().all(|byte| matches!(byte, b' '..=b'~')) && name.len() <= MAX_NAME_BYTES
        }
        // Loaders name the parameters of what is only declared.
        Kind::Function { linkage: Linkage::Extern, .. } => true,
        // The last parameter of a function with any number of them is `void`.
        Kind::Function { prototype, .. } => {
            let mut parameters = btf.parameters(*prototype).iter();
            named(name) && parameters.all(|own| !btf.text(own.name).is_empty() || own.type_id == TypeId::VOID)
        }
        Kind::Prototype { .. } => name == 0,
    };
    let parts = btf.members(id).iter().map(|member| member.name);
    let mut parts = parts.chain(btf.parameters(id).iter().map(|parameter| parameter.name));
    let mut values = btf.values(id).iter();
    !good || !parts.all(named_if_at_all) || !values.all(|value| named(value.name))
}

/// Whether the type is laid out as no type of its kind is.
fn has_bad_layout(btf: &Btf, id: TypeId) -> bool {
    match btf.kind(id) {
        Kind::Enum { size, .. } => !matches!(size, 1 | 2 | 4 | 8),
        Kind::Float { size } => !matches!(size, 2 | 4 | 8 | 12 | 16),
        Kind::Composite { union, size, .. } => {
            let members = btf.members(id);
            let falling = members.windows(2).any(|pair| pair[0].bit_offset > pair[1].bit_offset);
            let outside = |bits: u32| bits.div_ceil(8) > *size || *union && bits != 0;
            falling || members.iter().any(|member| outside(member.bit_offset) || member.type_id == TypeId::VOID)
        }
        Kind::DeclTag { target, component } => {
            let parts = match btf.kind(*target) {
                Kind::Composite { members, .. } => members.len(),
                Kind::Function { prototype, .. } => btf.parameters(*prototype).len(),
                Kind::Variable { .. } | Kind::Typedef { .. } => 0,
                _ => return true,
            };
            component.is_some_and(|component| component as usize >= parts)
        }
        _ => false,
    }
}
