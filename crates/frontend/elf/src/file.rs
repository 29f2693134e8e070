//! The ELF container: sections, symbols and relocations of a relocatable BPF object, all bounds checked once.
//!
//! The `object` crate does the parsing. The tables are copied into plain numbers, because the writer needs to change
//! them; section bytes stay in the file.

use std::collections::HashMap;
use std::ops::Range;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, Rel as _, SectionHeader, SectionTable, Sym as _};

use crate::error::{Result, invalid, unsupported};

/// Maximum bytes of a symbol or section name. Longer ones are refused, to bound the memory for names.
const MAX_NAME_BYTES: usize = 1024;

/// The section's name.
pub(crate) const OPERATIONS_SECTION: &str = ".kiln.ops";

/// Sections that loaders look up by name. libbpf takes the last of two, so a file with two means one thing to one reader
/// and another to the next.
const ONCE: [&str; 9] =
    [".BTF", ".BTF.ext", "license", "version", "maps", ".maps", ".addr_space.1", ".jumptables", OPERATIONS_SECTION];

// Relocation types (Documentation/bpf/llvm_reloc.rst).
pub(crate) const R_BPF_64_64: u32 = 1;
pub(crate) const R_BPF_64_ABS64: u32 = 2;
pub(crate) const R_BPF_64_ABS32: u32 = 3;
pub(crate) const R_BPF_64_NODYLD32: u32 = 4;
pub(crate) const R_BPF_64_32: u32 = 10;

pub(crate) const SHT_PROGBITS: u32 = elf::SHT_PROGBITS.0;
pub(crate) const SHT_SYMTAB: u32 = elf::SHT_SYMTAB.0;
const SHT_STRTAB: u32 = elf::SHT_STRTAB.0;
pub(crate) const SHT_RELA: u32 = elf::SHT_RELA.0;
pub(crate) const SHT_NOBITS: u32 = elf::SHT_NOBITS.0;
pub(crate) const SHT_REL: u32 = elf::SHT_REL.0;
pub(crate) const SHT_GROUP: u32 = elf::SHT_GROUP.0;
pub(crate) const SHT_LLVM_ADDRSIG: u32 = 0x6fff_4c03;
pub(crate) const SHF_EXECINSTR: u64 = 4;

pub(crate) const STT_NOTYPE: u8 = 0;
pub(crate) const STT_OBJECT: u8 = 1;
pub(crate) const STT_FUNC: u8 = 2;
pub(crate) const STT_SECTION: u8 = 3;
pub(crate) const STB_LOCAL: u8 = 0;
pub(crate) const STB_WEAK: u8 = 2;
const STV_INTERNAL: u8 = 1;
pub(crate) const STV_HIDDEN: u8 = 2;
pub(crate) const SHN_UNDEF: u16 = 0;
/// First of the reserved section numbers, which are not sections.
pub(crate) const SHN_LORESERVE: u16 = 0xff00;

/// A section header, and where its bytes are.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub name: String,
    pub name_offset: u32,
    pub kind: u32,
    pub flags: u64,
    pub address: u64,
    pub size: u64,
    pub link: u32,
    pub info: u32,
    pub align: u64,
    pub entry_size: u64,
    /// Where the header says that it is in the file.
    pub offset: u64,
    /// Bytes in the file; empty for `SHT_NOBITS`.
    pub file: Range<usize>,
}

impl Section {
    pub fn is_code(&self) -> bool {
        self.kind == SHT_PROGBITS && self.flags & SHF_EXECINSTR != 0 && self.size > 0
    }
}

/// A symbol table entry.
#[derive(Clone, Debug)]
pub(crate) struct Symbol {
    pub name: String,
    pub name_offset: u32,
    pub info: u8,
    pub other: u8,
    pub section: u16,
    pub value: u64,
    pub size: u64,
}

impl Symbol {
    pub fn kind(&self) -> u8 {
        self.info & 0xf
    }

    pub fn binding(&self) -> u8 {
        self.info >> 4
    }

    /// Whether other files may not see it.
    pub fn is_hidden(&self) -> bool {
        matches!(self.other & 3, STV_INTERNAL | STV_HIDDEN)
    }

    /// The index of the section it is defined in.
    pub fn section_index(&self) -> Option<usize> {
        (self.section != SHN_UNDEF && self.section < SHN_LORESERVE).then_some(self.section.into())
    }
}

/// A relocation without addend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rel {
    pub offset: u64,
    pub kind: u32,
    pub symbol: u32,
}

/// A parsed file.
#[derive(Clone, Debug)]
pub(crate) struct ElfFile {
    pub bytes: Vec<u8>,
    pub sections: Vec<Section>,
    pub symbols: Vec<Symbol>,
    /// The section that holds the symbols.
    pub symbol_table: Option<usize>,
    /// The section that holds the sections' names.
    pub name_table: usize,
}

