//! Objects as users load them: through libbpf.
//!
//! An [`ObjectFile`] is opened from bytes, adjusted (which programs, of which type), and loaded. Pinning is always
//! switched off, so that a check leaves nothing in the kernel. The verifier's log of each program is kept in full.

use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use kiln_platform::{AttachType, ProgramType};
use kiln_program::Program;

pub use crate::data::{LoadFailure, ProgramEntry, ProgramLog};
use crate::error::{Error, c_string, check, check_pointer};
use crate::log;
use crate::map::MapHandle;
use crate::prog::Prog;

/// An object opened by libbpf, not loaded yet.
pub struct ObjectFile {
    pointer: NonNull<libbpf_sys::bpf_object>,
}

/// Bytes kept of each verifier log.
const LOG_BYTES: usize = 1 << 20;

/// `BPF_MAP_TYPE_STRUCT_OPS`.
const STRUCT_OPS: u32 = 26;

/// Map types that the kernel wants with 0 entries: cgroup, socket, inode and task storage, `struct_ops`.
const SIZED_BY_OWNER: [u32; 7] = [19, 21, 24, 26, 28, 29, 32];

/// Bytes in a value of a map of this type and size: 127 frames if a map of stack traces leaves its depth to the loader.
pub(crate) fn loaded_size(map_type: u32, size: u32) -> u32 {
    let open = map_type == libbpf_sys::BPF_MAP_TYPE_STACK_TRACE && size == 0;
    if open { 127 * 8 } else { size }
}

impl ObjectFile {
    /// Opens an object from its bytes.
    ///
    /// # Errors
    /// [`LoadFailure`] with libbpf's messages when it cannot read it.
    pub fn open(name: &str, bytes: &[u8]) -> Result<ObjectFile, LoadFailure> {
        log::begin();
        let name_text = c_string(name)?;
        let options = libbpf_sys::bpf_object_open_opts {
            sz: size_of::<libbpf_sys::bpf_object_open_opts>() as _,
            object_name: name_text.as_ptr(),
            ..Default::default()
        };
        // SAFETY: libbpf copies what it needs of `bytes` and the name before it returns.
        let pointer = unsafe { libbpf_sys::bpf_object__open_mem(bytes.as_ptr().cast(), bytes.len() as _, &options) };
        let pointer = check_pointer(format!("opening {name}"), pointer).map_err(|error| LoadFailure {
            error,
            logs: Vec::new(),
            messages: log::take(),
        })?;
        let object = ObjectFile { pointer: NonNull::new(pointer).expect("checked above") };
        for map in object.map_pointers() {
            // SAFETY: `map` belongs to this open object; a null path means not pinned.
            unsafe { libbpf_sys::bpf_map__set_pin_path(map, std::ptr::null()) };
        }
        Ok(object)
    }

    fn program_pointers(&self) -> Vec<*mut libbpf_sys::bpf_program> {
        let mut pointers = Vec::new();
        let mut next = std::ptr::null_mut();
        loop {
            // SAFETY: the object is open; null asks for the first program.
            next = unsafe { libbpf_sys::bpf_object__next_program(self.pointer.as_ptr(), next) };
            if next.is_null() {
                return pointers;
            }
            pointers.push(next);
        }
    }

    fn map_pointers(&self) -> Vec<*mut libbpf_sys::bpf_map> {
        let mut pointers = Vec::new();
        let mut next = std::ptr::null_mut();
        loop {
            // SAFETY: the object is open; null asks for the first map.
            next = unsafe { libbpf_sys::bpf_object__next_map(self.pointer.as_ptr(), next) };
            if next.is_null() {
                return pointers;
            }
            pointers.push(next);
        }
    }

    /// Its programs.
    pub fn programs(&self) -> Vec<ProgramEntry> {
        let entry = |pointer: *mut libbpf_sys::bpf_program| {
            // SAFETY: `pointer` belongs to this object, which is open.
            unsafe {
                ProgramEntry {
                    name: text(libbpf_sys::bpf_program__name(pointer)),
                    section: text(libbpf_sys::bpf_program__section_name(pointer)),
                    program_type: libbpf_sys::bpf_program__type(pointer),
                    autoload: libbpf_sys::bpf_program__autoload(pointer),
                    slots: libbpf_sys::bpf_program__insn_cnt(pointer) as usize,
                }
            }
        };
        self.program_pointers().into_iter().map(entry).collect()
    }

