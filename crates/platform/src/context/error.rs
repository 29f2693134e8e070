//! Why a context does not allow an access.

use std::fmt;

/// Why an access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextError {
    /// It starts before the context or ends after it.
    OutOfBounds {
        /// Bytes the context has.
        size: u32,
    },
    /// There is no field at this offset, or the access exceeds the field.
    NoField,
    /// The offset is not a multiple of the width.
    Misaligned,
    /// The field may be accessed, but not at this width.
    Width {
        /// The field.
        field: &'static str,
        /// The widths allowed, as bits.
        allowed: u8,
    },
    /// Programs of this type may not load it.
    NotReadable {
        /// The field.
        field: &'static str,
    },
    /// Programs of this type may not store to it.
    NotWritable {
        /// The field.
        field: &'static str,
    },
    /// Programs of this type may access it, but not at this attach type.
    NotAtAttachType {
        /// The field.
        field: &'static str,
    },
}

impl fmt::Display for ContextError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContextError::OutOfBounds { size } => {
                write!(formatter, "outside of the context's {size} bytes")
            }
            ContextError::NoField => formatter.write_str("no context field there"),
            ContextError::Misaligned => formatter.write_str("not aligned to its width"),
            ContextError::Width { field, allowed } => {
                write!(formatter, "field `{field}` cannot be accessed at this width (allowed:")?;
                for width in [1, 2, 4, 8].iter().filter(|width| allowed & **width != 0) {
                    write!(formatter, " {width}")?;
                }
                formatter.write_str(" bytes)")
            }
            ContextError::NotReadable { field } => {
                write!(formatter, "field `{field}` is not readable here")
            }
            ContextError::NotWritable { field } => {
                write!(formatter, "field `{field}` is read-only here")
            }
            ContextError::NotAtAttachType { field } => {
                write!(formatter, "field `{field}` is not accessible at this attach type")
            }
        }
    }
}

impl std::error::Error for ContextError {}
