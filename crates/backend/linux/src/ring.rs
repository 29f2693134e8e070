//! Reads records from a ring buffer (`BPF_MAP_TYPE_RINGBUF`).

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::error::{Error, check, check_pointer};
use crate::map::MapHandle;

/// The reading end of a ring buffer. A ring buffer has one reader.
#[derive(Debug)]
pub struct RingReader {
    ring: *mut libbpf_sys::ring_buffer,
    /// The records of the last read. libbpf's callback has its address, so it must not move.
    found: Box<Found>,
}

/// Records, one after the other, with where each ends.
#[derive(Debug, Default)]
struct Found {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Bytes that are taken out of the ring buffer before the reader looks at them.
const MOST_BYTES: usize = 4 << 20;

/// Stores one record. Stops reading if enough are stored; otherwise reading would continue as long as programs write.
// SAFETY: libbpf calls it with the context of `RingReader::new` and a record that it owns, for as long as the call.
unsafe extern "C" fn keep(context: *mut c_void, data: *mut c_void, size: u64) -> c_int {
    // SAFETY: the context is the `Found` of the reader that is reading now, which nobody else uses meanwhile.
    let found = unsafe { &mut *context.cast::<Found>() };
    // SAFETY: libbpf gives a record of this size, which stays until this returns.
    let record = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size as usize) };
    found.bytes.extend_from_slice(record);
    found.ends.push(found.bytes.len());
    if found.bytes.len() >= MOST_BYTES { -libc::EAGAIN } else { 0 }
}

impl RingReader {
    /// Opens the reading end of a map.
    ///
    /// # Errors
    /// [`Error::Os`], for maps that are no ring buffers too.
    pub fn new(map: &MapHandle) -> Result<RingReader, Error> {
        let mut found = Box::<Found>::default();
        let context = std::ptr::from_mut(&mut *found).cast::<c_void>();
        // SAFETY: the descriptor is open; the context lives as long as the reader, which frees the ring before it.
        let ring = unsafe { libbpf_sys::ring_buffer__new(map.fd().as_raw_fd(), Some(keep), context, std::ptr::null()) };
        let ring = check_pointer("opening a ring buffer", ring)?;
        Ok(RingReader { ring, found })
    }

    /// Removes the available records, up to some MiB, and passes each to `each`. Returns their number.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub fn read(&mut self, each: impl FnMut(&[u8])) -> Result<usize, Error> {
        // SAFETY: the ring is open, and this thread alone uses the reader.
        let result = unsafe { libbpf_sys::ring_buffer__consume(self.ring) };
        self.give(result, each)
    }

    /// Waits until programs wake the reader, for this time at most, and reads.
    ///
    /// # Errors
    /// [`Error::Os`]; a signal only ends the waiting.
    pub fn wait(&mut self, timeout: Duration, each: impl FnMut(&[u8])) -> Result<usize, Error> {
        let milliseconds = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: as in `read`.
        let result = unsafe { libbpf_sys::ring_buffer__poll(self.ring, milliseconds) };
        self.give(result, each)
    }

    /// Bytes that programs have reserved and the reader has not removed: records that are there, and those that a program
    /// is still writing, which end a read.
    pub fn unread(&self) -> usize {
        // SAFETY: the ring is open and has this one map; libbpf only reads the positions.
        unsafe { libbpf_sys::ring__avail_data_size(libbpf_sys::ring_buffer__ring(self.ring, 0)) as usize }
    }

    fn give(&mut self, result: c_int, mut each: impl FnMut(&[u8])) -> Result<usize, Error> {
        let mut start = 0;
        for end in &self.found.ends {
            each(&self.found.bytes[start..*end]);
            start = *end;
        }
        let count = self.found.ends.len();
        self.found.bytes.clear();
        self.found.ends.clear();
        if result != -libc::EAGAIN && result != -libc::EINTR {
            check("reading a ring buffer", result)?;
        }
        Ok(count)
    }
}

impl Drop for RingReader {
    fn drop(&mut self) {
        // SAFETY: the ring is open and not used again.
        unsafe { libbpf_sys::ring_buffer__free(self.ring) };
    }
}
