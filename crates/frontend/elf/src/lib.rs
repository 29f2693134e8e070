//! BPF ELF objects to Kiln's IR and back.
//!
//! A BPF object is an ELF relocatable file with conventions on top: which sections hold programs, how a C variable
//! becomes a map, what an undefined symbol means, where types and source lines are. The conventions are libbpf's, and
//! libbpf is the judge of this crate: programs read here are compared with what libbpf would load, slot by slot, and
//! files written here must load wherever the original did.
//!
//! ```text
//!   bytes --file--> sections, symbols --maps, externs, code--> Object --resolve_core--> fitted to one kernel
//!                                     --btf_ext-> lines, CO-RE --^  |
//!   bytes <--emit-- sections, symbols <------write, layout----------+  (rewritten by the optimizer, or not)
//! ```
//!
//! # Reading
//! [`read`] takes the bytes of one file. Functions in `.text` are subprograms, all others programs; a section name
//! that says no program type leaves [`kiln_program::Program::program_type`] open. Maps come in libbpf's order. The
//! values that the compiler encoded for CO-RE accesses stand until [`resolve_core`] fits them to a kernel.
//!
//! Files are hostile until they prove otherwise: every count, offset and reference is checked before it is used,
//! and sizes in the result are bounded by the size of the file (`tests/hostile.rs`; any fuzzer can call [`read`]).
//!
//! # Writing
//! [`ElfObject::write`] puts a rewritten object into the place of the original, so that whoever loads the one can
//! load the other: same maps, symbols, license, types; code laid out again; relocations, function, line and CO-RE
//! records moved with their instructions. DWARF is left out when code changed, since it describes the old bytes and
//! no loader reads it. An object that did not change is the same file, byte for byte.
//!
//! # What it lacks
//! Big-endian objects, relocations with addends, `gotox` jump tables, and objects of several files that
//! `bpftool gen object` should link first. A code section cannot get its first relocation by a rewrite.
//!
//! ```no_run
//! let bytes = std::fs::read("prog.o")?;
//! let elf = kiln_elf::read("prog.o", &bytes)?;
//! for program in &elf.object.programs {
//!     println!("{}: {} slots", program.name, elf.object.program_slots(program));
//! }
//! assert_eq!(elf.write(&elf.object)?, bytes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod btf_ext;
mod code;
mod core;
mod emit;
mod error;
mod externs;
mod file;
mod kconfig;
mod layout;
mod maps;
mod operations;
mod read;
mod unreadable;
mod write;

use kiln_program::Object;

pub use crate::core::{CoreSummary, POISON_HELPER, resolve_core};
pub use error::Error;
pub use kconfig::{KernelConfig, resolve_kconfig};
pub use unreadable::Unreadable;

/// An object file that was read: its meaning, and what is needed to write it again.
#[derive(Clone, Debug)]
pub struct ElfObject {
    /// What the file means.
    pub object: Object,
    /// Functions that `object` lacks because they cannot be read, in the order of the file.
    pub unreadable: Vec<Unreadable>,
    sources: read::Sources,
}

impl ElfObject {
    /// Says why a file with code has no functions: its symbols have no type, as old compilers wrote them. `None` where
    /// it has functions, or no code outside of `.text`.
    pub fn untyped_code(&self) -> Option<String> {
        let file = &self.sources.file;
        if !self.object.functions.is_empty() || !self.unreadable.is_empty() {
            return None;
        }
        let symbols = file.symbols.iter().filter(|symbol| symbol.kind() == file::STT_NOTYPE);
        let mut named = symbols.filter(|symbol| symbol.binding() != file::STB_LOCAL).filter_map(|symbol| {
            let section = symbol.section_index().map(|index| &file.sections[index])?;
            (section.is_code() && section.name != ".text").then_some((symbol, section))
        });
        let (symbol, section) = named.next()?;
        let (symbol, section) = (&symbol.name, &section.name);
        Some(format!(
            "section {section} holds code, but symbol {symbol} there has no type (STT_NOTYPE, not STT_FUNC), as old \
             compilers wrote it; libbpf finds no program in it either: compile it again"
        ))
    }

    /// Checks that code may change its size: no function that cannot be read refers to other code.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the function that forbids it.
    pub fn check_movable(&self) -> Result<(), Error> {
        write::check_movable(&self.sources).map_err(|fault| fault.in_file(&self.object.name))
    }

    /// Writes a rewrite of the object as a drop-in file: `object` must have the same functions, maps and externs in
    /// the same order as [`ElfObject::object`]. Code, relocations, symbols and `.BTF.ext` follow the nodes; license,
    /// map definitions and data come from the file that was read. An unchanged object gives the very same bytes.
    ///
    /// # Errors
    /// [`Error::Mismatch`] when it is no rewrite, [`Error::Layout`] when a branch is too far, [`Error::Unsupported`]
    /// when it refers to something that the file has no symbol for, or when code would move that an unreadable function
    /// calls.
    pub fn write(&self, object: &Object) -> Result<Vec<u8>, Error> {
        write::write_file(object, &self.sources).map_err(|fault| fault.in_file(&object.name))
    }

    /// The file that was read with the marks of `object` ([`Object::operations`]) in its section `.kiln.ops`, and
    /// everything else as it is. `object` must have the instructions of [`ElfObject::object`].
    ///
    /// # Errors
    /// [`Error::Mismatch`] when a mark is not about instructions of the object.
    pub fn write_marks(&self, object: &Object) -> Result<Vec<u8>, Error> {
        let bytes = self.sources.file.bytes.clone();
        operations::with_marks(bytes, object).map_err(|fault| fault.in_file(&object.name))
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

/// The same file with the undefined symbols that `needed` does not name made weak: a loader resolves every symbol of
/// an object, also those that the programs wanted from it never use.
///
/// # Errors
/// [`Error::InvalidInput`] when the bytes are malformed.
pub fn with_weak_externs(name: &str, bytes: &[u8], needed: impl Fn(&str) -> bool) -> Result<Vec<u8>, Error> {
    let file = file::ElfFile::parse(bytes).map_err(|fault| fault.in_file(name))?;
    Ok(externs::weakened(file, needed))
}

/// Reads an object file. `name` is a label for messages.
///
/// # Errors
/// [`Error::InvalidInput`] when the bytes are malformed, [`Error::Unsupported`] when they hold what Kiln lacks. Where
/// only functions are at fault, the rest is read: see [`ElfObject::unreadable`].
pub fn read(name: &str, bytes: &[u8]) -> Result<ElfObject, Error> {
    let (object, sources) = read::read_file(name, bytes).map_err(|fault| fault.in_file(name))?;
    let unreadable = sources.unreadable.iter().map(|(place, fault)| Unreadable {
        function: sources.file.symbols[place.symbol].name.clone(),
        section: sources.file.section_name(place.section).to_owned(),
        slots: ((place.end - place.start) / code::SLOT_BYTES) as u32,
        reason: fault.clone().in_file(name),
    });
    let unreadable = unreadable.collect();
    Ok(ElfObject { object, unreadable, sources })
}
