//! Helpers of the embedder's own.
//!
//! ```text
//!   static ADD: Helper = Helper::own(65_536, "add", ...)      what the verifier checks calls against
//!   OwnHelper::new(&ADD, |call| ...)                          what runs
//!         \__ Options::own_helpers[2] --> entry point 2 of the trampoline --> State::own_helpers[2]
//! ```

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kiln_platform::{ArgKind, FIRST_OWN_HELPER, Helper, ReturnKind};
use kiln_program::interpret::Fault;

use crate::state::{MAX_OWN_HELPERS, OwnFunction, Reply, State};

/// A helper that an embedder adds to the kernel's: its declaration and its function. Threads may run it at once.
#[derive(Clone)]
pub struct OwnHelper {
    pub(crate) declaration: &'static Helper,
    pub(crate) function: OwnFunction,
}

impl OwnHelper {
    /// A helper. A panic in `function` stops the run with an error. `function` must not run a program on the same CPU of
    /// the same VM: it would wait for itself.
    pub fn new(
        declaration: &'static Helper,
        function: impl Fn(&mut Call<'_>) -> u64 + Send + Sync + 'static,
    ) -> OwnHelper {
        let call = move |state: &mut State, arguments| {
            let mut call = Call { state, writable: writable(declaration, &arguments), arguments };
            // Neither compiled code nor C can be unwound.
            let value = catch_unwind(AssertUnwindSafe(|| function(&mut call)));
            let panicked = |_| Fault::Unsupported(format!("a panic in helper {}", declaration.name));
            value.map(Reply::Value).map_err(panicked)
        };
        OwnHelper { declaration, function: OwnFunction(Arc::new(call)) }
    }

    /// What is wrong with a list of own helpers, if anything is.
    pub(crate) fn check(list: &[OwnHelper]) -> Result<(), &'static str> {
        if list.len() > MAX_OWN_HELPERS {
            return Err("there are more than 32 own helpers");
        }
        let id = |helper: &OwnHelper| helper.declaration.id;
        if list.iter().any(|helper| id(helper) < FIRST_OWN_HELPER) {
            return Err("an own helper has a number below 65536, which are the kernel's");
        }
        if !list.iter().all(|helper| is_plain(helper.declaration)) {
            return Err("an own helper takes integers, the context and memory, and returns an integer");
        }
        let twice = list.iter().enumerate().any(|(at, helper)| list[..at].iter().any(|other| id(other) == id(helper)));
        if twice { Err("two own helpers have the same number") } else { Ok(()) }
    }
}

/// Whether the verifier's assumptions about a helper hold whatever its function does: it can return no pointer, and
/// [`Call::write`] lets it change nothing but the memory that its declaration says.
fn is_plain(helper: &Helper) -> bool {
    let plain = |argument: &ArgKind| {
        matches!(
            argument,
            ArgKind::Anything
                | ArgKind::Context
                | ArgKind::Memory(_)
                | ArgKind::FixedMemory { .. }
                | ArgKind::Size { .. }
        )
    };
    let keeps = !helper.acquires && !helper.changes_packet_data && !helper.casts_argument && !helper.fastcall;
    keeps
        && helper.answer_bits == u64::MAX
        && !helper.returns_size
        && helper.variants.is_empty()
        && helper.prototype.returns == ReturnKind::Integer
        && helper.prototype.args.iter().all(plain)
}

/// The memory that a declaration lets its helper write, in a call with these arguments.
fn writable(helper: &Helper, arguments: &[u64; 5]) -> [Range<u64>; 5] {
    std::array::from_fn(|at| {
        let bytes = match helper.prototype.args.get(at) {
            Some(ArgKind::FixedMemory { size, memory, .. }) if memory.writes => u64::from(*size),
            // The verifier asks for the size behind such an argument, and bounds it by the memory.
            Some(ArgKind::Memory(memory)) if memory.writes => arguments.get(at + 1).copied().unwrap_or(0),
            _ => 0,
        };
        arguments[at]..arguments[at].saturating_add(bytes)
    })
}

impl fmt::Debug for OwnHelper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnHelper({} {})", self.declaration.id, self.declaration.name)
    }
}

/// A call of an own helper: its arguments, and the program's memory.
pub struct Call<'s> {
    state: &'s mut State,
    writable: [Range<u64>; 5],
    /// R1 to R5. Those that the declaration does not name are what the program left there.
    pub arguments: [u64; 5],
}

impl Call<'_> {
    /// The bytes at an address that the program passed; `None` if not all of them are the program's.
    pub fn read(&self, address: u64, bytes: usize) -> Option<Cow<'_, [u8]>> {
        self.state.memory.bytes(address, bytes)
    }

    /// Writes bytes at an address that the program passed; `None` if they are not all in one argument that the
    /// declaration lets the helper write. A helper fills such memory whole: the verifier takes it for initialized.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        let end = address.checked_add(bytes.len() as u64)?;
        let inside = self.writable.iter().any(|range| range.start <= address && end <= range.end);
        if inside { self.state.memory.write(address, bytes) } else { None }
    }

    /// The CPU that the program runs on.
    pub fn cpu(&self) -> u32 {
        self.state.surroundings.cpu
    }
}

/// The place of an own helper's number in the list.
pub(crate) fn place(list: &[OwnHelper], id: u32) -> Option<usize> {
    list.iter().position(|helper| helper.declaration.id == id)
}
