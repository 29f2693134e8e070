//! Python module `kiln_ebpf`: runs eBPF programs in Kiln's VM, for unit tests without root.
//!
//! ```text
//!   Object("filter.bpf.o", constants={"limit": 10})     read, constants set, maps made
//!     .map("counts")[1] = {"packets": 0}                 values by the object's BTF
//!     .program("filter")                                 verified and compiled; Rejected has the explanation
//!        .run(packet)                                    -> Result: value, packet, trace, events
//! ```
//!
//! Reading order: [`object`], [`program`], [`map`], [`values`] (Python values and bytes), [`context`], [`globals`],
//! [`failure`] (exceptions, and the wall that panics do not pass).
//!
//! Locks: an object's VM is behind a lock. It is taken only while the interpreter's lock (GIL) is released, so a thread
//! that waits for one never holds the other.

mod context;
mod failure;
mod globals;
mod map;
mod object;
mod program;
mod values;

use pyo3::prelude::*;

/// Runs eBPF programs in Kiln's VM: unit tests without root and without a kernel.
#[pymodule]
mod kiln_ebpf {
    #[pymodule_export]
    use crate::failure::{InternalError, InvalidInput, KilnError, MapError, Rejected, Stopped, Unsupported};
    #[pymodule_export]
    use crate::globals::Globals;
    #[pymodule_export]
    use crate::map::Map;
    #[pymodule_export]
    use crate::object::Object;
    #[pymodule_export]
    use crate::program::{Program, Ran};
}
