//! What the kernel keeps for a program and watches over: dynptrs, iterators, locks, kptrs, lists and trees, sections.

mod accepted;
pub(crate) mod arena;
pub(crate) mod dynptr;
pub(crate) mod fields;
pub(crate) mod graph;
pub(crate) mod iterator;
pub(crate) mod kptr;
pub(crate) mod lock;
pub(crate) mod place;
pub(crate) mod section;
pub(crate) mod special;
