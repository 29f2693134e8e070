//! `.kiln.ops`: marks of native operations, in a section of their own; the program does not change.
//!
//! ```text
//!   "KOPS" | u32 version, 1 | u32 bytes of strings | strings, each with a zero byte behind it
//!   record:  u32 code section (string) | u32 byte offset of the first instruction there | u64 members
//!            u32 operation (string) | u8 proof sequence | u8 operands | u16 zero | i32 operand ...
//! ```
//!
//! Bit n of `members` stands for the nth instruction from the first one (an `ld_imm64` is one instruction). Loaders
//! that do not know the section ignore it. Its contents are untrusted: [`kiln_program::operation`] checks them.

use std::collections::HashMap;

use kiln_program::{Mark, Object};

use crate::code::SLOT_BYTES;
use crate::error::{Fault, Result, invalid};
use crate::file::{ElfFile, OPERATIONS_SECTION};
use crate::read::Sources;

const MAGIC: &[u8; 4] = b"KOPS";
const VERSION: u32 = 1;
const RECORD_BYTES: usize = 24;
const HEADER_BYTES: usize = 12;
const SECTION_HEADER_BYTES: usize = 64;

/// Reads the marks of an object whose functions have been read.
pub(crate) fn read_marks(object: &Object, sources: &Sources) -> Result<Vec<Mark>> {
    let Some(index) = sources.file.section_named(OPERATIONS_SECTION) else { return Ok(Vec::new()) };
    let bytes = sources.file.data(index);
    let reader = Reader::new(bytes)?;
    let sections = sources.file.sections.iter().enumerate().rev().filter(|(_, section)| section.is_code());
    let sections: HashMap<&str, usize> = sections.map(|(index, section)| (section.name.as_str(), index)).collect();
    let mut marks = Vec::new();
    let mut at = reader.records;
    while at < bytes.len() {
        let fail = |message: &str| invalid(OPERATIONS_SECTION, at as u64, message);
        let Some(record) = bytes.get(at..at + RECORD_BYTES) else { return fail("a record is truncated") };
        let word =
            |from: usize| u32::from_le_bytes([record[from], record[from + 1], record[from + 2], record[from + 3]]);
        let members = u64::from(word(8)) | u64::from(word(12)) << 32;
        let (section, operation) = (reader.string(word(0), at)?, reader.string(word(16), at)?);
        let operands = usize::from(record[21]);
        let end = at + RECORD_BYTES + 4 * operands;
        let Some(values) = bytes.get(at + RECORD_BYTES..end) else { return fail("a record is truncated") };
        let first = sections.get(section).and_then(|section| instruction(sources, *section, word(4)));
        let Some((function, first)) = first else { return fail("a record is not about an instruction") };
        let nodes = object.functions.get(function).map_or(&[][..], |function| &function.nodes[first..]);
        let chosen: Vec<usize> = (0..64).filter(|bit| members >> bit & 1 != 0).collect();
        if chosen.first() != Some(&0) || chosen.last().is_some_and(|last| *last >= nodes.len()) {
            return fail("the members of a record are not instructions of one function");
        }
        let (values, _) = values.as_chunks::<4>();
        marks.push(Mark {
            operation: operation.to_owned(),
            form: record[20],
            operands: values.iter().map(|value| i32::from_le_bytes(*value)).collect(),
            members: chosen.into_iter().map(|bit| nodes[bit].id).collect(),
        });
        at = end;
    }
    Ok(marks)
}

/// The function and position of the instruction at a byte offset of a code section.
fn instruction(sources: &Sources, section: usize, offset: u32) -> Option<(usize, usize)> {
    let offset = u64::from(offset);
    let function = sources
        .places
        .iter()
        .position(|place| place.section == section && (place.start..place.end).contains(&offset))?;
    let slot = usize::try_from(offset / SLOT_BYTES).ok().filter(|_| offset.is_multiple_of(SLOT_BYTES))?;
    Some((function, sources.slots.get(function)?.binary_search(&slot).ok()?))
}

/// The section's strings.
struct Reader<'a> {
    strings: &'a [u8],
    records: usize,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Result<Reader<'a>> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return invalid(OPERATIONS_SECTION, 0, "the section is truncated");
        };
        let [m0, m1, m2, m3, v0, v1, v2, v3, s0, s1, s2, s3] = *header;
        if &[m0, m1, m2, m3] != MAGIC || u32::from_le_bytes([v0, v1, v2, v3]) != VERSION {
            return invalid(OPERATIONS_SECTION, 0, "the magic number or version is not that of version 1");
        }
        let length = u32::from_le_bytes([s0, s1, s2, s3]) as usize;
        match rest.get(..length) {
            Some(strings) => Ok(Reader { strings, records: HEADER_BYTES + length }),
            None => invalid(OPERATIONS_SECTION, 8, "the strings do not fit into the section"),
        }
    }

    fn string(&self, offset: u32, at: usize) -> Result<&'a str> {
        let rest = self.strings.get(offset as usize..).unwrap_or_default();
        let text = rest.iter().position(|byte| *byte == 0).and_then(|end| std::str::from_utf8(&rest[..end]).ok());
        match text {
            Some(text) => Ok(text),
            None => invalid(OPERATIONS_SECTION, at as u64, "a name is no string of the section"),
        }
    }
}

