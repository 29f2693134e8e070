//! Sections and symbols to bytes.
//!
//! Neither writer of the `object` crate fits. `object::write` makes new files, with sections, symbols and strings in
//! its own order. `object::build` keeps the order, but refuses section types that it does not know (clang's
//! address-significance table), and rebuilds string tables. A drop-in object should differ from the original only in
//! what was rewritten. So here all tables keep their order, names keep their place in the string table, and sections
//! keep their order in the file. An object rebuilt without a change is the same file, byte for byte.

use std::collections::{BTreeSet, HashMap};

use object::elf::{FileHeader64, Rel64, SectionHeader64, Sym64};
use object::{Endianness, U16, U32, U64, elf, pod};

use crate::error::{Result, invalid, unsupported};
use crate::file::{ElfFile, Rel, SHT_GROUP, SHT_LLVM_ADDRSIG, SHT_NOBITS, SHT_PROGBITS, SHT_REL, Section, Symbol};

const LE: Endianness = Endianness::Little;
const HEADER_BYTES: usize = 64;
/// Bytes of a relocation in a file.
const RELOCATION_BYTES: u64 = 16;
/// The flag of sections whose `sh_info` is a section's number.
const SHF_INFO_LINK: u64 = 0x40;

/// A file that is being written.
pub(crate) struct Output<'a> {
    file: &'a ElfFile,
    /// Sections that leave.
    dropped: Vec<bool>,
    /// Symbols that leave.
    pub dropped_symbols: BTreeSet<usize>,
    /// New contents.
    pub contents: HashMap<usize, Vec<u8>>,
    /// New relocations, by relocation section.
    pub relocations: HashMap<usize, Vec<Rel>>,
    /// Relocations of sections that had none: each gets a relocation section behind the others.
    pub added_relocations: Vec<(usize, Vec<Rel>)>,
    pub symbols: Vec<Symbol>,
}

/// Whether a section holds DWARF or hints to linkers, which a rewritten file omits.
pub(crate) fn is_for_debuggers(file: &ElfFile, index: usize) -> bool {
    let section = &file.sections[index];
    let debug = section.name.starts_with(".debug_") && section.kind == SHT_PROGBITS && !section.is_code();
    (debug || section.kind == SHT_LLVM_ADDRSIG) && !file.is_table(index)
}

