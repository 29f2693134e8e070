//! Results of helpers.

use kiln_program::interpret::Fault;

use crate::errno::{Errno, status};
use crate::state::Reply;

/// The result of a helper.
pub(super) type Answer = Result<Reply, Fault>;

/// Returns a number in R0.
pub(super) fn value(value: u64) -> Answer {
    Ok(Reply::Value(value))
}

/// Returns an error in R0, as the kernel does.
pub(super) fn refuse(errno: Errno) -> Answer {
    Ok(Reply::Value(errno.value()))
}

/// Returns 0 or an error in R0.
pub(super) fn done(result: Result<(), Errno>) -> Answer {
    Ok(Reply::Value(status(result)))
}
