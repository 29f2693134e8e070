//! A loaded object's heap (its BPF arena), as user space sees it: at the address that the program's pointers have.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::elf::LoadedObject;
use crate::error::Error;

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

/// A heap, mapped by libbpf when the object was loaded. Programs may change it at any time.
#[derive(Debug)]
pub struct Heap<'o> {
    start: NonNull<u8>,
    bytes: usize,
    _object: PhantomData<&'o LoadedObject>,
}

// SAFETY: the mapping stays where it is while the object lives, and its words are only accessed as atomics.
unsafe impl Send for Heap<'_> {}
// SAFETY: as for `Send`.
unsafe impl Sync for Heap<'_> {}

impl<'o> Heap<'o> {
    /// # Safety
    /// `start` is a mapping of an arena of `bytes` bytes that lives as long as the object.
    pub(crate) unsafe fn new(start: NonNull<u8>, bytes: usize) -> Heap<'o> {
        Heap { start, bytes, _object: PhantomData }
    }

    /// The address of its first byte: a pointer in the heap is this plus an offset.
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Allocates the pages of a range, so that programs find memory there: untouched pages read as 0 and drop stores.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for a range outside of the heap, [`Error::Os`] where memory runs out.
    pub fn populate(&self, offset: usize, bytes: usize) -> Result<(), Error> {
        let first = offset / PAGE_BYTES * PAGE_BYTES;
        let end =
            offset.checked_add(bytes).map(|end| end.next_multiple_of(PAGE_BYTES)).filter(|end| *end <= self.bytes);
        let Some(end) = end else {
            return Err(Error::InvalidInput(format!(
                "{bytes} bytes at {offset} leave the heap of {} bytes",
                self.bytes
            )));
        };
        // SAFETY: the range lies in the mapping.
        let result =
            unsafe { libc::madvise(self.start.as_ptr().add(first).cast(), end - first, libc::MADV_POPULATE_WRITE) };
        if result == 0 { Ok(()) } else { Err(Error::last_os("populating the heap")) }
    }

    fn word(&self, offset: usize) -> Option<&AtomicU64> {
        let inside = offset % 8 == 0 && offset.checked_add(8).is_some_and(|end| end <= self.bytes);
        // SAFETY: an aligned word of a live mapping; programs may change it at the same time, which atomics allow.
        inside.then(|| unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) })
    }

    /// The eight bytes at an offset, a multiple of 8; `None` outside of the heap.
    pub fn load(&self, offset: usize) -> Option<u64> {
        Some(self.word(offset)?.load(Ordering::Acquire))
    }

    /// Sets the eight bytes at an offset, a multiple of 8; `None` outside of the heap.
    pub fn store(&self, offset: usize, value: u64) -> Option<()> {
        self.word(offset)?.store(value, Ordering::Release);
        Some(())
    }

    /// Replaces the eight bytes at an offset, a multiple of 8, if they are `expected`; gives what was there, `None` outside of
    /// the heap.
    pub fn compare_exchange(&self, offset: usize, expected: u64, new: u64) -> Option<u64> {
        let done = self.word(offset)?.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst);
        Some(done.unwrap_or_else(|old| old))
    }

    /// The offset of a pointer that a program stored; `None` for null and foreign ones.
    pub fn offset(&self, pointer: u64) -> Option<usize> {
        let offset = usize::try_from(pointer.checked_sub(self.address())?).ok()?;
        (offset < self.bytes).then_some(offset)
    }
}
