//! Makes programs smaller and faster, each rewrite with evidence.
//!
//! ```text
//!   Object --verify--> Facts --pass--> candidate Object --verify--> accepted, or bisected and dropped
//!              ^                                             |
//!              +---------------- until no pass finds more <--+
//! ```
//!
//! A pass proposes; [`run`] decides. Nothing is kept unless our verifier accepts every program again, in no more
//! processed instructions than before, and no program grew. Functions of a program that the verifier rejects or does
//! not support are left as they are.
//!
//! Reading order: [`evidence`], [`pipeline`], [`run`], the table of [`passes`], then what it names: [`laws`], which see the
//! graph ([`flow`]), and [`windows`] with [`rules`]; [`search`] finds what the rules lack, [`learn`] makes rules of it,
//! [`cost`] says what is better, and [`judged`] gives the kernel the last word.
#![forbid(unsafe_code)]

pub mod cost;
pub mod edit;
pub mod evidence;
pub mod flow;
pub mod judged;
pub mod laws;
pub mod learn;
pub mod options;
mod parts;
pub mod passes;
pub mod pipeline;
pub mod rules;
pub mod run;
pub mod search;
pub mod timings;
pub mod windows;

pub use cost::{BadModel, Cost, CostModel, Goal};
pub use evidence::{Because, ChainStep, Evidence};
pub use judged::Judge;
pub use laws::context::Law;
pub use options::{Options, Progress, Unverified};
pub use pipeline::{Rewrite, optimize, optimize_judged};
pub use rules::data::{RuleSet, RuleSetError};
pub use run::{Account, Standing};
pub use timings::{Stopwatch, Timings};
