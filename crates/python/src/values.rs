//! Python values and bytes, by BTF types.
//!
//! ```text
//!   struct { __u32 packets; enum mode mode; char name[8]; __u8 mac[6]; }
//!   05 00 00 00 01 00 00 00 65 74 68 30 ...  <-->  {"packets": 5, "mode": 1, "name": "eth0", "mac": b"\x02..."}
//! ```
//!
//! Integers, enums and pointers are `int`, `bool` is `bool`, arrays of `char` are `str` (`bytes` if they are not UTF-8),
//! arrays of other bytes are `bytes`, other arrays `list`, structures and unions `dict` with the members of anonymous members
//! among their own. Wherever a value is expected, `bytes` of its exact size are taken as they are. Without a type, up to
//! eight bytes are an integer when written, and `bytes` when read.

use std::cell::Cell;
use std::ops::Deref;

use kiln_program::btf::{Btf, Kind, Member, TypeId};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::failure::invalid;

/// Types within one another that are followed.
const MAX_DEPTH: usize = 16;
/// Values and members that are visited for one value.
const MAX_STEPS: u32 = 1 << 22;
/// Bytes of the largest integer that Python gets as one.
const MAX_INTEGER_BYTES: usize = 16;

/// The object's types, and the type of a value: 0 is none.
#[derive(Clone, Copy)]
pub struct Typed<'t> {
    /// The types.
    pub types: Option<&'t Btf>,
    /// The number of the type.
    pub id: u32,
}

impl Typed<'_> {
    /// The Python value of bytes.
    ///
    /// # Errors
    /// Returns Python's errors, such as too little memory.
    pub fn to_python<'py>(self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        match self.types {
            Some(types) if self.id != 0 => read(py, &Walk::of(types), TypeId(self.id), bytes, 0),
            _ => Ok(PyBytes::new(py, bytes).into_any()),
        }
    }

    /// The bytes of a Python value; `size` of them.
    ///
    /// # Errors
    /// Returns `InvalidInput` for a value that does not fit the type.
    pub fn to_bytes(self, value: &Bound<'_, PyAny>, size: usize) -> PyResult<Vec<u8>> {
        let mut out = vec![0; size];
        match self.types {
            Some(types) if self.id != 0 => write(&Walk::of(types), TypeId(self.id), value, &mut out, 0)?,
            _ => write_plain(value, &mut out)?,
        }
        Ok(out)
    }
}

/// Types that are followed for one value. Types of a hostile object may nest so that they have more members than any value
/// has bytes: the walk ends after [`MAX_STEPS`].
struct Walk<'t> {
    types: &'t Btf,
    left: Cell<u32>,
}

impl Deref for Walk<'_> {
    type Target = Btf;

    fn deref(&self) -> &Btf {
        self.types
    }
}

impl Walk<'_> {
    fn of(types: &Btf) -> Walk<'_> {
        Walk { types, left: Cell::new(MAX_STEPS) }
    }

    /// Counts a value or member.
    fn step(&self) -> PyResult<()> {
        self.left.set(self.left.get().checked_sub(1).ok_or_else(|| invalid("the type has too many members"))?);
        Ok(())
    }
}

/// The bytes of `bytes` and `bytearray`; `None` for other values.
pub fn plain_bytes(value: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    let bytes = value.cast::<PyBytes>().map(|bytes| bytes.as_bytes().to_vec());
    bytes.ok().or_else(|| value.cast::<PyByteArray>().ok().map(|bytes| bytes.to_vec()))
}

/// The integer in up to 16 bytes, sign-extended from `bits`.
fn integer(bytes: &[u8], bits: u32, signed: bool) -> i128 {
    let word = bytes.iter().take(MAX_INTEGER_BYTES).rev().fold(0_u128, |word, byte| word << 8 | u128::from(*byte));
    let unused = 128 - bits.clamp(1, 128);
    if signed { (word << unused) as i128 >> unused } else { ((word << unused) >> unused) as i128 }
}

