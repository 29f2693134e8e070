//! What is wrong with a log.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a log is not read, or not written.
#[derive(Debug)]
pub enum LogError {
    /// The system refuses.
    Io {
        /// The file.
        path: PathBuf,
        /// What was to be done with it.
        doing: &'static str,
        /// What the system says.
        error: io::Error,
    },
    /// A file is not as it was written.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damaged part begins.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A file says what this server cannot do.
    Unsupported {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What it says.
        what: String,
    },
    /// Another server has the directory.
    InUse(PathBuf),
}

impl LogError {
    /// Makes an error of what the system says.
    pub fn io<'p>(path: &'p Path, doing: &'static str) -> impl FnOnce(io::Error) -> LogError + use<'p> {
        move |error| LogError::Io { path: path.to_owned(), doing, error }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Io { path, doing, error } => write!(f, "{doing} {}: {error}", path.display()),
            LogError::Damaged { path, offset, what } => {
                let file = path.display();
                write!(f, "{file} is damaged at byte {offset}: {what}; --repair keeps what is before it")
            }
            LogError::Unsupported { path, offset, what } => write!(f, "{}, byte {offset}: {what}", path.display()),
            LogError::InUse(path) => write!(f, "{} is in use by another server", path.display()),
        }
    }
}

impl std::error::Error for LogError {}
