//! Results as people and tools read them: clean text ([`shown`]), places in programs ([`place`]), rejections
//! ([`diagnostic`]), Kiln's own words ([`word`]).

pub mod core_names;
pub mod diagnostic;
pub mod place;
pub mod shown;
pub mod word;
