//! Congestion control policies: how much a TCP connection may send.
//!
//! ```text
//!   (def (acked 0))                                     variables of a connection
//!   (user (most 0))                                     its floating-point numbers in user space
//!   (when (> Flow.was_timeout 0) (:= Cwnd Flow.mss))    on each acknowledgement, the first clause that holds
//!   (when true (:= Cwnd (+ Cwnd Ack.bytes_acked)))
//!   (on-report (> acked 0) (:= most (sqrt acked)))      on each report, the first that holds
//! ```
//!
//! After CCP's datapath programs ("Restructuring Endpoint Congestion Control", SIGCOMM'18; "Kernel Extension DSLs Should Be
//! Verifier-Safe!", section 4.1). A policy becomes programs for the kernel's `tcp_congestion_ops`. It has no loops and
//! no pointers, and its variables have a fixed place in the connection, so every policy loads.
//!
//! In the kernel all values are unsigned integers of 64 bits. Sums and products wrap, a difference that would be
//! negative is 0, and so is a division by 0. The clauses at reports have floating-point numbers too, and those that do not
//! run in the kernel ([`placements`] says which do) run in user space, which answers the connection ([`UserPart`]).

mod policy;
mod program;
mod report;
mod user;

pub use policy::{
    Clause, MAX_CLAUSES, MAX_NAME_BYTES, MAX_REPORTS, MAX_USER_VARIABLES, MAX_VARIABLES, Place, Policy, Signal, Step,
    UserVariable, Variable,
};
pub use program::{COUNTERS, Generated, STRUCTURE, generate};
pub use report::Report;
pub use user::{MAX_CONNECTIONS, Placement, UserPart, movable, placements};
