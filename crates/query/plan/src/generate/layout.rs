//! The layout of the records that programs write, and the places of the values that they read.

use kiln_isa::Size;
use kiln_program::btf::{Btf, Kind, TypeId};
use serde::{Deserialize, Serialize};

use crate::later;
use crate::split::COMMAND_BYTES;
use crate::table::{Hook, PATH_BYTES, Read, Scalar, Side, Source, Table};
use crate::tables::scalar;
use crate::value::DataType;

/// A column in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Slot {
    /// The column; `None` for the key of a pair.
    pub column: Option<usize>,
    /// Bytes from the beginning of the record.
    pub offset: u16,
    /// What is there.
    pub kind: SlotKind,
}

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SlotKind {
    /// A number.
    Number(Scalar),
    /// A thread's name.
    Command,
    /// Text of [`PATH_BYTES`].
    Text,
    /// Text of so many bytes, a multiple of eight.
    Short(u16),
    /// So many bytes, whatever they are, a multiple of eight.
    Bytes(u16),
}

impl SlotKind {
    /// Bytes that it takes.
    pub const fn bytes(self) -> u16 {
        match self {
            SlotKind::Number(scalar) => scalar.bytes as u16,
            SlotKind::Command => COMMAND_BYTES as u16,
            SlotKind::Text => PATH_BYTES,
            SlotKind::Short(bytes) | SlotKind::Bytes(bytes) => bytes,
        }
    }
}

/// A record: its tag, then its slots, smallest first, each aligned.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Record {
    /// The hook it is from, if both hooks write records: its first four bytes.
    pub tag: Option<u32>,
    /// Its columns.
    pub slots: Vec<Slot>,
    /// Its size: a multiple of eight.
    pub bytes: u16,
}

/// Bytes of a tag.
pub const TAG_BYTES: u16 = 4;

impl Record {
    /// Lays out these columns.
    pub fn new(mut wanted: Vec<(Option<usize>, SlotKind)>, tag: Option<u32>) -> Record {
        wanted.sort_by_key(|(column, kind)| (kind.bytes(), *column));
        let mut bytes = if tag.is_some() { TAG_BYTES } else { 0 };
        let slot = |(column, kind): (Option<usize>, SlotKind)| {
            let offset = bytes.next_multiple_of(kind.bytes().clamp(1, 8));
            bytes = offset + kind.bytes();
            Slot { column, offset, kind }
        };
        let slots = wanted.into_iter().map(slot).collect();
        Record { tag, slots, bytes: bytes.next_multiple_of(8) }
    }

    /// Where a column is.
    pub fn slot(&self, column: Option<usize>) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.column == column)
    }
}

/// The tracepoint in a thread that ends.
pub const THREAD_ENDS: &str = "sched_process_exit";

/// Bytes of a stored beginning.
pub const fn start_bytes(start: &Record, stays: bool) -> u16 {
    if stays || start.bytes == 0 { start.bytes + 8 } else { start.bytes }
}

/// The path to a value: members to follow, as offsets, and the kind of value at the end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// Bytes to add before each load of a pointer, and before the last load.
    pub offsets: Vec<u32>,
    /// The kind of the last load.
    pub scalar: Scalar,
}

