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

use kiln_plan::programs::{Argument, Probe};
use kiln_plan::table::{Read, Scalar};

use crate::elf::is_x86_64;
use crate::functions::in_file;

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
    let section = elf.section_by_name(SECTION).filter(|_| is_x86_64(elf));
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
        let signs = note.arguments.split_ascii_whitespace().take(MAX_ARGUMENTS).map(|text| text.starts_with('-'));
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
    let mut own = notes(elf);
    own.retain(|note| (note.provider, note.name) == (provider, name));
    if own.is_empty() {
        return Err(lacking(elf, provider, name));
    }
    if own.len() > MAX_PLACES {
        return Err(format!("`{provider}:{name}` is at more than {MAX_PLACES} places"));
    }
    own.iter().map(|note| probe(elf, note)).collect()
}

fn lacking(elf: &ElfFile64<'_>, provider: &str, name: &str) -> String {
    if !is_x86_64(elf) {
        return format!("it is for {:?}, and static probes are known of x86-64", elf.architecture());
    }
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

fn probe(elf: &ElfFile64<'_>, note: &Note<'_>) -> Result<Probe, String> {
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
    let argument = |text: &str| argument(text, &|symbol| Some(symbol_of(elf, symbol)?.wrapping_sub(address)));
    let arguments = note.arguments.split_ascii_whitespace().take(MAX_ARGUMENTS).map(argument).collect();
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

/// An argument: `SIZE@OPERAND`, where a size below 0 is one with a sign. `away` says how many bytes a symbol is behind the
/// probe.
fn argument(text: &str, away: &dyn Fn(&str) -> Option<u64>) -> Argument {
    let parsed = text.split_once('@').and_then(|(size, operand)| {
        let size: i8 = size.parse().ok()?;
        let bytes = size.unsigned_abs();
        let kind = matches!(bytes, 1 | 2 | 4 | 8).then_some(Scalar { bytes, signed: size < 0 })?;
        Some(Argument { read: operand_of(operand, kind, away)?, kind })
    });
    parsed.unwrap_or_else(|| {
        let why = format!("an argument that the program keeps in `{text}`, which is not understood");
        Argument { read: Read::Absent(why), kind: Scalar::unsigned(8) }
    })
}

/// `$5`, `%eax`, or memory.
fn operand_of(text: &str, kind: Scalar, away: &dyn Fn(&str) -> Option<u64>) -> Option<Read> {
    if let Some(constant) = text.strip_prefix('$') {
        let unused = 64 - 8 * u32::from(kind.bytes);
        let bits = number(constant)? << unused;
        return Some(Read::Constant(if kind.signed { bits >> unused } else { ((bits as u64) >> unused) as i64 }));
    }
    if let Some(name) = text.strip_prefix('%') {
        let (register, skip) = register(name)?;
        return Some(Read::Cut { of: Box::new(register), skip, kind });
    }
    Some(Read::UserNumber { address: Box::new(address(text, away)?), kind })
}

/// `-16(%rbp)`, `8(%rax,%rcx,4)`, `counter+4(%rip)`.
fn address(text: &str, away: &dyn Fn(&str) -> Option<u64>) -> Option<Read> {
    let (before, inside) = text.strip_suffix(')')?.split_once('(')?;
    let mut parts = inside.split(',').map(str::trim);
    let wide = |text: &str| text.strip_prefix('%').and_then(register).map(|(register, _)| register);
    if inside == "%rip" {
        let instruction = Read::Field { structure: "pt_regs".to_owned(), name: "ip".to_owned() };
        let at = before.find(['+', '-']).unwrap_or(before.len());
        let (symbol, more) = before.split_at(at);
        let more = if more.is_empty() { 0 } else { number(more.trim_start_matches('+'))? };
        return Some(Read::Sum { of: vec![(instruction, 0)], more: (away(symbol)? as i64).wrapping_add(more) });
    }
    let more = if before.is_empty() { 0 } else { number(before)? };
    let base = parts.next().filter(|base| !base.is_empty());
    let index = parts.next();
    let scale = parts.next().map_or(Some(1), |scale| scale.parse::<u8>().ok())?;
    let shift = [1, 2, 4, 8].iter().position(|known| *known == scale)? as u8;
    let mut of = Vec::new();
    for (name, shift) in base.map(|base| (base, 0)).into_iter().chain(index.map(|index| (index, shift))) {
        of.push((wide(name)?, shift));
    }
    (!of.is_empty() && parts.next().is_none()).then_some(Read::Sum { of, more })
}

/// A number as assemblers write it.
fn number(text: &str) -> Option<i64> {
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let number = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None if digits.starts_with(|digit: char| digit.is_ascii_digit()) => digits.parse().ok()?,
        None => return None,
    };
    Some(if is_negative { number.wrapping_neg() } else { number } as i64)
}

/// A register by one of its names, with how many of its bits are below those that the name means.
fn register(name: &str) -> Option<(Read, u8)> {
    /// The letters that are the same in all names of a register, and the kernel's name of it.
    const LEGACY: [(&str, &str); 8] =
        [("a", "ax"), ("b", "bx"), ("c", "cx"), ("d", "dx"), ("si", "si"), ("di", "di"), ("bp", "bp"), ("sp", "sp")];
    let field = |name: &str| Read::Field { structure: "pt_regs".to_owned(), name: name.to_owned() };
    let numbered = |name: &str| {
        let digits = name.strip_prefix('r')?.trim_end_matches(['b', 'w', 'd']);
        let number: u8 = digits.parse().ok().filter(|number| (8..16).contains(number))?;
        let is_short = name.len() - 1 - digits.len() <= 1;
        is_short.then(|| field(&format!("r{number}")))
    };
    if let Some(read) = numbered(name) {
        return Some((read, 0));
    }
    for (letters, kernel) in LEGACY {
        if name.len() == 2 && name.starts_with(letters) && name.ends_with('h') && letters.len() == 1 {
            return Some((field(kernel), 8));
        }
        let low = format!("{letters}l");
        if name == low || name == kernel || [format!("e{kernel}"), format!("r{kernel}")].iter().any(|own| own == name) {
            return Some((field(kernel), 0));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str) -> Read {
        Read::Field { structure: "pt_regs".to_owned(), name: name.to_owned() }
    }

    fn read(text: &str) -> Read {
        argument(text, &|symbol| (symbol == "counter").then_some(0x100)).read
    }

    #[test]
    fn registers_have_several_names() {
        let cut = |name: &str, skip: u8, kind: Scalar| Read::Cut { of: Box::new(field(name)), skip, kind };
        for (text, wanted) in [
            ("8@%rdi", cut("di", 0, Scalar::unsigned(8))),
            ("-4@%eax", cut("ax", 0, Scalar::signed(4))),
            ("2@%bp", cut("bp", 0, Scalar::unsigned(2))),
            ("-1@%sil", cut("si", 0, Scalar::signed(1))),
            ("1@%ch", cut("cx", 8, Scalar::unsigned(1))),
            ("1@%al", cut("ax", 0, Scalar::unsigned(1))),
            ("-8@%r15", cut("r15", 0, Scalar::signed(8))),
            ("4@%r8d", cut("r8", 0, Scalar::unsigned(4))),
            ("1@%r9b", cut("r9", 0, Scalar::unsigned(1))),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
    }

    #[test]
    fn constants_have_their_size() {
        for (text, wanted) in [
            ("-4@$-7", -7),
            ("4@$-1", 0xffff_ffff),
            ("8@$0x10", 16),
            ("1@$300", 44),
            ("-1@$255", -1),
            ("8@$-1", -1),
            ("8@$18446744073709551615", -1),
        ] {
            assert_eq!(read(text), Read::Constant(wanted), "{text}");
        }
    }

    #[test]
    fn memory_is_at_sums() {
        let sum = |of: &[(&str, u8)], more: i64| {
            let of = of.iter().map(|(name, shift)| (field(name), *shift)).collect();
            Read::UserNumber { address: Box::new(Read::Sum { of, more }), kind: Scalar::signed(4) }
        };
        for (text, wanted) in [
            ("-4@-20(%rbp)", sum(&[("bp", 0)], -20)),
            ("-4@(%rax)", sum(&[("ax", 0)], 0)),
            ("-4@8(%rax,%rcx,4)", sum(&[("ax", 0), ("cx", 2)], 8)),
            ("-4@0(,%rdx,8)", sum(&[("dx", 3)], 0)),
            ("-4@(%rbx,%r12)", sum(&[("bx", 0), ("r12", 0)], 0)),
            ("-4@counter(%rip)", sum(&[("ip", 0)], 0x100)),
            ("-4@counter+4(%rip)", sum(&[("ip", 0)], 0x104)),
            ("-4@counter-4(%rip)", sum(&[("ip", 0)], 0xfc)),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for text in [
            "",
            "@",
            "8@",
            "%rdi",
            "3@%rdi",
            "-128@%rdi",
            "8@%xmm0",
            "8f@%rdi",
            "8@%rdx1",
            "1@%sih",
            "8@$",
            "8@$x",
            "8@$0x",
            "8@(%rdi",
            "8@()",
            "8@(,)",
            "8@(%rdi,%rsi,3)",
            "8@(%rdi,%rsi,4,1)",
            "8@x(%rdi)",
            "8@unknown(%rip)",
            "8@%fs:40",
            "8@counter",
            "8@%r16",
            "8@%r7",
            "8@%rbw",
            "8@%r8bb",
            "8@$-",
            "8@$+1",
        ] {
            let Read::Absent(why) = read(text) else { panic!("{text}: {:?}", read(text)) };
            assert!(why.contains(&format!("`{text}`")), "{why}");
        }
    }

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
