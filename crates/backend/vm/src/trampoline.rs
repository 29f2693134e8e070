//! Entry points of helpers for compiled code.
//!
//! ```text
//!   call [entry]    entry(r1 .. r5, runtime)  ->  helper(&mut State, [r1 .. r5])  ->  rax
//! ```
//!
//! One entry point per helper, so that the call inside is direct and the common helpers can be inlined into theirs. A
//! helper's callback is called from here, while no reference to the state exists.

use kiln_jit::{HelperEntry, Runtime};
use kiln_program::interpret::Fault;

use crate::helper::kfunc::{self, kfuncs};
use crate::helper::{
    bits, checksum, dynptr, helpers, kernel, maps, print, redirect, ring, route, socket, socket_buffer, text, tracing,
    xdp,
};
use crate::state::{MAX_OWN_HELPERS, Reply, State};

/// What [`Runtime::trap`] says when a helper stopped the run.
pub(crate) const TRAP_FAULT: u64 = 1;

/// Where the native stack ends now. The address of a local says nothing: sanitizers keep locals elsewhere.
#[inline(always)]
pub(crate) fn stack_pointer() -> u64 {
    let address: u64;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register and nothing else.
    unsafe {
        std::arch::asm!("mov {}, rsp", out(reg) address, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register and nothing else.
    unsafe {
        std::arch::asm!("mov {}, sp", out(reg) address, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        address = 0;
    }
    address
}

/// Runs a helper for compiled code.
#[inline(always)]
fn enter(
    helper: impl Fn(&mut State, [u64; 5]) -> Result<Reply, Fault>,
    arguments: [u64; 5],
    runtime: *mut Runtime,
) -> u64 {
    let runtime: *mut State = runtime.cast();
    loop {
        // SAFETY: compiled code passes on the pointer it was entered with: to the `runtime` field, the first of a
        // `State` (repr(C)) that outlives the run. While compiled code runs, nobody else refers to the state; the
        // reference made here ends before compiled code runs again.
        let state = unsafe { &mut *runtime };
        // Frames of compiled code lie above this function's.
        state.memory.set_native_stack_end(stack_pointer());
        match helper(state, arguments) {
            Ok(Reply::Value(value)) => {
                state.count_helper();
                return value;
            }
            Ok(Reply::TailCall(function)) => match state.entries[function.index()].address {
                0 => {
                    return stop(
                        state,
                        Fault::Unsupported("a tail call to a program that was not compiled".to_owned()),
                    );
                }
                address => return address,
            },
            Ok(Reply::Call { function, arguments: [r1, r2, r3, r4, r5] }) => {
                let depth = state.callbacks.len();
                if depth >= kiln_program::interpret::MAX_FRAMES {
                    return stop(state, Fault::Unsupported("callbacks nested this deep".to_owned()));
                }
                // SAFETY: the program passed a callback as the verifier demands: the address of one of its own
                // functions, which the compiler laid out with this signature.
                let callback: HelperEntry = unsafe { std::mem::transmute(function as usize) };
                let result = callback(r1, r2, r3, r4, r5, runtime.cast());
                // SAFETY: as above; the callback has returned.
                let state = unsafe { &mut *runtime };
                state.refill(false);
                if state.runtime.stopped() {
                    state.callbacks.clear();
                    return 0;
                }
                if let Some(callback) = state.callbacks.last_mut() {
                    callback.result = Some(result);
                }
            }
            Err(fault) => return stop(state, fault),
        }
    }
}

#[cold]
fn stop(state: &mut State, fault: Fault) -> u64 {
    state.fault = Some(fault);
    state.runtime.stop(TRAP_FAULT);
    0
}

/// A failed tail call: compiled code wants 0, not an error number.
fn tail_call_or_zero(state: &mut State, arguments: [u64; 5]) -> Result<Reply, Fault> {
    match maps::tail_call(state, arguments)? {
        Reply::Value(_) => Ok(Reply::Value(0)),
        reply => Ok(reply),
    }
}

extern "C" fn tail_call_entry(r1: u64, r2: u64, r3: u64, r4: u64, r5: u64, runtime: *mut Runtime) -> u64 {
    enter(tail_call_or_zero, [r1, r2, r3, r4, r5], runtime)
}

/// A classic packet load: (context, offset, bytes) to the value in host order, or -1.
pub(crate) extern "C" fn packet_load_entry(
    _: u64,
    offset: u64,
    bytes: u64,
    _: u64,
    _: u64,
    runtime: *mut Runtime,
) -> u64 {
    // SAFETY: as in `enter`.
    let state = unsafe { &mut *runtime.cast::<State>() };
    load_packet(state, offset as i64, bytes as usize).unwrap_or(u64::MAX)
}

/// The value of a classic packet load.
pub(crate) fn load_packet(state: &State, offset: i64, bytes: usize) -> Option<u64> {
    let bytes = state.packet.classic_range(&state.memory, offset, bytes)?;
    Some(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

extern "C" fn own_entry<const AT: usize>(r1: u64, r2: u64, r3: u64, r4: u64, r5: u64, runtime: *mut Runtime) -> u64 {
    enter(|state, arguments| state.call_own(AT, arguments), [r1, r2, r3, r4, r5], runtime)
}

macro_rules! own_entries {
    ($($at:literal)*) => { [$(own_entry::<$at>),*] };
}

/// Compiled code passes no number to a helper, so each entry point knows its place in the list of own helpers.
const OWN_ENTRIES: [HelperEntry; MAX_OWN_HELPERS] =
    own_entries!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);

/// The entry point of the own helper at a place of the list.
pub(crate) fn own_address(at: usize) -> Option<u64> {
    OWN_ENTRIES.get(at).map(|entry| *entry as *const () as u64)
}

/// The entry point of a helper or a kernel function.
macro_rules! entry {
    ($function:path) => {{
        extern "C" fn entry(r1: u64, r2: u64, r3: u64, r4: u64, r5: u64, runtime: *mut Runtime) -> u64 {
            enter($function, [r1, r2, r3, r4, r5], runtime)
        }
        entry
    }};
}

macro_rules! entries {
    ($($id:literal, $name:literal, $function:path, $how:ident;)*) => {
        /// The address of a helper's entry point; `None` where the VM lacks it.
        pub(crate) fn address(id: u32) -> Option<u64> {
            let entry: HelperEntry = match id {
                12 => tail_call_entry,
                $($id => entry!($function),)*
                _ => return None,
            };
            Some(entry as *const () as u64)
        }
    };
}

macro_rules! kfunc_entries {
    ($($name:literal, $function:path;)*) => {
        /// The address of a kernel function's entry point; `None` where the VM lacks it.
        pub(crate) fn kfunc_address(name: &str) -> Option<u64> {
            let entry: HelperEntry = match name {
                $($name => entry!($function),)*
                _ => return None,
            };
            Some(entry as *const () as u64)
        }
    };
}

kfuncs!(kfunc_entries);

#[allow(unreachable_patterns, reason = "tail calls have an entry point of their own")]
mod addresses {
    use super::*;
    helpers!(entries);
}
pub(crate) use addresses::address;
