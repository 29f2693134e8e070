//! Results as people and tools read them: clean text ([`shown`]), places in programs ([`place`]), rejections
//! ([`diagnostic`]).

pub mod core_names;
pub mod diagnostic;
pub mod place;
pub mod shown;
