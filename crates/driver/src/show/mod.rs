//! Results as people and tools read them: clean text ([`shown`]), rejections ([`diagnostic`], [`sarif`]), a report of what
//! was rewritten ([`report`]).

pub(crate) mod core_names;
pub mod diagnostic;
pub mod report;
pub mod sarif;
pub mod shown;
