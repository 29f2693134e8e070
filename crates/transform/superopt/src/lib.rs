//! Makes programs smaller and faster, each rewrite with evidence.
//!
//! ```text
//!   Object --verify--> Facts --pass--> candidate Object --verify--> accepted, or bisected and dropped
//!              ^                                             |
//!              +---------------- until no pass finds more <--+
//! ```
//!
//! A pass proposes; [`pipeline`] decides. Nothing is kept unless our verifier accepts every program again, in no more
//! processed instructions than before, and no program grew. Functions of a program that the verifier rejects or does
//! not support are left as they are.
//!
//! Reading order: [`evidence`], [`pipeline`], then the passes: [`control_flow`], [`thread`], [`hoist`],
//! [`available`], [`reuse`], [`diamonds`], [`dead`] with [`demand`] and [`filled`], and
//! [`windows`] with [`rules`], [`trace`] and [`region`]; [`search`] finds
//! what the rules lack, and [`judged`] gives the kernel the last word.
#![forbid(unsafe_code)]

pub mod available;
pub mod control_flow;
pub mod dead;
pub mod demand;
pub mod diamonds;
pub mod edit;
pub mod evidence;
pub mod filled;
pub mod hoist;
pub mod judged;
pub mod pipeline;
pub mod possible;
pub mod region;
pub mod reuse;
pub mod rules;
pub mod search;
pub mod thread;
pub mod trace;
pub mod windows;

pub use evidence::{Because, Evidence, Law};
pub use judged::optimize_judged;
pub use pipeline::{Options, Progress, Rewrite, optimize};
