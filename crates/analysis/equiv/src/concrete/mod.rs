//! Concrete runs: the cheap judge that refutes.
//!
//! ```text
//!   Tester::new(&window, 24)     runs `before` on 24 inputs that the facts allow; keeps the final states
//!   tester.matches(&candidate)   runs the candidate on them, worst input first; stops at the first difference
//! ```
//!
//! An [`Input`] is registers and bytes at plain addresses, so that the reference interpreter can replay it. What the
//! original reads is invented when it reads it. A candidate may then touch only those bytes (and what the facts say
//! is readable), and store only where the original stored, or on the stack.

mod code;
mod input;
mod invent;
mod random;
mod tester;

pub use crate::concrete::code::{Code, Memory, Op, Registers, Segment, calculate};
pub use crate::concrete::input::{Input, Refusal};
pub use crate::concrete::random::Random;
pub use crate::concrete::tester::{Case, Difference, Tester};
