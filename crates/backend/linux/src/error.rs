//! Errors of the operating system and libbpf.

/// An error of the kernel or libbpf.
#[non_exhaustive]
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{call}: {}{}", std::io::Error::from_raw_os_error(*errno), advice(*errno))]
    Os {
        /// The call, with what it was about.
        call: String,
        /// `errno`.
        errno: i32,
    },
    /// A name that does not exist, or a value that does not fit.
    #[error("{0}")]
    InvalidInput(String),
    /// This build was made without libbpf.
    #[error("this build of Kiln cannot use the kernel: it was made without libbpf (the feature `kernel`)")]
    NoLibbpf,
}

impl Error {
    /// The `errno` of this thread's last failed system call.
    pub(crate) fn last_os(call: &str) -> Error {
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc_errno::EINVAL);
        Error::Os { call: call.to_owned(), errno }
    }

    /// What a file operation failed with.
    pub(crate) fn file(what: &str, path: &std::path::Path, error: &std::io::Error) -> Error {
        Error::Os {
            call: format!("{what} {}", path.display()),
            errno: error.raw_os_error().unwrap_or(libc_errno::EINVAL),
        }
    }

    /// The `errno`, if a system call failed.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Os { errno, .. } => Some(*errno),
            Error::InvalidInput(_) | Error::NoLibbpf => None,
        }
    }

    /// Whether privilege is what is missing.
    pub fn is_privilege(&self) -> bool {
        matches!(self.errno(), Some(libc_errno::EPERM | libc_errno::EACCES))
    }
}

impl From<Error> for kiln_program::Error {
    fn from(error: Error) -> kiln_program::Error {
        match error {
            Error::InvalidInput(text) => kiln_program::Error::InvalidInput(text),
            Error::Os { call, errno } => kiln_program::Error::Os { call, errno, advice: advice(errno).to_owned() },
            other => kiln_program::Error::Unsupported(other.to_string()),
        }
    }
}

/// The `errno` values that get advice.
pub(crate) mod libc_errno {
    pub const EPERM: i32 = 1;
    #[cfg(feature = "libbpf")]
    pub const ENOENT: i32 = 2;
    pub const EACCES: i32 = 13;
    pub const EINVAL: i32 = 22;
    pub const ENOSYS: i32 = 38;
}

/// Advice for a failed call of `bpf(2)`, in parentheses; empty if it depends on the call.
pub fn advice(errno: i32) -> &'static str {
    match errno {
        libc_errno::EPERM => " (bpf(2) needs root, or CAP_BPF with CAP_NET_ADMIN or CAP_PERFMON)",
        libc_errno::ENOSYS => " (this kernel has no bpf(2))",
        _ => "",
    }
}

/// libbpf returns a negative `errno`.
#[cfg(feature = "libbpf")]
pub(crate) fn check(call: impl Into<String>, result: i32) -> Result<i32, Error> {
    if result < 0 { Err(Error::Os { call: call.into(), errno: -result }) } else { Ok(result) }
}

/// libbpf 1.x returns null and sets `errno`.
#[cfg(feature = "libbpf")]
pub(crate) fn check_pointer<T>(call: impl Into<String>, pointer: *mut T) -> Result<*mut T, Error> {
    if pointer.is_null() {
        return Err(Error::last_os(&call.into()));
    }
    Ok(pointer)
}

/// A C string from a name; interior NULs are an input error.
#[cfg(feature = "libbpf")]
pub(crate) fn c_string(text: &str) -> Result<std::ffi::CString, Error> {
    std::ffi::CString::new(text).map_err(|_| Error::InvalidInput(format!("{text:?} contains a NUL byte")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernels_errors_keep_call_errno_and_advice() {
        let failed = kiln_program::Error::from(super::Error::Os { call: "bpf(BPF_PROG_LOAD)".to_owned(), errno: 1 });
        assert_eq!((failed.kind(), failed.errno(), failed.exit_code()), ("os", Some(1), 3));
        assert!(failed.to_string().contains("needs root"), "{failed}");
    }
}
