//! BPF ELF objects to Kiln's IR and back.
#![forbid(unsafe_code)]

mod btf_ext;
mod code;
mod error;
mod externs;
mod file;
mod maps;
mod read;

use kiln_program::Object;

pub use error::Error;

/// An object file that was read: its meaning, and what is needed to write it again.
#[derive(Clone, Debug)]
pub struct ElfObject {
    /// What the file means.
    pub object: Object,
    sources: read::Sources,
}

/// Reads an object file. `name` is a label for messages.
///
/// # Errors
/// [`Error::InvalidInput`] when the bytes are malformed, [`Error::Unsupported`] when they hold what Kiln lacks.
pub fn read(name: &str, bytes: &[u8]) -> Result<ElfObject, Error> {
    let (object, sources) = read::read_file(name, bytes).map_err(|fault| fault.in_file(name))?;
    Ok(ElfObject { object, sources })
}
