//! Programs and libraries as ELF files.

use std::path::Path;

use object::Object as _;
use object::read::elf::ElfFile64;

use kiln_program::Error;

/// Maximum bytes of a program or library.
const MAX_BYTES: u64 = 1 << 30;

/// The bytes of a regular file.
///
/// # Errors
/// Returns [`Error::InvalidInput`] if it is none or larger than [`MAX_BYTES`].
pub fn read(file: &Path) -> Result<Vec<u8>, Error> {
    let about = std::fs::metadata(file).map_err(|error| Error::file(file, &error))?;
    if !about.is_file() || about.len() > MAX_BYTES {
        return Err(Error::InvalidInput(format!("{}: it is no file, or larger than 1 GiB", file.display())));
    }
    std::fs::read(file).map_err(|error| Error::file(file, &error))
}

/// A file as ELF.
///
/// # Errors
/// Returns [`Error::InvalidInput`] if it is none, or not of this machine's width.
pub fn parsed<'b>(file: &Path, bytes: &'b [u8]) -> Result<ElfFile64<'b>, Error> {
    ElfFile64::parse(bytes).map_err(|error| Error::InvalidInput(format!("{}: {error}", file.display())))
}

/// Whether programs of this machine's kind of processor can have been compiled into a file.
pub fn is_x86_64(elf: &ElfFile64<'_>) -> bool {
    elf.architecture() == object::Architecture::X86_64
}

/// Whether this machine's processor runs a file. Of one that is not known here, the file's own word is taken.
pub fn is_of_this_machine(elf: &ElfFile64<'_>) -> bool {
    let own = match std::env::consts::ARCH {
        "x86_64" => object::Architecture::X86_64,
        "aarch64" => object::Architecture::Aarch64,
        _ => return true,
    };
    elf.architecture() == own
}
