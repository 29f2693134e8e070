//! Values by their BTF types: printed, and read from JSON.
//!
//! ```text
//!   struct { __u32 packets; enum mode mode; char name[8]; }
//!   05 00 00 00 01 00 00 00 65 74 68 30 00 00 00 00  <-->  {"packets": 5, "mode": "STRICT", "name": "eth0"}
//! ```
//!
//! Bytes are little-endian, as BPF objects for this machine are.

use std::net::{Ipv4Addr, Ipv6Addr};

use kiln_program::btf::{Btf, Kind, Member, TypeId};
use serde_json::Value;

use kiln_inspect::hex::{from_hex, hex};

/// Characters that a printed value has at most; what is longer ends with dots.
const MAX_TEXT: usize = 2000;
/// Types within one another that are followed.
const MAX_DEPTH: usize = 16;
/// Bytes of the largest integer.
const WORD_BYTES: usize = 8;

/// A value as text: by its type, or in hexadecimal if there is none.
pub fn print(types: Option<&Btf>, id: u32, bytes: &[u8]) -> String {
    let mut out = String::new();
    match types {
        Some(types) if id != 0 => value(types, TypeId(id), bytes, 0, &mut out),
        _ => out = hex(bytes),
    }
    if let Some((end, _)) = out.char_indices().nth(MAX_TEXT) {
        out.truncate(end);
        out.push_str("...");
    }
    out
}

/// The integer in up to eight bytes.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().take(WORD_BYTES).rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn sign_extended(word: u64, bits: u32) -> i64 {
    let unused = 64 - bits.clamp(1, 64);
    (word << unused) as i64 >> unused
}

fn value(types: &Btf, id: TypeId, bytes: &[u8], depth: usize, out: &mut String) {
    let resolved = types.resolve(id).filter(|_| depth < MAX_DEPTH && out.len() < MAX_TEXT);
    let size = types.size_of(id).unwrap_or(u64::MAX);
    let Some((id, bytes)) = resolved.and_then(|id| Some((id, bytes.get(..usize::try_from(size).ok()?)?))) else {
        return out.push_str(&hex(&bytes[..bytes.len().min(MAX_TEXT / 2)]));
    };
    match *types.kind(id) {
        Kind::Int { boolean: true, .. } => out.push_str(if word(bytes) == 0 { "false" } else { "true" }),
        Kind::Int { size, signed, .. } if size as usize <= WORD_BYTES => out.push_str(&match signed {
            true => sign_extended(word(bytes), size * 8).to_string(),
            false => word(bytes).to_string(),
        }),
        Kind::Pointer { .. } => out.push_str(&format!("{:#x}", word(bytes))),
        Kind::Array { element, count, .. } => array(types, element, count, bytes, depth, out),
        Kind::Composite { union, .. } => {
            out.push('{');
            let members = types.members(id);
            let shown = if union { &members[..members.len().min(1)] } else { members };
            for (at, member) in shown.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                if member.name != 0 {
                    out.push_str(&format!("{}: ", types.text(member.name)));
                }
                field(types, member, bytes, depth, out);
            }
            out.push('}');
        }
        Kind::Section { .. } => {
            for (at, variable) in types.variables(id).iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                out.push_str(&format!("{}: ", types.name(variable.type_id)));
                let place = bytes.get(variable.offset as usize..).unwrap_or_default();
                match *types.kind(variable.type_id) {
                    Kind::Variable { target, .. } => value(types, target, place, depth + 1, out),
                    _ => out.push('?'),
                }
            }
        }
        Kind::Enum { size, signed, .. } => {
            let number = if signed { sign_extended(word(bytes), size * 8) as u64 } else { word(bytes) };
            match types.values(id).iter().find(|known| known.value == number) {
                Some(known) => out.push_str(types.text(known.name)),
                None => out.push_str(&(number as i64).to_string()),
            }
        }
        _ => out.push_str(&hex(bytes)),
    }
}

/// A member of a structure.
fn field(types: &Btf, member: &Member, bytes: &[u8], depth: usize, out: &mut String) {
    let (byte, bit) = ((member.bit_offset / 8) as usize, member.bit_offset % 8);
    let rest = bytes.get(byte..).unwrap_or_default();
    match member.bitfield_bits {
        Some(bits) => {
            let mask = u64::MAX >> (64 - u32::from(bits).clamp(1, 64));
            let number = word(rest) >> bit & mask;
            let signed = types
                .resolve(member.type_id)
                .is_some_and(|id| matches!(types.kind(id), Kind::Int { signed: true, .. }));
            out.push_str(&match signed {
                true => sign_extended(number, bits.into()).to_string(),
                false => number.to_string(),
            });
        }
        None => value(types, member.type_id, rest, depth + 1, out),
    }
}

