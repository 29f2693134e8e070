//! Calls: of helpers, of kernel functions, of the program's own functions; callbacks and exceptions.

mod argument;
pub(crate) mod callback;
mod checked;
mod end;
pub(crate) mod exception;
mod format;
pub(crate) mod function;
pub(crate) mod global;
pub(crate) mod helper;
pub(crate) mod kfunc;
mod kfunc_argument;
mod memory;
mod result;
pub(crate) mod said;
mod stack_object;
pub(crate) mod structure;
