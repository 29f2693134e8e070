//! The embedded VM: runs verified programs where there is no kernel to run them, or no need for it.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod exec;