fn read<'py>(py: Python<'py>, types: &Walk<'_>, id: TypeId, bytes: &[u8], depth: usize) -> PyResult<Bound<'py, PyAny>> {
    types.step()?;
    let raw = || Ok(PyBytes::new(py, bytes).into_any());
    let size = types.size_of(id).and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX);
    let resolved = types.resolve(id).filter(|_| depth < MAX_DEPTH);
    let (Some(id), Some(bytes)) = (resolved, bytes.get(..size)) else { return raw() };
    let bits = (8 * size.min(MAX_INTEGER_BYTES)) as u32;
    Ok(match *types.kind(id) {
        Kind::Int { boolean: true, .. } => PyBool::new(py, bytes.iter().any(|byte| *byte != 0)).to_owned().into_any(),
        // 16 unsigned bytes do not fit; they are rare, and bytes.
        Kind::Int { signed, .. } if size <= 8 || (signed && size == 16) => {
            integer(bytes, bits, signed).into_pyobject(py)?.into_any()
        }
        Kind::Enum { signed, .. } => integer(bytes, bits, signed).into_pyobject(py)?.into_any(),
        Kind::Pointer { .. } => integer(bytes, bits, false).into_pyobject(py)?.into_any(),
        Kind::Float { size: 4 } => match bytes.first_chunk() {
            Some(word) => PyFloat::new(py, f32::from_le_bytes(*word).into()).into_any(),
            None => return raw(),
        },
        Kind::Float { size: 8 } => match bytes.first_chunk() {
            Some(word) => PyFloat::new(py, f64::from_le_bytes(*word)).into_any(),
            None => return raw(),
        },
        Kind::Array { element, .. } => read_array(py, types, element, bytes, depth)?,
        Kind::Composite { .. } => {
            let into = PyDict::new(py);
            read_members(types, id, bytes, depth, &into)?;
            into.into_any()
        }
        Kind::Section { .. } => {
            let into = PyDict::new(py);
            for variable in types.variables(id) {
                if let Kind::Variable { target, .. } = *types.kind(variable.type_id) {
                    let place = bytes.get(variable.offset as usize..).unwrap_or_default();
                    into.set_item(types.name(variable.type_id), read(py, types, target, place, depth + 1)?)?;
                }
            }
            into.into_any()
        }
        _ => return raw(),
    })
}

fn read_members(types: &Walk<'_>, id: TypeId, bytes: &[u8], depth: usize, into: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = into.py();
    for member in types.members(id) {
        types.step()?;
        let (byte, bit) = ((member.bit_offset / 8) as usize, member.bit_offset % 8);
        let rest = bytes.get(byte..).unwrap_or_default();
        let name = types.text(member.name);
        match member.bitfield_bits {
            Some(_) if name.is_empty() => {}
            Some(bits) => {
                let word = integer(rest, 128, false) as u128 >> bit;
                let number = integer(&word.to_le_bytes(), bits.into(), is_signed(types, member.type_id));
                into.set_item(name, number)?;
            }
            None if name.is_empty() => {
                let inner = types.resolve(member.type_id);
                if let Some(inner) = inner.filter(|id| is_composite(types, *id) && depth < MAX_DEPTH) {
                    read_members(types, inner, rest, depth + 1, into)?;
                }
            }
            None => into.set_item(name, read(py, types, member.type_id, rest, depth + 1)?)?,
        }
    }
    Ok(())
}

fn read_array<'py>(
    py: Python<'py>,
    types: &Walk<'_>,
    element: TypeId,
    bytes: &[u8],
    depth: usize,
) -> PyResult<Bound<'py, PyAny>> {
    match types.size_of(element) {
        Some(1) if is_character(types, element) => {
            let text = &bytes[..bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len())];
            let behind = bytes[text.len()..].iter().all(|byte| *byte == 0);
            match std::str::from_utf8(text).ok().filter(|_| behind) {
                Some(text) => Ok(PyString::new(py, text).into_any()),
                None => Ok(PyBytes::new(py, bytes).into_any()),
            }
        }
        Some(1) if is_integer(types, element) => Ok(PyBytes::new(py, bytes).into_any()),
        Some(size @ 1..) => {
            let list = PyList::empty(py);
            for part in bytes.chunks(size as usize) {
                list.append(read(py, types, element, part, depth + 1)?)?;
            }
            Ok(list.into_any())
        }
        _ => Ok(PyList::empty(py).into_any()),
    }
}

fn is_character(types: &Walk<'_>, id: TypeId) -> bool {
    types.resolve(id).is_some_and(|id| types.name(id) == "char")
}

fn is_integer(types: &Walk<'_>, id: TypeId) -> bool {
    types.resolve(id).is_some_and(|id| matches!(types.kind(id), Kind::Int { boolean: false, .. }))
}

fn is_signed(types: &Walk<'_>, id: TypeId) -> bool {
    let kind = types.resolve(id).map(|id| types.kind(id));
    matches!(kind, Some(Kind::Int { signed: true, .. } | Kind::Enum { signed: true, .. }))
}

fn is_composite(types: &Walk<'_>, id: TypeId) -> bool {
    matches!(types.kind(id), Kind::Composite { .. })
}

