//! User space's side of a heap (`bpf/include/kiln/heap.h`), wherever the extension runs.
//!
//! [`Memory`] is the heap as a loader sees it: `kiln_linux::Heap` in the kernel, `kiln_vm::Heap` in the VM. [`supply`] gives
//! `kiln_malloc` its memory and reads its accounts; [`allocator`] is `kiln_malloc` for user space; [`lock`] takes the locks that
//! programs take. Pointers in the heap are addresses: [`Memory::word`] follows them. [`own::OwnHeap`] is a heap of this process,
//! without an extension.
#![forbid(unsafe_code)]

pub mod allocator;
pub mod lock;
pub mod own;
mod slab;
pub mod supply;

use supply::NoMemory;

/// A heap as user space sees it. Programs may change it at any time.
pub trait Memory {
    /// The address of its first byte.
    fn address(&self) -> u64;
    /// Its size.
    fn bytes(&self) -> usize;
    /// The word at an offset, a multiple of 8; `None` outside of the heap.
    fn load(&self, offset: usize) -> Option<u64>;
    /// Sets the word at an offset, a multiple of 8; `None` outside of the heap.
    fn store(&self, offset: usize, value: u64) -> Option<()>;
    /// Replaces the word at an offset, a multiple of 8, if it is `expected`. Returns the old word; `None` outside of the
    /// heap.
    fn compare_exchange(&self, offset: usize, expected: u64, new: u64) -> Option<u64>;
    /// Allocates the pages of a range.
    ///
    /// # Errors
    /// Returns the system call that failed.
    fn populate(&self, offset: usize, bytes: usize) -> Result<(), NoMemory>;

    /// Bytes of its pages that take memory; `None` if that is not known.
    fn resident_bytes(&self) -> Option<u64> {
        None
    }

    /// The offset of a pointer that a program stored; `None` for null and foreign ones.
    fn offset(&self, pointer: u64) -> Option<usize> {
        let offset = usize::try_from(pointer.checked_sub(self.address())?).ok()?;
        (offset < self.bytes()).then_some(offset)
    }

    /// The word `at` bytes behind a pointer that a program stored; `None` for null and foreign pointers.
    fn word(&self, pointer: u64, at: usize) -> Option<u64> {
        self.load(self.offset(pointer)?.checked_add(at)?)
    }

    /// Appends `bytes` bytes from an offset, a multiple of 8; `None` outside of the heap, and then nothing is appended. Words are
    /// read one by one: what programs write at the same time may be there in part.
    fn read(&self, offset: usize, bytes: usize, to: &mut Vec<u8>) -> Option<()> {
        let end = offset.checked_add(bytes)?;
        if end > self.bytes() || offset % 8 != 0 {
            return None;
        }
        to.reserve(bytes + 8);
        let before = to.len();
        for at in (offset..end).step_by(8) {
            to.extend(self.load(at)?.to_le_bytes());
        }
        to.truncate(before + bytes);
        Some(())
    }

    /// Writes bytes at an offset, a multiple of 8, and zeros up to the next multiple; `None` outside of the heap, and then nothing
    /// is written.
    fn write(&self, offset: usize, from: &[u8]) -> Option<()> {
        if offset.checked_add(from.len())? > self.bytes() || offset % 8 != 0 {
            return None;
        }
        for (at, part) in from.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.store(offset + 8 * at, u64::from_le_bytes(word))?;
        }
        Some(())
    }
}
