//! Walking every path: the search, the states that end paths early, who watches.

pub mod cost;
mod cover;
pub(crate) mod follow;
mod kept;
pub(crate) mod observe;
mod places;
pub(crate) mod prune;
pub(crate) mod search;
mod step;
pub(crate) mod visits;
