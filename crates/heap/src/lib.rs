//! User space's side of a heap (`bpf/include/kiln/heap.h`), wherever the extension runs.
//!
//! [`Memory`] is the heap as a loader sees it: `kiln_linux::Heap` in the kernel, `kiln_vm::Heap` in the VM. [`supply`] gives
//! `kiln_malloc` its memory and reads its accounts; [`lock`] takes the locks that programs take. Pointers in the heap are
//! addresses: [`Memory::word`] follows them.
#![forbid(unsafe_code)]

pub mod lock;
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
}