impl ElfFile {
    pub fn parse(bytes: &[u8]) -> Result<ElfFile> {
        let header = match FileHeader64::<Endianness>::parse(bytes) {
            Ok(header) => header,
            Err(error) => return invalid("", 0, format!("not a 64-bit ELF file: {error}")),
        };
        let endian = match header.endian() {
            Ok(Endianness::Little) => Endianness::Little,
            _ => return unsupported("", 5, "big-endian objects"),
        };
        if header.e_machine(endian) != elf::EM_BPF {
            let machine = header.e_machine(endian).0;
            return invalid("", 18, format!("the machine is {machine}, not BPF (247)"));
        }
        if header.e_type(endian) != elf::ET_REL {
            return invalid("", 16, "not a relocatable object file");
        }
        let table = match header.sections(endian, bytes) {
            Ok(table) => table,
            Err(error) => return invalid("", 40, format!("the section headers are malformed: {error}")),
        };
        if table.is_empty() {
            return invalid("", 40, "the file has no sections");
        }
        let name_table = match header.section_strings_index(endian, bytes) {
            Ok(index) => index.0,
            Err(error) => return invalid("", 62, format!("the sections have no names: {error}")),
        };
        let sections = sections(&table, endian, bytes)?;
        check_overlaps(&sections)?;
        check_once(&sections)?;
        let mut file = ElfFile { bytes: bytes.to_vec(), sections, symbols: Vec::new(), symbol_table: None, name_table };
        file.symbol_table = file.sections.iter().position(|section| section.kind == SHT_SYMTAB);
        file.check_tables()?;
        file.symbols = symbols(&table, endian, bytes, file.sections.len())?;
        Ok(file)
    }

    /// Checks that the tables with all names match their headers.
    fn check_tables(&self) -> Result<()> {
        let mut strings = vec![self.name_table];
        if let Some(table) = self.symbol_table {
            let section = &self.sections[table];
            if section.entry_size != 24 || !section.file.len().is_multiple_of(24) {
                return invalid(&section.name, 0, "the section is not a whole number of 24-byte symbols");
            }
            strings.push(section.link as usize);
        }
        for index in strings {
            match self.sections.get(index) {
                Some(section) if section.kind == SHT_STRTAB => {}
                _ => return invalid("", 0, format!("section {index} is no string table")),
            }
        }
        Ok(())
    }

    /// A section's bytes; none for `SHT_NOBITS`.
    pub fn data(&self, index: usize) -> &[u8] {
        &self.bytes[self.sections[index].file.clone()]
    }

    /// The first section of this name that has contents.
    pub fn section_named(&self, name: &str) -> Option<usize> {
        self.sections.iter().position(|section| section.name == name && section.kind == SHT_PROGBITS)
    }

    /// Whether the section is part of the file's structure (symbols, strings, relocations).
    pub fn is_table(&self, index: usize) -> bool {
        let names = self.symbol_table.map(|table| self.sections[table].link as usize);
        index == self.name_table || Some(index) == self.symbol_table || Some(index) == names
    }

    pub fn section_name(&self, index: usize) -> &str {
        self.sections.get(index).map_or("", |section| &section.name)
    }

    /// The relocation sections that patch `target`.
    pub fn relocation_sections(&self, target: usize) -> impl Iterator<Item = usize> + '_ {
        let patches = move |section: &Section| {
            matches!(section.kind, SHT_REL | SHT_RELA) && section.info as usize == target && target != 0
        };
        self.sections.iter().enumerate().filter(move |(_, section)| patches(section)).map(|(index, _)| index)
    }

    /// The entries of a relocation section.
    pub fn relocations(&self, index: usize) -> Result<Vec<Rel>> {
        let section = &self.sections[index];
        if section.kind != SHT_REL {
            return unsupported(&section.name, 0, "relocations with addends (clang writes none for BPF)");
        }
        let data = self.data(index);
        if section.entry_size != 16 || !data.len().is_multiple_of(16) {
            return invalid(&section.name, 0, "the section is not a whole number of 16-byte relocations");
        }
        let mut relocations = Vec::with_capacity(data.len() / 16);
        for (at, entry) in data.as_chunks::<16>().0.iter().enumerate() {
            let entry: &elf::Rel64<Endianness> = match object::pod::from_bytes(entry) {
                Ok((entry, _)) => entry,
                Err(()) => return invalid(&section.name, 16 * at as u64, "the relocation is unreadable"),
            };
            let (kind, symbol) = (entry.r_type(Endianness::Little), entry.r_sym(Endianness::Little));
            if symbol as usize >= self.symbols.len() {
                return invalid(&section.name, 16 * at as u64, format!("symbol {symbol} does not exist"));
            }
            relocations.push(Rel { offset: entry.r_offset(Endianness::Little), kind: kind.0, symbol });
        }
        Ok(relocations)
    }

    /// All relocations of a section, by offset.
    pub fn relocations_of(&self, target: usize) -> Result<HashMap<u64, Rel>> {
        let mut all = HashMap::new();
        for index in self.relocation_sections(target) {
            for relocation in self.relocations(index)? {
                if relocation.offset >= self.sections[target].size {
                    return invalid(&self.sections[target].name, relocation.offset, "a relocation lies outside");
                }
                if all.insert(relocation.offset, relocation).is_some() {
                    let message = "two relocations patch the same place";
                    return invalid(&self.sections[target].name, relocation.offset, message);
                }
            }
        }
        Ok(all)
    }
}

