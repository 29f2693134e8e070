//! Functions of programs and libraries, by their symbols.

use std::path::Path;

use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};

use crate::error::Error;

/// Maximum bytes of a program or library.
const MAX_BYTES: u64 = 1 << 30;

/// The offset of a function in its file.
///
/// # Errors
/// [`Error::InvalidInput`] if the file is not an ELF file of this machine's width, or has no such function.
pub fn offset(file: &Path, function: &str) -> Result<u64, Error> {
    let invalid = |why: &str| Error::InvalidInput(format!("{}: {why}", file.display()));
    let about = std::fs::metadata(file).map_err(|error| Error::file(file, &error))?;
    if !about.is_file() || about.len() > MAX_BYTES {
        return Err(invalid("it is no file, or larger than 1 GiB"));
    }
    let bytes = std::fs::read(file).map_err(|error| Error::file(file, &error))?;
    let elf: ElfFile64<'_> = ElfFile64::parse(&bytes[..]).map_err(|error| invalid(&error.to_string()))?;
    let mut functions = elf.symbols().chain(elf.dynamic_symbols()).filter(|symbol| {
        symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.name() == Ok(function)
    });
    let lacks = || invalid(&format!("it has no function `{function}` in its symbols"));
    let address = functions.next().ok_or_else(lacks)?.address();
    let in_file = elf.segments().find_map(|segment| {
        let (start, bytes) = segment.file_range();
        let inside = address.checked_sub(segment.address()).filter(|inside| *inside < bytes)?;
        start.checked_add(inside)
    });
    in_file.ok_or_else(lacks)
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
    }
}
