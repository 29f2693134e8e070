//! What is kept along a path: which numbers matter, which stack slots may still be read.

pub(crate) mod liveness;
pub(crate) mod precision;
