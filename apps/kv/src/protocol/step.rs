//! What serving a line leads to.

use super::service::Service;

/// Bytes of output from which on nothing more is served.
pub const OUTPUT_MOST: usize = 1 << 20;

/// A request that waits for its value.
pub trait Waiting {
    /// Bytes of the value, without the end of line behind it.
    fn bytes(&self) -> usize;
    /// Whether no answer is wanted.
    fn is_quiet(&self) -> bool {
        false
    }
    /// Stores the value, and answers.
    fn store(self: Box<Self>, service: &Service<'_>, value: &[u8], output: &mut Vec<u8>);
    /// Answers that what came is no value of this size.
    fn refuse(self: Box<Self>, output: &mut Vec<u8>);
}

/// What a line asks for.
pub enum Step {
    /// It is answered.
    Done,
    /// So many of its keys are, and there is no room for more.
    Keys(usize),
    /// It waits for its value.
    Value(Box<dyn Waiting>),
    /// So many bytes are to be left out.
    Skip(usize),
    /// The connection ends.
    Close,
}
