//! Decides eBPF safety offline: abstract interpretation over the shared semantics.
//!
//! ```text
//!   verify(&Object, &Program, &Options) -> Result<Verified { facts, statistics }, Error>
//!
//!   Prepared    what an object's programs share: verify() for one program, prepared.verify() for several
//!   Code        the program laid out: positions, live registers, where states are compared
//!   Explorer    walks every path: step() is transfer (alu, memory, call) and checks (the same rooms' `reject`s)
//!   prune       a kept state that covers the current one ends the path; precision says which numbers count
//!   facts       the join of all states at each instruction, made sound for the paths that were not walked
//! ```
//!
//! State ([`domain`], `state`), semantics (`transfer`, `call`, `objects`) and property (the checks, each with a
//! [`Reason`]) are separate. Soundness comes before completeness: what is not modelled is [`Error::Unsupported`].
//!
//! Reading order: `code`, `state`, `explore/search`, `transfer`, `objects`, `call`, `explore/prune`, `path`, `facts`.
#![forbid(unsafe_code)]

mod call;
mod check;
mod code;
pub mod domain;
mod error;
mod explain;
mod explore;
pub mod facts;
mod objects;
mod options;
mod path;
mod reason;
mod rejection;
mod state;
mod transfer;
mod types;
mod verify;

pub use check::profile::needs;
pub use code::prepared::Prepared;
pub use domain::{Scalar, Tnum};
pub use error::Error;
pub use explore::cost;
pub use facts::{Facts, Held, InsnFacts, Places, Pointer, Region, StackSet, Value};
pub use options::{Assumptions, Options, Statistics};
pub use reason::Reason;
pub use rejection::{Part, Rejection, StoryStep};
pub use verify::{Verified, cost, verify};
