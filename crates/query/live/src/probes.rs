//! Static probes of programs and libraries (USDT), by the notes that `sys/sdt.h` leaves in them.
//!
//! ```text
//!   .note.stapsdt    address | .stapsdt.base | semaphore | "provider" | "name" | "-4@%eax 8@-16(%rbp) 4@$3"
//!                       |                          |                               |        |          |
//!   in the file      a nop: a uprobe            counts who looks              register   memory   constant
//! ```
//!
//! A file may say anything. Each number is checked where it is used, and what is not understood of an argument is said where
//! a query uses it.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use object::read::elf::{ElfFile64, SectionHeader as _};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

use kiln_plan::programs::Probe;

use crate::functions::in_file;
use operand::Assembler;

mod operand;

/// The section of the notes, their owner and their type.
const SECTION: &str = ".note.stapsdt";
const OWNER: &[u8] = b"stapsdt";
const TYPE: u32 = 3;
/// Notes that are looked at, places of one probe, and arguments of a place (`STAP_PROBE12`).
const MAX_NOTES: usize = 1 << 16;
const MAX_PLACES: usize = 1 << 8;
const MAX_ARGUMENTS: usize = 12;
/// Names that an error shows.
const MAX_SHOWN: usize = 6;

/// What a note says.
#[derive(Clone, Copy, Debug)]
struct Note<'d> {
    address: u64,
    /// Where the section `.stapsdt.base` was when the address was written.
    base: u64,
    /// 0 where there is none.
    semaphore: u64,
    provider: &'d str,
    name: &'d str,
    arguments: &'d str,
}

impl<'d> Note<'d> {
    fn parse(mut bytes: &'d [u8]) -> Option<Note<'d>> {
        let mut word = || {
            let (word, rest) = bytes.split_first_chunk()?;
            bytes = rest;
            Some(u64::from_le_bytes(*word))
        };
        let (address, base, semaphore) = (word()?, word()?, word()?);
        let mut texts = bytes.split(|byte| *byte == 0).map(std::str::from_utf8);
        let mut text = || texts.next()?.ok();
        let (provider, name, arguments) = (text()?, text()?, text()?);
        Some(Note { address, base, semaphore, provider, name, arguments })
    }
}

/// The notes of a file.
fn notes<'d>(elf: &ElfFile64<'d>) -> Vec<Note<'d>> {
    let section = elf.section_by_name(SECTION).filter(|_| Assembler::of(elf).is_some());
    let notes = section.and_then(|section| section.elf_section_header().notes(elf.endian(), elf.data()).ok().flatten());
    let Some(mut notes) = notes else { return Vec::new() };
    let mut found = Vec::new();
    while let (true, Ok(Some(note))) = (found.len() < MAX_NOTES, notes.next()) {
        let is_probe = note.name() == OWNER && note.n_type(elf.endian()).0 == TYPE;
        found.extend(is_probe.then(|| Note::parse(note.desc())).flatten());
    }
    found
}

/// The providers and names of a file's probes.
pub fn names(elf: &ElfFile64<'_>) -> BTreeSet<(String, String)> {
    notes(elf).iter().map(|note| (note.provider.to_owned(), note.name.to_owned())).collect()
}

/// A file's probes, `PROVIDER:NAME`, each with the arguments that it has at all its places: whether they have a sign at one.
pub fn listed(elf: &ElfFile64<'_>) -> BTreeMap<String, Vec<bool>> {
    let mut listed = BTreeMap::new();
    for note in notes(elf) {
        let signs = operand::split(note.arguments).take(MAX_ARGUMENTS).map(|text| text.starts_with('-'));
        match listed.entry(format!("{}:{}", note.provider, note.name)) {
            Entry::Vacant(first) => drop(first.insert(signs.collect::<Vec<bool>>())),
            Entry::Occupied(mut known) => {
                let both: Vec<bool> = known.get().iter().zip(signs).map(|(one, other)| *one || other).collect();
                known.insert(both);
            }
        }
    }
    listed
}

