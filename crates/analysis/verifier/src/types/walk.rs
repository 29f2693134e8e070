//! What lies at an offset of a structure.
//!
//! ```text
//!   struct task_struct {                offset 16, 8 bytes:  a pointer to css_set, by the field "cgroups"
//!       int pid;                        offset 0, 4 bytes:   a number
//!       struct css_set *cgroups;        offset 18, 8 bytes:  nothing: part of a pointer
//! ```
//!
//! Nested structures and arrays are walked into, an array of numbers is one field of its whole length, an array of
//! unknown length at the end goes on for ever. In a union of several members it is not known which is there, so what is
//! found behind one is not to be trusted.

use kiln_program::btf::{Btf, Kind as BtfKind, MAX_DEPTH, Member, TypeId};

use crate::state::Trust;

/// What an access finds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// Numbers.
    Number,
    /// A pointer to something that is not a structure.
    Address,
    /// A pointer to a structure.
    Pointer {
        /// The structure.
        target: TypeId,
        /// The field that holds it.
        field: String,
        /// What type tags and unions say of it.
        trust: Trust,
    },
    /// A structure begins there.
    Structure(TypeId),
}

/// The most levels of nesting that are followed.
const MAX_NESTING: usize = 4 * MAX_DEPTH;

/// What an access of `size` bytes at `offset` of a structure finds, walking into what is nested. `flexible`: arrays of
/// unknown length at the end may be walked into.
///
/// # Errors
/// Why the access is not allowed.
pub(crate) fn access(btf: &Btf, structure: TypeId, offset: u32, size: u32, flexible: bool) -> Result<Found, String> {
    let (mut structure, mut offset, mut trust) = (structure, offset, Trust::NONE);
    for _ in 0..MAX_NESTING {
        match step(btf, structure, offset, size, flexible, &mut trust)? {
            Found::Structure(inner) => (structure, offset) = (inner, 0),
            found => return Ok(found),
        }
    }
    Err("structures are nested too deep".to_owned())
}

/// The structure that begins at an offset of another, other than itself; none where a plain field is.
pub(crate) fn type_at(btf: &Btf, structure: TypeId, offset: u32, flexible: bool) -> Option<TypeId> {
    match step(btf, structure, offset, 1, flexible, &mut Trust::default()) {
        Ok(Found::Structure(inner)) => Some(inner),
        _ => None,
    }
}

/// A member's type with arrays taken apart: bytes of the whole, the element, and how many.
struct Shape {
    bytes: u64,
    element: TypeId,
    count: u64,
    is_array: bool,
}

fn shape(btf: &Btf, id: TypeId) -> Option<Shape> {
    let bytes = btf.size_of(id)?;
    let (mut element, mut count, mut is_array) = (btf.resolve(id)?, 1_u64, false);
    for _ in 0..MAX_DEPTH {
        match *btf.kind(element) {
            BtfKind::Array { element: inner, count: items, .. } => {
                count = count.checked_mul(u64::from(items))?;
                element = btf.resolve(inner)?;
                is_array = true;
            }
            _ => return Some(Shape { bytes, element, count, is_array }),
        }
    }
    None
}

/// One level of [`access`]: may end at a nested structure that begins exactly there.
// long: one loop over nested structures; each iteration returns or goes one level inward with all its state.
fn step(
    btf: &Btf,
    structure: TypeId,
    offset: u32,
    size: u32,
    flexible: bool,
    trust: &mut Trust,
) -> Result<Found, String> {
    let (mut structure, mut offset) = (btf.resolve(structure).unwrap_or(TypeId::VOID), u64::from(offset));
    let size = u64::from(size);
    'structure: for _ in 0..MAX_NESTING {
        let name = btf.name(structure);
        let BtfKind::Composite { union, size: whole, .. } = *btf.kind(structure) else {
            return Err(format!("type {name} is not a structure"));
        };
        let members = btf.members(structure);
        if union && members.len() != 1 {
            *trust = trust.with(Trust::UNTRUSTED);
        }
        if offset + size > u64::from(whole) {
            match past_the_end(btf, members, offset, flexible) {
                Some(Past::Number) => return Ok(Found::Number),
                Some(Past::Structure(element, within)) => {
                    (structure, offset) = (element, within);
                    continue;
                }
                None => return Err(format!("{size} bytes at offset {offset} end beyond struct {name}")),
            }
        }
        for member in members {
            let start = u64::from(member.bit_offset / 8);
            if offset + size <= start {
                break;
            }
            if let Some(bits) = member.bitfield_bits {
                let end = (u64::from(member.bit_offset) + u64::from(bits)).div_ceil(8);
                if offset <= start && end <= offset + size {
                    return Ok(Found::Number);
                }
                continue;
            }
            if offset < start {
                break;
            }
            let field = btf.text(member.name);
            let Some(shape) = shape(btf, member.type_id) else {
                return Err(format!("field {field} of struct {name} has no size"));
            };
            let end = start + shape.bytes;
            if offset >= end || shape.is_array && shape.bytes == 0 {
                continue;
            }
            let each = shape.bytes / shape.count.max(1);
            let begin = if shape.is_array && each > 0 { start + (offset - start) / each * each } else { start };
            match *btf.kind(shape.element) {
                BtfKind::Composite { .. } => {
                    if offset == begin {
                        return Ok(Found::Structure(shape.element));
                    }
                    (structure, offset) = (shape.element, offset - begin);
                    continue 'structure;
                }
                BtfKind::Pointer { target } => {
                    if each != size || offset != begin {
                        return Err(format!("{size} bytes at offset {offset} are not all of the pointer {field}"));
                    }
                    return Ok(pointer(btf, target, field, *trust));
                }
                _ => {}
            }
            if offset + size > end && !trust.has(Trust::UNTRUSTED) {
                return Err(format!("{size} bytes at offset {offset} end beyond field {field} of struct {name}"));
            }
            return Ok(Found::Number);
        }
        return Err(format!("struct {name} has no field at offset {offset}"));
    }
    Err("structures are nested too deep".to_owned())
}

fn pointer(btf: &Btf, target: TypeId, field: &str, trust: Trust) -> Found {
    let plain = btf.resolve(target).unwrap_or(TypeId::VOID);
    if !matches!(btf.kind(plain), BtfKind::Composite { .. }) {
        return Found::Address;
    }
    let tag = match btf.kind(target) {
        BtfKind::TypeTag { .. } => tag_trust(btf.name(target)),
        _ => Trust::NONE,
    };
    Found::Pointer { target: plain, field: field.to_owned(), trust: trust.with(tag) }
}

/// What a type tag on what a pointer points to says of it.
pub(crate) fn tag_trust(tag: &str) -> Trust {
    match tag {
        "user" => Trust::USER,
        "percpu" => Trust::PERCPU,
        "rcu" => Trust::RCU,
        _ => Trust::NONE,
    }
}

/// What an array of unknown length at the end of a structure holds.
enum Past {
    Number,
    /// A structure, and how far into it.
    Structure(TypeId, u64),
}

fn past_the_end(btf: &Btf, members: &[Member], offset: u64, flexible: bool) -> Option<Past> {
    let last = members.last().filter(|_| flexible)?;
    let BtfKind::Array { element, count: 0, .. } = *btf.kind(btf.resolve(last.type_id)?) else { return None };
    let within = offset.checked_sub(u64::from(last.bit_offset / 8))?;
    let element = btf.resolve(element)?;
    match *btf.kind(element) {
        BtfKind::Int { .. } => Some(Past::Number),
        BtfKind::Composite { size, .. } if size > 0 => Some(Past::Structure(element, within % u64::from(size))),
        _ => None,
    }
}
