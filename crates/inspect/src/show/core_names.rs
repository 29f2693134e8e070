//! CO-RE relocations in words: `type 7 0:2:1 kind 0` is `field_byte_offset of struct sock.skc.port`; and what a kernel
//! has in place of a field that it lacks.

use kiln_program::btf::{Btf, Kind, TypeId};
use kiln_program::{CoreRelocation, InsnId, Object};

use crate::input::closest;

/// Anonymous members inside one another that are searched.
const MAX_DEPTH: usize = 8;
/// Fields that are looked at; the kernel's largest structures have a few hundred.
const MAX_FIELDS: usize = 4096;

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

/// What helps an instruction that asks for a field or type that a kernel's types lack: the nearest name that they have,
/// and the test that other kernels need.
pub fn help_for_missing(object: &Object, kernel: &Btf, insn: InsnId) -> Option<String> {
    let mut nodes = object.functions.iter().flat_map(|function| &function.nodes);
    let asked = object.asked(nodes.find(|node| node.id == insn)?)?;
    let (structure, fields) = asked.split_once('.').unwrap_or((&asked, ""));
    // What follows three underscores is the author's own mark.
    let name = structure.rsplit(' ').next()?.split("___").next()?;
    let composite = |kind: &Kind| matches!(kind, Kind::Composite { .. });
    let Some(mut at) = kernel.find(name, composite) else {
        let all = kernel.own_ids().filter(|id| composite(kernel.kind(*id))).map(|id| kernel.name(id));
        let near = closest(name, all.filter(|known| !known.is_empty()));
        let meant = near.map_or(String::new(), |near| format!("did you mean `struct {near}`? "));
        return Some(format!(
            "{meant}For kernels that have it, test first: `if (bpf_core_type_exists(struct {name}))`"
        ));
    };
    let mut owner = name.to_owned();
    for field in fields.split('.').map(|field| field.split('[').next().unwrap_or(field)) {
        let known = fields_of(kernel, at);
        let Some((_, next)) = known.iter().find(|(name, _)| *name == field) else {
            let names = || known.iter().map(|(name, _)| *name);
            let bare = |name: &str| name.trim_matches('_').to_owned();
            let same = names().find(|name| bare(name) == bare(field));
            let near = same.or_else(|| closest(field, names())).or_else(|| shortened(field, names()));
            let meant = near.map_or(String::new(), |near| format!("did you mean `{near}` of struct {owner}? "));
            return Some(format!(
                "{meant}For kernels with the one or the other, test first: `if (bpf_core_field_exists(p->{field}))`"
            ));
        };
        at = value_of(kernel, *next)?;
        owner = kernel.name(at).to_owned();
    }
    None
}

/// A composite type as the fields of one: through arrays, not through pointers.
fn value_of(types: &Btf, field: TypeId) -> Option<TypeId> {
    let mut at = types.resolve(field)?;
    for _ in 0..MAX_DEPTH {
        match types.kind(at) {
            Kind::Array { element, .. } => at = types.resolve(*element)?,
            _ => return Some(at),
        }
    }
    None
}

/// The fields of a structure, those of its anonymous members among them.
fn fields_of(types: &Btf, id: TypeId) -> Vec<(&str, TypeId)> {
    let (mut found, mut open) = (Vec::new(), vec![(id, 0)]);
    while let Some((id, depth)) = open.pop() {
        for member in types.members(id) {
            match (types.text(member.name), types.resolve(member.type_id)) {
                ("", Some(inner)) if depth < MAX_DEPTH && open.len() < MAX_FIELDS => open.push((inner, depth + 1)),
                ("", _) => {}
                (name, _) => found.push((name, member.type_id)),
            }
            if found.len() >= MAX_FIELDS {
                return found;
            }
        }
    }
    found
}

/// The longest known name that a name is the long form of: `pid` for `process_id`. Both begin and end alike, and the
/// short one's letters come in the same order in the long one.
fn shortened<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let is_inside = |short: &str| {
        let mut letters = name.chars();
        short.chars().all(|letter| letters.any(|own| own == letter))
    };
    let ends = |text: &str| (text.chars().next(), text.chars().next_back());
    known
        .filter(|short| short.len() >= 3 && short.len() < name.len() && ends(short) == ends(name) && is_inside(short))
        .max_by_key(|short| short.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_form_is_found() {
        assert_eq!(shortened("process_id", ["prio", "pid", "tgid", "pd"].into_iter()), Some("pid"));
        assert_eq!(shortened("process_id", ["tgid", "comm"].into_iter()), None);
    }

    #[test]
    fn without_btf_numbers_are_shown() {
        let record =
            CoreRelocation { type_id: 7, access: "0:2:1".to_owned(), access_offset: 0, kind: 2, keeps_width: false };
        assert_eq!(describe(None, &record), "field_exists of type 7 0:2:1");
        assert_eq!(describe(None, &CoreRelocation { kind: 99, ..record }), "kind 99 of type 7 0:2:1");
    }
}