/// What a read gives.
///
/// # Errors
/// Returns a sentence that names the structure or member that this kernel lacks.
pub fn kind(read: &Read, types: &Btf) -> Result<SlotKind, String> {
    Ok(match read {
        Read::Time | Read::CgroupId | Read::Address(_) | Read::Packet(_) | Read::Task | Read::Conversation => {
            SlotKind::Number(Scalar::unsigned(8))
        }
        Read::Element(array, index) => {
            kind(array, types)?;
            kind(index, types)?;
            SlotKind::Number(Scalar::unsigned(8))
        }
        Read::Behind { from, path } => {
            kind(from, types)?;
            SlotKind::Number(behind(path, types)?.scalar)
        }
        Read::Header { bytes, .. } => SlotKind::Number(Scalar::unsigned(*bytes)),
        Read::Payload => SlotKind::Bytes(Read::PAYLOAD_BYTES),
        Read::Pid | Read::Tid | Read::Uid | Read::Cpu => SlotKind::Number(Scalar::unsigned(4)),
        Read::Command => SlotKind::Command,
        Read::UserText { address, bytes } | Read::KernelText { address, bytes } => {
            kind(address, types)?;
            if *bytes == PATH_BYTES { SlotKind::Text } else { SlotKind::Short(*bytes) }
        }
        Read::UserNumber { address: from, kind: number } | Read::Cut { of: from, kind: number, .. } => {
            kind(from, types)?;
            SlotKind::Number(*number)
        }
        Read::Sum { of, .. } => {
            of.iter().try_for_each(|(one, _)| kind(one, types).map(drop))?;
            SlotKind::Number(Scalar::unsigned(8))
        }
        Read::Part { .. } => {
            resolve(read, types)?;
            SlotKind::Number(Scalar::unsigned(8))
        }
        Read::Stack { .. } | Read::Constant(_) | Read::Cookie => SlotKind::Number(Scalar::signed(8)),
        Read::Choice { by, then, otherwise, .. } => {
            kind(by, types)?;
            kind(then, types)?;
            kind(otherwise, types)?;
            SlotKind::Number(Scalar::signed(8))
        }
        Read::FieldText { structure, name, bytes } => {
            field(structure, name, types)?;
            SlotKind::Short(*bytes)
        }
        Read::Absent(why) => return Err(why.clone()),
        Read::Argument { path, kind, .. } if path.is_empty() => SlotKind::Number(*kind),
        Read::Argument { .. } | Read::Field { .. } => SlotKind::Number(resolve(read, types)?.scalar),
    })
}

/// Looks the steps of [`Read::Behind`] up in the kernel's types.
///
/// # Errors
/// As [`kind`].
pub fn behind(path: &[Vec<(String, String)>], types: &Btf) -> Result<Resolved, String> {
    let mut resolved = Resolved { offsets: Vec::new(), scalar: Scalar::unsigned(8) };
    for step in path {
        let mut offset = 0u32;
        for (structure, member) in step {
            let (more, type_id) = field(structure, member, types)?;
            offset = offset.saturating_add(more);
            resolved.scalar = scalar(types, type_id).unwrap_or(Scalar::unsigned(8));
        }
        resolved.offsets.push(offset);
    }
    Ok(resolved)
}

/// Looks a read's members up in the kernel's types.
///
/// # Errors
/// As [`kind`].
pub fn resolve(read: &Read, types: &Btf) -> Result<Resolved, String> {
    let single;
    let path: &[(String, String)] = match read {
        Read::Argument { path, .. } => path,
        Read::Field { structure, name } => {
            single = [(structure.clone(), name.clone())];
            &single
        }
        Read::Part { member: (structure, name), skip, .. } => {
            let (offset, type_id) = field(structure, name, types)?;
            let fits = types.size_of(type_id).is_some_and(|bytes| u64::from(*skip) + 8 <= bytes);
            if !fits {
                return Err(format!("more of `{structure}.{name}`, which is shorter in this kernel"));
            }
            return Ok(Resolved { offsets: vec![offset + u32::from(*skip)], scalar: Scalar::unsigned(8) });
        }
        _ => &[],
    };
    let mut offsets = Vec::new();
    let mut found = None;
    for (structure, member) in path {
        let (offset, type_id) = field(structure, member, types)?;
        let scalar = scalar(types, type_id)
            .ok_or_else(|| format!("`{structure}.{member}` as a number, which it is not in this kernel"))?;
        offsets.push(offset);
        found = Some(scalar);
    }
    let scalar = found.ok_or("nothing is read")?;
    Ok(Resolved { offsets, scalar })
}

/// The offset in bytes and the type of a member of any type, or of an element of one: `regs[3]`.
///
/// # Errors
/// As [`kind`].
pub fn field(structure: &str, name: &str, types: &Btf) -> Result<(u32, TypeId), String> {
    let composite = types.find(structure, |kind| matches!(kind, Kind::Composite { .. }));
    let composite = composite.ok_or_else(|| format!("the structure `{structure}`, which this kernel does not have"))?;
    let found = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        Some((array, index)) => member_of(types, composite, array).and_then(|at| element_of(types, at, index)),
        None => member_of(types, composite, name),
    };
    found.ok_or_else(|| format!("the member `{name}` of `struct {structure}`, which this kernel does not have"))
}

