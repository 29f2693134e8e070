//! Windows: two runs of instructions, and whether one may stand for the other.
//!
//! [`question`], [`limits`] and [`verdict`] are what is asked and answered; [`machine`] runs a window and `way` a path over terms,
//! with `state`, [`memory`], `class`, `calls` and [`shared`]; [`check`](mod@check) compares what is live afterwards; [`answers`] and [`record`] keep both.

pub mod answers;
pub(crate) mod calls;
pub mod check;
pub(crate) mod class;
pub mod limits;
pub mod machine;
pub mod memory;
pub mod operation;
pub(crate) mod path;
pub mod question;
pub mod record;
pub mod shared;
pub(crate) mod state;
pub mod verdict;
pub(crate) mod way;
