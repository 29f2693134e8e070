//! LLVM's text to machine code, through clang, outside of this process.
//!
//! ```text
//!   text --clang -O3--> shared object, no undefined symbols, no relocations --> Image: bytes, entry, table
//!            \--- kept, by a hash of text, setting, clang and CPU
//! ```
//!
//! Nothing of LLVM is linked in: clang's start takes 20 ms, and a crash or a hang of it harms nobody here. A result is kept
//! in a folder that only its owner can write; each file says its own hash, so that a damaged one is made again.
//!
//! - `toolchain`: clang's command line, its time limit, the kept results;
//! - `image`: what is read out of the shared object.
#![forbid(unsafe_code)]

mod image;
mod toolchain;

pub use image::Image;
pub use toolchain::{Setting, Toolchain};

/// Why there is no native code.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// clang cannot be run, or a file cannot be read or written.
    #[error("{what}: {source}")]
    Os {
        /// What failed.
        what: String,
        /// Why.
        source: std::io::Error,
    },
    /// clang does not take the text.
    #[error("{clang} does not compile it: {message}")]
    Clang {
        /// The compiler.
        clang: String,
        /// What it says.
        message: String,
    },
    /// clang takes too long.
    #[error("{clang} has not compiled it in {seconds} s")]
    Limit {
        /// The compiler.
        clang: String,
        /// The limit.
        seconds: u64,
    },
    /// A shared object that is not as it should be.
    #[error("the shared object {0}")]
    Image(String),
}

impl From<Error> for kiln_program::Error {
    fn from(error: Error) -> kiln_program::Error {
        match &error {
            Error::Os { what, source } => {
                kiln_program::Error::machine(what, source, "; install clang 19, or name another with KILN_CLANG")
            }
            Error::Limit { .. } => kiln_program::Error::Limit(error.to_string()),
            _ => kiln_program::Error::Unsupported(error.to_string()),
        }
    }
}
