//! `kiln doctor`: what this machine can do ([`examine`]), and what it takes to do it ([`calibrate`]).

pub mod calibrate;
mod machine;

pub use machine::*;
