//! Records and groups from the kernel, as values.

use std::net::IpAddr;
use std::sync::Arc;

use crate::generate::layout::{Record, Slot, SlotKind};
use crate::split::{COMMAND_BYTES, KernelKey, Sign};
use crate::table::{Scalar, Source, Table};
use crate::value::{DataType, Value};

/// Texts that came lately: one that comes again needs no allocation. Empty until the first one comes.
#[derive(Debug, Default)]
pub struct Texts(Vec<Option<Arc<str>>>);

/// Texts that are kept; a power of two.
const TEXTS: usize = 1 << 12;
/// Bytes of a text that is kept at most.
const KEPT_BYTES: usize = 64;

impl Texts {
    /// Text up to the first zero.
    fn get(&mut self, bytes: &[u8]) -> Value {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let own = &bytes[..end];
        if own.len() > KEPT_BYTES {
            return text(own);
        }
        if self.0.is_empty() {
            self.0.resize(TEXTS, None);
        }
        // Where texts have the same place, each takes it from the other: that is slower and changes no answer.
        let hash = own.chunks(8).fold(own.len() as u64, |hash, part| {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        });
        let kept = &mut self.0[hash as usize % TEXTS];
        match kept {
            // What is not UTF-8 differs from every text.
            Some(kept) if kept.as_bytes() == own => Value::Text(Arc::clone(kept)),
            _ => {
                let value = text(own);
                if let Value::Text(text) = &value {
                    *kept = Some(Arc::clone(text));
                }
                value
            }
        }
    }
}

/// A record of which some columns are wanted.
#[derive(Clone, Debug)]
pub struct Layout {
    tag: Option<u32>,
    /// Bytes of all its columns.
    least: usize,
    wanted: Vec<(Slot, DataType)>,
}

impl Layout {
    /// The columns of a record that are wanted, and the key of a pair.
    pub fn new(record: &Record, table: &Table, wanted: impl Fn(usize) -> bool) -> Layout {
        let end = |slot: &Slot| usize::from(slot.offset) + usize::from(slot.kind.bytes());
        let typed = |slot: &Slot| (*slot, slot.column.map_or(DataType::Uint, |column| table.columns[column].data_type));
        let own = record.slots.iter().filter(|slot| slot.column.is_none_or(&wanted));
        let least = record.slots.iter().map(end).max().unwrap_or_default();
        Layout { tag: record.tag, least, wanted: own.map(typed).collect() }
    }

    /// The hook that its records are of, if there are several.
    pub fn tag(&self) -> Option<u32> {
        self.tag
    }

    /// Copies a record's columns into a row and returns the pair's key, if it has one. `None` if the record is too short.
    pub fn read(&self, bytes: &[u8], texts: &mut Texts, row: &mut [Value]) -> Option<Option<u64>> {
        if bytes.len() < self.least {
            return None;
        }
        let mut key = None;
        for (slot, data_type) in &self.wanted {
            let value = slot_value(slot, *data_type, bytes, texts);
            match slot.column {
                Some(column) => row[column] = value,
                None => key = value.bits(),
            }
        }
        Some(key)
    }
}

/// A column's value in a record that is long enough.
fn slot_value(slot: &Slot, data_type: DataType, bytes: &[u8], texts: &mut Texts) -> Value {
    let own = &bytes[usize::from(slot.offset)..][..usize::from(slot.kind.bytes())];
    match slot.kind {
        SlotKind::Command | SlotKind::Text | SlotKind::Short(_) => texts.get(own),
        SlotKind::Bytes(_) => Value::text(&own.iter().map(|byte| char::from(*byte)).collect::<String>()),
        SlotKind::Number(scalar) => number(own, scalar, data_type),
    }
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

/// Where stacks are found by their numbers.
pub trait Stacks: Send {
    /// The functions of a stack, from the outermost to the innermost, with `;` between them.
    fn folded(&self, number: u64) -> Option<Value>;
}

/// What is shown for a stack that the kernel could not keep.
const NO_STACK: &str = "[lost]";

/// What `bpf_get_stackid` returns (`-EFAULT`) where there is nothing to keep: the kernel's stack of a thread that runs its
/// program, the user's stack of a thread of the kernel.
const NOTHING_TO_KEEP: i64 = -14;

/// The functions of a stack by its number; null if there are no stacks, as in a recording.
pub fn stack(stacks: Option<&dyn Stacks>, number: &Value) -> Value {
    match (stacks, number.as_integer()) {
        (Some(_), Some(number)) if number as i64 == NOTHING_TO_KEEP => Value::text(""),
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

/// Computes these columns, which are not read in the kernel.
pub fn derive(table: &Table, columns: &[usize], stacks: Option<&dyn Stacks>, texts: &mut Texts, row: &mut [Value]) {
    for at in columns.iter().copied() {
        row[at] = match table.columns[at].source {
            Source::Read { .. } | Source::Given => continue,
            Source::Difference([end, start]) => match (row[end].bits(), row[start].bits()) {
                (Some(end), Some(start)) => Value::Uint(end.wrapping_sub(start)),
                _ => Value::Null,
            },
            Source::Stack(of) => stack(stacks, &row[of]),
            Source::Name(halves) => match halves.map(|half| row[half].bits()) {
                [Some(first), Some(second)] => {
                    let mut name = [0; 16];
                    name[..8].copy_from_slice(&first.to_le_bytes());
                    name[8..].copy_from_slice(&second.to_le_bytes());
                    texts.get(&name)
                }
                _ => Value::Null,
            },
            Source::Port(of) => {
                row[of].bits().map_or(Value::Null, |port| Value::Uint((port as u16).swap_bytes().into()))
            }
            Source::Eighth(of) => row[of].bits().map_or(Value::Null, |bits| Value::Uint(bits >> 3)),
            Source::Int(of) => row[of].bits().map_or(Value::Null, |bits| Value::Int((bits as u32 as i32).into())),
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
                Value::Int(number) => match crate::syscall::name(number) {
                    Some(name) => texts.get(name.as_bytes()),
                    None => syscall(number),
                },
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