/// Writes a value without a type: an integer of up to eight bytes, or bytes.
fn write_plain(value: &Bound<'_, PyAny>, out: &mut [u8]) -> PyResult<()> {
    if let Some(bytes) = plain_bytes(value) {
        return copy(&bytes, out);
    }
    if out.len() > 8 || !value.is_instance_of::<PyInt>() {
        return Err(invalid(format!("bytes of length {} are expected, not {}", out.len(), kind(value))));
    }
    let signed = value.lt(0)?;
    write_integer(value, 8 * out.len() as u32, signed, out)
}

fn copy(bytes: &[u8], out: &mut [u8]) -> PyResult<()> {
    if bytes.len() != out.len() {
        return Err(invalid(format!("{} bytes are given, and the value has {}", bytes.len(), out.len())));
    }
    out.copy_from_slice(bytes);
    Ok(())
}

/// What a value is, for messages.
fn kind(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "this".to_owned(), |name| name.to_string())
}

fn write(types: &Walk<'_>, id: TypeId, value: &Bound<'_, PyAny>, out: &mut [u8], depth: usize) -> PyResult<()> {
    types.step()?;
    let resolved = types.resolve(id).filter(|_| depth < MAX_DEPTH);
    let Some(id) = resolved else { return write_plain(value, out) };
    if let (Kind::Array { element, .. }, true) = (types.kind(id), plain_bytes(value).is_some()) {
        // Bytes that are shorter than an array of bytes are its beginning, as in C.
        if types.size_of(*element) == Some(1) {
            let bytes = plain_bytes(value).unwrap_or_default();
            return write_beginning(&bytes, out);
        }
    }
    if let Some(bytes) = plain_bytes(value) {
        return copy(&bytes, out);
    }
    match *types.kind(id) {
        Kind::Int { boolean: true, .. } => {
            out.fill(0);
            if let Some(first) = out.first_mut() {
                *first = value.is_truthy()?.into();
            }
            Ok(())
        }
        Kind::Int { signed, .. } => write_integer(value, 8 * out.len() as u32, signed, out),
        Kind::Enum { signed, .. } => match value.cast::<PyString>() {
            Ok(name) => write_enumerator(types, id, &name.to_string_lossy(), out),
            Err(_) => write_integer(value, 8 * out.len() as u32, signed, out),
        },
        Kind::Pointer { .. } => write_integer(value, 8 * out.len() as u32, false, out),
        Kind::Float { size: 4 } => copy(&value.extract::<f32>()?.to_le_bytes(), out),
        Kind::Float { size: 8 } => copy(&value.extract::<f64>()?.to_le_bytes(), out),
        Kind::Array { element, .. } => write_array(types, element, value, out, depth),
        Kind::Composite { .. } => write_members(types, id, value, out, depth),
        _ => write_plain(value, out),
    }
}

fn write_beginning(bytes: &[u8], out: &mut [u8]) -> PyResult<()> {
    let room = out.len();
    let place = out.get_mut(..bytes.len());
    let place = place.ok_or_else(|| invalid(format!("{} bytes do not fit an array of {room}", bytes.len())))?;
    place.copy_from_slice(bytes);
    Ok(())
}

/// Writes an integer of `bits` bits, little-endian.
fn write_integer(value: &Bound<'_, PyAny>, bits: u32, signed: bool, out: &mut [u8]) -> PyResult<()> {
    if !value.is_instance_of::<PyInt>() {
        return Err(invalid(format!("an integer is expected, not {}", kind(value))));
    }
    let bits = bits.min(128);
    let name = || format!("{}-bit {}integer", bits, if signed { "" } else { "unsigned " });
    let outside = || invalid(format!("{} does not fit an {}", text(value), name()));
    let number: i128 = match value.extract::<i128>() {
        Ok(number) => number,
        Err(_) if !signed && bits == 128 => value.extract::<u128>().map_err(|_| outside())? as i128,
        Err(_) => return Err(outside()),
    };
    let fits = match (signed, bits) {
        (_, 0) => false,
        (true, 128) => true,
        (true, _) => number >= -(1 << (bits - 1)) && number < 1 << (bits - 1),
        (false, 127..) => value.ge(0)?,
        (false, _) => number >= 0 && number < 1 << bits,
    };
    if !fits {
        return Err(outside());
    }
    let bytes = number.to_le_bytes();
    let end = out.len().min(bytes.len());
    out[..end].copy_from_slice(&bytes[..end]);
    Ok(())
}

/// A value as Python prints it, cut.
fn text(value: &Bound<'_, PyAny>) -> String {
    let text = value.repr().map_or_else(|_| "the value".to_owned(), |text| text.to_string_lossy().into_owned());
    text.chars().take(60).collect()
}

