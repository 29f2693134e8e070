//! Kiln in an editor: `kiln lsp` speaks the Language Server Protocol on standard input and output.
//!
//! ```text
//!   open or save a.bpf.c --compile, with the project's flags--> clang's messages
//!                        --verify--> rejections with their story, warnings of the lint     diagnostics
//!                                    what the verifier knows at a line                     hover
//!                                    how often a line was processed                        inlay hints
//!                                    a verdict for each program, and what to do with it    code lenses
//! ```
//!
//! [`look`] makes one [`look::Look`] of a source, a plain value; [`server`] keeps the last of each source and answers
//! from it. A source that is being compiled is compiled again after a save, not twice at a time.
#![forbid(unsafe_code)]

pub mod look;
mod place;
pub mod server;
mod wire;

pub use server::{run, serve};