/// The section's bytes for the marks of an object whose code has been written to `file`: `written` gives the code
/// section of each function and where the function begins in it. Empty when there is no mark.
fn section_bytes(object: &Object, written: &Sources) -> Result<Vec<u8>> {
    let mut strings = Strings::default();
    let mut records = Vec::new();
    let mut homes = HashMap::new();
    for (index, function) in object.functions.iter().enumerate() {
        for (position, node) in function.nodes.iter().enumerate() {
            homes.insert(node.id, (index, position));
        }
    }
    for mark in &object.operations {
        let mismatch = |message: &str| Fault::Mismatch { message: format!("operation {}: {message}", mark.operation) };
        let places = mark.members.iter().map(|id| homes.get(id).copied());
        let Some(places) = places.collect::<Option<Vec<_>>>() else {
            return Err(mismatch("an instruction of its mark does not exist"));
        };
        let Some((function, first)) = places.first().copied() else { return Err(mismatch("its mark is empty")) };
        let mut members = 0u64;
        for (home, position) in &places {
            match position.checked_sub(first).filter(|distance| *home == function && *distance < 64) {
                Some(distance) => members |= 1 << distance,
                None => return Err(mismatch("the instructions of its mark lie too far apart")),
            }
        }
        let slot = written.slots.get(function).and_then(|slots| slots.get(first));
        let slot = slot.ok_or_else(|| mismatch("its function was not written"))?;
        let section = strings.add(written.file.section_name(written.places[function].section));
        let operation = strings.add(&mark.operation);
        records.extend(section.to_le_bytes());
        records.extend((*slot as u32 * SLOT_BYTES as u32).to_le_bytes());
        records.extend(members.to_le_bytes());
        records.extend(operation.to_le_bytes());
        records.extend([mark.form, mark.operands.len().min(255) as u8, 0, 0]);
        mark.operands.iter().take(255).for_each(|operand| records.extend(operand.to_le_bytes()));
    }
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((strings.bytes.len() as u32).to_le_bytes());
    bytes.extend(strings.bytes);
    bytes.extend(records);
    Ok(bytes)
}

#[derive(Default)]
struct Strings {
    bytes: Vec<u8>,
    known: HashMap<String, u32>,
}

impl Strings {
    fn add(&mut self, text: &str) -> u32 {
        *self.known.entry(text.to_owned()).or_insert_with(|| {
            let offset = self.bytes.len() as u32;
            self.bytes.extend(text.bytes());
            self.bytes.push(0);
            offset
        })
    }
}

/// Returns the file with the marks of `object`; `bytes` already has its code. Code, symbols and all other sections stay
/// as they are, at the same offsets.
pub(crate) fn with_marks(bytes: Vec<u8>, object: &Object) -> Result<Vec<u8>> {
    let (_, written) = crate::read::read_file(&object.name, &bytes)?;
    let contents = section_bytes(object, &written)?;
    append(bytes, &written.file, &contents)
}

/// Appends a section: its contents, the section names with its name, the section headers. If the file already has the
/// section, its header gets the place of the new contents.
fn append(mut bytes: Vec<u8>, file: &ElfFile, contents: &[u8]) -> Result<Vec<u8>> {
    let word =
        |bytes: &[u8], at: usize| bytes.get(at..at + 8).map(|it| u64::from_le_bytes(it.try_into().unwrap_or_default()));
    let half =
        |bytes: &[u8], at: usize| bytes.get(at..at + 2).map(|it| usize::from(u16::from_le_bytes([it[0], it[1]])));
    let truncated =
        || Fault::Invalid { section: String::new(), offset: 0, message: "the header is truncated".to_owned() };
    let table = word(&bytes, 40).and_then(|at| usize::try_from(at).ok()).ok_or_else(truncated)?;
    let (count, names) = half(&bytes, 60).zip(half(&bytes, 62)).ok_or_else(truncated)?;
    let end = count.checked_mul(SECTION_HEADER_BYTES).and_then(|size| table.checked_add(size)).ok_or_else(truncated)?;
    let mut headers = bytes.get(table..end).ok_or_else(truncated)?.to_vec();
    if names >= count || count + 1 >= usize::from(crate::file::SHN_LORESERVE) {
        return Err(truncated());
    }
    let place = |bytes: &mut Vec<u8>, data: &[u8]| {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend(data);
        (bytes.len() - data.len()) as u64
    };
    let at = place(&mut bytes, contents);
    let set = |headers: &mut [u8], index: usize, offset: u64, size: u64| {
        let header = &mut headers[index * SECTION_HEADER_BYTES..][..SECTION_HEADER_BYTES];
        header[24..32].copy_from_slice(&offset.to_le_bytes());
        header[32..40].copy_from_slice(&size.to_le_bytes());
    };
    let mut count = count;
    if let Some(own) = file.section_named(OPERATIONS_SECTION) {
        set(&mut headers, own, at, contents.len() as u64);
    } else {
        let mut all = file.data(names).to_vec();
        let name = all.len() as u32;
        all.extend(OPERATIONS_SECTION.bytes().chain([0]));
        let names_at = place(&mut bytes, &all);
        set(&mut headers, names, names_at, all.len() as u64);
        let mut header = [0u8; SECTION_HEADER_BYTES];
        header[..4].copy_from_slice(&name.to_le_bytes());
        header[4..8].copy_from_slice(&crate::file::SHT_PROGBITS.to_le_bytes());
        header[48] = 4;
        headers.extend(header);
        set(&mut headers, count, at, contents.len() as u64);
        count += 1;
    }
    let table = place(&mut bytes, &headers);
    bytes[40..48].copy_from_slice(&table.to_le_bytes());
    bytes[60..62].copy_from_slice(&(count as u16).to_le_bytes());
    Ok(bytes)
}
