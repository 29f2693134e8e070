//! `kiln check` as far as it needs files alone: no kernel, no compiler. `kiln-driver` and the `kiln` command add those; the
//! command `kiln-check` goes without, and so runs on other systems than Linux.
//!
//! | part | here |
//! |---|---|
//! | which objects, kernels and types | [`objects`], [`target`] |
//! | verdicts, one report an object | [`reports`], with [`sources`] where they were C |
//! | what is known and does not fail | [`baseline`] |
//! | documents for code review | [`sarif`], [`forge`] |
//! | text, and a command's flags | `told`, `print`, `table`, `output`, `arguments`: the feature `command` |
#![forbid(unsafe_code)]

#[cfg(feature = "command")]
pub mod arguments;
pub mod baseline;
pub mod forge;
pub mod objects;
#[cfg(feature = "command")]
pub mod output;
#[cfg(feature = "command")]
pub mod print;
pub mod reports;
pub mod sarif;
pub mod sources;
#[cfg(feature = "command")]
pub mod table;
pub mod target;
#[cfg(feature = "command")]
pub mod told;
