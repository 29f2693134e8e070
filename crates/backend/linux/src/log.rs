//! Collects libbpf's messages instead of printing them.
//!
//! libbpf reports through one process-wide callback. Ours appends to a buffer of the calling thread, so that a
//! failure carries the messages of its own attempt and stderr stays the command's.

use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::sync::Once;

thread_local! {
    static MESSAGES: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Maximum bytes of messages per thread.
const MESSAGES_BYTES: usize = 1 << 20;

// SAFETY: the signature is that of C's vsnprintf on this platform, `va_list` as libbpf-sys declares it.
unsafe extern "C" {
    /// C's formatter; libbpf passes its messages as format and argument list.
    fn vsnprintf(
        buffer: *mut c_char,
        size: usize,
        format: *const c_char,
        arguments: *mut libbpf_sys::__va_list_tag,
    ) -> c_int;
}

// SAFETY: only libbpf calls this, with a format and the argument list that goes with it.
unsafe extern "C" fn keep(
    level: libbpf_sys::libbpf_print_level,
    format: *const c_char,
    arguments: *mut libbpf_sys::__va_list_tag,
) -> c_int {
    if level == libbpf_sys::LIBBPF_DEBUG {
        return 0;
    }
    let mut buffer = vec![0u8; 4096];
    // SAFETY: the buffer has the size passed, and libbpf hands over a matching format and argument list.
    let length = unsafe { vsnprintf(buffer.as_mut_ptr().cast(), buffer.len(), format, arguments) };
    buffer.truncate(usize::try_from(length).unwrap_or(0).min(4095));
    MESSAGES.with_borrow_mut(|messages| {
        if messages.len() < MESSAGES_BYTES {
            messages.push_str(&String::from_utf8_lossy(&buffer));
        }
    });
    length
}

/// Installs the callback, once, and clears the calling thread's messages.
pub(crate) fn begin() {
    static ONCE: Once = Once::new();
    // SAFETY: `keep` has the type libbpf expects and never unwinds.
    ONCE.call_once(|| unsafe {
        libbpf_sys::libbpf_set_print(Some(keep));
    });
    MESSAGES.with_borrow_mut(String::clear);
}

/// libbpf's messages in this thread since [`begin`].
pub(crate) fn take() -> String {
    MESSAGES.with_borrow_mut(std::mem::take)
}
