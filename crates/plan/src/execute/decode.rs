//! Records and groups from the kernel, as values.

use crate::generate::layout::{Record, Slot, SlotKind};
use crate::split::{COMMAND_BYTES, KernelKey, Sign};
use crate::table::{Scalar, Source, Table};
use crate::value::{DataType, Value};

/// A column's value in a record; `None` if the record is too short.
fn slot_value(slot: &Slot, data_type: DataType, bytes: &[u8]) -> Option<Value> {
    let at = usize::from(slot.offset);
    let own = bytes.get(at..at + usize::from(slot.kind.bytes()))?;
    Some(match slot.kind {
        SlotKind::Command | SlotKind::Text => text(own),
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

/// Computes the columns that are not read in the kernel.
pub fn derive(table: &Table, row: &mut [Value]) {
    for (at, column) in table.columns.iter().enumerate() {
        row[at] = match column.source {
            Source::Read { .. } | Source::Given => continue,
            Source::Difference([end, start]) => match (row[end].bits(), row[start].bits()) {
                (Some(end), Some(start)) => Value::Uint(end.wrapping_sub(start)),
                _ => Value::Null,
            },
            Source::SyscallName(nr) => match row[nr] {
                Value::Int(number) => syscall(number),
                _ => Value::Null,
            },
        };
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
pub fn keys(kernel: &[KernelKey], types: &[(DataType, bool)], mut bytes: &[u8]) -> Option<Vec<Value>> {
    let mut values = Vec::with_capacity(kernel.len());
    for (key, (data_type, is_syscall)) in kernel.iter().zip(types) {
        let length = if matches!(key, KernelKey::Text(_)) { COMMAND_BYTES } else { 8 };
        let own = bytes.get(..length)?;
        bytes = &bytes[length..];
        values.push(match key {
            KernelKey::Text(_) => text(own),
            KernelKey::Number(_, sign) => {
                let bits = u64::from_le_bytes(own.try_into().ok()?);
                match (is_syscall, sign) {
                    (true, _) => syscall(bits as i64),
                    (false, Sign::Signed) => Value::Int(bits as i64),
                    (false, _) => of_bits(bits, *data_type),
                }
            }
        });
    }
    Some(values)
}
