//! One taxonomy of what can go wrong, with the exit code of each.
//!
//! A message may hold names and words of the input. It is made clean where it is displayed, so that no new message can
//! forget it.

use kiln_program::{Clean, CleanLines};

/// Why a command did not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The program is unsafe, or a comparison failed.
    #[error("{}", CleanLines(.0))]
    Rejected(String),
    /// Kiln, or this machine, lacks something.
    #[error("not supported: {}", Clean(.0))]
    Unsupported(String),
    /// A malformed file or a bad flag.
    #[error("{}", Clean(.0))]
    InvalidInput(String),
    /// Time, memory or complexity ran out.
    #[error("limit reached: {}", Clean(.0))]
    Limit(String),
    /// The operating system refused.
    #[error("{}: {}", Clean(call), Clean(reason))]
    Os {
        /// What was tried.
        call: String,
        /// What came back, with advice.
        reason: String,
    },
}

impl Error {
    /// The command's exit code: 1 rejected or a limit, 2 bad input, 3 unsupported here.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Rejected(_) | Error::Limit(_) => 1,
            Error::InvalidInput(_) => 2,
            Error::Unsupported(_) | Error::Os { .. } => 3,
        }
    }

    /// The kind's name in `--format json`.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Rejected(_) => "rejected",
            Error::Unsupported(_) => "unsupported",
            Error::InvalidInput(_) => "invalid-input",
            Error::Limit(_) => "limit",
            Error::Os { .. } => "os",
        }
    }

    /// A failed file operation: a missing or unreadable file is bad input.
    pub fn file(path: &std::path::Path, error: &std::io::Error) -> Error {
        Error::InvalidInput(format!("{}: {error}", path.display()))
    }
}

impl From<kiln_linux::Error> for Error {
    fn from(error: kiln_linux::Error) -> Error {
        match error {
            kiln_linux::Error::InvalidInput(text) => Error::InvalidInput(text),
            other => Error::Unsupported(other.to_string()),
        }
    }
}
