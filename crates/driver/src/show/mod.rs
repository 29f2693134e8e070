//! Results as people and tools read them: clean text ([`shown`]), rejections ([`diagnostic`], [`sarif`]), a report of what
//! was rewritten ([`report`]), a flame graph ([`flame`]), machine code ([`disassembly`]).

pub(crate) mod core_names;
pub mod diagnostic;
pub mod flame;
pub mod shown;

system! {
    pub mod disassembly;
    pub mod report;
    pub mod sarif;
}