impl<'a> Output<'a> {
    pub fn new(file: &'a ElfFile) -> Output<'a> {
        Output {
            file,
            dropped: vec![false; file.sections.len()],
            dropped_symbols: BTreeSet::new(),
            contents: HashMap::new(),
            relocations: HashMap::new(),
            added_relocations: Vec::new(),
            symbols: file.symbols.clone(),
        }
    }

    /// Removes a section, with the relocations that patch it and the symbols that it defines.
    pub fn drop_section(&mut self, index: usize) {
        self.dropped[index] = true;
        for relocations in self.file.relocation_sections(index) {
            self.dropped[relocations] = true;
        }
    }

    /// Removes DWARF, and hints to linkers that name symbols by number.
    pub fn drop_debug_sections(&mut self) {
        for index in 0..self.file.sections.len() {
            if is_for_debuggers(self.file, index) {
                self.drop_section(index);
            }
        }
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let numbers = Renumbering::new(self);
        if self.file.sections.len() + self.added_relocations.len() >= usize::from(crate::file::SHN_LORESERVE) {
            return unsupported("", 0, "writing files with 65280 sections and more");
        }
        let mut order: Vec<_> = (1..self.file.sections.len()).filter(|index| !self.dropped[*index]).collect();
        order.sort_by_key(|index| (self.file.sections[*index].offset, *index));
        let mut names = self.section_data(self.file.name_table, &numbers);
        let added_names: Vec<u32> =
            self.added_relocations.iter().map(|(target, _)| self.add_name(&mut names, *target)).collect();
        let mut bytes = vec![0; HEADER_BYTES];
        let mut headers: Vec<_> = (0..numbers.section_count).map(|_| [0u8; 64]).collect();
        for index in order {
            let section = &self.file.sections[index];
            let align = usize::try_from(section.align.max(1)).unwrap_or(usize::MAX);
            if align > 1 << 16 {
                return invalid(&section.name, 0, format!("an alignment of {align} bytes is absurd"));
            }
            let data = if index == self.file.name_table { names.clone() } else { self.section_data(index, &numbers) };
            bytes.resize(bytes.len().next_multiple_of(align), 0);
            let size = if section.kind == SHT_NOBITS { section.size } else { data.len() as u64 };
            let header = self.section_header(section, bytes.len() as u64, size, &numbers);
            headers[numbers.section(index as u32) as usize].copy_from_slice(pod::bytes_of(&header));
            bytes.extend(data);
        }
        for ((target, relocations), name) in self.added_relocations.iter().zip(added_names) {
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            let data = encoded(relocations, &numbers);
            let header = self.relocation_header(name, *target, bytes.len() as u64, data.len() as u64, &numbers)?;
            headers.push([0; 64]);
            headers.last_mut().expect("it was just added").copy_from_slice(pod::bytes_of(&header));
            bytes.extend(data);
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let table = bytes.len() as u64;
        headers.iter().for_each(|header| bytes.extend(header));
        let mut header = self.file_header()?;
        header.e_shoff = U64::new(LE, table);
        header.e_shnum = U16::new(LE, headers.len() as u16);
        let names = numbers.section(u32::from(header.e_shstrndx.get(LE).0));
        header.e_shstrndx = U16::new(LE, elf::SymbolSection(names as u16));
        bytes[..HEADER_BYTES].copy_from_slice(pod::bytes_of(&header));
        Ok(bytes)
    }

    /// Adds the name of a section's relocation section to the section names. Returns where it stands.
    fn add_name(&self, names: &mut Vec<u8>, target: usize) -> u32 {
        let at = names.len() as u32;
        names.extend(format!(".rel{}", self.file.sections[target].name).bytes().chain([0]));
        at
    }

    fn relocation_header(
        &self,
        name: u32,
        target: usize,
        offset: u64,
        size: u64,
        numbers: &Renumbering,
    ) -> Result<SectionHeader64<Endianness>> {
        let Some(symbols) = self.file.symbol_table else {
            return unsupported(&self.file.sections[target].name, 0, "an address in a file without symbols");
        };
        Ok(SectionHeader64 {
            sh_name: U32::new(LE, name),
            sh_type: U32::new(LE, elf::SectionType(SHT_REL)),
            sh_flags: U64::new(LE, elf::SectionFlags(SHF_INFO_LINK)),
            sh_addr: U64::new(LE, 0),
            sh_offset: U64::new(LE, offset),
            sh_size: U64::new(LE, size),
            sh_link: U32::new(LE, numbers.section(symbols as u32)),
            sh_info: U32::new(LE, numbers.section(target as u32)),
            sh_addralign: U64::new(LE, 8),
            sh_entsize: U64::new(LE, RELOCATION_BYTES),
        })
    }

    fn file_header(&self) -> Result<FileHeader64<Endianness>> {
        match pod::from_bytes::<FileHeader64<Endianness>>(&self.file.bytes) {
            Ok((header, _)) => Ok(*header),
            Err(()) => invalid("", 0, "the header is truncated"),
        }
    }

    fn section_header(
        &self,
        section: &Section,
        offset: u64,
        size: u64,
        numbers: &Renumbering,
    ) -> SectionHeader64<Endianness> {
        let is_symbol_table = section.kind == crate::file::SHT_SYMTAB;
        let info = match section.kind {
            SHT_REL | crate::file::SHT_RELA => numbers.section(section.info),
            SHT_GROUP => numbers.symbols.get(section.info as usize).copied().flatten().unwrap_or(0),
            // The number of local symbols, which come first.
            _ if is_symbol_table => numbers.symbols.iter().take(section.info as usize).flatten().count() as u32,
            _ => section.info,
        };
        SectionHeader64 {
            sh_name: U32::new(LE, section.name_offset),
            sh_type: U32::new(LE, elf::SectionType(section.kind)),
            sh_flags: U64::new(LE, elf::SectionFlags(section.flags)),
            sh_addr: U64::new(LE, section.address),
            sh_offset: U64::new(LE, offset),
            sh_size: U64::new(LE, size),
            sh_link: U32::new(LE, numbers.section(section.link)),
            sh_info: U32::new(LE, info),
            sh_addralign: U64::new(LE, section.align),
            sh_entsize: U64::new(LE, section.entry_size),
        }
    }

    fn section_data(&self, index: usize, numbers: &Renumbering) -> Vec<u8> {
        let section = &self.file.sections[index];
        if let Some(contents) = self.contents.get(&index) {
            return contents.clone();
        }
        if Some(index) == self.file.symbol_table {
            return self.symbol_bytes(numbers);
        }
        match section.kind {
            SHT_REL => self.relocation_bytes(index, numbers),
            SHT_GROUP => group_bytes(self.file.data(index), numbers),
            _ => self.file.data(index).to_vec(),
        }
    }

    fn symbol_bytes(&self, numbers: &Renumbering) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (symbol, number) in self.symbols.iter().zip(&numbers.symbols) {
            if number.is_none() {
                continue;
            }
            let section = match symbol.section_index() {
                Some(index) => numbers.section(index as u32) as u16,
                None => symbol.section,
            };
            let entry = Sym64::<Endianness> {
                st_name: U32::new(LE, symbol.name_offset),
                st_info: elf::SymbolInfo(symbol.info),
                st_other: elf::SymbolOther(symbol.other),
                st_shndx: U16::new(LE, elf::SymbolSection(section)),
                st_value: U64::new(LE, symbol.value),
                st_size: U64::new(LE, symbol.size),
            };
            bytes.extend(pod::bytes_of(&entry));
        }
        bytes
    }

    fn relocation_bytes(&self, index: usize, numbers: &Renumbering) -> Vec<u8> {
        let original;
        let relocations = match self.relocations.get(&index) {
            Some(relocations) => relocations,
            // Relocation sections of unknown entry size are copied unchanged.
            None => match self.file.relocations(index) {
                Ok(relocations) => {
                    original = relocations;
                    &original
                }
                Err(_) => return self.file.data(index).to_vec(),
            },
        };
        encoded(relocations, numbers)
    }
}

/// Relocations as a section holds them. Those against an address in a removed section are removed, too.
fn encoded(relocations: &[Rel], numbers: &Renumbering) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(RELOCATION_BYTES as usize * relocations.len());
    for relocation in relocations {
        let Some(symbol) = numbers.symbols.get(relocation.symbol as usize).copied().flatten() else { continue };
        let entry = Rel64::<Endianness> {
            r_offset: U64::new(LE, relocation.offset),
            r_info: U64::new(LE, u64::from(symbol) << 32 | u64::from(relocation.kind)),
        };
        bytes.extend(pod::bytes_of(&entry));
    }
    bytes
}

