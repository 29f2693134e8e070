//! Rules: rewrites of a few instructions, each window proved equal where it is used.
//!
//! [`data`] holds rules as text, proved once for all operands, and finds where they match. [`code`] holds the rules that
//! look at more than their own instructions: at facts, at where operands come from, at accesses side by side.

pub mod code;
pub mod data;

pub use code::{RULES, Rule};
pub(crate) use code::{one_slot_move, reading, with_address, writing};
