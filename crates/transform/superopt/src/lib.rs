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
//! Reading order: [`evidence`], [`pipeline`], the table of [`passes`], then they themselves: [`control_flow`], [`thread`], [`hoist`],
//! [`available`], [`webs`], [`reuse`], [`diamonds`], [`narrow`], [`found`], [`dead`] with [`demand`], [`filled`] and [`frame`], and
//! [`windows`] with [`rules`], rules as data ([`cache`]), [`trace`] and [`region`]; [`search`] finds
//! what the rules lack, [`learn`] makes rules of it, and [`judged`] gives the kernel the last word.
#![forbid(unsafe_code)]

pub mod atomics;
pub mod available;
pub mod bounds;
pub mod cache;
pub mod calls;
pub mod control_flow;
pub mod cost;
pub mod dead;
pub mod demand;
pub mod diamonds;
pub mod edit;
pub mod evidence;
pub mod filled;
pub mod found;
pub mod frame;
pub mod hoist;
pub mod inline;
pub mod judged;
pub mod late;
pub mod learn;
pub mod narrow;
pub mod packet_loads;
pub mod passes;
pub mod pipeline;
pub mod possible;
pub mod region;
pub mod reuse;
pub mod rules;
pub mod run;
pub mod search;
pub mod thread;
pub mod timings;
pub mod trace;
pub mod trial;
pub mod turned;
pub mod webs;
pub mod windows;

pub use cache::{RuleSet, RuleSetError};
pub use cost::{BadModel, Cost, CostModel, Goal};
pub use evidence::{Because, Evidence, Law};
pub use judged::Judge;
pub use pipeline::{Options, Progress, Rewrite, Unverified, optimize, optimize_judged};
pub use run::{Account, Standing};
pub use timings::Timings;
