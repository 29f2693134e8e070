//! `kiln serve`: queries that go on running, and readers that come and go.
//!
//! ```text
//!   kiln serve install, list, show, stop --Unix socket (mode 0600)--+
//!                                                                   +--> Service --a thread each--> query::live
//!   a browser's page, which only reads --127.0.0.1, with a key------+       |
//!   psql, Grafana, drivers --127.0.0.1, with a password-------------+       +--> Kept: its last windows
//! ```
//!
//! [`Service`] holds the queries and their limits. [`running`] is one query: it ends alone, whatever happens to it.
//! [`version`] is how a query replaces another and is withdrawn again. [`fleet`] does that on many hosts.
//! [`kept`] is what readers can ask for. [`listen`] answers HTTP at both doors, by what [`answers`] says. [`client`] is
//! the other end of the socket.
//!
//! Nothing is pinned: programs are attached by links that this process holds, so the kernel detaches them when it ends,
//! however it ends.
#![forbid(unsafe_code)]

mod address;
pub mod answers;
pub mod client;
pub mod fleet;
pub mod kept;
pub mod listen;
#[cfg(not(feature = "postgres"))]
pub mod no_postgres;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod running;
mod service;
mod shared;
pub mod version;

#[cfg(not(feature = "postgres"))]
pub use no_postgres as postgres;
pub use service::{Install, Limits, Service};
