//! What tables of probes need to know of programs and libraries. Whoever reads queries says it ([`Programs`]).

use kiln_program::btf::Btf;

use crate::table::{Read, Scalar};

/// What tables are made from besides those that every machine has.
#[derive(Clone, Copy, Default)]
pub struct Known<'a> {
    /// The kernel's types.
    pub types: Option<&'a Btf>,
    /// What programs and libraries say of themselves.
    pub programs: Option<&'a dyn Programs>,
}

impl<'a> Known<'a> {
    /// The kernel's types only.
    pub fn of(types: Option<&'a Btf>) -> Known<'a> {
        Known { types, programs: None }
    }
}

/// Reads programs and libraries.
pub trait Programs {
    /// The places of a static probe, at least one.
    ///
    /// # Errors
    /// Returns a sentence if the file cannot be read or has no such probe.
    fn probes(&self, file: &str, provider: &str, name: &str) -> Result<Vec<Probe>, String>;

    /// The parameters of a function by its debug information, as far as their places are known; none without it.
    fn parameters(&self, file: &str, function: &str) -> Vec<Parameter>;
}

/// A static probe at one place of its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Bytes from the file's beginning to its instruction.
    pub offset: u64,
    /// Bytes from the file's beginning to the counter of those who look at it; 0 without one.
    pub semaphore: u64,
    /// Its arguments there.
    pub arguments: Vec<Argument>,
}

/// An argument of a static probe at one place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Argument {
    /// Where it is; [`Read::Absent`] where it cannot be read.
    pub read: Read,
    /// Its size and sign.
    pub kind: Scalar,
}

/// A parameter of a function that is in a register where the function begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// The number of the register, in the order of the calling convention.
    pub register: usize,
    /// Its size and sign.
    pub kind: Scalar,
    /// Whether it is the address of characters.
    pub is_text: bool,
}
