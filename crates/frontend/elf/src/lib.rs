//! BPF ELF objects to Kiln's IR and back.
//!
//! A BPF object is an ELF relocatable file with conventions on top: which sections hold programs, how a C variable
//! becomes a map, what an undefined symbol means, where types and source lines are. The conventions are libbpf's, and
//! tests compare this crate with libbpf: a program read here must equal what libbpf would load, slot by slot, and files
//! written here must load wherever the original did.
//!
//! ```text
//!   bytes --file--> sections, symbols --maps, externs, code--> Object --resolve_core--> fitted to one kernel
//!                                     --btf_ext-> lines, CO-RE --^  |
//!   bytes <--emit-- sections, symbols <------write, layout----------+  (rewritten by the optimizer, or not)
//! ```
//!
//! # Reading
//! [`read`] takes the bytes of one file. Functions in `.text` are subprograms, and all others are programs. If a
//! section name gives no program type, [`kiln_program::Program::program_type`] is `None`. Maps are in libbpf's order.
//! A table in `.jumptables` is a map and one function's [`kiln_program::Function::tables`].
//! CO-RE accesses keep the compiler's values until [`resolve_core`] fits them to a kernel.
//!
//! Files are untrusted: every count, offset and reference is checked before it is used, and sizes in the result are
//! bounded by the size of the file (`tests/hostile.rs`; any fuzzer can call [`read`]).
//!
//! # Writing
//! [`ElfObject::write`] writes a rewritten object as a replacement of the original. Maps, symbols, license and types
//! stay the same. Code is laid out again, and relocations, function, line and CO-RE records move with their
//! instructions. If code changed, DWARF is removed, because it describes the old bytes and no loader reads it. An
//! object that did not change is the same file, byte for byte.
//!
//! # What it lacks
//! Big-endian objects, relocations with addends, a jump table of several functions, and objects of several files that `bpftool gen
//! object` should link first. A rewrite cannot add the first relocation of a code section.
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
mod libbpf;
mod maps;
mod moved_tables;
mod operations;
mod read;
mod tables;
mod unreadable;
mod unused;
mod write;

use std::collections::BTreeSet;

use kiln_program::{FunctionId, Object};

pub use crate::core::{CoreSummary, resolve_core};
pub use error::Error;
pub use kconfig::{KernelConfig, refused_kconfig, resolve_kconfig};
pub use unreadable::Unreadable;

/// An object file that was read, with the data needed to write it again.
#[derive(Clone, Debug)]
pub struct ElfObject {
    /// What the file means.
    pub object: Object,
    /// Functions that `object` lacks because they cannot be read, in the order of the file.
    pub unreadable: Vec<Unreadable>,
    sources: read::Sources,
}

impl ElfObject {
    /// Returns why a file with code has no functions: old compilers wrote symbols without a type. `None` if it has
    /// functions, or no code outside `.text`.
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

    /// Returns why libbpf does not open the file, or the kernel takes nothing of it, whatever its programs do. `None` if
    /// its programs can be loaded as far as they are safe, or if symbols are missing: the object may be linked first.
    pub fn refusal(&self) -> Option<&str> {
        self.sources.refusal.as_deref()
    }

    /// Checks that code may change its size: no function that cannot be read refers to other code.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] with the function that forbids it.
    pub fn check_movable(&self) -> Result<(), Error> {
        write::check_movable(&self.sources).map_err(|fault| fault.in_file(&self.object.name))
    }

    /// Writes a rewrite of the object as a drop-in file: `object` must have the same functions, maps and externs in
    /// the same order as [`ElfObject::object`]. Code, relocations, symbols and `.BTF.ext` follow the nodes; license,
    /// map definitions and data come from the file that was read. An unchanged object gives the very same bytes.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if it is not a rewrite, [`Error::Layout`] if a branch is too far, and
    /// [`Error::Unsupported`] if it refers to something without a symbol in the file, or if code would move that an
    /// unreadable function calls.
    pub fn write(&self, object: &Object) -> Result<Vec<u8>, Error> {
        write::write_file(object, &self.sources).map_err(|fault| fault.in_file(&object.name))
    }

    /// Writes a rewrite as [`ElfObject::write`] does, without static functions that something called before the rewrite and
    /// that nothing refers to after it, and without their symbols and records. Returns the file and these functions.
    ///
    /// # Errors
    /// Returns those of [`ElfObject::write`], and [`Error::InvalidInput`] if the file's relocations are malformed.
    pub fn write_used(&self, object: &Object) -> Result<(Vec<u8>, BTreeSet<FunctionId>), Error> {
        write::write_used(object, &self.sources).map_err(|fault| fault.in_file(&object.name))
    }

    /// Returns the file that was read with the marks of `object` ([`Object::operations`]) in its section `.kiln.ops`,
    /// and everything else unchanged. `object` must have the instructions of [`ElfObject::object`].
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if a mark names instructions that the object does not have.
    pub fn write_marks(&self, object: &Object) -> Result<Vec<u8>, Error> {
        let bytes = self.sources.file.bytes.clone();
        operations::with_marks(bytes, object).map_err(|fault| fault.in_file(&object.name))
    }

    /// Writes the object from its parts, even if [`ElfObject::write`] would return the original. Without `drop_debug`
    /// and without a change the result must equal the original; tests check this.
    ///
    /// # Errors
    /// As [`ElfObject::write`].
    #[doc(hidden)]
    pub fn rebuild(&self, object: &Object, drop_debug: bool) -> Result<Vec<u8>, Error> {
        write::rebuild(object, &self.sources, drop_debug, &BTreeSet::new()).map_err(|fault| fault.in_file(&object.name))
    }
}

/// Returns the file with all undefined symbols made weak that `needed` does not name. A loader resolves every symbol of
/// an object, also those that the wanted programs never use.
///
/// # Errors
/// Returns [`Error::InvalidInput`] if the bytes are malformed.
pub fn with_weak_externs(name: &str, bytes: &[u8], needed: impl Fn(&str) -> bool) -> Result<Vec<u8>, Error> {
    let file = file::ElfFile::parse(bytes).map_err(|fault| fault.in_file(name))?;
    Ok(externs::weakened(file, needed))
}

/// Reads an object file. `name` is a label for messages.
///
/// # Errors
/// Returns [`Error::InvalidInput`] if the bytes are malformed, and [`Error::Unsupported`] if they use a feature that
/// Kiln lacks. If only functions are at fault, the rest is read: see [`ElfObject::unreadable`].
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
