//! What a program is attached to, as the kernel's BTF describes it.

use kiln_platform::{IteratorTarget, RawTracepoint, is_boolean_lsm_hook};
use kiln_program::btf::{Btf, Parameter, TypeId};

/// The largest error number (kernel `MAX_ERRNO`).
pub(crate) const MAX_ERRNO: i32 = 4095;

/// What a program is attached to.
#[derive(Clone, Debug)]
pub(crate) struct Hook {
    /// Its name, without the kernel's prefix.
    pub name: String,
    /// Its function type in the kernel's BTF.
    pub prototype: TypeId,
    /// The kernel structure that a `struct_ops` program is put in.
    pub structure: Option<String>,
    /// The function type whose parameters' names carry the kernel's marks (`__nullable`).
    pub marks: TypeId,
    /// The first parameter is the tracer's own.
    pub skips_first: bool,
    /// The arguments are what the kernel says, and stay so while the program runs.
    pub trusted: bool,
    pub tracepoint: Option<&'static RawTracepoint>,
    pub iterator: Option<&'static IteratorTarget>,
}

/// What a hook lets programs return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HookReturn {
    /// Nothing: r0 is not looked at.
    Nothing,
    /// Any number.
    Any,
    /// One of these, both included.
    Range(i32, i32),
}

/// What an LSM hook that returns a number may return.
pub(crate) fn lsm_range(name: &str) -> HookReturn {
    if is_boolean_lsm_hook(name) { HookReturn::Range(0, 1) } else { HookReturn::Range(-MAX_ERRNO, 0) }
}

/// Which parameter lies at a byte of the array; the number of them for the value returned, and more behind that.
pub(crate) fn argument_at(types: &Btf, parameters: &[Parameter], result: TypeId, at: u64) -> usize {
    let bytes = |id: TypeId| types.size_of(id).unwrap_or(0).next_multiple_of(8);
    let mut end = 0;
    for (index, parameter) in parameters.iter().enumerate() {
        end += bytes(parameter.type_id);
        if at < end {
            return index;
        }
    }
    if at < end + bytes(result) { parameters.len() } else { parameters.len() + 1 }
}
