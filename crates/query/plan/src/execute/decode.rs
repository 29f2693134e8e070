//! Records and groups from the kernel, as values.

use std::net::IpAddr;

use crate::generate::layout::{Record, Slot, SlotKind};
use crate::split::{COMMAND_BYTES, KernelKey, Sign};
use crate::table::{Scalar, Source, Table};
use crate::value::{DataType, Value};

/// A column's value in a record; `None` if the record is too short.
fn slot_value(slot: &Slot, data_type: DataType, bytes: &[u8]) -> Option<Value> {
    let at = usize::from(slot.offset);
    let own = bytes.get(at..at + usize::from(slot.kind.bytes()))?;
    Some(match slot.kind {
        SlotKind::Command | SlotKind::Text | SlotKind::Short(_) => text(own),
        SlotKind::Bytes(_) => Value::text(&own.iter().map(|byte| char::from(*byte)).collect::<String>()),
        SlotKind::Number(scalar) => number(own, scalar, data_type),
    })
}

/// Text up to the first zero.
pub fn text(bytes: &[u8]) -> Value {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Value::text(&String::from_utf8_lossy(&bytes[..end]))
}

fn number(bytes: &[u8], scalar: Scalar, data_type: DataType) -> Value {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let bits = u64::from_le_bytes(wide);
    let unused = 64 - 8 * u32::from(scalar.bytes);
    let bits = if scalar.signed { ((bits << unused) as i64 >> unused) as u64 } else { bits };
    of_bits(bits, data_type)
}

/// An integer of a type from its bits.
pub fn of_bits(bits: u64, data_type: DataType) -> Value {
    match data_type {
        DataType::Int => Value::Int(bits as i64),
        _ => Value::Uint(bits),
    }
}

/// Copies a record's columns into a row and returns the pair's key, if it has one. `None` if the record is too short.
pub fn record(layout: &Record, table: &Table, bytes: &[u8], row: &mut [Value]) -> Option<Option<u64>> {
    let mut key = None;
    for slot in &layout.slots {
        match slot.column {
            Some(column) => row[column] = slot_value(slot, table.columns[column].data_type, bytes)?,
            None => key = slot_value(slot, DataType::Uint, bytes)?.bits(),
        }
    }
    Some(key)
}

/// Where stacks are found by their numbers.
pub trait Stacks: Send {
    /// The functions of a stack, from the outermost to the innermost, with `;` between them.
    fn folded(&self, number: u64) -> Option<Value>;
}

/// What is shown for a stack that the kernel could not keep.
const NO_STACK: &str = "[lost]";

/// The functions of a stack by its number; null if there are no stacks, as in a recording.
pub fn stack(stacks: Option<&dyn Stacks>, number: &Value) -> Value {
    match (stacks, number.as_integer()) {
        (Some(stacks), Some(number)) => {
            let found = u64::try_from(number).ok().and_then(|number| stacks.folded(number));
            found.unwrap_or_else(|| Value::text(NO_STACK))
        }
        _ => Value::Null,
    }
}

/// What the value of a group's key says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Says {
    /// Itself.
    Value,
    /// The number of a system call.
    Syscall,
    /// The number of a stack.
    Stack,
}

