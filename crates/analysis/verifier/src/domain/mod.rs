//! Numbers as the kernel's verifier knows them: a tristate number and four ranges.
//!
//! ```text
//!   r1 = *(u8 *)(r2 + 0)      tnum 0000....xxxxxxxx   u64 0..255   s64 0..255   u32 0..255   s32 0..255
//!   r1 <<= 2                  tnum 0000..xxxxxxxx00   u64 0..1020  ...
//!   if r1 s> 40 goto          taken: u64 41..1020;  not taken: u64 0..40
//! ```
//!
//! - [`Tnum`]: known bits; [`Scalar`]: known bits and ranges, which [`Scalar::deduced`] makes consistent;
//! - [`Abstract`]: a scalar at a width, which implements [`kiln_isa::semantics::BitVec`], so that the rows of the
//!   instruction table are the transfer function;
//! - [`refine`]: what the outcome of a comparison says of its operands;
//! - [`apply_as_kernel`] and its like: what the kernel knows after an operation, which verdicts rest on.

mod abstract_bits;
mod bounds;
mod kernel;
mod refine;
mod scalar;
mod tnum;

pub use abstract_bits::{Abstract, Truth, apply};
pub use kernel::{
    apply_as_kernel, apply_as_kernel_where, multiply_as_older_kernel, narrowed_as_kernel, negate_as_kernel,
    reordered_as_kernel, sign_extended_as_kernel,
};
pub(crate) use kernel::{outcome_as_kernel, refine_as_kernel};
pub use refine::refine;
pub use scalar::{Deduction, Scalar};
pub use tnum::Tnum;
