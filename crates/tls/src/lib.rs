//! Connections of Kiln's servers: bytes as they are, or TLS 1.2 and 1.3 in user space. For its clients: what they ask of servers.
//!
//! ```text
//!   PEM files --Tls::read--> Tls --Transport::new--> Transport::Tls(Secured)  --+
//!                            no Tls -----------------> Transport::Plain --------+--> read, write, flush
//! ```
//!
//! A stream may block, with a time of its own for each call, or not: [`Transport`] returns its errors as they are, and what is
//! not sent yet stays until the next call. Without the feature `rustls` there are plain connections only.
#![forbid(unsafe_code)]

#[cfg(not(feature = "rustls"))]
mod absent;
mod files;
#[cfg(feature = "rustls")]
mod secured;
mod transport;

#[cfg(not(feature = "rustls"))]
pub use absent::{Secured, Tls};
pub use files::Files;
#[cfg(feature = "rustls")]
pub use secured::{Secured, Tls, client};
pub use transport::Transport;
