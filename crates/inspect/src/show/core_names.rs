//! CO-RE relocations in words: `type 7 0:2:1 kind 0` is `field_byte_offset of struct sock.skc.port`.

use kiln_program::CoreRelocation;
use kiln_program::btf::{Btf, TypeId};

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
    let path = btf.and_then(|btf| btf.access_name(TypeId(record.type_id), &record.access)).unwrap_or_else(numbers);
    format!("{kind} of {path}")
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
