//! Programs and libraries as files: what tables of probes need to know of them.

use std::path::Path;

use object::Object as _;
use object::read::elf::ElfFile64;

use kiln_plan::programs::{Probe, Programs};
use kiln_program::Error;

use crate::probes;

/// Maximum bytes of a program or library.
const MAX_BYTES: u64 = 1 << 30;

/// Reads the files of this machine.
pub struct Files;

impl Programs for Files {
    fn probes(&self, file: &str, provider: &str, name: &str) -> Result<Vec<Probe>, String> {
        let file = Path::new(file);
        let bytes = read(file).map_err(|error| error.to_string())?;
        let elf = parsed(file, &bytes).map_err(|error| error.to_string())?;
        probes::of(&elf, provider, name).map_err(|why| format!("{}: {why}", file.display()))
    }
}

/// The bytes of a regular file.
///
/// # Errors
/// Returns [`Error::InvalidInput`] if it is none or larger than [`MAX_BYTES`].
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, Error> {
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
pub(crate) fn parsed<'b>(file: &Path, bytes: &'b [u8]) -> Result<ElfFile64<'b>, Error> {
    ElfFile64::parse(bytes).map_err(|error| Error::InvalidInput(format!("{}: {error}", file.display())))
}

/// Whether programs of this machine's kind of processor can have been compiled into a file.
pub(crate) fn is_x86_64(elf: &ElfFile64<'_>) -> bool {
    elf.architecture() == object::Architecture::X86_64
}

/// Reads all static probes of a file of these bytes, and says how many places they have. For fuzzers.
pub fn read_all(bytes: &[u8]) -> usize {
    let Ok(elf) = ElfFile64::parse(bytes) else { return 0 };
    let names = probes::names(&elf);
    let places = names.iter().filter_map(|(provider, name)| probes::of(&elf, provider, name).ok());
    places.map(|all| all.len()).sum()
}
