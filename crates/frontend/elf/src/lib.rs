//! BPF ELF objects to Kiln's IR and back.
#![forbid(unsafe_code)]

mod btf_ext;
mod code;
mod core;
mod emit;
mod error;
mod externs;
mod file;
mod layout;
mod maps;
mod read;
mod write;

use kiln_program::Object;

pub use crate::core::{CoreSummary, POISON_HELPER, resolve_core};
pub use error::Error;

/// An object file that was read: its meaning, and what is needed to write it again.
#[derive(Clone, Debug)]
pub struct ElfObject {
    /// What the file means.
    pub object: Object,
    sources: read::Sources,
}

impl ElfObject {
    /// Writes a rewrite of the object as a drop-in file: `object` must have the same functions, maps and externs in
    /// the same order as [`ElfObject::object`]. Code, relocations, symbols and `.BTF.ext` follow the nodes; license,
    /// map definitions and data come from the file that was read. An unchanged object gives the very same bytes.
    ///
    /// # Errors
    /// [`Error::Mismatch`] when it is no rewrite, [`Error::Layout`] when a branch is too far, [`Error::Unsupported`]
    /// when it refers to something that the file has no symbol for.
    pub fn write(&self, object: &Object) -> Result<Vec<u8>, Error> {
        write::write_file(object, &self.sources).map_err(|fault| fault.in_file(&object.name))
    }

    /// Writes the object from its parts, also where [`ElfObject::write`] would hand the original back. Without
    /// `drop_debug` and without a change the result should still be the original: tests hold it to that.
    ///
    /// # Errors
    /// As [`ElfObject::write`].
    #[doc(hidden)]
    pub fn rebuild(&self, object: &Object, drop_debug: bool) -> Result<Vec<u8>, Error> {
        write::rebuild(object, &self.sources, drop_debug).map_err(|fault| fault.in_file(&object.name))
    }
}

/// Reads an object file. `name` is a label for messages.
///
/// # Errors
/// [`Error::InvalidInput`] when the bytes are malformed, [`Error::Unsupported`] when they hold what Kiln lacks.
pub fn read(name: &str, bytes: &[u8]) -> Result<ElfObject, Error> {
    let (object, sources) = read::read_file(name, bytes).map_err(|fault| fault.in_file(name))?;
    Ok(ElfObject { object, sources })
}
