//! Memory that several threads use at once: values of maps, and their index structures.
//!
//! Compiled code reads and writes map values with plain and `lock`-prefixed instructions while other threads do the
//! same. Rust must then hold no reference to the bytes and make no assumption about them, so every access here is an
//! atomic one of a word or a byte:
//!
//! ```text
//!   program on CPU 0   lock add [value], 1        block.word64(at).fetch_add(..)     a program in the interpreter
//!   program on CPU 1   mov [value + 8], 7         block.read(at, &mut buffer)        a helper, user space
//! ```
//!
//! Words are read and written whole where both sides are aligned, as the kernel does it; longer values may be torn.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::places::{Placement, Places, unmap};

/// Memory at an address that never changes, shared between threads. Dropping it unmaps it, if it owns it.
#[derive(Debug)]
pub(crate) struct Block {
    start: NonNull<u8>,
    /// Bytes that are mapped: whole pages.
    bytes: usize,
    /// Bytes that were asked for.
    used: usize,
    /// Whether dropping it unmaps it.
    owned: bool,
}

// SAFETY: only this value refers to the mapping, and all accesses through it are atomic.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// Maps `bytes` zero bytes. Untouched pages cost nothing.
    ///
    /// # Errors
    /// What `mmap` reports.
    pub fn new(places: &mut Places, bytes: u64) -> io::Result<Block> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let used = bytes;
        let (start, bytes) = places.map(bytes, Placement::Anywhere)?;
        Ok(Block { start, bytes, used, owned: true })
    }

    /// Memory that it does not own.
    ///
    /// # Safety
    /// `bytes` readable and writable bytes are mapped at `start`, a multiple of 8, as long as the block lives, and are accessed
    /// through this block and by machine instructions only.
    pub unsafe fn borrowed(start: NonNull<u8>, bytes: usize) -> Block {
        Block { start, bytes, used: bytes, owned: false }
    }

    /// Bytes that were asked for.
    pub fn bytes(&self) -> usize {
        self.used
    }

    /// Whether some bytes are all zeros.
    pub fn is_zero(&self, range: Range<usize>) -> bool {
        let mut bytes = vec![0; range.len()];
        self.read(range.start, &mut bytes);
        bytes.iter().all(|byte| *byte == 0)
    }

    /// Whether the bytes after the requested ones are unchanged.
    pub fn ends_clean(&self) -> bool {
        self.is_zero(self.used..self.bytes)
    }

    /// The address of the first byte.
    #[inline]
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    #[inline]
    fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(offset <= self.bytes && bytes <= self.bytes - offset, "an access leaves its block");
        // SAFETY: the offset was just checked to lie in the mapping.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// The 32-bit word at an offset, a multiple of 4.
    #[inline]
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        debug_assert_eq!(offset % 4, 0);
        // SAFETY: the word lies in the mapping, which lives as long as `self`, is aligned, and is only accessed by
        // atomic operations and by machine instructions.
        unsafe { AtomicU32::from_ptr(self.at(offset & !3, 4).cast()) }
    }

    /// The 64-bit word at an offset, a multiple of 8.
    #[inline]
    pub fn word64(&self, offset: usize) -> &AtomicU64 {
        debug_assert_eq!(offset % 8, 0);
        // SAFETY: as in `word32`.
        unsafe { AtomicU64::from_ptr(self.at(offset & !7, 8).cast()) }
    }

    /// So many 32-bit words from a word on.
    #[inline]
    pub fn words(&self, first: usize, count: usize) -> &[AtomicU32] {
        let start = self.at(4 * first, 4 * count);
        // SAFETY: as in `word32`, for each of the words, all of which `at` checked.
        unsafe { std::slice::from_raw_parts(start.cast::<AtomicU32>(), count) }
    }

    /// Copies bytes out.
    #[inline]
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        let from = self.at(offset, to.len());
        // SAFETY: both ranges are as long as `to`; what is behind `from` is only accessed atomically.
        unsafe { copy_bytes::<true, false>(from, to.as_mut_ptr(), to.len()) };
    }

    /// Copies bytes in.
    #[inline]
    pub fn write(&self, offset: usize, from: &[u8]) {
        let to = self.at(offset, from.len());
        // SAFETY: as in `read`.
        unsafe { copy_bytes::<false, true>(from.as_ptr(), to, from.len()) };
    }

    /// Copies bytes in from an address.
    ///
    /// # Safety
    /// The range at `from` is readable memory of the VM.
    #[inline]
    pub unsafe fn write_from(&self, offset: usize, from: u64, bytes: usize) {
        let to = self.at(offset, bytes);
        // SAFETY: `at` checked the target; the caller guarantees the source.
        unsafe { copy_bytes::<true, true>(from as *const u8, to, bytes) };
    }

    /// Zeroes bytes.
    pub fn clear(&self, offset: usize, bytes: usize) {
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            if at.is_multiple_of(8) && end - at >= 8 {
                self.word64(at).store(0, Ordering::Relaxed);
                at += 8;
            } else {
                self.write(at, &[0]);
                at += 1;
            }
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.owned {
            unmap(self.start, self.bytes);
        }
    }
}

/// Copies bytes, by words if both sides are aligned. Other threads may access the `SHARED` side at the same time; the
/// other side belongs to the caller and may be a slice.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `bytes` bytes, the ranges do not overlap, and what other threads can
/// reach of them is shared and only accessed by atomic operations and by machine instructions.
#[inline]
pub(crate) unsafe fn copy_bytes<const FROM_SHARED: bool, const TO_SHARED: bool>(
    from: *const u8,
    to: *mut u8,
    bytes: usize,
) {
    let together = from as usize | to as usize;
    let mut at = 0;
    macro_rules! word {
        ($atomic:ty, $plain:ty) => {
            // SAFETY: the word lies `at` bytes into both ranges, the rest of which is at least as long, and is aligned on both
            // sides. Casting the source to `*mut` does not write it.
            unsafe {
                let word = match FROM_SHARED {
                    true => <$atomic>::from_ptr(from.add(at).cast_mut().cast()).load(Ordering::Relaxed),
                    false => from.add(at).cast::<$plain>().read(),
                };
                match TO_SHARED {
                    true => <$atomic>::from_ptr(to.add(at).cast()).store(word, Ordering::Relaxed),
                    false => to.add(at).cast::<$plain>().write(word),
                }
                at += size_of::<$plain>();
            }
        };
    }
    while together & 7 == 0 && bytes - at >= 8 {
        word!(AtomicU64, u64);
    }
    while together & 3 == 0 && bytes - at >= 4 {
        word!(AtomicU32, u32);
    }
    while at < bytes {
        word!(AtomicU8, u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_any_alignment() {
        let block = Block::new(&mut Places::default(), 100).expect("memory");
        let pattern: Vec<u8> = (1..=50).collect();
        for offset in 0..9 {
            block.clear(0, 100);
            block.write(offset, &pattern);
            let mut back = vec![0; 52];
            block.read(offset, &mut back);
            assert_eq!(back[..50], pattern);
            assert_eq!(back[50..], [0, 0]);
        }
    }

    #[test]
    #[should_panic(expected = "leaves its block")]
    fn accesses_stay_inside() {
        let block = Block::new(&mut Places::default(), 4096).expect("memory");
        block.read(4090, &mut [0; 7]);
    }
}
