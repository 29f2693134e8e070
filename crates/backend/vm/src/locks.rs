//! Where the `bpf_spin_lock`s and `bpf_res_spin_lock`s of a map's values are: their types say so.

use kiln_platform::SpecialType;
use kiln_program::Map;
use kiln_program::btf::{Btf, Kind, TypeId};

/// Structures in structures at most.
const MAX_DEPTH: u32 = 8;
/// Members looked at, at most: nested structures multiply.
const MAX_MEMBERS: u32 = 10_000;
/// The types of locks.
const LOCKS: [SpecialType; 2] = [SpecialType::SpinLock, SpecialType::ResilientLock];
/// Bytes of each of them.
const LOCK_BYTES: u32 = 4;

/// The offsets of locks in a value, ascending.
pub(crate) fn of(types: Option<&Btf>, map: &Map) -> Vec<u32> {
    let mut found = Vec::new();
    if let (Some(types), true) = (types, map.value_btf != 0) {
        find(types, TypeId(map.value_btf), 0, 0, &mut found, &mut { MAX_MEMBERS });
    }
    found.sort_unstable();
    found.dedup();
    let last = map.value_size.saturating_sub(LOCK_BYTES);
    found.retain(|offset| *offset <= last && map.value_size >= LOCK_BYTES);
    found
}

fn find(types: &Btf, id: TypeId, offset: u32, depth: u32, found: &mut Vec<u32>, left: &mut u32) {
    let Some(id) = types.resolve(id).filter(|_| depth < MAX_DEPTH && *left > 0) else { return };
    *left -= 1;
    match types.kind(id) {
        Kind::Composite { .. } if LOCKS.iter().any(|lock| types.name(id) == lock.row().name) => {
            // A lock that is no word of its own is none: the verifier refuses it, too.
            if offset.is_multiple_of(LOCK_BYTES) && found.len() < LOCK_BYTES as usize * 16 {
                found.push(offset);
            }
        }
        Kind::Composite { .. } => {
            for member in types.members(id) {
                find(types, member.type_id, offset.saturating_add(member.bit_offset / 8), depth + 1, found, left);
            }
        }
        Kind::Section { .. } => {
            for variable in types.variables(id) {
                if let Kind::Variable { target, .. } = types.kind(variable.type_id) {
                    find(types, *target, offset.saturating_add(variable.offset), depth + 1, found, left);
                }
            }
        }
        _ => {}
    }
}