fn array(types: &Btf, element: TypeId, count: u32, bytes: &[u8], depth: usize, out: &mut String) {
    let size = types.size_of(element).unwrap_or(0) as usize;
    if is_character(types, element) {
        let text = &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())];
        if text.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') {
            return out.push_str(&format!("{:?}", String::from_utf8_lossy(text)));
        }
    }
    if bytes.iter().all(|byte| *byte == 0) {
        return out.push_str(&format!("[0 x {count}]"));
    }
    out.push('[');
    for (at, part) in bytes.chunks(size.max(1)).enumerate() {
        if out.len() > MAX_TEXT {
            break;
        }
        out.push_str(if at > 0 { ", " } else { "" });
        value(types, element, part, depth + 1, out);
    }
    out.push(']');
}

fn is_character(types: &Btf, id: TypeId) -> bool {
    types.resolve(id).is_some_and(|id| types.name(id) == "char" && types.size_of(id) == Some(1))
}

/// Writes a JSON value into `out` by its type: numbers, names of enums, strings, arrays, structures by member. Without a
/// type, and where the type is no structure, also `hex:0a00`, addresses (`10.0.0.1`, `fd00::1`, `02:00:00:00:00:01`), and a
/// list of all bytes, as bpftool prints them.
///
/// # Errors
/// Returns what does not fit.
pub fn read(types: Option<&Btf>, id: u32, json: &Value, out: &mut [u8]) -> Result<(), String> {
    let types = types.filter(|_| id != 0);
    fill(types, TypeId(id), json, out, 0)
}

fn fill(types: Option<&Btf>, id: TypeId, json: &Value, out: &mut [u8], depth: usize) -> Result<(), String> {
    out.fill(0);
    if let Some(raw) = raw(json, out.len())? {
        out.copy_from_slice(&raw);
        return Ok(());
    }
    let Some((types, id)) = types.and_then(|types| Some((types, types.resolve(id)?))).filter(|_| depth < MAX_DEPTH)
    else {
        return scalar(json, out);
    };
    match (types.kind(id), json) {
        (Kind::Composite { .. }, Value::Object(fields)) => {
            fields.iter().try_for_each(|(name, json)| set_member(types, id, name, json, out, depth))
        }
        (Kind::Array { element, .. }, Value::String(text)) if is_character(types, *element) => {
            let room = out.len();
            let place = out.get_mut(..text.len()).ok_or_else(|| format!("{text:?} does not fit {room} bytes"))?;
            place.copy_from_slice(text.as_bytes());
            Ok(())
        }
        (Kind::Array { element, .. }, Value::Array(parts)) => {
            let size = types.size_of(*element).unwrap_or(0).max(1) as usize;
            if parts.len() > out.len() / size {
                return Err(format!("{} elements do not fit an array of {}", parts.len(), out.len() / size));
            }
            let places = out.chunks_mut(size);
            parts.iter().zip(places).try_for_each(|(part, place)| fill(Some(types), *element, part, place, depth + 1))
        }
        (Kind::Enum { .. }, Value::String(name)) => {
            match types.values(id).iter().find(|known| types.text(known.name) == name) {
                Some(known) => scalar(&Value::from(known.value), out),
                None => scalar(json, out),
            }
        }
        _ => scalar(json, out),
    }
}

fn set_member(types: &Btf, id: TypeId, name: &str, json: &Value, out: &mut [u8], depth: usize) -> Result<(), String> {
    let (member, offset) = find_member(types, id, name, 0).ok_or_else(|| {
        let known = types.members(id).iter().map(|member| types.text(member.name)).filter(|name| !name.is_empty());
        format!("no member {name}; there are {}", known.collect::<Vec<_>>().join(", "))
    })?;
    if member.bitfield_bits.is_some() {
        return Err(format!("{name} is a bitfield, which cannot be set by name"));
    }
    let size = types.size_of(member.type_id).unwrap_or(0) as usize;
    let place = out.get_mut(offset..).and_then(|rest| rest.get_mut(..size)).ok_or("a member lies outside")?;
    fill(Some(types), member.type_id, json, place, depth + 1).map_err(|error| format!("{name}: {error}"))
}