fn write_enumerator(types: &Walk<'_>, id: TypeId, name: &str, out: &mut [u8]) -> PyResult<()> {
    let known = || types.values(id).iter().map(|known| types.text(known.name));
    let Some(found) = types.values(id).iter().find(|known| types.text(known.name) == name) else {
        let listed: Vec<&str> = known().take(12).collect();
        return Err(invalid(format!("the enum has no {name}; it has {}", listed.join(", "))));
    };
    let bytes = found.value.to_le_bytes();
    let end = out.len().min(bytes.len());
    out[..end].copy_from_slice(&bytes[..end]);
    Ok(())
}

fn write_array(
    types: &Walk<'_>,
    element: TypeId,
    value: &Bound<'_, PyAny>,
    out: &mut [u8],
    depth: usize,
) -> PyResult<()> {
    if let Ok(text) = value.cast::<PyString>() {
        let text = text.to_str()?;
        if !is_character(types, element) {
            return Err(invalid("a string is for an array of char only"));
        }
        return write_beginning(text.as_bytes(), out);
    }
    let size = types.size_of(element).unwrap_or(0).max(1) as usize;
    let room = out.len() / size;
    let mut places = out.chunks_exact_mut(size);
    for part in value.try_iter().map_err(|_| invalid(format!("a list is expected, not {}", kind(value))))? {
        let place =
            places.next().ok_or_else(|| invalid(format!("the array has {room} elements, and more are given")))?;
        write(types, element, &part?, place, depth + 1)?;
    }
    Ok(())
}

fn write_members(types: &Walk<'_>, id: TypeId, value: &Bound<'_, PyAny>, out: &mut [u8], depth: usize) -> PyResult<()> {
    let fields = value.cast::<PyDict>();
    let fields = fields.map_err(|_| invalid(format!("a dict of members is expected, not {}", kind(value))))?;
    for (name, value) in fields {
        let name = name.cast::<PyString>().map_err(|_| invalid("names of members are strings"))?;
        let name = name.to_str()?;
        let (member, bit_offset) = find_member(types, id, name, 0)?.ok_or_else(|| {
            let known: Vec<&str> = types.members(id).iter().map(|member| types.text(member.name)).collect();
            let hint = kiln_inspect::input::meant(name, known.iter().copied());
            invalid(format!("there is no member {name}{hint}; there are {}", known.join(", ")))
        })?;
        let wrong = |error: PyErr| invalid(format!("{name}: {}", error.value(fields.py())));
        match member.bitfield_bits {
            Some(bits) => write_bits(&value, bit_offset, bits.into(), is_signed(types, member.type_id), out),
            None => {
                let size = types.size_of(member.type_id).unwrap_or(0) as usize;
                let from = (bit_offset / 8) as usize;
                match from.checked_add(size).and_then(|end| out.get_mut(from..end)) {
                    Some(place) => write(types, member.type_id, &value, place, depth + 1),
                    None => Err(invalid("it lies outside of the structure")),
                }
            }
        }
        .map_err(wrong)?;
    }
    Ok(())
}

fn write_bits(value: &Bound<'_, PyAny>, at: u64, bits: u32, signed: bool, out: &mut [u8]) -> PyResult<()> {
    let mut number = [0; MAX_INTEGER_BYTES];
    write_integer(value, bits, signed, &mut number)?;
    for bit in 0..u64::from(bits) {
        let (byte, shift) = (((at + bit) / 8) as usize, (at + bit) % 8);
        let set = number[(bit / 8) as usize] >> (bit % 8) & 1;
        let place = out.get_mut(byte).ok_or_else(|| invalid("it lies outside of the structure"))?;
        *place = *place & !(1 << shift) | set << shift;
    }
    Ok(())
}

/// A member by name, also of anonymous members, and the bits before it.
fn find_member(types: &Walk<'_>, id: TypeId, name: &str, depth: usize) -> PyResult<Option<(Member, u64)>> {
    let members = types.members(id);
    let own = members.iter().find(|member| !name.is_empty() && types.text(member.name) == name);
    if let Some(member) = own {
        return Ok(Some((*member, member.bit_offset.into())));
    }
    for member in members.iter().filter(|member| member.name == 0 && depth < MAX_DEPTH) {
        types.step()?;
        let inner = types.resolve(member.type_id).filter(|id| is_composite(types, *id));
        if let Some(inner) = inner
            && let Some((found, before)) = find_member(types, inner, name, depth + 1)?
        {
            return Ok(Some((found, u64::from(member.bit_offset) + before)));
        }
    }
    Ok(None)
}