/// The offset in bytes and the type of an element of the array at an offset.
fn element_of(types: &Btf, (offset, array): (u32, TypeId), index: &str) -> Option<(u32, TypeId)> {
    let Kind::Array { element, count, .. } = *types.kind(types.resolve(array)?) else { return None };
    let index: u32 = index.parse().ok().filter(|index| *index < count)?;
    let before = u64::from(index).checked_mul(types.size_of(element)?)?;
    Some((offset.checked_add(u32::try_from(before).ok()?)?, element))
}

/// The offset in bytes and the type of a member, in anonymous members too; no bit fields.
fn member_of(types: &Btf, composite: TypeId, name: &str) -> Option<(u32, TypeId)> {
    let mut pending = vec![(composite, 0u32, 0)];
    while let Some((id, at, depth)) = pending.pop() {
        for member in types.members(id) {
            let offset = at.checked_add(member.bit_offset / 8)?;
            match types.text(member.name) {
                own if own == name && member.bitfield_bits.is_none() => return Some((offset, member.type_id)),
                "" if depth < 8 => pending.push((types.resolve(member.type_id)?, offset, depth + 1)),
                _ => {}
            }
        }
    }
    None
}

/// Where the programs of a query find what they read.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// At the table's hooks, in the kernel with these types.
    Hooks(&'a Btf),
    /// In records of the table's smallest split. `BPF_PROG_TEST_RUN` passes them to the programs as contexts, one after
    /// the other. So the kernel's half of any split can run on recorded events.
    Records(&'a [Record]),
}

impl<'a> Origin<'a> {
    /// The record that is the context of the program at this side of a table.
    ///
    /// # Errors
    /// Returns a sentence if no record is from there.
    pub fn record(self, table: &Table, side: Side) -> Result<&'a Record, String> {
        let Origin::Records(records) = self else { return Err("these programs read at hooks".to_owned()) };
        let tag = table.is_pair().then_some(u32::from(side != Side::Enter));
        let found = records.iter().find(|record| record.tag == tag);
        found.ok_or_else(|| format!("the recording has no records of one of table `{}`'s hooks", table.name))
    }

    /// Whether the kernel has a tracepoint; recordings need none.
    pub fn has_tracepoint(self, name: &str) -> bool {
        let Origin::Hooks(types) = self else { return true };
        types.find(&format!("btf_trace_{name}"), |kind| matches!(kind, Kind::Typedef { .. })).is_some()
    }

    /// What a column's slot holds.
    ///
    /// # Errors
    /// A sentence that names what the kernel lacks, or the column that the recording lacks.
    pub fn column_kind(self, table: &Table, column: usize) -> Result<SlotKind, String> {
        match self {
            Origin::Hooks(types) => column_kind(table, column, types),
            Origin::Records(records) => {
                let slot = records.iter().find_map(|record| record.slot(Some(column)));
                let name = &table.columns[column].name;
                slot.map(|slot| slot.kind).ok_or_else(|| format!("the recording has no column `{name}`"))
            }
        }
    }
}

/// Whether the kernel has a hook.
///
/// # Errors
/// A sentence that names it.
pub fn check_hook(hook: &Hook, table: &Table, types: &Btf) -> Result<(), String> {
    let (name, found) = match hook {
        // The driver looks for the function when it attaches.
        Hook::Function { .. } | Hook::Probe { .. } | Hook::Clock { .. } => return Ok(()),
        Hook::Typed(name) | Hook::Datagram { tracepoint: name, .. } => {
            (name, types.find(&format!("btf_trace_{name}"), |kind| matches!(kind, Kind::Typedef { .. })))
        }
        Hook::Kernel { function, .. } => {
            let found = types.find(function, |kind| matches!(kind, Kind::Function { .. }));
            let lacking = || format!("table `{}` needs the function `{function}`, which this kernel lacks", table.name);
            return found.map(drop).ok_or_else(lacking);
        }
        Hook::Record { name, .. } => {
            (name, types.find(&format!("trace_event_raw_{name}"), |kind| matches!(kind, Kind::Composite { .. })))
        }
    };
    found.map(drop).ok_or_else(|| format!("table `{}` needs {}", table.name, later::lacking(name, None)))
}