/// A member by name, also of members without a name, and its offset in bytes.
fn find_member(types: &Btf, id: TypeId, name: &str, depth: usize) -> Option<(Member, usize)> {
    let id = types.resolve(id).filter(|_| depth < MAX_DEPTH)?;
    types.members(id).iter().find_map(|member| {
        let offset = (member.bit_offset / 8) as usize;
        match member.name {
            0 => find_member(types, member.type_id, name, depth + 1).map(|(found, below)| (found, offset + below)),
            own => (types.text(own) == name).then_some((*member, offset)),
        }
    })
}

/// Bytes that are given as bytes: `hex:0a00`, or a list of as many strings such as `0x0a`.
fn raw(json: &Value, wanted: usize) -> Result<Option<Vec<u8>>, String> {
    let bytes: Vec<u8> = match json {
        Value::String(text) if text.starts_with("hex:") => {
            from_hex(&text["hex:".len()..]).map_err(|error| error.to_string())?
        }
        Value::Array(parts) if !parts.is_empty() => {
            let byte = |part: &Value| u8::from_str_radix(part.as_str()?.strip_prefix("0x")?, 16).ok();
            match parts.iter().map(byte).collect::<Option<Vec<u8>>>() {
                Some(bytes) => bytes,
                None => return Ok(None),
            }
        }
        _ => return Ok(None),
    };
    match bytes.len() == wanted {
        true => Ok(Some(bytes)),
        false => Err(format!("{} bytes where {wanted} are expected", bytes.len())),
    }
}

/// A number or an address.
fn scalar(json: &Value, out: &mut [u8]) -> Result<(), String> {
    let size = out.len();
    let number: Option<i128> = match json {
        Value::Number(number) => number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)),
        Value::Bool(truth) => Some(i128::from(*truth)),
        Value::String(text) => match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok().map(i128::from),
            None => text.parse::<i128>().ok(),
        },
        _ => None,
    };
    if let Some(number) = number {
        let bits = size.min(WORD_BYTES) as u32 * 8;
        if size == 0 || number < -(1 << (bits - 1)) || number >= 1 << bits {
            return Err(format!("{number} does not fit {size} bytes"));
        }
        let filled = size.min(WORD_BYTES);
        out[..filled].copy_from_slice(&number.to_le_bytes()[..filled]);
        return Ok(());
    }
    let address = json.as_str().and_then(|text| match size {
        4 => text.parse::<Ipv4Addr>().ok().map(|address| address.octets().to_vec()),
        16 => text.parse::<Ipv6Addr>().ok().map(|address| address.octets().to_vec()),
        6 => {
            let bytes = text.split(':').map(|part| u8::from_str_radix(part, 16).ok());
            bytes.collect::<Option<Vec<u8>>>().filter(|bytes| bytes.len() == 6)
        }
        _ => None,
    });
    match address {
        Some(address) => out.copy_from_slice(&address),
        None => return Err(format!("{json} is no value of {size} bytes")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_plain(json: Value, size: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0xff; size];
        read(None, 0, &json, &mut bytes).map(|()| bytes)
    }

    #[test]
    fn values_without_a_type_are_numbers_addresses_and_bytes() {
        assert_eq!(read_plain(json!(258), 4), Ok(vec![2, 1, 0, 0]));
        assert_eq!(read_plain(json!(-1), 2), Ok(vec![255, 255]));
        assert_eq!(read_plain(json!("0x0a"), 8), Ok(vec![10, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(read_plain(json!(true), 1), Ok(vec![1]));
        assert_eq!(read_plain(json!("10.0.0.1"), 4), Ok(vec![10, 0, 0, 1]));
        assert_eq!(read_plain(json!("02:00:00:00:00:0a"), 6), Ok(vec![2, 0, 0, 0, 0, 10]));
        assert_eq!(read_plain(json!("::1"), 16).map(|bytes| bytes[15]), Ok(1));
        assert_eq!(read_plain(json!("hex:0a0b"), 2), Ok(vec![10, 11]));
        assert_eq!(read_plain(json!(["0x01", "0x02"]), 2), Ok(vec![1, 2]));
        assert_eq!(read_plain(json!(u64::MAX), 8), Ok(vec![255; 8]));
        for (json, size) in
            [(json!(256), 1), (json!("x"), 4), (json!("hex:00"), 2), (json!(1), 0), (json!({}), 4), (json!(null), 1)]
        {
            assert!(read_plain(json.clone(), size).is_err(), "{json}");
        }
        assert_eq!(print(None, 0, &[1, 0xab]), "01ab");
    }
}