/// The sections, each inside the file.
fn sections(
    table: &SectionTable<'_, FileHeader64<Endianness>>,
    endian: Endianness,
    bytes: &[u8],
) -> Result<Vec<Section>> {
    let mut sections = Vec::new();
    for (index, header) in table.enumerate() {
        let name = match table.section_name(endian, header) {
            Ok(name) if name.len() <= MAX_NAME_BYTES => String::from_utf8_lossy(name).into_owned(),
            _ => return invalid("", 0, format!("section {} has no readable name", index.0)),
        };
        let kind = header.sh_type(endian).0;
        let size = header.sh_size(endian);
        let file = if matches!(kind, 0 | SHT_NOBITS) {
            0..0
        } else {
            let start = usize::try_from(header.sh_offset(endian)).ok();
            let range = start.and_then(|start| Some(start..start.checked_add(usize::try_from(size).ok()?)?));
            match range.filter(|range| range.end <= bytes.len()) {
                Some(range) => range,
                None => return invalid(&name, 0, "the section lies outside the file"),
            }
        };
        sections.push(Section {
            name,
            name_offset: header.sh_name(endian),
            kind,
            flags: header.sh_flags(endian).0,
            address: header.sh_addr(endian),
            size,
            link: header.sh_link(endian),
            info: header.sh_info(endian),
            align: header.sh_addralign(endian),
            entry_size: header.sh_entsize(endian),
            offset: header.sh_offset(endian),
            file,
        });
    }
    Ok(sections)
}

/// The symbols, each in a section that exists.
fn symbols(
    table: &SectionTable<'_, FileHeader64<Endianness>>,
    endian: Endianness,
    bytes: &[u8],
    section_count: usize,
) -> Result<Vec<Symbol>> {
    let symbols = match table.symbols(endian, bytes, elf::SHT_SYMTAB) {
        Ok(symbols) => symbols,
        Err(error) => return invalid(".symtab", 0, format!("the symbol table is malformed: {error}")),
    };
    let mut named = Vec::new();
    for (index, symbol) in symbols.enumerate() {
        let name = match symbol.name(endian, symbols.strings()) {
            Ok(name) if name.len() <= MAX_NAME_BYTES => String::from_utf8_lossy(name).into_owned(),
            _ => return invalid(".symtab", 24 * index.0 as u64, "the symbol has no readable name"),
        };
        let section = symbol.st_shndx(endian).0;
        if section < SHN_LORESERVE && usize::from(section) >= section_count {
            let message = format!("symbol {name} is in section {section}, which does not exist");
            return invalid(".symtab", 24 * index.0 as u64, message);
        }
        named.push(Symbol {
            name,
            name_offset: symbol.st_name(endian),
            info: symbol.st_info().0,
            other: symbol.st_other().0,
            section,
            value: symbol.st_value(endian),
            size: symbol.st_size(endian),
        });
    }
    Ok(named)
}

/// Refuses a second section of a name that means one section.
fn check_once(sections: &[Section]) -> Result<()> {
    for name in ONCE {
        if sections.iter().filter(|section| section.name == name).nth(1).is_some() {
            return invalid(name, 0, "the file has two sections of this name");
        }
    }
    Ok(())
}

/// Refuses sections that share bytes: rewriting one would change the other.
fn check_overlaps(sections: &[Section]) -> Result<()> {
    let mut ranges: Vec<_> = sections.iter().filter(|section| !section.file.is_empty()).collect();
    ranges.sort_by_key(|section| section.file.start);
    for pair in ranges.windows(2) {
        if pair[1].file.start < pair[0].file.end {
            let message = format!("the section overlaps section {}", pair[0].name);
            return invalid(&pair[1].name, 0, message);
        }
    }
    Ok(())
}
