//! Results as people and tools read them: clean text ([`shown`]), rejections ([`diagnostic`], [`sarif`]), a report of what
//! was rewritten ([`report`]), a flame graph ([`flame`]), machine code ([`disassembly`]).

pub(crate) mod core_names;
pub mod diagnostic;
pub mod flame;
pub mod shown;

#[cfg(not(target_family = "wasm"))]
pub mod disassembly;
#[cfg(not(target_family = "wasm"))]
pub mod report;
#[cfg(not(target_family = "wasm"))]
pub mod sarif;
