//! Why a split has no programs.

/// Why a split has no programs.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// The kernel that the query is for lacks something.
    #[error("{0}")]
    Kernel(String),
    /// The frame of 512 bytes is too small.
    #[error("the program's frame would be larger than 512 bytes")]
    Frame,
    /// Something that is not computed in the kernel.
    #[error("{0} is not computed in the kernel")]
    NotHere(String),
}
