//! Machine code made runnable.
//!
//! Code is written into private pages, which are then made executable and never writable again (W^X):
//!
//! ```text
//!   mmap(read+write), 16 pages at once
//!     pages of one program --copy code--> mprotect(read+execute) --call--> ... --drop--> munmap
//!     pages of the next one ...
//! ```
//!
//! Only `unsafe` code can call it, because the bytes may be any code.
//!
//! ```compile_fail,E0133
//! // lea rax, [rdi + 1]; ret
//! let program = kiln_vm::exec::Program::new(&[0x48, 0x8d, 0x47, 0x01, 0xc3]).unwrap();
//! program.call(41, &mut 0u64);
//! ```
//!
//! [`crate::Vm::load`] is the safe way: what it calls is the compiled form of a program that it verified.
//!
//! ```compile_fail,E0133
//! let object = kiln_program::Object::default();
//! let mut vm = kiln_vm::Vm::new(&object, Default::default()).unwrap();
//! vm.load_unverified("main").unwrap();
//! ```
//!
//! The processor enters the code as a [`kiln_jit::Entry`]. 64-bit Arm fetches instructions through another cache than
//! data, so new code is written back and old instructions are dropped before it runs: here and nowhere else.

use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// Machine code in executable memory. Dropping it unmaps the memory.
#[derive(Debug)]
pub struct Program {
    start: NonNull<u8>,
    code_bytes: usize,
    entry_offset: usize,
}

// SAFETY: the pages are owned by this value alone and are never written after `new`; any thread may read, run or
// unmap it.
unsafe impl Send for Program {}
// SAFETY: as above: shared use only reads.
unsafe impl Sync for Program {}

impl Program {
    /// Copies position-independent code whose entry is its first byte into executable memory, which begins at a
    /// page.
    ///
    /// # Errors
    /// What `mmap` or `mprotect` reports; empty code is [`io::ErrorKind::InvalidInput`].
    pub fn new(code: &[u8]) -> io::Result<Program> {
        if code.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no machine code"));
        }
        let start = Spare::take(code.len())?;
        let program = Program { start, code_bytes: code.len(), entry_offset: 0 };
        // SAFETY: `start` begins fresh pages of at least `code.len()` writable bytes, which nothing else refers
        // to, so the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), start.as_ptr(), code.len()) };
        synchronize_instructions(start, code.len());
        // SAFETY: the range is the pages just taken; no reference into them exists.
        let result =
            unsafe { libc::mprotect(start.as_ptr().cast(), program.code_bytes, libc::PROT_READ | libc::PROT_EXEC) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(program)
    }

    /// Copies what the JIT made.
    ///
    /// # Errors
    /// As [`Program::new`]; an entry outside the code is [`io::ErrorKind::InvalidInput`].
    pub fn load(code: &kiln_jit::Code) -> io::Result<Program> {
        Program::with_entry(&code.bytes, code.entry_offset)
    }

    /// Copies code, and the constants among it, whose entry is this byte.
    ///
    /// # Errors
    /// As [`Program::load`].
    pub fn with_entry(code: &[u8], entry_offset: usize) -> io::Result<Program> {
        if entry_offset >= code.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the entry is outside the code"));
        }
        let mut program = Program::new(code)?;
        program.entry_offset = entry_offset;
        Ok(program)
    }

    /// The address of the entry.
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64 + self.entry_offset as u64
    }

    /// The address of the first byte.
    pub fn start(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Bytes of code.
    pub fn len(&self) -> usize {
        self.code_bytes
    }

    /// Never: empty code is refused.
    pub fn is_empty(&self) -> bool {
        self.code_bytes == 0
    }

    /// Runs the code from its entry with R1 = `context`; returns R0. `runtime` is what the code was compiled
    /// against: its first field is the JIT's runtime block.
    ///
    /// # Safety
    /// The code is what the JIT made of a program that the verifier accepted, the symbols that it was compiled with are
    /// live, `context` is the address of a context of the program's type, and `R` begins with a [`kiln_jit::Runtime`]
    /// and is what the helpers behind the symbols take it for. Any other code can do anything to the process.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub unsafe fn call<R>(&self, context: u64, runtime: &mut R) -> u64 {
        // SAFETY: the mapping is executable and lives as long as `self`; the JIT's entry has this signature and keeps
        // the callee-saved registers of the machine's C convention; the caller vouches for what it touches.
        unsafe {
            let entry: kiln_jit::Entry = std::mem::transmute(self.address() as usize);
            entry(context, std::ptr::from_mut(runtime).cast())
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the pages are this program's alone, and nothing runs them any more: `call` borrows `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.code_bytes) };
    }
}

