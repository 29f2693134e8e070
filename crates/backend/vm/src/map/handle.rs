//! Handles: the numbers that programs hold for maps.

/// Handles begin here: not canonical on x86-64, so that using one as an address faults.
const HANDLE_BASE: u64 = 0x4d41_5000_0000_0000;

/// The handle of the map with this index.
pub const fn handle(index: u32) -> u64 {
    HANDLE_BASE | index as u64
}

/// The index of the map with this handle, if it is a handle.
#[inline]
pub const fn index_of_handle(handle: u64) -> Option<usize> {
    if handle >> 32 == HANDLE_BASE >> 32 { Some(handle as u32 as usize) } else { None }
}
