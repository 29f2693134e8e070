//! Decides eBPF safety offline: abstract interpretation over the shared semantics.
//!
//! ```text
//!   verify(&Object, &Program, &Options) -> Result<Verified { facts, statistics }, Error>
//! ```
//!
//! State ([`domain`], states), semantics (transfer) and property (checks) are separate types.
#![forbid(unsafe_code)]

pub mod domain;
pub mod facts;

pub use domain::{Scalar, Tnum};
pub use facts::{Facts, InsnFacts, Pointer, Region, StackSet, Value};

/// What the verifier is asked to assume.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether values that the loader may still change count as known.
    pub assumptions: Assumptions,
}

/// Whether values that the loader may still change (CO-RE fields, kconfig, `.rodata`, map sizes) count as known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Assumptions {
    /// They are as the object says: the verdict is that of loading it here and now.
    #[default]
    AsLoaded,
    /// They may be anything: the facts are safe to optimize by.
    AnyLoad,
}