/// Makes code that was just written the code that the processor fetches.
#[cfg(target_arch = "aarch64")]
fn synchronize_instructions(start: NonNull<u8>, bytes: usize) {
    /// No cache line of a 64-bit Arm processor is shorter.
    const LINE_BYTES: usize = 16;
    for offset in (0..bytes).step_by(LINE_BYTES) {
        let address = start.as_ptr() as usize + offset;
        // SAFETY: the address lies in a mapping of `bytes` bytes from `start`; cleaning a data line and dropping an
        // instruction line change no memory.
        unsafe { std::arch::asm!("dc cvau, {0}", "dsb ish", "ic ivau, {0}", in(reg) address) };
    }
    // SAFETY: barriers touch nothing.
    unsafe { std::arch::asm!("dsb ish", "isb") };
}

/// x86-64 keeps instructions and data in step by itself.
#[cfg(not(target_arch = "aarch64"))]
fn synchronize_instructions(_: NonNull<u8>, _: usize) {}

/// All of it is written at once: a fault for each page would take longer.
#[cfg(target_os = "linux")]
const POPULATE: i32 = libc::MAP_POPULATE;
#[cfg(not(target_os = "linux"))]
const POPULATE: i32 = 0;

/// Pages that are mapped at once: the system is asked less often.
const CHUNK_PAGES: usize = 16;

/// Bytes of a page: a program's own pages begin at a multiple.
fn page_bytes() -> usize {
    // SAFETY: asking for a number touches no memory.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two()).unwrap_or(64 << 10)
}

/// Writable pages that no program has yet. Each is handed out once, and then is its program's to unmap.
struct Spare {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: nothing refers to these pages but this value.
unsafe impl Send for Spare {}

static SPARE: Mutex<Option<Spare>> = Mutex::new(None);

impl Spare {
    /// Whole pages for so many bytes.
    ///
    /// # Errors
    /// What `mmap` reports.
    fn take(bytes: usize) -> io::Result<NonNull<u8>> {
        let chunk_bytes = CHUNK_PAGES * page_bytes();
        let bytes = bytes.checked_next_multiple_of(page_bytes()).ok_or(io::ErrorKind::OutOfMemory)?;
        if bytes >= chunk_bytes {
            return map_writable(bytes);
        }
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        let enough = spare.as_ref().is_some_and(|spare| spare.bytes >= bytes);
        if !enough {
            let chunk = Spare { start: map_writable(chunk_bytes)?, bytes: chunk_bytes };
            drop(spare.replace(chunk));
        }
        let chunk = spare.as_mut().ok_or(io::ErrorKind::OutOfMemory)?;
        let start = chunk.start;
        // SAFETY: the chunk has at least that many bytes.
        chunk.start = unsafe { start.add(bytes) };
        chunk.bytes -= bytes;
        Ok(start)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: no program has these pages, and none will.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }
}

fn map_writable(bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: an anonymous private mapping at an address of the kernel's choice touches no existing memory.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | POPULATE,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::other("mmap returned null"))
}

#[cfg(all(test, target_arch = "x86_64", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn code_runs_with_its_arguments() {
        // lea rax, [rdi + 1]; add qword [rsi], 5; ret
        let code = [0x48, 0x8d, 0x47, 0x01, 0x48, 0x83, 0x06, 0x05, 0xc3];
        let program = Program::new(&code).expect("executable memory");
        let mut runtime = 7u64;
        // SAFETY: the code above adds to its arguments and returns.
        assert_eq!(unsafe { program.call(41, &mut runtime) }, 42);
        assert_eq!(runtime, 12);
        assert_eq!(program.len(), code.len());
    }

    /// Programs that came from one mapping are unmapped each by itself, and a page is never handed out again.
    #[test]
    fn each_program_has_pages_of_its_own() {
        let give = |answer: u8| Program::new(&[0xb8, answer, 0, 0, 0, 0xc3]).expect("executable memory");
        let mut programs: Vec<_> = (0..40).map(|answer| (answer, give(answer))).collect();
        let pages: std::collections::HashSet<_> =
            programs.iter().map(|(_, program)| program.start() as usize / page_bytes()).collect();
        assert_eq!(pages.len(), programs.len());
        programs.retain(|(answer, _)| answer % 3 != 0);
        programs.extend((40..60).map(|answer| (answer, give(answer))));
        for (answer, program) in &programs {
            // SAFETY: the code returns a number.
            assert_eq!(unsafe { program.call(0, &mut 0u64) }, u64::from(*answer));
        }
    }

    /// Code that is longer than what is mapped at once.
    #[test]
    fn long_code_runs() {
        let mut code = vec![0x90; 3 * CHUNK_PAGES * page_bytes() + 5];
        code.extend([0xb8, 7, 0, 0, 0, 0xc3]);
        let program = Program::new(&code).expect("executable memory");
        // SAFETY: the code does nothing for long, and returns a number.
        assert_eq!(unsafe { program.call(0, &mut 0u64) }, 7);
    }

    #[test]
    fn empty_code_is_refused() {
        assert_eq!(Program::new(&[]).expect_err("nothing to run").kind(), io::ErrorKind::InvalidInput);
    }
}
