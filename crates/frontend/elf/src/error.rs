//! Errors, distinguished by their cause.

use kiln_program::{Clean, LowerError};

/// Why an object file cannot be read or written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The file is malformed.
    #[error("{}: section {}, offset {offset:#x}: {}", Clean(file), Clean(section), Clean(message))]
    InvalidInput {
        /// The label that the file was read under.
        file: String,
        /// The ELF section; empty when the file itself is at fault.
        section: String,
        /// Bytes from the beginning of the section (of the file, if there is no section).
        offset: u64,
        /// What is wrong.
        message: String,
    },
    /// It refers to what another object defines, with which it is to be linked first.
    #[error("{}: section {}, offset {offset:#x}: {}", Clean(file), Clean(section), Clean(message))]
    Unlinked {
        /// The label that the file was read under.
        file: String,
        /// The ELF section.
        section: String,
        /// Bytes from the beginning of the section.
        offset: u64,
        /// What is defined nowhere, and what to do.
        message: String,
    },
    /// The file is well formed and uses a feature that Kiln does not support.
    #[error("{}: section {}, offset {offset:#x}: Kiln does not support {}", Clean(file), Clean(section), Clean(what))]
    Unsupported {
        /// The label that the file was read under.
        file: String,
        /// The ELF section.
        section: String,
        /// Bytes from the beginning of the section.
        offset: u64,
        /// What it is.
        what: String,
    },
    /// A rewritten function cannot be laid out.
    #[error("{}: function {} cannot be laid out: {cause}", Clean(file), Clean(function))]
    Layout {
        /// The label that the file was read under.
        file: String,
        /// The function.
        function: String,
        /// Why.
        cause: LowerError,
    },
    /// A rewritten object is not a rewrite of the one that was read: functions, maps or externs differ.
    #[error("{}: not a rewrite of the object that was read: {}", Clean(file), Clean(message))]
    Mismatch {
        /// The label that the file was read under.
        file: String,
        /// What differs.
        message: String,
    },
}

/// A fault without the file's label; [`Fault::in_file`] adds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    Invalid { section: String, offset: u64, message: String },
    Unlinked { section: String, offset: u64, message: String },
    Unsupported { section: String, offset: u64, what: String },
    Layout { function: String, cause: LowerError },
    Mismatch { message: String },
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    /// The fault of an unreadable function, reported for a function that needs it.
    pub(crate) fn needed(mut self, function: &str) -> Fault {
        match &mut self {
            Fault::Invalid { message, .. } | Fault::Unlinked { message, .. } | Fault::Mismatch { message } => {
                *message = format!("it needs function {function}: {message}");
            }
            Fault::Unsupported { what, .. } => *what = format!("function {function}, which it needs: {what}"),
            Fault::Layout { .. } => {}
        }
        self
    }

    pub(crate) fn in_file(self, file: &str) -> Error {
        let file = file.to_owned();
        match self {
            Fault::Invalid { section, offset, message } => Error::InvalidInput { file, section, offset, message },
            Fault::Unlinked { section, offset, message } => Error::Unlinked { file, section, offset, message },
            Fault::Unsupported { section, offset, what } => Error::Unsupported { file, section, offset, what },
            Fault::Layout { function, cause } => Error::Layout { file, function, cause },
            Fault::Mismatch { message } => Error::Mismatch { file, message },
        }
    }
}

/// Malformed input.
pub(crate) fn invalid<T>(section: &str, offset: u64, message: impl Into<String>) -> Result<T> {
    Err(Fault::Invalid { section: section.to_owned(), offset, message: message.into() })
}

/// A symbol that another object defines, if any does.
pub(crate) fn unlinked<T>(section: &str, offset: u64, symbol: &str) -> Result<T> {
    let message =
        format!("{symbol} is defined nowhere; if another object has it, link the two first (bpftool gen object)");
    Err(Fault::Unlinked { section: section.to_owned(), offset, message })
}

/// Something Kiln lacks.
pub(crate) fn unsupported<T>(section: &str, offset: u64, what: impl Into<String>) -> Result<T> {
    Err(Fault::Unsupported { section: section.to_owned(), offset, what: what.into() })
}
