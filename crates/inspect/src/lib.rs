//! What Kiln says of an object without a system: no kernel, no VM, no solver. The playground and the C interface use it,
//! and `kiln-driver` builds its commands on it.
//!
//! | command | here |
//! |---|---|
//! | `kiln check` | [`check`]; [`kernels`] with `--kernel`, [`lint`] with `--lint`, [`cost`] with `--profile` |
//! | `kiln dump` | [`dump`] |
//! | `kiln explain` | [`explain`] |
//! | `kiln ops` | [`ops`] |
//!
//! Below the commands: [`input`] (objects from disk), [`mod@file`] and [`folders`], [`sandboxed`] (what the sandbox left in an object),
//! [`show`] (results as people read them).
//!
//! ```
//! # fn main() -> Result<(), kiln_inspect::Error> {
//! let text = "; program xdp\n r0 = 2\n exit\n";
//! let input = kiln_inspect::input::parse("pass.bpf", text.into(), &[])?;
//! let verdicts = kiln_inspect::check::check(&input, &input.select(&[])?);
//! assert!(verdicts[0].verdict.is_accepted());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod check;
pub mod cost;
pub mod dump;
pub mod explain;
pub mod file;
pub mod folders;
pub mod hex;
pub mod input;
pub mod kernels;
pub mod lint;
pub mod ops;
pub mod sandboxed;
pub mod show;

pub use input::Input;
pub use kiln_program::Error;
pub use show::shown::Shown;
