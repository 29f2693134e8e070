//! The kernel functions that programs may call by name, one row each.
//!
//! A kfunc is a function of the kernel itself, and its prototype is in the kernel's BTF. Properties that BTF lacks are
//! flags in the kernel, and in this table:
//!
//! ```text
//!   kfunc("bpf_task_acquire", 6, 2, GENERIC, &[Acquire, Rcu, RetNull])
//!          name       first kernel  who may   r0 must be released; takes pointers under RCU; r0 may be null
//! ```
//!
//! ```
//! use kiln_platform::{Kfunc, KfuncFlag, ProgramType};
//! let acquire = Kfunc::by_name("bpf_task_acquire").unwrap();
//! assert!(acquire.has(KfuncFlag::Acquire) && acquire.allowed_in(ProgramType::Tracing));
//! assert!(!acquire.allowed_in(ProgramType::SocketFilter));
//! ```
//!
//! A function that later kernels have no more ends with `.until(7, 0)`; one whose flags changed has a row for each time.
//!
//! To add one, write its row in the file of its theme. `tests/kfuncs.rs` asks a kernel that has it which programs may
//! call it.

mod dynptr;
mod iterator;
mod kernel_objects;
mod network;
mod objects;
mod properties;
mod row;
mod scheduler;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::KernelVersion;

pub use properties::{DynptrSource, Kfunc, KfuncFlag, KfuncMeaning, Later};

impl Kfunc {
    /// The kfunc of this name, as the first kernels had it.
    pub fn by_name(name: &str) -> Option<&'static Kfunc> {
        BY_NAME.get(name)?.first().copied()
    }

    /// The kfunc of this name as kernels of a release have it; if they do not, as the first ones had it.
    pub fn at(name: &str, version: KernelVersion) -> Option<&'static Kfunc> {
        let rows = BY_NAME.get(name)?;
        rows.iter().find(|row| row.is_of(version)).or(rows.first()).copied()
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = &'static Kfunc> {
        TABLES.into_iter().flatten()
    }
}

const TABLES: [&[Kfunc]; 6] =
    [objects::KFUNCS, kernel_objects::KFUNCS, dynptr::KFUNCS, iterator::KFUNCS, network::KFUNCS, scheduler::KFUNCS];

/// The rows of each name: one, or several where flags changed, oldest first.
static BY_NAME: LazyLock<HashMap<&'static str, Vec<&'static Kfunc>>> = LazyLock::new(|| {
    let mut rows = HashMap::<&str, Vec<&Kfunc>>::new();
    Kfunc::all().for_each(|kfunc| rows.entry(kfunc.name).or_default().push(kfunc));
    rows
});
