//! The crate without libbpf: the same names, and nothing that could be loaded.
//!
//! Types of what the kernel would hold have no value, so callers need no `cfg`: they get [`Error::NoLibbpf`] where they
//! begin, and what follows cannot run.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use kiln_isa::Slot;
use kiln_platform::ProgramType;
use kiln_program::{MapId, Object, Program};

use crate::data::{LoadFailure, ProgInfo, ProgramEntry, ProgramLog, TestInput, TestOutput, Walked};
use crate::error::Error;

/// What there is none of.
#[derive(Clone, Copy, Debug)]
enum Never {}

/// Whether this process may load programs: never, in this build.
///
/// # Errors
/// Always returns [`Error::NoLibbpf`].
pub fn available() -> Result<(), Error> {
    Err(Error::NoLibbpf)
}

/// Loads one program of an IR object, which this build cannot.
///
/// # Errors
/// Always returns [`Error::NoLibbpf`].
pub fn load_image(_: &Object, _: &Program) -> Result<LoadedImage, LoadFailure> {
    Err(Error::NoLibbpf.into())
}

/// Loads all programs of an IR object, which this build cannot.
///
/// # Errors
/// Always returns [`Error::NoLibbpf`].
pub fn load_images(_: &Object) -> Result<LoadedImages, LoadFailure> {
    Err(Error::NoLibbpf.into())
}

/// A program loaded from the IR. There is none in this build.
#[derive(Debug)]
pub struct LoadedImage {
    /// The program.
    pub prog: Prog,
    /// Its maps.
    pub maps: HashMap<MapId, MapHandle>,
}

/// Several programs loaded from the IR. There are none in this build.
#[derive(Debug)]
pub struct LoadedImages {
    /// The programs, in the object's order.
    pub progs: Vec<Prog>,
    /// Their maps.
    pub maps: HashMap<MapId, MapHandle>,
}

