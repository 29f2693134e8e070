//! Decides eBPF safety offline: abstract interpretation over the shared semantics.
//!
//! ```text
//!   verify(&Object, &Program, &Options) -> Result<Verified { facts, statistics }, Error>
//!
//!   explore     the search: walks every path, puts others aside, ends a path that a kept state covers
//!      |
//!   transfer    what one instruction does to a path: arithmetic, branches, loads and stores
//!   call        calls of helpers, kernel functions and functions; callbacks, exceptions, the end of a path
//!      |
//!   objects     what the kernel watches over: dynptrs, iterators, locks, kptrs, lists, trees, sections
//!   check       rules that no one instruction owns: memory, privilege, the hook, the kernel that it is for
//!      |
//!   path        Path { state, at, code }: one path, what it puts aside, and the findings of all paths
//!      |
//!   state       what is known at one point: registers, stack, resources held
//!   code        the program laid out: positions, live registers, where states are compared
//!   types       structures known by BTF          domain   what is known of one number
//! ```
//!
//! Arrows run down only. A path knows nothing of the search: it returns where it goes next, and leaves in
//! `Path::forks` the other ways that it could go. State ([`domain`], `state`), semantics (`transfer`, `call`, `objects`)
//! and property (`check`, and the same rooms' `reject`s, each with a [`Reason`]) are separate. Soundness comes before
//! completeness: what is not modelled is [`Error::Unsupported`].
//!
//! Which numbers matter (`path::precision`) and which stack slots may still be read (`path::liveness`) is found while
//! following a path and used by the search. `facts` is the join of all states at each instruction, made sound for the
//! paths that were not walked.
//!
//! Reading order: `code`, `state`, `path`, `explore/search`, `transfer`, `objects`, `check`, `call`, `explore/prune`,
//! `facts`.
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
pub use check::replaced::replacing;
pub use code::prepared::Prepared;
pub use domain::{Scalar, Tnum};
pub use error::Error;
pub use explore::cost;
pub use explore::follow::{Followed, Passed};
pub use facts::{Begun, Facts, Held, InsnFacts, Places, Pointer, Region, Section, StackSet, Value};
pub use options::{Assumptions, Options, Statistics};
pub use reason::Reason;
pub use rejection::{Part, Rejection, StoryStep, Wanted};
pub use verify::{Verified, cost, verify};
