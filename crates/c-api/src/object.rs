//! Objects: ELF files, Kiln's text, raw instructions.

use std::ffi::{c_char, c_void};
use std::path::Path;

use kiln_inspect::input::{self, Input};
use kiln_platform::ProgramType;
use kiln_program::bytecode;

use crate::failure::{Failure, guard, kiln_status};
use crate::pointer;

/// An object: programs and maps.
pub struct kiln_object {
    pub(crate) input: Input,
}

/// Opens an object file, or Kiln's text if the name ends with `.bpf`.
///
/// # Safety
/// `path` is a string, `object` a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_object_open(path: *const c_char, object: *mut *mut kiln_object) -> kiln_status {
    guard(|| {
        // SAFETY: a string, as the caller promises.
        let path = unsafe { pointer::text(path, "the path") }?;
        let input = input::open(Path::new(path), &[])?;
        // SAFETY: a place for a handle, as the caller promises.
        unsafe { pointer::give_handle(object, kiln_object { input }) }
    })
}

/// Reads an object from memory, which need not stay. Text if `name` ends with `.bpf`, else ELF.
///
/// # Safety
/// `name` is a string, `bytes` has `size` bytes, `object` is a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_object_from_memory(
    name: *const c_char,
    bytes: *const c_void,
    size: usize,
    object: *mut *mut kiln_object,
) -> kiln_status {
    guard(|| {
        // SAFETY: a string and bytes, as the caller promises.
        let (name, bytes) = unsafe { (pointer::text(name, "the name")?, pointer::bytes(bytes, size, "the object")?) };
        let input = input::parse(name, bytes.to_vec(), &[])?;
        // SAFETY: a place for a handle, as the caller promises.
        unsafe { pointer::give_handle(object, kiln_object { input }) }
    })
}

/// Makes an object of raw instructions, as `BPF_PROG_LOAD` takes them: one program, `name`, of a type such as `xdp`,
/// without maps.
///
/// # Safety
/// `name` and `type` are strings, `bytes` has `size` bytes, `object` is a place for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_object_from_bytecode(
    name: *const c_char,
    r#type: *const c_char,
    bytes: *const c_void,
    size: usize,
    object: *mut *mut kiln_object,
) -> kiln_status {
    guard(|| {
        // SAFETY: strings and bytes, as the caller promises.
        let (name, type_name, bytes) = unsafe {
            let name = pointer::text(name, "the name")?;
            (name, pointer::text(r#type, "the type")?, pointer::bytes(bytes, size, "the program")?)
        };
        let program_type = ProgramType::from_name(type_name)
            .ok_or_else(|| Failure::invalid(format!("no program type is called {type_name:?}")))?;
        let object_ = bytecode::object(name, program_type, bytes, Vec::new())
            .map_err(|error| Failure::invalid(format!("{name}: {error}")))?;
        // SAFETY: a place for a handle, as the caller promises.
        unsafe { pointer::give_handle(object, kiln_object { input: input::of_object(object_) }) }
    })
}

/// Frees an object; null is none. Checks and VMs that were made of it stay.
///
/// # Safety
/// `object` is null or an object that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kiln_object_free(object: *mut kiln_object) {
    // SAFETY: as the caller promises.
    unsafe { pointer::free(object) }
}
