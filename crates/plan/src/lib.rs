//! Queries over what the kernel does: logical plans, the splits of a plan between kernel and user space, and both halves.
//!
//! ```text
//!   Query (logical plan)  --Split-->  generate: programs and maps (the IR)     execute: the rest, in user space
//!                                          |                                        ^
//!                                          +---- records, or groups in a map -------+
//! ```
//!
//! The promise is verifier-safety: any valid query loads ("Kernel Extension DSLs Should Be Verifier-Safe!", eBPF'25). It
//! rests on the smallest split ([`split`]): reading, and nothing else, which is the same for every query of a table.
//! Larger splits are tried from there on; each does more in the kernel and gives the same answer.
//!
//! Reading order: [`table`], [`tables`], [`query`], [`expr`], [`split`], [`mod@generate`], [`execute`]; then [`dispatch`],
//! the policies for packets.
#![forbid(unsafe_code)]

pub mod congestion;
pub mod dispatch;
pub mod execute;
pub mod expr;
pub mod flow;
pub mod generate;
pub mod histogram;
pub mod lookup;
pub mod network;
pub mod query;
pub mod split;
pub mod syscall;
pub mod table;
pub mod tables;
pub mod value;

pub use execute::{Executor, Row};
pub use flow::Flow;
pub use generate::layout::Origin;
pub use generate::{Generated, Settings, generate};
pub use histogram::Histogram;
pub use query::Query;
pub use split::Split;
pub use table::Table;
pub use value::{DataType, Value};
