//! Loads without privilege: a thread drops its effective capabilities and restores them.
//!
//! ```text
//!   without_privilege(|| load(...))      CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN, CAP_SYS_ADMIN are not in effect inside
//! ```
//!
//! Capabilities belong to threads, so other threads of the process keep theirs. If the kernel forbids unprivileged
//! loading (`kernel.unprivileged_bpf_disabled`), the attempt returns that error.

use crate::error::Error;

/// The capabilities that bpf(2) asks for.
const CAPABILITIES: [u32; 4] = [12, 21, 38, 39];
/// `_LINUX_CAPABILITY_VERSION_3`.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    /// 0 is the calling thread.
    thread: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Words {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The thread's capabilities: 64 of them, 32 in each element.
type Sets = [Words; 2];

fn call(number: i64, sets: &mut Sets) -> Result<(), Error> {
    let mut header = Header { version: VERSION, thread: 0 };
    // SAFETY: both structures have the layout of the system call's version 3, and live for the call.
    let result = unsafe { libc::syscall(number, &raw mut header, sets.as_mut_ptr()) };
    if result == 0 { Ok(()) } else { Err(Error::last_os("changing the thread's capabilities")) }
}

/// Restores the capabilities when it is dropped.
struct Restore(Sets);

impl Drop for Restore {
    fn drop(&mut self) {
        // A thread may always make effective what is permitted to it, so this does not fail.
        let _ = call(libc::SYS_capset, &mut self.0);
    }
}

/// Runs something without privilege over BPF.
///
/// # Errors
/// [`Error::Os`] when the capabilities cannot be changed.
pub fn without_privilege<T>(work: impl FnOnce() -> T) -> Result<T, Error> {
    let mut sets = Sets::default();
    call(libc::SYS_capget, &mut sets)?;
    let restore = Restore(sets);
    for capability in CAPABILITIES {
        sets[capability as usize / 32].effective &= !(1 << (capability % 32));
    }
    call(libc::SYS_capset, &mut sets)?;
    let result = work();
    drop(restore);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::{Sets, call, without_privilege};

    fn effective() -> [u32; 2] {
        let mut sets = Sets::default();
        call(libc::SYS_capget, &mut sets).expect("a thread may read its capabilities");
        sets.map(|words| words.effective)
    }

    #[test]
    fn capabilities_are_put_down_and_taken_up_again() {
        let before = effective();
        let inside = without_privilege(effective).expect("a thread may drop capabilities");
        assert_eq!(inside[0] & (1 << 12 | 1 << 21), 0);
        assert_eq!(inside[1] & (1 << 6 | 1 << 7), 0);
        assert_eq!(effective(), before);
    }
}
