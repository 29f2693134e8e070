//! `.BTF.ext`: the compiler's records about instructions, by byte offset in a code section.
//!
//! ```text
//!   header | func_info part | line_info part | core_relo part
//!   part:    u32 record size | for each section: u32 section name, u32 count, records
//!   record:  u32 byte offset of the instruction | the rest, at least
//!            func_info: type   line_info: file, text, line<<10|column   core_relo: type, access, kind   (u32 each)
//! ```
//!
//! Records may be longer than these fields; the rest is kept (Documentation/bpf/btf.rst).

use crate::error::{Result, invalid};

const SECTION: &str = ".BTF.ext";
const MAGIC: u16 = 0xeb9f;
/// Bytes of the header without the CO-RE fields, which old compilers omit.
const SHORT_HEADER_BYTES: usize = 24;
const LONG_HEADER_BYTES: usize = 32;

/// A record: the instruction's byte offset, and the bytes after it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub offset: u32,
    pub rest: Vec<u8>,
}

impl Record {
    /// The `index`th word after the offset.
    pub fn word(&self, index: usize) -> u32 {
        let chunk = self.rest.get(4 * index..).and_then(<[u8]>::first_chunk::<4>);
        chunk.map_or(0, |chunk| u32::from_le_bytes(*chunk))
    }

    /// A record of these words, with the trailing bytes of the record that it replaces.
    pub fn new(offset: u32, words: &[u32], model: Option<&Record>, record_bytes: usize) -> Record {
        let mut rest: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        if let Some(model) = model {
            rest.extend(model.rest.get(rest.len()..).unwrap_or_default());
        }
        rest.resize(record_bytes - 4, 0);
        Record { offset, rest }
    }
}

/// The records about one code section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SectionRecords {
    /// Its name's offset in the BTF string table.
    pub name: u32,
    pub records: Vec<Record>,
}

/// One of the three parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub record_bytes: usize,
    pub sections: Vec<SectionRecords>,
}

/// A parsed section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BtfExt {
    header: Vec<u8>,
    pub functions: Option<Part>,
    pub lines: Option<Part>,
    pub core: Option<Part>,
}

impl BtfExt {
    pub fn parse(bytes: &[u8]) -> Result<BtfExt> {
        let word = |at: usize| match bytes.get(at..).and_then(<[u8]>::first_chunk::<4>) {
            Some(chunk) => Ok(u32::from_le_bytes(*chunk) as usize),
            None => invalid(SECTION, at as u64, "the section is truncated"),
        };
        if word(0)? & 0xffff != usize::from(MAGIC) || bytes[2] != 1 {
            return invalid(SECTION, 0, "the magic number or version is not that of BTF version 1");
        }
        let header_bytes = word(4)?;
        if header_bytes < SHORT_HEADER_BYTES || header_bytes > bytes.len() {
            return invalid(SECTION, 4, format!("a header of {header_bytes} bytes does not fit"));
        }
        let part = |at: usize, minimum: usize| -> Result<Option<Part>> {
            let (offset, length) = (word(at)?, word(at + 4)?);
            let start = header_bytes + offset;
            match start.checked_add(length).and_then(|end| bytes.get(start..end)) {
                Some([]) => Ok(None),
                Some(data) => Part::parse(data, start, minimum).map(Some),
                None => invalid(SECTION, at as u64, "a part lies outside the section"),
            }
        };
        Ok(BtfExt {
            header: bytes[..header_bytes].to_vec(),
            functions: part(8, 8)?,
            lines: part(16, 16)?,
            core: if header_bytes >= LONG_HEADER_BYTES { part(24, 16)? } else { None },
        })
    }

    /// The section's bytes, and the byte offset of each record in the order of [`BtfExt::parts`].
    pub fn to_bytes(&self) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = self.header.clone();
        let mut places = Vec::new();
        for (field, part) in self.parts() {
            let start = bytes.len();
            if let Some(part) = part {
                part.append(&mut bytes, &mut places);
            }
            if field + 8 <= self.header.len() {
                let (offset, length) = (start - self.header.len(), bytes.len() - start);
                bytes[field..field + 4].copy_from_slice(&(offset as u32).to_le_bytes());
                bytes[field + 4..field + 8].copy_from_slice(&(length as u32).to_le_bytes());
            }
        }
        (bytes, places)
    }

    /// The parts, with the header field for the place of each.
    pub fn parts(&self) -> [(usize, Option<&Part>); 3] {
        [(8, self.functions.as_ref()), (16, self.lines.as_ref()), (24, self.core.as_ref())]
    }

    /// Whether the header has room for CO-RE relocations.
    pub fn has_core(&self) -> bool {
        self.header.len() >= LONG_HEADER_BYTES
    }

    /// The parts as mutable references, with their header fields.
    pub fn parts_mut(&mut self) -> [&mut Option<Part>; 3] {
        [&mut self.functions, &mut self.lines, &mut self.core]
    }
}

impl Part {
    fn parse(data: &[u8], start: usize, minimum: usize) -> Result<Part> {
        let at = |rest: &[u8]| (start + data.len() - rest.len()) as u64;
        let Some((size, mut rest)) = data.split_first_chunk::<4>() else {
            return invalid(SECTION, start as u64, "a part is truncated");
        };
        let record_bytes = u32::from_le_bytes(*size) as usize;
        if record_bytes < minimum || record_bytes > 256 || !record_bytes.is_multiple_of(4) {
            return invalid(SECTION, start as u64, format!("records of {record_bytes} bytes are not possible"));
        }
        let mut sections = Vec::new();
        while !rest.is_empty() {
            let Some((head, records)) = rest.split_first_chunk::<8>() else {
                return invalid(SECTION, at(rest), "a part is truncated");
            };
            let [n0, n1, n2, n3, c0, c1, c2, c3] = *head;
            let (name, count) = (u32::from_le_bytes([n0, n1, n2, n3]), u32::from_le_bytes([c0, c1, c2, c3]));
            let length = (count as usize).checked_mul(record_bytes);
            let Some((own, next)) = length.and_then(|length| records.split_at_checked(length)) else {
                return invalid(SECTION, at(rest), format!("{count} records do not fit into the section"));
            };
            if count == 0 {
                return invalid(SECTION, at(rest), "a section has no records");
            }
            let records = own.chunks_exact(record_bytes).map(|chunk| Record {
                offset: u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]),
                rest: chunk[4..].to_vec(),
            });
            sections.push(SectionRecords { name, records: records.collect() });
            rest = next;
        }
        Ok(Part { record_bytes, sections })
    }

    fn append(&self, bytes: &mut Vec<u8>, places: &mut Vec<usize>) {
        bytes.extend((self.record_bytes as u32).to_le_bytes());
        for section in &self.sections {
            bytes.extend(section.name.to_le_bytes());
            bytes.extend((section.records.len() as u32).to_le_bytes());
            for record in &section.records {
                places.push(bytes.len());
                bytes.extend(record.offset.to_le_bytes());
                bytes.extend(&record.rest);
            }
        }
    }
}
