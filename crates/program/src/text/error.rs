//! Why a text is not an object.

use crate::shown::Clean;

/// An error in a text, with its place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}, column {column}: {}", Clean(message))]
pub struct TextError {
    /// 1-based line.
    pub line: usize,
    /// 1-based byte column.
    pub column: usize,
    /// What was expected, or what is wrong.
    pub message: String,
}
