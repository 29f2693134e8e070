//! Walking every path: the search, the states that end paths early, who watches.

pub mod cost;
pub(crate) mod loops;
pub(crate) mod observe;
pub(crate) mod prune;
pub(crate) mod search;