    fn find(&self, name: &str) -> Result<*mut libbpf_sys::bpf_program, Error> {
        let name_text = c_string(name)?;
        // SAFETY: the object is open and the name is a C string.
        let pointer =
            unsafe { libbpf_sys::bpf_object__find_program_by_name(self.pointer.as_ptr(), name_text.as_ptr()) };
        if pointer.is_null() {
            return Err(Error::InvalidInput(format!("the object has no program {name}")));
        }
        Ok(pointer)
    }

    /// Loads only these programs.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a name the object lacks.
    pub fn only(&mut self, names: &[&str]) -> Result<(), Error> {
        for pointer in self.program_pointers() {
            // SAFETY: `pointer` belongs to this object, which is open and not loaded.
            unsafe { libbpf_sys::bpf_program__set_autoload(pointer, false) };
        }
        for name in names {
            // SAFETY: as above.
            unsafe { libbpf_sys::bpf_program__set_autoload(self.find(name)?, true) };
        }
        Ok(())
    }

    /// Does not create a map: for maps that the chosen programs do not use and this kernel may not support.
    pub fn without_maps(&mut self, unused: impl Fn(&str) -> bool) {
        for pointer in self.map_pointers() {
            // SAFETY: `pointer` belongs to this object, which is open and not loaded.
            unsafe {
                if unused(&text(libbpf_sys::bpf_map__name(pointer))) {
                    libbpf_sys::bpf_map__set_autocreate(pointer, false);
                }
            }
        }
    }

    /// Empties the `struct_ops` maps except for the member of one program, and does not create those without it, so
    /// that only this program is loaded. Returns whether a map has it.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a name the object lacks.
    pub fn only_in_slots(&mut self, name: &str) -> Result<bool, Error> {
        let wanted = self.find(name)?;
        let programs = self.program_pointers();
        let mut held = false;
        for map in self.map_pointers() {
            let mut bytes = 0;
            // SAFETY: `map` belongs to this object, which is open and not loaded. The initial value of a `struct_ops`
            // map is libbpf's copy of it, `bytes` long and aligned for pointers, where each function slot holds the
            // pointer of its program or null; libbpf reads the slots again when it loads.
            unsafe {
                if libbpf_sys::bpf_map__type(map) != STRUCT_OPS {
                    continue;
                }
                let value = libbpf_sys::bpf_map__initial_value(map, &mut bytes).cast::<*mut libbpf_sys::bpf_program>();
                let slots = match value.is_null() {
                    true => &mut [][..],
                    false => std::slice::from_raw_parts_mut(value, bytes as usize / size_of::<usize>()),
                };
                let holds = !held && slots.contains(&wanted);
                held |= holds;
                libbpf_sys::bpf_map__set_autocreate(map, holds);
                for slot in slots.iter_mut().filter(|slot| programs.contains(slot) && **slot != wanted) {
                    *slot = std::ptr::null_mut();
                }
            }
        }
        Ok(held)
    }

    /// Makes a program replace (or trace) a function of a loaded program.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a name the object lacks, [`Error::Os`] when libbpf finds no such function.
    pub fn set_target(&mut self, name: &str, target: &Prog, function: &str) -> Result<(), Error> {
        use std::os::fd::AsRawFd;
        let (pointer, function) = (self.find(name)?, c_string(function)?);
        // SAFETY: the program belongs to this open object, and the target's descriptor is open during the call; libbpf
        // keeps its number, and the caller the target until the object is loaded.
        let result =
            unsafe { libbpf_sys::bpf_program__set_attach_target(pointer, target.fd().as_raw_fd(), function.as_ptr()) };
        check("setting the target", result).map(drop)
    }

    /// Gives maps whose size is decided at load time (0 entries) this many, and stack traces without a depth 127 frames.
    /// Local storage has no size of its own.
    pub fn size_empty_maps(&mut self, entries: u32) {
        for pointer in self.map_pointers() {
            // SAFETY: `pointer` belongs to this object, which is open and not loaded.
            unsafe {
                let sized = !SIZED_BY_OWNER.contains(&libbpf_sys::bpf_map__type(pointer));
                if sized && libbpf_sys::bpf_map__max_entries(pointer) == 0 {
                    libbpf_sys::bpf_map__set_max_entries(pointer, entries);
                }
                let size = libbpf_sys::bpf_map__value_size(pointer);
                let loaded = loaded_size(libbpf_sys::bpf_map__type(pointer), size);
                if loaded != size {
                    libbpf_sys::bpf_map__set_value_size(pointer, loaded);
                }
            }
        }
    }