/// The places of a probe.
///
/// # Errors
/// Returns what is wrong, as a sentence.
pub fn of(elf: &ElfFile64<'_>, provider: &str, name: &str) -> Result<Vec<Probe>, String> {
    let known = operand::KNOWN.map(|one| one.name).join(" and ");
    let assembler = Assembler::of(elf)
        .ok_or_else(|| format!("it is for {:?}, and static probes are known of {known}", elf.architecture()))?;
    let mut own = notes(elf);
    own.retain(|note| (note.provider, note.name) == (provider, name));
    if own.is_empty() {
        return Err(lacking(elf, provider, name));
    }
    if own.len() > MAX_PLACES {
        return Err(format!("`{provider}:{name}` is at more than {MAX_PLACES} places"));
    }
    own.iter().map(|note| probe(elf, note, assembler)).collect()
}

fn lacking(elf: &ElfFile64<'_>, provider: &str, name: &str) -> String {
    let names = names(elf);
    let shown: Vec<String> =
        names.iter().take(MAX_SHOWN).map(|(provider, name)| format!("`{provider}:{name}`")).collect();
    let others = match (shown.len(), names.len() - shown.len()) {
        (0, _) => "; it has none".to_owned(),
        (_, 0) => format!("; it has {}", shown.join(", ")),
        (_, more) => format!("; it has {} and {more} more, which `kiln tables usdt.FILE` lists", shown.join(", ")),
    };
    format!("it has no static probe `{provider}:{name}`{others}")
}

fn probe(elf: &ElfFile64<'_>, note: &Note<'_>, assembler: &Assembler) -> Result<Probe, String> {
    let called = format!("`{}:{}`", note.provider, note.name);
    // Whoever moves the program's sections later (prelink) leaves the notes as they are.
    let base = elf.section_by_name(".stapsdt.base").map(|section| section.address()).filter(|_| note.base != 0);
    let moved = base.map_or(0, |base| base.wrapping_sub(note.base));
    let place = |address: u64| in_file(elf, address.wrapping_add(moved));
    let offset = place(note.address).ok_or_else(|| format!("{called} is at an address that the file does not have"))?;
    let semaphore = match note.semaphore {
        0 => 0,
        address => place(address).ok_or_else(|| format!("the counter of {called} is not in the file"))?,
    };
    let address = note.address.wrapping_add(moved);
    let argument = |text| assembler.argument(text, &|symbol| Some(symbol_of(elf, symbol)?.wrapping_sub(address)));
    let arguments = operand::split(note.arguments).take(MAX_ARGUMENTS).map(argument).collect();
    Ok(Probe { offset, semaphore, arguments })
}

/// The address of a symbol that only one thing has.
fn symbol_of(elf: &ElfFile64<'_>, name: &str) -> Option<u64> {
    let all = elf.symbols().chain(elf.dynamic_symbols()).filter(|symbol| symbol.is_definition());
    let mut addresses: Vec<u64> =
        all.filter(|symbol| symbol.name() == Ok(name)).map(|symbol| symbol.address()).take(MAX_SHOWN).collect();
    addresses.dedup();
    if let [address] = addresses[..] { Some(address) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_may_be_cut_off_anywhere() {
        let mut bytes = Vec::new();
        [0x1000_u64, 0x2000, 0].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(b"p\0n\08@%rdi\0");
        let whole = Note::parse(&bytes).expect("a note");
        assert_eq!((whole.address, whole.provider, whole.name, whole.arguments), (0x1000, "p", "n", "8@%rdi"));
        for length in 0..bytes.len() {
            let cut = Note::parse(&bytes[..length]);
            assert!(cut.is_none_or(|note| "8@%rdi".starts_with(note.arguments)), "{length}");
        }
        bytes[24] = 0xff;
        assert!(Note::parse(&bytes).is_none());
    }
}
