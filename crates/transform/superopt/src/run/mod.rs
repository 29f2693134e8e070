//! One part of an object through the passes, and the decision about each of their results.
//!
//! A round runs each pass over all functions at once and verifies the outcome once. Only a refusal costs more: it is
//! halved, first by functions, then by steps, until the one step to blame is found, which is left out from then on.
//!
//! What stands after each accepted attempt is kept (`Snapshot`): when the judge refuses the end of it all, the last
//! of them that it takes is the beginning of a second run, in which it is asked about each step (see [`crate::judged`]).

mod accept;
mod attempt;
mod judge;
mod known;
mod state;

pub(crate) use crate::run::known::Done;
pub use crate::run::known::{Account, Standing};
pub(crate) use crate::run::state::Run;