    /// Sets the initial contents of a data section's map, such as `.rodata`, if it has other contents.
    pub fn set_contents(&mut self, section: &str, bytes: &[u8]) {
        for pointer in self.map_pointers() {
            let mut size = 0;
            // SAFETY: `pointer` belongs to this object, which is open and not loaded. The initial value of a data
            // section's map is libbpf's own copy, `size` bytes long, which it hands out for writing.
            unsafe {
                if !text(libbpf_sys::bpf_map__name(pointer)).ends_with(section) {
                    continue;
                }
                let value = libbpf_sys::bpf_map__initial_value(pointer, &mut size).cast::<u8>();
                if !value.is_null() && size as usize == bytes.len() {
                    std::slice::from_raw_parts_mut(value, bytes.len()).copy_from_slice(bytes);
                }
            }
        }
    }

    /// Says what a section's name does not tell libbpf of a program: type, attach type, flags and, if it is a typed
    /// tracepoint's, the tracepoint.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a name the object lacks, [`Error::Os`] if the kernel has no such tracepoint.
    pub fn set_type(&mut self, program: &Program, program_type: ProgramType) -> Result<(), Error> {
        let pointer = self.find(&program.name)?;
        // SAFETY: `pointer` belongs to this object, which is open and not loaded.
        unsafe {
            libbpf_sys::bpf_program__set_type(pointer, program_type.number());
            if let Some(attach_type) = program.attach_type {
                libbpf_sys::bpf_program__set_expected_attach_type(pointer, attach_type.number());
            }
            libbpf_sys::bpf_program__set_flags(pointer, program.flags());
        }
        let traced = program.section.split_once('/').filter(|_| program.attach_type == Some(AttachType::TraceRawTp));
        if let Some((_, tracepoint)) = traced {
            let tracepoint = c_string(tracepoint)?;
            // SAFETY: as above; libbpf copies the name.
            let result = unsafe { libbpf_sys::bpf_program__set_attach_target(pointer, 0, tracepoint.as_ptr()) };
            check("finding the tracepoint", result)?;
        }
        Ok(())
    }

    /// Returns the instructions that libbpf would load for some programs: maps created, calls linked, CO-RE and all
    /// other relocations applied, nothing loaded.
    ///
    /// # Errors
    /// [`LoadFailure`] with libbpf's messages when it cannot do that.
    pub fn prepared_instructions(self, names: &[&str]) -> Result<Vec<Vec<kiln_isa::Slot>>, LoadFailure> {
        log::begin();
        // SAFETY: the object is open and not loaded.
        let result = unsafe { libbpf_sys::bpf_object__prepare(self.pointer.as_ptr()) };
        let messages = log::take();
        check("preparing the object", result).map_err(|error| LoadFailure { error, logs: Vec::new(), messages })?;
        let mut programs = Vec::new();
        for name in names {
            let pointer = self.find(name)?;
            // SAFETY: the program belongs to this open object; libbpf says how many instructions it holds, which are
            // copied before the object is closed.
            let bytes = unsafe {
                let first = libbpf_sys::bpf_program__insns(pointer).cast::<u8>();
                if first.is_null() {
                    return Err(Error::InvalidInput(format!("program {name} has no instructions")).into());
                }
                std::slice::from_raw_parts(first, 8 * libbpf_sys::bpf_program__insn_cnt(pointer) as usize).to_vec()
            };
            programs.push(kiln_isa::Slot::parse_all(&bytes).unwrap_or_default());
        }
        Ok(programs)
    }

    /// Loads it into the kernel.
    ///
    /// # Errors
    /// [`LoadFailure`] with the verifier's log of each program and libbpf's messages.
    pub fn load(self) -> Result<LoadedObject, LoadFailure> {
        self.load_with_log(0)
    }