/// Computes the columns that are not read in the kernel.
pub fn derive(table: &Table, stacks: Option<&dyn Stacks>, row: &mut [Value]) {
    for (at, column) in table.columns.iter().enumerate() {
        row[at] = match column.source {
            Source::Read { .. } | Source::Given => continue,
            Source::Difference([end, start]) => match (row[end].bits(), row[start].bits()) {
                (Some(end), Some(start)) => Value::Uint(end.wrapping_sub(start)),
                _ => Value::Null,
            },
            Source::Stack(of) => stack(stacks, &row[of]),
            Source::Name(halves) => match halves.map(|half| row[half].bits()) {
                [Some(first), Some(second)] => text(&[first.to_le_bytes(), second.to_le_bytes()].concat()),
                _ => Value::Null,
            },
            Source::Port(of) => {
                row[of].bits().map_or(Value::Null, |port| Value::Uint((port as u16).swap_bytes().into()))
            }
            Source::Eighth(of) => row[of].bits().map_or(Value::Null, |bits| Value::Uint(bits >> 3)),
            Source::Dns(part, of) => super::dns::read(part, &row[of]),
            Source::Device(of) => row[of].bits().map_or(Value::Null, |device| {
                // As the kernel has it inside: twenty bits of the minor number.
                Value::text(&format!("{}:{}", device >> 20, device & 0xf_ffff))
            }),
            Source::Line(of) => match &row[of] {
                Value::Text(text) => Value::text(text.split(['\r', '\n']).next().unwrap_or_default()),
                _ => Value::Null,
            },
            Source::Path(of) => path(&of.map(|at| &row[at])),
            Source::Address { family, v4, v6 } => {
                let bits = [family, v4, v6[0], v6[1]].map(|at| row[at].bits());
                address(bits).map_or(Value::Null, |address| Value::text(&address.to_string()))
            }
            Source::SyscallName(nr) => match row[nr] {
                Value::Int(number) => syscall(number),
                _ => Value::Null,
            },
        };
    }
}

/// The path of a file whose name and directories are these, from the inside out. The root is called `/` and is its own
/// directory; a path that does not begin there begins with `...`.
fn path(names: &[&Value; 4]) -> Value {
    let Value::Text(name) = names[0] else { return Value::Null };
    let above = names[1..].iter().map(|name| if let Value::Text(name) = name { &**name } else { "" });
    let above: Vec<&str> = above.take_while(|name| !matches!(*name, "/" | "")).collect();
    let begins = if above.len() == names.len() - 1 { ".../" } else { "/" };
    let directories: Vec<&str> = above.into_iter().rev().chain([&**name]).collect();
    match &**name {
        "" => Value::Null,
        "/" => Value::text("/"),
        _ => Value::text(&format!("{begins}{}", directories.join("/"))),
    }
}

/// The address with a family, its IPv4 form and the halves of its IPv6 form, both in network order. An IPv4 address that
/// is mapped to IPv6 is an IPv4 address.
fn address([family, v4, high, low]: [Option<u64>; 4]) -> Option<IpAddr> {
    const AF_INET: u64 = 2;
    const AF_INET6: u64 = 10;
    match family? {
        AF_INET => Some(IpAddr::from((v4? as u32).to_ne_bytes())),
        AF_INET6 => {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&high?.to_ne_bytes());
            bytes[8..].copy_from_slice(&low?.to_ne_bytes());
            Some(IpAddr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

/// The name of a system call, or its number if it has no name.
pub fn syscall(number: i64) -> Value {
    match crate::syscall::name(number) {
        Some(name) => Value::text(name),
        None => Value::text(&format!("syscall_{number}")),
    }
}

/// The keys of a group from the bytes of the map's key. `None` if it is too short.
pub fn keys(
    kernel: &[KernelKey],
    types: &[(DataType, Says)],
    stacks: Option<&dyn Stacks>,
    mut bytes: &[u8],
) -> Option<Vec<Value>> {
    let mut values = Vec::with_capacity(kernel.len());
    for (key, (data_type, says)) in kernel.iter().zip(types) {
        let length = if matches!(key, KernelKey::Text(_)) { COMMAND_BYTES } else { 8 };
        let own = bytes.get(..length)?;
        bytes = &bytes[length..];
        values.push(match key {
            KernelKey::Text(_) => text(own),
            KernelKey::Number(_, sign) => {
                let bits = u64::from_le_bytes(own.try_into().ok()?);
                match (says, sign) {
                    (Says::Syscall, _) => syscall(bits as i64),
                    (Says::Stack, _) => stack(stacks, &Value::Int(bits as i64)),
                    (Says::Value, Sign::Signed) => Value::Int(bits as i64),
                    (Says::Value, _) => of_bits(bits, *data_type),
                }
            }
        });
    }
    Some(values)
}
