//! Files for `perf` where there is none: asking for them is an error.

use std::io;
use std::path::PathBuf;

use kiln_jit::Code;
use kiln_program::Object;

/// What is written for `perf` when a program is loaded: nothing on this system.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PerfFiles {
    /// `/tmp/perf-PID.map`: names and addresses.
    pub map: bool,
    /// `jit-PID.dump` in this folder.
    pub dump: Option<PathBuf>,
}

impl PerfFiles {
    /// Whether anything is to be written.
    pub(crate) fn wanted(&self) -> bool {
        self.map || self.dump.is_some()
    }

    /// # Errors
    /// Returns [`io::ErrorKind::Unsupported`].
    pub(crate) fn write(&self, _: &Object, _: &str, _: &Code, _: u64) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}
