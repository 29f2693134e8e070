//! Status codes, the text of the last failure, and the wall that panics do not pass.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use kiln_program::Error;
use kiln_vm as vm;

/// What a function did, and a verdict. The first four are the exit codes of the command.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum kiln_status {
    /// Done; accepted.
    KILN_OK = 0,
    /// The program is not safe.
    KILN_REJECTED = 1,
    /// A malformed object or argument, or a name that there is not.
    KILN_INVALID_INPUT = 2,
    /// Kiln, or this machine, lacks something.
    KILN_UNSUPPORTED = 3,
    /// A run was stopped: its budget is spent, or a helper failed.
    KILN_STOPPED = 4,
    /// A limit of time or memory.
    KILN_LIMIT = 5,
    /// A bug in Kiln, or a panic in its use.
    KILN_PANIC = 6,
}

/// A status with its reason.
pub(crate) struct Failure(pub kiln_status, pub String);

impl Failure {
    pub(crate) fn invalid(what: impl Into<String>) -> Failure {
        Failure(kiln_status::KILN_INVALID_INPUT, what.into())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let status = match error {
            Error::Rejected(_) => kiln_status::KILN_REJECTED,
            Error::Limit(_) => kiln_status::KILN_LIMIT,
            Error::InvalidInput(_) | Error::InvalidQuery(_) => kiln_status::KILN_INVALID_INPUT,
            _ => kiln_status::KILN_UNSUPPORTED,
        };
        Failure(status, error.to_string())
    }
}

impl From<vm::Error> for Failure {
    fn from(error: vm::Error) -> Failure {
        let status = match error {
            vm::Error::Rejected { .. } => kiln_status::KILN_REJECTED,
            vm::Error::Unsupported { .. } => kiln_status::KILN_UNSUPPORTED,
            vm::Error::Stopped { .. } => kiln_status::KILN_STOPPED,
            vm::Error::Os(_) => kiln_status::KILN_LIMIT,
            _ => kiln_status::KILN_INVALID_INPUT,
        };
        Failure(status, error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Says why the last function that failed in this thread did. The text is valid until the next call of Kiln in this
/// thread, and empty if nothing has failed.
// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
pub extern "C" fn kiln_last_error() -> *const c_char {
    LAST.with_borrow(|text| text.as_ptr())
}

/// A C string of a text, up to its first NUL.
pub(crate) fn c_text(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

/// Runs a function's body: a failure is kept for [`kiln_last_error`], a panic becomes one.
pub(crate) fn guard(body: impl FnOnce() -> Result<(), Failure>) -> kiln_status {
    // What a panic leaves half done belongs to the caller's handle, whose later use is defined: Kiln has no `unsafe`
    // that relies on a function having returned.
    let ended = catch_unwind(AssertUnwindSafe(body));
    let failure = match ended {
        Ok(Ok(())) => return kiln_status::KILN_OK,
        Ok(Err(failure)) => failure,
        Err(_) => Failure(kiln_status::KILN_PANIC, "a panic inside Kiln; its message is on standard error".to_owned()),
    };
    LAST.with_borrow_mut(|text| *text = c_text(&failure.1));
    failure.0
}
