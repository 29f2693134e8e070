//! Machine code where the VM runs none: programs are interpreted.

use std::convert::Infallible;
use std::io;

/// Machine code in executable memory, of which there is none on this system.
#[derive(Debug)]
pub struct Program(Infallible);

impl Program {
    /// # Errors
    /// Returns [`io::ErrorKind::Unsupported`].
    pub fn new(_: &[u8]) -> io::Result<Program> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    /// The address of the entry.
    pub fn address(&self) -> u64 {
        match self.0 {}
    }

    /// The address of the first byte.
    pub fn start(&self) -> u64 {
        match self.0 {}
    }

    /// Runs the code.
    ///
    /// # Safety
    /// There is no code.
    pub unsafe fn call<R>(&self, _: u64, _: &mut R) -> u64 {
        match self.0 {}
    }
}
