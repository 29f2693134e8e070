//! Maps: creation, and the operations that programs and user space share.
//!
//! Programs pass keys and values by address and get addresses back; user space passes bytes. Both end in the same
//! few operations on a [`Storage`]. Errors are the kernel's, operation by operation.
//!
//! A map is known to programs by its *handle*, a number that is no valid address: [`handle`] and [`index_of_handle`].
//!
//! Programs on several CPUs and user space work on a map at once, as on the kernel's: every operation takes `&self`.
//! Each module explains how; `docs/decisions/0006-maps-shared-between-threads.md` has a table.

mod create;
mod definition;
mod handle;
mod hash;
mod queue;
mod recency;
mod ring;
mod slots;
mod storage;
mod trie;
mod user;
mod values;

pub use create::CreateError;
pub(crate) use create::Making;
pub use definition::{Definition, UpdateFlag};
pub use handle::{handle, index_of_handle};
pub(crate) use ring::Ring;
pub use storage::Map;
pub(crate) use storage::{Storage, target};
pub use user::{Entries, Walked};
pub(crate) use values::acquire;