    /// Loads it with a verifier log at a level (`BPF_LOG_LEVEL1` is 1; [`crate::LOG_STATISTICS`]; 0 logs only failures).
    ///
    /// # Errors
    /// As [`ObjectFile::load`].
    pub fn load_with_log(self, level: u32) -> Result<LoadedObject, LoadFailure> {
        log::begin();
        // SAFETY: the programs belong to this open object.
        let chosen = |pointer: &*mut libbpf_sys::bpf_program| unsafe { libbpf_sys::bpf_program__autoload(*pointer) };
        let pointers: Vec<_> = self.program_pointers().into_iter().filter(chosen).collect();
        // Zeroed memory of this size comes untouched from the kernel: a log that stays empty costs no page.
        let mut buffers: Vec<Vec<u8>> = Vec::new();
        for pointer in &pointers {
            let mut buffer = vec![0u8; LOG_BYTES];
            // SAFETY: the buffer outlives the load below, after which libbpf no longer writes to it: the pointer is
            // taken back before the buffers are dropped.
            unsafe {
                let bytes = buffer.len() as _;
                libbpf_sys::bpf_program__set_log_buf(*pointer, buffer.as_mut_ptr().cast(), bytes);
                libbpf_sys::bpf_program__set_log_level(*pointer, level);
            }
            buffers.push(buffer);
        }
        // SAFETY: the object is open and not loaded.
        let result = unsafe { libbpf_sys::bpf_object__load(self.pointer.as_ptr()) };
        let mut logs = Vec::new();
        for (pointer, buffer) in pointers.iter().zip(&buffers) {
            // SAFETY: the program still belongs to the open object.
            let program = unsafe {
                libbpf_sys::bpf_program__set_log_buf(*pointer, std::ptr::null_mut(), 0);
                text(libbpf_sys::bpf_program__name(*pointer))
            };
            let bytes = buffer.split(|byte| *byte == 0).next().unwrap_or_default();
            if !bytes.is_empty() {
                logs.push(ProgramLog { program, log: String::from_utf8_lossy(bytes).into_owned() });
            }
        }
        let messages = log::take();
        match check("loading the object", result) {
            Ok(_) => Ok(LoadedObject { file: self, logs }),
            Err(error) => Err(LoadFailure { error, logs, messages }),
        }
    }
}

impl Drop for ObjectFile {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `bpf_object__open_mem` and is closed once.
        unsafe { libbpf_sys::bpf_object__close(self.pointer.as_ptr()) };
    }
}

/// An object in the kernel; dropping it unloads everything.
pub struct LoadedObject {
    file: ObjectFile,
    /// The verifier's logs, where a level was asked for.
    pub logs: Vec<ProgramLog>,
}

/// What libbpf loaded for one program.
pub(crate) struct LoadedInstructions {
    pub slots: Vec<kiln_isa::Slot>,
    pub attach: u32,
    pub flags: u32,
    /// The descriptor of the object's types.
    pub types: Option<i32>,
    /// Where functions begin, and their types (`struct bpf_func_info`).
    pub functions: Vec<[u32; 2]>,
    /// Source lines (`struct bpf_line_info`).
    pub lines: Vec<[u32; 4]>,
}

impl LoadedObject {
    /// What libbpf loaded for a program.
    pub(crate) fn instructions(&self, name: &str) -> Result<LoadedInstructions, Error> {
        let (pointer, object) = (self.file.find(name)?, self.file.pointer.as_ptr());
        // SAFETY: the program belongs to the loaded object, which keeps its instructions and its records of functions and
        // lines; libbpf says how many there are, and gives records of the sizes of this version. All are copied.
        unsafe {
            let count = libbpf_sys::bpf_program__insn_cnt(pointer) as usize;
            let slots = copied::<u64>(libbpf_sys::bpf_program__insns(pointer).cast(), count);
            let functions = copied(
                libbpf_sys::bpf_program__func_info(pointer).cast(),
                libbpf_sys::bpf_program__func_info_cnt(pointer) as usize,
            );
            let lines = copied(
                libbpf_sys::bpf_program__line_info(pointer).cast(),
                libbpf_sys::bpf_program__line_info_cnt(pointer) as usize,
            );
            let bytes: Vec<u8> = slots.iter().flat_map(|slot| slot.to_ne_bytes()).collect();
            Ok(LoadedInstructions {
                slots: kiln_isa::Slot::parse_all(&bytes).unwrap_or_default(),
                attach: libbpf_sys::bpf_program__expected_attach_type(pointer),
                flags: libbpf_sys::bpf_program__flags(pointer),
                types: Some(libbpf_sys::bpf_object__btf_fd(object)).filter(|fd| *fd >= 0),
                functions,
                lines,
            })
        }
    }

