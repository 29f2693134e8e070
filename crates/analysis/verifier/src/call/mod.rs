//! Calls: of helpers, of kernel functions, of the program's own functions; callbacks and exceptions.

pub(crate) mod callback;
pub(crate) mod exception;
pub(crate) mod function;
pub(crate) mod global;
pub(crate) mod helper;
pub(crate) mod kfunc;
pub(crate) mod structure;
