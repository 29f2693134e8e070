//! One part of an object through the passes, and the decision about each of their results.
//!
//! A round runs each pass over all functions at once and verifies the result once. Only a refusal costs more: it is
//! bisected, first by functions, then by steps, until the step to blame is found. This step is then banned.
//!
//! The state after each accepted attempt is kept (`Snapshot`). If the judge refuses the final state, a second run
//! begins at the last snapshot that it accepts, and the judge is asked about each step (see [`crate::judged`]).

mod accept;
mod attempt;
mod judge;
mod known;
mod state;

pub(crate) use crate::run::known::Done;
pub use crate::run::known::{Account, Standing};
pub(crate) use crate::run::state::{Run, Wave};