    /// A loaded program by name.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when there is none or it was not loaded.
    pub fn program(&self, name: &str) -> Result<Prog, Error> {
        let pointer = self.file.find(name)?;
        // SAFETY: the program belongs to the loaded object.
        let fd = unsafe { libbpf_sys::bpf_program__fd(pointer) };
        if fd < 0 {
            return Err(Error::InvalidInput(format!("program {name} is not loaded")));
        }
        Ok(Prog::new(duplicate(fd)?))
    }

    /// A map by name (`.rodata` and its kin without the object's prefix too).
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when there is none or it was not created.
    pub fn map(&self, name: &str) -> Result<MapHandle, Error> {
        for pointer in self.file.map_pointers() {
            // SAFETY: the map belongs to the loaded object.
            let (own, fd) = unsafe { (text(libbpf_sys::bpf_map__name(pointer)), libbpf_sys::bpf_map__fd(pointer)) };
            if fd >= 0 && (own == name || name.starts_with('.') && own.ends_with(name)) {
                return MapHandle::new(duplicate(fd)?);
            }
        }
        Err(Error::InvalidInput(format!("the object has no map {name}")))
    }

    /// A heap by its map's name.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when there is no such arena.
    pub fn heap(&self, name: &str) -> Result<crate::Heap<'_>, Error> {
        const ARENA: u32 = 33;
        const PAGE_BYTES: usize = 4096;
        for pointer in self.file.map_pointers() {
            // SAFETY: the map belongs to the loaded object.
            let (own, kind) = unsafe { (text(libbpf_sys::bpf_map__name(pointer)), libbpf_sys::bpf_map__type(pointer)) };
            if own != name || kind != ARENA {
                continue;
            }
            let mut bytes = 0;
            // SAFETY: as above; libbpf maps an arena when it creates it, and unmaps it with the object.
            let (start, pages) = unsafe {
                let start = libbpf_sys::bpf_map__initial_value(pointer, &mut bytes);
                (start, libbpf_sys::bpf_map__max_entries(pointer) as usize)
            };
            if let Some(start) = std::ptr::NonNull::new(start.cast()) {
                // SAFETY: the mapping has the map's pages, and the result borrows the object that keeps it.
                return Ok(unsafe { crate::Heap::new(start, pages * PAGE_BYTES) });
            }
        }
        Err(Error::InvalidInput(format!("the object has no heap {name}")))
    }

    /// Names of the maps that were created.
    pub fn map_names(&self) -> Vec<String> {
        let named = |pointer: *mut libbpf_sys::bpf_map| {
            // SAFETY: the map belongs to the loaded object.
            unsafe { (libbpf_sys::bpf_map__fd(pointer) >= 0).then(|| text(libbpf_sys::bpf_map__name(pointer))) }
        };
        self.file.map_pointers().into_iter().filter_map(named).collect()
    }
}

/// The elements of an array of libbpf's; none for null or an error.
///
/// # Safety
/// The pointer must be null, an error of libbpf's, or valid for reads of so many elements.
unsafe fn copied<T: Clone>(pointer: *const T, count: usize) -> Vec<T> {
    // libbpf gives an error as an address in the last page, or as null.
    const MAX_ERROR: usize = 4095;
    if pointer.is_null() || (pointer as usize) > usize::MAX - MAX_ERROR {
        return Vec::new();
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(pointer, count) }.to_vec()
}

fn duplicate(fd: i32) -> Result<OwnedFd, Error> {
    // SAFETY: libbpf keeps `fd` open as long as the object that the caller holds.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    borrowed.try_clone_to_owned().map_err(|error| Error::Os {
        call: "duplicating a descriptor".to_owned(),
        errno: error.raw_os_error().unwrap_or(0),
    })
}

/// A C string of libbpf's, empty for null.
fn text(pointer: *const std::ffi::c_char) -> String {
    if pointer.is_null() {
        return CString::default().into_string().unwrap_or_default();
    }
    // SAFETY: libbpf's strings are NUL-terminated and live as long as their object, which the caller holds.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}
