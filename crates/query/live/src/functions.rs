//! Functions of programs and libraries, by their symbols.

use std::path::Path;

use object::read::elf::{ElfFile64, ElfSymbol64};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};

use kiln_program::Error;

use crate::elf;

/// A symbol of a file.
type Symbol<'d, 'f> = ElfSymbol64<'d, 'f>;

/// The offset of a function in its file.
///
/// # Errors
/// [`Error::InvalidInput`] if the file is not an ELF file of this machine's width, or has no such function.
pub fn offset(file: &Path, function: &str) -> Result<u64, Error> {
    let bytes = elf::read(file)?;
    let elf = elf::parsed(file, &bytes)?;
    let found = address(&elf, function).and_then(|address| in_file(&elf, address));
    let lacks = || format!("{}: it has no function `{function}` in its symbols", file.display());
    found.ok_or_else(|| Error::InvalidInput(lacks()))
}

/// The address of a function.
pub fn address(elf: &ElfFile64<'_>, function: &str) -> Option<u64> {
    functions(elf).find(|symbol| symbol.name() == Ok(function)).map(|symbol| symbol.address())
}

/// The symbols of functions that a file defines.
pub fn functions<'d, 'f>(elf: &'f ElfFile64<'d>) -> impl Iterator<Item = Symbol<'d, 'f>> {
    let symbols = elf.symbols().chain(elf.dynamic_symbols());
    symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
}

/// The place in its file of what is at an address.
pub fn in_file(elf: &ElfFile64<'_>, address: u64) -> Option<u64> {
    elf.segments().find_map(|segment| {
        let (start, bytes) = segment.file_range();
        let inside = address.checked_sub(segment.address()).filter(|inside| *inside < bytes)?;
        start.checked_add(inside)
    })
}

/// The functions of a program or library, by their places in the file.
#[derive(Debug, Default)]
pub struct Functions(Vec<Function>);

#[derive(Debug)]
struct Function {
    start: u64,
    /// 0 where the file does not say it.
    bytes: u64,
    name: Box<str>,
}

/// Functions of one file that are kept, and bytes of a function's name.
const MAX_FUNCTIONS: usize = 1 << 20;
const MAX_NAME: usize = 256;

impl Functions {
    /// The functions of a file with these bytes; none if it is no ELF file of this machine's width.
    pub fn of(bytes: &[u8]) -> Functions {
        let Ok(elf) = ElfFile64::parse(bytes) else { return Functions::default() };
        let function = |symbol: Symbol<'_, '_>| {
            let name: String = symbol.name().ok()?.chars().take(MAX_NAME).collect();
            let start = in_file(&elf, symbol.address())?;
            (!name.is_empty()).then(|| Function { start, bytes: symbol.size(), name: name.into() })
        };
        let mut all: Vec<Function> = functions(&elf).take(MAX_FUNCTIONS).filter_map(function).collect();
        // Of several names the shortest comes last, and is found.
        all.sort_by_key(|one| (one.start, std::cmp::Reverse(one.name.len())));
        Functions(all)
    }

    /// The function at a place of the file.
    pub fn at(&self, place: u64) -> Option<&str> {
        let found = self.0.partition_point(|one| one.start <= place).checked_sub(1)?;
        let Function { start, bytes, name } = &self.0[found];
        (*bytes == 0 || place - start < *bytes).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_their_symbols() {
        let own = std::env::current_exe().expect("it has a program");
        assert!(offset(&own, "main").expect("every program has it") > 0);
        assert!(offset(&own, "no such function").is_err());
        assert!(offset(Path::new("/dev/zero"), "main").is_err());
        assert!(offset(Path::new("/proc/self/maps"), "main").is_err());
        let functions = Functions::of(&std::fs::read(&own).expect("a file"));
        let main = offset(&own, "main").expect("every program has it");
        assert_eq!(functions.at(main), Some("main"));
        assert_eq!(functions.at(main + 1), Some("main"));
        assert_eq!(functions.at(0), None);
        assert!(Functions::of(b"\x7fELF").0.is_empty());
    }
}
