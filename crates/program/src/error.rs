//! One taxonomy of what can go wrong, with the exit code of each.
//!
//! A message may hold names and words of the input. It is made clean where it is displayed, so that no new message can
//! forget it.

use std::io::ErrorKind;

use crate::shown::{Clean, CleanLines};

/// Why a command did not do what was asked.
#[non_exhaustive]
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
    /// A query that cannot be read: a sentence, then the query with the place marked, in lines that are indented.
    #[error("{}", marked(.0))]
    InvalidQuery(String),
    /// Time, memory or complexity ran out.
    #[error("limit reached: {}", Clean(.0))]
    Limit(String),
    /// A system call failed.
    #[error("{}: {}{}", Clean(call), std::io::Error::from_raw_os_error(*errno), CleanLines(advice))]
    Os {
        /// The call and its object.
        call: String,
        /// `errno`.
        errno: i32,
        /// What to do about it, with its punctuation; empty where that depends on the machine.
        advice: String,
    },
}

impl Error {
    /// The command's exit code: 1 rejected or a limit, 2 bad input, 3 unsupported here.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Rejected(_) | Error::Limit(_) => 1,
            Error::InvalidInput(_) | Error::InvalidQuery(_) => 2,
            Error::Unsupported(_) | Error::Os { .. } => 3,
        }
    }

    /// The kind's name in `--format json`.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Rejected(_) => "rejected",
            Error::Unsupported(_) => "unsupported",
            Error::InvalidInput(_) | Error::InvalidQuery(_) => "invalid-input",
            Error::Limit(_) => "limit",
            Error::Os { .. } => "os",
        }
    }

    /// The `errno` of a failed system call.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Os { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// Sorts the failure of an operation on a file. A path that names no file, or one that the user may not use, is bad
    /// input; so is content that is not what it should be. Everything else failed in the operating system.
    pub fn file(path: &std::path::Path, error: &std::io::Error) -> Error {
        Error::io(&path.display().to_string(), error)
    }

    /// Sorts a failure of the standard library as [`Error::file`] does; `call` says what failed.
    pub fn io(call: &str, error: &std::io::Error) -> Error {
        let path_is_wrong = matches!(
            error.kind(),
            ErrorKind::NotFound
                | ErrorKind::PermissionDenied
                | ErrorKind::AlreadyExists
                | ErrorKind::IsADirectory
                | ErrorKind::NotADirectory
                | ErrorKind::InvalidFilename
                | ErrorKind::ReadOnlyFilesystem
        );
        match errno_of(error).filter(|_| !path_is_wrong) {
            Some(errno) => Error::os(call, errno),
            None => Error::InvalidInput(format!("{call}: {error}")),
        }
    }

    /// Sorts a failure to use a file that is the machine's and not the user's: no input is to blame.
    pub fn machine(what: &str, error: &std::io::Error, advice: &str) -> Error {
        match errno_of(error) {
            Some(errno) => Error::Os { call: what.to_owned(), errno, advice: advice.to_owned() },
            None => Error::Unsupported(format!("{what}: {error}")),
        }
    }

    /// A system call that failed, without advice.
    pub fn os(call: impl Into<String>, errno: i32) -> Error {
        Error::Os { call: call.into(), errno, advice: String::new() }
    }
}

/// Lines that are indented as they are, others as [`CleanLines`] has them.
fn marked(text: &str) -> String {
    let line =
        |line: &str| if line.starts_with("  ") { Clean(line).to_string() } else { format!("  | {}", Clean(line)) };
    let mut lines = text.lines();
    let first = lines.next().map(Clean);
    first.iter().map(ToString::to_string).chain(lines.map(line)).collect::<Vec<_>>().join("\n")
}

/// The `errno` of an error, or of the one that it wraps.
fn errno_of(error: &std::io::Error) -> Option<i32> {
    let wrapped = || error.get_ref()?.source()?.downcast_ref::<std::io::Error>()?.raw_os_error();
    error.raw_os_error().or_else(wrapped)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;

    const ENOENT: i32 = 2;
    const EIO: i32 = 5;
    const ENOMEM: i32 = 12;

    #[test]
    fn wrong_paths_are_bad_input_and_failed_calls_keep_their_errno() {
        let of = |errno| Error::file(Path::new("a"), &io::Error::from_raw_os_error(errno));
        assert_eq!((of(ENOENT).kind(), of(ENOENT).errno()), ("invalid-input", None));
        assert_eq!((of(EIO).kind(), of(EIO).errno(), of(EIO).exit_code()), ("os", Some(EIO), 3));
        assert_eq!(of(EIO).to_string(), "a: Input/output error (os error 5)");
        let content = Error::file(Path::new("a"), &io::Error::new(ErrorKind::InvalidData, "not UTF-8"));
        assert_eq!(content.kind(), "invalid-input");
        assert_eq!(Error::os("mmap", ENOMEM).errno(), Some(ENOMEM));
    }

    #[test]
    fn a_file_of_the_machine_is_no_input() {
        let missing = Error::machine("/proc/x", &io::Error::from_raw_os_error(ENOENT), "; mount /proc");
        assert_eq!((missing.kind(), missing.errno(), missing.exit_code()), ("os", Some(ENOENT), 3));
        assert!(missing.to_string().ends_with("; mount /proc"), "{missing}");
        assert_eq!(Error::machine("/proc/x", &io::Error::other("odd"), "").kind(), "unsupported");
    }

    #[test]
    fn marks_in_a_query_stay_below_it() {
        let error = Error::InvalidQuery("no\u{1b}\n  | a\u{202e}\n  | ^\naccepted".to_owned());
        assert_eq!(error.to_string(), "no\\u{1b}\n  | a\\u{202e}\n  | ^\n  | accepted");
    }
}
