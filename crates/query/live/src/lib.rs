//! Queries that run: `kiln query`, SQL over what the kernel does.
//!
//! ```text
//!   text --kiln_sql--> Query --plan: splits, our verifier, the kernel--> programs --live--> rows
//!                                                                       recording --replay--> rows
//! ```
//!
//! A [`Session`] is a query with the kernel types that it is for. [`plan`] chooses how much of it runs in the kernel;
//! [`live`] runs it there; [`replay`] runs it on recorded events, without privilege; [`export`] sends rows to collectors;
//! [`rows_file`] writes them into files.
#![forbid(unsafe_code)]

mod attach;
pub mod budget;
pub mod cgroups;
mod clock;
pub mod cost;
mod debug_files;
mod elf;
mod engine;
pub mod export;
pub mod files;
mod functions;
pub mod held;
pub mod http;
pub mod live;
pub mod lookups;
pub mod model;
pub mod named;
mod parameters;
pub mod plan;
mod probes;
mod programs;
pub mod replay;
pub mod rows_file;
pub mod session;
mod settled;
mod stacks;
mod throttled;

pub use kiln_plan::execute::Limits;
pub use kiln_plan::generate::COUNTERS;
pub use kiln_plan::{Histogram, Row, Settings, Split, Value};
pub use kiln_sql::{Action, Parsed};
pub use session::{ColumnHead, ProgramRuns, Session, Sink, Summary, json, text};
