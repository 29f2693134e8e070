//! CO-RE relocations in words: `type 7 0:2:1 kind 0` is `field_byte_offset of struct sock.skc.port`.
//!
//! The access string counts members: its first number is an index as of an array, each further one a member of the
//! struct or union (or an element of the array) reached so far; for enums the only one is the value's index.

use kiln_program::CoreRelocation;
use kiln_program::btf::{Btf, Kind, TypeId};

/// Names of `enum bpf_core_relo_kind`, by number.
const KINDS: [&str; 13] = [
    "field_byte_offset",
    "field_byte_size",
    "field_exists",
    "field_signed",
    "field_lshift_u64",
    "field_rshift_u64",
    "type_id_local",
    "type_id_target",
    "type_exists",
    "type_size",
    "enumval_exists",
    "enumval_value",
    "type_matches",
];

/// The relocation in words; what the BTF does not tell stays a number.
pub fn describe(btf: Option<&Btf>, record: &CoreRelocation) -> String {
    let kind =
        KINDS.get(record.kind as usize).map_or_else(|| format!("kind {}", record.kind), |name| (*name).to_owned());
    let numbers = || format!("type {} {}", record.type_id, record.access);
    let path = btf.and_then(|btf| path(btf, TypeId(record.type_id), &record.access)).unwrap_or_else(numbers);
    format!("{kind} of {path}")
}

fn path(btf: &Btf, root: TypeId, access: &str) -> Option<String> {
    let mut indices = access.split(':').map(|number| number.parse::<usize>().ok());
    let first = indices.next()??;
    let mut at = btf.resolve(root)?;
    let mut text = root_name(btf, root, at);
    if let Kind::Enum { .. } = btf.kind(at) {
        let value = btf.values(at).get(first)?;
        return Some(format!("{text}.{}", btf.text(value.name)));
    }
    if first != 0 {
        text.push_str(&format!("[{first}]"));
    }
    for index in indices {
        let index = index?;
        let next = match btf.kind(at) {
            Kind::Composite { .. } => {
                let member = btf.members(at).get(index)?;
                let name = btf.text(member.name);
                // Members of an anonymous member are named as if they were the outer type's, as in C.
                if !name.is_empty() {
                    text.push_str(&format!(".{name}"));
                }
                member.type_id
            }
            Kind::Array { element, .. } => {
                text.push_str(&format!("[{index}]"));
                *element
            }
            _ => return None,
        };
        at = btf.resolve(next)?;
    }
    Some(text)
}

fn root_name(btf: &Btf, root: TypeId, resolved: TypeId) -> String {
    let keyword = match btf.kind(resolved) {
        _ if root != resolved => "",
        Kind::Composite { union: true, .. } => "union ",
        Kind::Composite { .. } => "struct ",
        Kind::Enum { .. } => "enum ",
        _ => "",
    };
    format!("{keyword}{}", btf.name(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_btf_numbers_are_shown() {
        let record =
            CoreRelocation { type_id: 7, access: "0:2:1".to_owned(), access_offset: 0, kind: 2, keeps_width: false };
        assert_eq!(describe(None, &record), "field_exists of type 7 0:2:1");
        assert_eq!(describe(None, &CoreRelocation { kind: 99, ..record }), "kind 99 of type 7 0:2:1");
    }
}