/// Whether the tracepoints that a column is read at have the arguments that it is read from.
///
/// # Errors
/// A sentence that names the argument.
fn check_arguments(what: &Read, at: Side, table: &Table, types: &Btf) -> Result<(), String> {
    let Some(last) = what.last_argument() else { return Ok(()) };
    for (_, hook) in table.sides().into_iter().filter(|(side, _)| at.is_at(*side)) {
        if let Some(name) = hook.typed()
            && arguments(name, types).is_some_and(|count| usize::from(last) >= count)
        {
            return Err(later::lacking(name, Some(last)));
        }
    }
    Ok(())
}

/// How many arguments a tracepoint has, where the kernel's types say it.
fn arguments(tracepoint: &str, types: &Btf) -> Option<usize> {
    let id = types.find(&format!("btf_trace_{tracepoint}"), |kind| matches!(kind, Kind::Typedef { .. }))?;
    let Kind::Pointer { target } = *types.kind(types.resolve(id)?) else { return None };
    // The first parameter is of the kernel's own.
    types.parameters(types.resolve(target)?).len().checked_sub(1)
}

/// What a column's slot holds.
///
/// # Errors
/// A sentence that names the column and what the kernel lacks for it.
fn column_kind(table: &Table, column: usize, types: &Btf) -> Result<SlotKind, String> {
    read_kind(table, column, types).map_err(|why| format!("column `{}` needs {why}", table.columns[column].name))
}

/// What a column's slot holds.
///
/// # Errors
/// What the kernel lacks for it, as a part of a sentence.
fn read_kind(table: &Table, column: usize, types: &Btf) -> Result<SlotKind, String> {
    let Source::Read { what, at } = &table.columns[column].source else {
        return Err("no program, because it is made of others".to_owned());
    };
    check_arguments(what, *at, table, types)?;
    Ok(match kind(what, types)? {
        // The query was typed by the sign in the table.
        SlotKind::Number(scalar) => {
            let signed = table.columns[column].data_type == DataType::Int;
            SlotKind::Number(Scalar { signed, ..scalar })
        }
        text => text,
    })
}

/// The columns of a table that a kernel cannot have, each with what it lacks.
pub fn missing(table: &Table, types: &Btf) -> Vec<(usize, String)> {
    let why = |column| Some((column, read_kind(table, column, types).err()?));
    table.read_for(0..table.columns.len()).into_iter().filter_map(why).collect()
}

/// The size of a number.
pub fn size(scalar: Scalar) -> Size {
    Size::from_bytes(scalar.bytes.into()).unwrap_or(Size::B8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The registers of arm64 as its kernels have them, in an anonymous structure of an anonymous union.
    #[test]
    fn elements_of_arrays_have_places() {
        const STRUCTURE: u32 = 4 << 24;
        const UNION: u32 = 5 << 24;
        let mut strings = vec![0];
        let mut named = |name: &str| {
            let at = strings.len() as u32;
            strings.extend(name.bytes().chain([0]));
            at
        };
        let [long, regs, sp, pt_regs] = ["long", "regs", "sp", "pt_regs"].map(&mut named);
        let types: Vec<u32> = [
            // 1: an integer of 64 bits; 2: 31 of them.
            vec![long, 1 << 24, 8, 64],
            vec![0, 3 << 24, 0, 1, 1, 31],
            // 3: what has the array; 4 and 5: what has this.
            vec![0, STRUCTURE | 2, 256, regs, 2, 0, sp, 1, 248 * 8],
            vec![0, UNION | 1, 256, 0, 3, 0],
            vec![pt_regs, STRUCTURE | 1, 264, 0, 4, 64],
        ]
        .concat();
        let sizes = [types.len() as u32 * 4, types.len() as u32 * 4, strings.len() as u32];
        let mut bytes: Vec<u8> = vec![0x9f, 0xeb, 1, 0];
        [24, 0].iter().chain(&sizes).chain(&types).for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(strings);
        let types = Btf::parse(&bytes).expect("types");
        let place = |name: &str| field("pt_regs", name, &types).map(|(offset, id)| (offset, types.size_of(id)));
        assert_eq!(place("regs[0]"), Ok((8, Some(8))));
        assert_eq!(place("regs[30]"), Ok((248, Some(8))));
        assert_eq!(place("sp"), Ok((256, Some(8))));
        for name in ["regs[31]", "regs[-1]", "regs[]", "regs[0", "regs0]", "sp[0]", "[0]", "regs[4294967296]", "pc"] {
            assert!(place(name).is_err_and(|why| why.contains(&format!("`{name}`"))), "{name}");
        }
    }
}
