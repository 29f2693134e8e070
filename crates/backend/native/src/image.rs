//! What is read out of a shared object: bytes to be mapped as they are, and two places in them.
//!
//! The object must need no dynamic linker: no undefined symbols, no relocations. Then its bytes work at any page.

use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, elf};

use crate::Error;

/// Bytes of an image at most.
const MAX_BYTES: u64 = 256 << 20;

/// Machine code and its data, to be mapped at a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where the entry is.
    pub entry_offset: usize,
    /// Where the table of addresses is: 64-bit words, to be filled before the bytes are mapped.
    pub table_offset: usize,
    /// Bytes of instructions among them.
    pub code_bytes: usize,
}

impl Image {
    /// Reads a shared object that defines these symbols, with a table of so many words.
    ///
    /// # Errors
    /// [`Error::Image`] if it is malformed, needs a dynamic linker, or lacks a symbol.
    pub fn read(file: &[u8], entry: &str, table: &str, words: usize) -> Result<Image, Error> {
        let wrong = |what: &str| Error::Image(what.to_owned());
        let malformed = |error: object::Error| Error::Image(format!("is malformed: {error}"));
        let elf = ElfFile64::<Endianness>::parse(file).map_err(malformed)?;
        if elf.dynamic_relocations().is_some_and(|mut own| own.next().is_some()) {
            return Err(wrong("has relocations"));
        }
        // Symbol 0 is undefined in every object.
        if let Some(undefined) = elf.dynamic_symbols().find(|symbol| symbol.is_undefined() && symbol.index().0 != 0) {
            return Err(Error::Image(format!("needs {}", undefined.name().unwrap_or("a symbol"))));
        }
        let endian = elf.endian();
        let mut bytes = Vec::new();
        for segment in elf.elf_program_headers().iter().filter(|header| header.p_type(endian) == elf::PT_LOAD) {
            let (start, size) = (segment.p_vaddr(endian), segment.p_memsz(endian));
            let end = start.checked_add(size).filter(|end| *end <= MAX_BYTES);
            let end = end.ok_or_else(|| wrong("is too large"))? as usize;
            let data = segment.data(endian, file).map_err(|()| wrong("ends within a segment"))?;
            if data.len() as u64 > size {
                return Err(wrong("has a segment that is larger in the file than in memory"));
            }
            let start = start as usize;
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[start..start + data.len()].copy_from_slice(data);
        }
        let place = |name: &str, size: usize| {
            let symbol = elf.dynamic_symbols().find(|symbol| symbol.name() == Ok(name));
            let at = symbol.and_then(|symbol| usize::try_from(symbol.address()).ok());
            let at = at.filter(|at| at.checked_add(size).is_some_and(|end| end <= bytes.len()));
            at.ok_or_else(|| Error::Image(format!("has no {name}")))
        };
        let code_bytes = elf.section_by_name(".text").map_or(0, |section| section.size() as usize);
        let (entry_offset, table_offset) = (place(entry, 1)?, place(table, words.saturating_mul(8))?);
        Ok(Image { bytes, entry_offset, table_offset, code_bytes })
    }

    /// The bytes with the table filled, for code of this machine.
    ///
    /// # Errors
    /// [`Error::Image`] if there are more words than bytes.
    pub fn with_table(&self, words: &[u64]) -> Result<Vec<u8>, Error> {
        let mut bytes = self.bytes.clone();
        let range = self.table_offset..self.table_offset.saturating_add(words.len().saturating_mul(8));
        let table = bytes.get_mut(range).ok_or_else(|| Error::Image("has a shorter table".to_owned()))?;
        for (place, word) in table.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        Ok(bytes)
    }
}