/// A section group: flags, then section numbers.
fn group_bytes(data: &[u8], numbers: &Renumbering) -> Vec<u8> {
    let (words, _) = data.as_chunks::<4>();
    let mut bytes = Vec::with_capacity(data.len());
    for (at, word) in words.iter().enumerate() {
        let word = u32::from_le_bytes(*word);
        let number = if at == 0 { word } else { numbers.section(word) };
        if at == 0 || number != 0 {
            bytes.extend(number.to_le_bytes());
        }
    }
    bytes
}

/// New numbers of sections and symbols.
struct Renumbering {
    sections: Vec<u32>,
    section_count: u32,
    symbols: Vec<Option<u32>>,
}

impl Renumbering {
    fn new(output: &Output<'_>) -> Renumbering {
        let mut section_count = 0;
        let sections = output.dropped.iter().map(|dropped| {
            section_count += u32::from(!dropped);
            if *dropped { 0 } else { section_count - 1 }
        });
        let sections = sections.collect();
        let mut next = 0;
        let symbols = output.symbols.iter().enumerate().map(|(index, symbol)| {
            let homeless = symbol.section_index().is_some_and(|section| output.dropped[section]);
            let stays = !homeless && !output.dropped_symbols.contains(&index);
            next += u32::from(stays);
            stays.then(|| next - 1)
        });
        Renumbering { sections, section_count, symbols: symbols.collect() }
    }

    /// The new number of a section; 0 for removed sections and invalid numbers.
    fn section(&self, old: u32) -> u32 {
        self.sections.get(old as usize).copied().unwrap_or(0)
    }
}