/// Declares types without values and their methods, each of which is unreachable.
macro_rules! absent {
    ($($(#[$about:meta])* $name:ident {
        $($(#[$what:meta])* fn $method:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*
    })*) => {$(
        $(#[$about])*
        #[derive(Debug)]
        pub struct $name(Never);

        impl $name {$(
            $(#[$what])*
            pub fn $method(&self $(, $argument: $type)*) $(-> $result)? {
                $(let _ = $argument;)*
                match self.0 {}
            }
        )*}
    )*};
}

absent! {
    /// A structure that the kernel has registered.
    Registered {}
    /// A program in the kernel.
    Prog {
        /// The descriptor.
        fn fd(&self) -> BorrowedFd<'_>;
        /// The kernel's information about it.
        fn info(&self) -> Result<ProgInfo, Error>;
        /// Runs it once.
        fn test_run(&self, input: &TestInput) -> Result<TestOutput, Error>;
        /// Runs it on a context.
        fn test_run_context(&self, context: &[u8]) -> Result<(u32, Vec<u8>), Error>;
        /// Sends frames.
        fn send_frames(&self, packet: &[u8], count: u32) -> Result<(), Error>;
    }
    /// A map in the kernel.
    MapHandle {
        /// The map's type.
        fn map_type(&self) -> u32;
        /// Bytes of a key.
        fn key_bytes(&self) -> u32;
        /// Bytes of a value.
        fn value_bytes(&self) -> u32;
        /// Maximum number of entries.
        fn max_entries(&self) -> u32;
        /// The descriptor.
        fn fd(&self) -> BorrowedFd<'_>;
        /// The value of a key.
        fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;
        /// Sets the value of a key.
        fn update(&self, key: &[u8], value: &[u8], flags: u64) -> Result<(), Error>;
        /// Removes a key.
        fn delete(&self, key: &[u8]) -> Result<bool, Error>;
        /// All entries.
        fn entries(&self, limit: usize) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Error>;
        /// The entries that say something.
        fn walk(&self, limit: usize) -> Result<Walked, Error>;
        /// Puts a program into a map of programs.
        fn set_program(&self, key: &[u8], program: &Prog) -> Result<(), Error>;
        /// Puts a map into a map of maps.
        fn set_inner_map(&self, key: &[u8], inner: &MapHandle) -> Result<(), Error>;
    }
    /// An attachment.
    Link {}
    /// Run times that the kernel keeps.
    Statistics {}
    /// A heap of a loaded object.
    HeapOf {
        /// The address of its first byte.
        fn address(&self) -> u64;
        /// Its size.
        fn bytes(&self) -> usize;
        /// Allocates pages.
        fn populate(&self, offset: usize, bytes: usize) -> Result<(), Error>;
        /// Reads eight bytes.
        fn load(&self, offset: usize) -> Option<u64>;
        /// Writes eight bytes.
        fn store(&self, offset: usize, value: u64) -> Option<()>;
        /// Replaces eight bytes.
        fn compare_exchange(&self, offset: usize, expected: u64, new: u64) -> Option<u64>;
        /// The offset of a pointer.
        fn offset(&self, pointer: u64) -> Option<usize>;
    }
    /// The reading end of a ring buffer.
    RingReader {}
    /// An object opened by libbpf.
    ObjectFile {
        /// Its programs.
        fn programs(&self) -> Vec<ProgramEntry>;
    }
}

/// A heap of a loaded object.
pub type Heap<'o> = &'o HeapOf;

/// An object in the kernel. There is none in this build.
#[derive(Debug)]
pub struct LoadedObject {
    /// The verifier's logs.
    pub logs: Vec<ProgramLog>,
    never: Never,
}

/// A program loaded with records of native operations. There is none in this build.
#[derive(Debug)]
pub struct NativeProgram {
    /// The program.
    pub prog: Prog,
    /// How many records it has.
    pub records: usize,
}

impl LoadedObject {
    /// A program with native operations.
    pub fn native_program(&self, _: &Object, _: &Program) -> Option<NativeProgram> {
        match self.never {}
    }

    /// A program by name.
    ///
    /// # Errors
    /// None: there is no object.
    pub fn program(&self, _: &str) -> Result<Prog, Error> {
        match self.never {}
    }

    /// A map by name.
    ///
    /// # Errors
    /// None: there is no object.
    pub fn map(&self, _: &str) -> Result<MapHandle, Error> {
        match self.never {}
    }

    /// A heap by name.
    ///
    /// # Errors
    /// None: there is no object.
    pub fn heap(&self, _: &str) -> Result<Heap<'_>, Error> {
        match self.never {}
    }

    /// Names of all maps.
    pub fn map_names(&self) -> Vec<String> {
        match self.never {}
    }
}

impl ObjectFile {
    /// Opens an object, which this build cannot.
    ///
    /// # Errors
    /// Always returns [`Error::NoLibbpf`].
    pub fn open(_: &str, _: &[u8]) -> Result<ObjectFile, LoadFailure> {
        Err(Error::NoLibbpf.into())
    }

    /// Leaves other programs out.
    ///
    /// # Errors
    /// None: there is no object.
    pub fn only(&mut self, _: &[&str]) -> Result<(), Error> {
        match self.0 {}
    }

    /// Leaves maps out.
    pub fn without_maps(&mut self, _: impl Fn(&str) -> bool) {
        match self.0 {}
    }

    /// Leaves other slots of a `struct_ops` out.
    ///
    /// # Errors
    /// None: there is no object.
    pub fn only_in_slots(&mut self, _: &str) -> Result<bool, Error> {
        match self.0 {}
    }

    /// Sets what a program replaces or traces.
    ///
    /// # Errors
    /// None: there is no object.
    pub fn set_target(&mut self, _: &str, _: &Prog, _: &str) -> Result<(), Error> {
        match self.0 {}
    }

    /// Sets the size of maps that have none.
    pub fn size_empty_maps(&mut self, _: u32) {
        match self.0 {}
    }

    /// Sets the contents of a data section.
    pub fn set_contents(&mut self, _: &str, _: &[u8]) {
        match self.0 {}
    }

    /// Sets a program's type.
    ///
    /// # Errors
    /// None: there is no object.
    pub fn set_type(&mut self, _: &Program, _: ProgramType) -> Result<(), Error> {
        match self.0 {}
    }

    /// The instructions as libbpf would load them.
    ///
    /// # Errors
    /// None: there is no object.
    pub fn prepared_instructions(self, _: &[&str]) -> Result<Vec<Vec<Slot>>, LoadFailure> {
        match self.0 {}
    }

    /// Loads it.
    ///
    /// # Errors
    /// None: there is no object.
    pub fn load(self) -> Result<LoadedObject, LoadFailure> {
        match self.0 {}
    }

    /// Loads it with a log.
    ///
    /// # Errors
    /// None: there is no object.
    pub fn load_with_log(self, _: u32) -> Result<LoadedObject, LoadFailure> {
        match self.0 {}
    }
}

impl Statistics {
    /// Begins to keep run times, which this build cannot.
    ///
    /// # Errors
    /// Always returns [`Error::NoLibbpf`].
    pub fn keep() -> Result<Statistics, Error> {
        Err(Error::NoLibbpf)
    }
}

impl RingReader {
    /// Opens the reading end of a map.
    ///
    /// # Errors
    /// None: there is no map.
    pub fn new(map: &MapHandle) -> Result<RingReader, Error> {
        match map.0 {}
    }

    /// Removes records.
    ///
    /// # Errors
    /// None: there is no reader.
    pub fn read(&mut self, _: impl FnMut(&[u8])) -> Result<usize, Error> {
        match self.0 {}
    }

    /// Waits for records.
    ///
    /// # Errors
    /// None: there is no reader.
    pub fn wait(&mut self, _: Duration, _: impl FnMut(&[u8])) -> Result<usize, Error> {
        match self.0 {}
    }

    /// Bytes that are not read.
    pub fn unread(&self) -> usize {
        match self.0 {}
    }
}

impl Registered {
    /// Registers a structure, which this build cannot.
    ///
    /// # Errors
    /// Always returns [`Error::NoLibbpf`].
    pub fn new(_: &str, _: &[(&str, &Prog)], _: &[(&str, &[u8])]) -> Result<Registered, Error> {
        Err(Error::NoLibbpf)
    }
}

impl Link {
    /// Asks about an interface.
    ///
    /// # Errors
    /// Always returns [`Error::NoLibbpf`].
    pub fn require_no_xdp(_: u32) -> Result<(), Error> {
        Err(Error::NoLibbpf)
    }

    /// Attaches to an interface.
    ///
    /// # Errors
    /// None: there is no program.
    pub fn xdp(prog: &Prog, _: u32, _: crate::XdpMode) -> Result<Link, Error> {
        match prog.0 {}
    }

    /// Attaches to a network namespace.
    ///
    /// # Errors
    /// None: there is no program.
    pub fn socket_lookup(prog: &Prog, _: &std::path::Path) -> Result<Link, Error> {
        match prog.0 {}
    }

    /// Attaches to the clock of a processor.
    ///
    /// # Errors
    /// None: there is no program.
    pub fn cpu_clock(prog: &Prog, _: u32, _: u64) -> Result<Link, Error> {
        match prog.0 {}
    }

    /// Attaches to a tracepoint.
    ///
    /// # Errors
    /// None: there is no program.
    pub fn tracepoint(prog: &Prog, _: &str, _: &str) -> Result<Link, Error> {
        match prog.0 {}
    }

    /// Attaches to a typed tracepoint.
    ///
    /// # Errors
    /// None: there is no program.
    pub fn typed_tracepoint(prog: &Prog) -> Result<Link, Error> {
        match prog.0 {}
    }

    /// Attaches to a function of a program or library.
    ///
    /// # Errors
    /// None: there is no program.
    pub fn uprobe_everywhere(prog: &Prog, _: &std::path::Path, _: crate::UserProbe) -> Result<Link, Error> {
        match prog.0 {}
    }
}

/// Attachment points, of which this build can use none.
pub mod attach {
    /// Where tracefs is mounted. Programs cannot be attached in this build, so it is not looked for.
    pub fn tracefs() -> Option<std::path::PathBuf> {
        None
    }
}

/// Probes of the running kernel, which this build cannot make: nothing is known.
pub mod probe {
    use kiln_isa::Insn;
    use kiln_platform::{Helper, MapType, ProgramType};

    /// Whether programs of this type load.
    pub fn program_type(_: ProgramType) -> Option<bool> {
        None
    }

    /// Whether maps of this type can be made.
    pub fn map_type(_: MapType) -> Option<bool> {
        None
    }

    /// Whether programs of this type may call a helper.
    pub fn helper(_: ProgramType, _: &Helper) -> Option<bool> {
        None
    }

    /// Whether a program of these instructions loads.
    pub fn instructions(_: &[Insn]) -> Option<bool> {
        None
    }
}
