//! Exceptions, and the wall that panics do not pass.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kiln_program::Error;
use pyo3::exceptions::{PyException, PyKeyError};
use pyo3::prelude::*;

pyo3::create_exception!(kiln_ebpf, KilnError, PyException, "The base of Kiln's exceptions.");
pyo3::create_exception!(kiln_ebpf, Rejected, KilnError, "The verifier rejects the program; the text explains why.");
pyo3::create_exception!(
    kiln_ebpf,
    Unsupported,
    KilnError,
    "The VM lacks something that the program needs, named here."
);
pyo3::create_exception!(kiln_ebpf, InvalidInput, KilnError, "A malformed object, or a value that does not fit.");
pyo3::create_exception!(
    kiln_ebpf,
    Stopped,
    KilnError,
    "A run was stopped: its step limit is reached, or a helper failed."
);
pyo3::create_exception!(kiln_ebpf, MapError, KilnError, "A map operation failed, as it does in the kernel.");
pyo3::create_exception!(kiln_ebpf, InternalError, KilnError, "A bug in Kiln.");

/// The exception for what is not right about an argument.
pub fn invalid(what: impl Into<String>) -> PyErr {
    InvalidInput::new_err(what.into())
}

/// The exception for a name or key that is not there.
pub fn missing(what: impl Into<String>) -> PyErr {
    PyKeyError::new_err(what.into())
}

/// The exception for an error of reading or checking an object.
pub fn of_error(error: &Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Rejected(_) => Rejected::new_err(text),
        Error::InvalidInput(_) | Error::InvalidQuery(_) => InvalidInput::new_err(text),
        _ => Unsupported::new_err(text),
    }
}

/// The exception for an error of the VM.
pub fn of_vm(error: &kiln_vm::Error) -> PyErr {
    let text = error.to_string();
    match error {
        kiln_vm::Error::Rejected { .. } => Rejected::new_err(text),
        kiln_vm::Error::Unsupported { .. } => Unsupported::new_err(text),
        kiln_vm::Error::Stopped { .. } => Stopped::new_err(text),
        kiln_vm::Error::Operation { .. } => MapError::new_err(text),
        kiln_vm::Error::Missing { .. } => PyKeyError::new_err(text),
        _ => InvalidInput::new_err(text),
    }
}

/// Runs `work` with the GIL released, on a value that other threads may use meanwhile. A panic becomes [`InternalError`].
///
/// # Errors
/// Returns what `work` returns as an error, as an exception.
pub fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> std::result::Result<T, PyErr> + Send) -> PyResult<T> {
    // What a panic leaves half done is used again only through interfaces that check: the VM has no `unsafe` that relies
    // on a function having returned.
    let ended = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    ended.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(InternalError::new_err(text.unwrap_or_else(|| "a panic without a message".to_owned())))
    })
}
