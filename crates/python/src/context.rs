//! Contexts from Python: bytes, a `dict` by the fields of the hook's structure, or a list of words.

use kiln_platform::ProgramType;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyString};

use crate::failure::invalid;
use crate::values::plain_bytes;

/// Words in a list at most: a kprobe's registers are fewer.
const MAX_WORDS: usize = 64;
/// Where `struct xdp_md` says the packet's end, in bytes.
const XDP_END_OFFSET: usize = 4;

/// The context's bytes, as `ctx_in` of `BPF_PROG_TEST_RUN` has them.
///
/// # Errors
/// Returns `InvalidInput` for a field that the structure lacks or a value that does not fit.
pub fn bytes(context: &Bound<'_, PyAny>, program_type: ProgramType, packet_bytes: usize) -> PyResult<Vec<u8>> {
    if let Some(bytes) = plain_bytes(context) {
        return Ok(bytes);
    }
    let Ok(fields) = context.cast::<PyDict>() else { return words(context) };
    let mut out = fields_to_bytes(fields, program_type)?;
    // A test run wants the packet's length there; who sets other fields need not know that.
    if program_type == ProgramType::Xdp && !fields.contains("data_end")? {
        out.resize(out.len().max(XDP_END_OFFSET + 4), 0);
        let end = u32::try_from(packet_bytes).map_err(|_| invalid("the packet is too long"))?;
        out[XDP_END_OFFSET..XDP_END_OFFSET + 4].copy_from_slice(&end.to_ne_bytes());
    }
    Ok(out)
}

/// A list of 64-bit words: the arguments of a raw tracepoint or of `fentry`.
fn words(context: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let list = context.try_iter().map_err(|_| invalid("a context is bytes, a dict of fields, or a list of words"))?;
    let mut out = Vec::new();
    for word in list {
        if out.len() == 8 * MAX_WORDS {
            return Err(invalid(format!("a context has at most {MAX_WORDS} words")));
        }
        out.extend(integer(&word?, 8)?);
    }
    Ok(out)
}

fn integer(value: &Bound<'_, PyAny>, size: usize) -> PyResult<Vec<u8>> {
    let wrong = || invalid(format!("an integer of {size} bytes is expected"));
    let number: i128 = value.cast::<PyInt>().map_err(|_| wrong())?.extract().map_err(|_| wrong())?;
    let bits = 8 * size as u32;
    if number < -(1 << (bits - 1)) || number >= 1 << bits {
        return Err(wrong());
    }
    Ok(number.to_ne_bytes()[..size].to_vec())
}

fn fields_to_bytes(fields: &Bound<'_, PyDict>, program_type: ProgramType) -> PyResult<Vec<u8>> {
    let layout = program_type.context();
    let mut out = Vec::new();
    for (name, value) in fields {
        let name = name.cast::<PyString>().map_err(|_| invalid("names of fields are strings"))?;
        let name = name.to_str()?;
        let field = layout.fields.iter().find(|field| field.name == name).ok_or_else(|| {
            let known = layout.fields.iter().map(|field| field.name);
            let hint = kiln_inspect::input::meant(name, known);
            invalid(format!("struct {} has no field {name}{hint}", layout.struct_name))
        })?;
        let size = field.size as usize;
        let wrong = |error: PyErr| invalid(format!("{name}: {}", error.value(fields.py())));
        let bytes = match plain_bytes(&value) {
            Some(bytes) => bytes,
            None if size <= 8 => integer(&value, size).map_err(wrong)?,
            // An array of 32-bit words, such as `cb` or an address of IPv6.
            None => {
                let mut bytes = Vec::new();
                for word in value.try_iter()?.take(size / 4 + 1) {
                    bytes.extend(integer(&word?, 4).map_err(wrong)?);
                }
                bytes
            }
        };
        if bytes.len() > size {
            return Err(invalid(format!("{name} has {size} bytes")));
        }
        let from = field.offset as usize;
        out.resize(out.len().max(from + size), 0);
        out[from..from + bytes.len()].copy_from_slice(&bytes);
    }
    Ok(out)
}
