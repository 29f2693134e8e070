//! BPF to machine code, in one pass, pure and safe.
//!
//! The kernel's JIT turns one BPF instruction into one or two machine instructions, and so does this one, because BPF
//! was made for it: eleven registers that fit a real machine's, two-operand arithmetic, a stack frame.
//!
//! ```text
//!   w0 = *(u32 *)(r1 + 4)        8b 47 04             mov   eax, [rdi + 4]
//!   if w0 == 0 goto out          85 c0 74 ..          test  eax, eax ; je out
//!   w0 /= 10                     41 89 c2             mov   r10d, eax
//!                                41 bb cd cc cc cc    mov   r11d, 0xcccccccd
//!                                4d 0f af d3          imul  r10, r11
//!                                49 c1 ea 23          shr   r10, 35
//!                                44 89 d0             mov   eax, r10d
//! ```
//!
//! It has these additions to the kernel's: divisions by constants as multiplications, some multiplications as shifts,
//! fused compare and branch, byte-swapping loads, native operations for checked marks, aligned loops, and an instruction
//! budget in a register, which costs one subtraction per loop iteration and nothing in straight code.
//!
//! The JIT for 64-bit Arm ([`aarch64`]) has the whole instruction set, native operations and array lookups in place, no
//! other fusions yet.
//!
//! This crate only makes bytes. `kiln-vm` maps them executable, provides what [`Symbols`] asks for, and calls the entry
//! as an [`Entry`]. It does not derive from the instruction table, so that tests can compare the two on the same
//! programs.
//!
//! # The contract with the runtime
//! - The entry is `extern "C" fn(context, *mut Runtime) -> u64`, by the convention of Unix (System V on x86-64).
//! - A helper is `extern "C" fn(r1, r2, r3, r4, r5, *mut Runtime) -> u64`; so is a callback's address, which a
//!   helper calls.
//! - A run was stopped if and only if [`Runtime::budget`] is negative. The loop header that finds this, or the code
//!   after the call of a helper that called [`Runtime::stop`], leaves its function; every caller checks and leaves too.
//!   R0 is then meaningless.
//! - With a [`Symbols::refill_address`], code that finds the budget spent asks that routine first, which may give the run more.
//!   Then `may_goto` has no count of its own: it is a place where the routine may also say that its branch is taken.
//! - The budget is counted only where necessary: a loop header subtracts the loop's length in instructions, a returned
//!   subprogram its own length. Straight code is not counted, so the count differs from the interpreter's.
//! - A successful tail call is a helper 12 that returns the target's entry address (0 means that it failed). The
//!   calling frame is removed, and the target returns to its caller, as in the kernel.
//! - Stack frames are cleared only with [`Options::cleared_bytes`]. Without it, a program that reads uninitialized
//!   stack bytes (the verifier tells which do) sees old data of the process.
#![forbid(unsafe_code)]

pub mod aarch64;
mod address;
mod blind;
mod immediate;
pub mod llvm;
mod native;
mod operation;
mod plan;
mod shared;
mod targets;
mod walk;
pub mod x86_64;

use std::ops::Range;

use kiln_isa::operation::Registry;
use kiln_program::operation::Refused;
use kiln_program::{ExternId, FunctionId, InsnId, MapId};

/// How many times `may_goto` continues in a frame (kernel `BPF_MAX_LOOPS`), in code without a [`Symbols::refill_address`].
pub(crate) const MAY_GOTO_LIMIT: i32 = 8 << 20;

/// What compiled code and the runtime share. Embed it as the first field of the runtime's own state.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Runtime {
    /// Instructions left; negative once the run has been stopped.
    pub budget: i64,
    /// Why a helper stopped the run, from [`Runtime::stop`]; 0 if none did.
    pub trap: u64,
    /// Where code saves R1 across a tail call that may succeed. Private to compiled code.
    pub tail_context: u64,
}

impl Runtime {
    /// Byte offsets of the fields, for code.
    pub(crate) const BUDGET: i32 = 0;
    pub(crate) const TAIL_CONTEXT: i32 = 16;

    /// Creates the block for one run of at most `budget` instructions (clamped to 2^62).
    #[inline]
    pub fn new(budget: u64) -> Runtime {
        Runtime { budget: budget.min(1 << 62) as i64, trap: 0, tail_context: 0 }
    }

    /// Stops the run when the calling helper returns. `trap` is the caller's own non-zero code.
    pub fn stop(&mut self, trap: u64) {
        self.trap = trap;
        // Far from wrapping, because callers may subtract their own cost while they return.
        self.budget = i64::MIN / 2;
    }

    /// Whether the run was stopped, by the budget or by a helper.
    #[inline]
    pub fn stopped(&self) -> bool {
        self.budget < 0
    }
}

/// How compiled code is entered.
pub type Entry = extern "C" fn(context: u64, runtime: *mut Runtime) -> u64;

/// How compiled code calls helpers and kfuncs, and how a helper calls a callback.
pub type HelperEntry = extern "C" fn(r1: u64, r2: u64, r3: u64, r4: u64, r5: u64, runtime: *mut Runtime) -> u64;

pub use operation::check_operation;

/// The compiler for the machine that this is compiled for.
#[cfg(target_arch = "aarch64")]
pub use aarch64::compile as compile_here;
/// The compiler for the machine that this is compiled for.
#[cfg(target_arch = "x86_64")]
pub use x86_64::compile as compile_here;

/// A map with adjacent values, so that code can look them up without a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Array {
    /// Address of the first value.
    pub first: u64,
    /// Bytes from one value to the next.
    pub stride_bytes: u32,
    /// The number of values. Keys are their 4-byte indices.
    pub entries: u32,
}

/// Where a program's arenas are, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arena {
    /// The address of their first byte, a multiple of 2^bits, for programs and user space alike. All that so many bits and the
    /// offset of an instruction reach from there can be read.
    pub base: u64,
    /// Their size, 8 bytes to 2^bits.
    pub bytes: u64,
    /// The bits of an address that are an offset from the base: 32, as in the kernel, to 47.
    pub bits: u32,
}

impl Arena {
    /// The part of an address that is an offset from the base.
    pub fn mask(&self) -> u64 {
        (1 << self.bits) - 1
    }
}

/// The addresses that code refers to. `None`, which every default is, makes the compilation fail at that instruction.
pub trait Symbols {
    /// The value of a `ld_imm64` of a map: what the map helpers accept as a map.
    fn map_address(&self, map: MapId) -> Option<u64> {
        let _ = map;
        None
    }
    /// The address of a byte in a map's first value.
    fn map_value_address(&self, map: MapId, offset: u32) -> Option<u64> {
        let _ = (map, offset);
        None
    }
    /// A helper, as a [`HelperEntry`].
    fn helper_address(&self, helper: u32) -> Option<u64> {
        let _ = helper;
        None
    }
    /// A kernel symbol's address, or a kfunc as a [`HelperEntry`].
    fn extern_address(&self, symbol: ExternId) -> Option<u64> {
        let _ = symbol;
        None
    }
    /// A plain array's values, for lookups without a call.
    fn array(&self, map: MapId) -> Option<Array> {
        let _ = map;
        None
    }
    /// The program's arena, for `addr_space_cast` and accesses.
    fn arena(&self) -> Option<Arena> {
        None
    }
    /// Whether an instruction accesses the arena: the lower bits of its address register, and its offset, count from
    /// the arena's base. Stores and atomic operations outside the arena are left out; loads find zeros there.
    fn in_arena(&self, insn: InsnId) -> bool {
        let _ = insn;
        false
    }
    /// The routine to ask when the budget is spent, an `extern "C" fn(runtime: *mut Runtime, at_may_goto: u64) -> u64`. It
    /// sets [`Runtime::budget`], or leaves it negative to stop the run. `at_may_goto` is 1 if a `may_goto` asks, else 0.
    /// It returns 1 if that `may_goto` is to branch, else 0. The JIT for 64-bit Arm does not use it.
    fn refill_address(&self) -> Option<u64> {
        None
    }
    /// Whether a helper may stop the run, or call back and so use budget. `false` saves a check.
    fn helper_may_stop(&self, helper: u32) -> bool {
        let _ = helper;
        true
    }
    /// The routine behind classic packet loads, a [`HelperEntry`] of (context, offset, bytes): the value in host
    /// order, zero-extended, or -1 when out of bounds. The offset is 32 bits, signed, sign-extended to 64.
    fn packet_load_address(&self) -> Option<u64> {
        None
    }
}

/// Features of the machine, and choices of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// x86-64: the CPU has BMI1: `andn`.
    pub bmi1: bool,
    /// x86-64: the CPU has BMI2: `shlx`, `shrx`, `sarx`, `mulx`, `rorx`.
    pub bmi2: bool,
    /// x86-64: the CPU has `movbe`.
    pub movbe: bool,
    /// Count instructions at loop headers and returns. Without it only a helper can stop the run, so it may be turned
    /// off only for programs that are known to end within the budget.
    pub metered: bool,
    /// Ask [`Symbols::refill_address`], if there is one.
    pub refills: bool,
    /// Bytes below the frame pointer that are zeroed when a function begins, for programs that may read uninitialized
    /// stack. 0 clears nothing.
    pub cleared_bytes: u32,
    /// The native operations to use for marks. If an operation is not in the registry, or the CPU lacks a feature that
    /// it needs, the proof sequence is compiled.
    pub operations: Registry,
    /// x86-64: compile runs of adjacent instructions to fewer machine instructions. Without it, each BPF instruction is
    /// compiled alone, as in the kernel's JIT; benchmarks measure the difference.
    pub fusions: bool,
    /// Hides the program's constants ([constant blinding](https://docs.kernel.org/admin-guide/sysctl/net.html#bpf-jit-harden)),
    /// by random numbers from this seed: it must be unpredictable. Nothing is fused, and no lookup is done in place. LLVM's
    /// text ([`llvm`]) is not blinded.
    pub blind: Option<u64>,
    /// Note which bytes are of what ([`Code::spans`]).
    pub spans: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            bmi1: false,
            bmi2: false,
            movbe: false,
            metered: true,
            refills: true,
            cleared_bytes: 0,
            operations: Registry::BUILTIN,
            fusions: true,
            blind: None,
            spans: true,
        }
    }
}

/// Machine code, position-independent.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// The bytes. Map them at a multiple of 64.
    pub bytes: Vec<u8>,
    /// Where the [`Entry`] begins.
    pub entry_offset: usize,
    /// Where each function begins.
    pub functions: Vec<(FunctionId, usize)>,
    /// What each part of the bytes is for, in order and without gaps: together they cover all of [`Code::bytes`].
    pub spans: Vec<Span>,
}

/// A run of machine code with one purpose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// What it is for.
    pub part: Part,
    /// Its bytes in [`Code::bytes`]; empty for an instruction that needs no code, such as a jump to the next one, and for the
    /// prologue of a function without frame.
    pub bytes: Range<usize>,
}

/// What a [`Span`] is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// No-operations in front of a function or a loop, so that it begins at a multiple of some number of bytes.
    Padding,
    /// The beginning of a function: its frame, the registers that it saves.
    Prologue(FunctionId),
    /// These BPF instructions, which were compiled together: usually one.
    Insns(Vec<InsnId>),
    /// The rare case of a BPF instruction, after the function.
    Rare(InsnId),
    /// The end of a function, for all exits that share it.
    Epilogue(FunctionId),
    /// The entry by which helpers call a function.
    Callback(FunctionId),
    /// The routine that asks for more budget.
    Refill,
}

/// Why there is no code.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// An instruction that this JIT lacks.
    #[error("instruction {}: the JIT does not support {what}", insn.0)]
    Unsupported {
        /// Where.
        insn: InsnId,
        /// What.
        what: String,
    },
    /// A map, helper or symbol that the runtime has no address for.
    #[error("instruction {}: the runtime does not provide {what}", insn.0)]
    Unresolved {
        /// Where.
        insn: InsnId,
        /// What.
        what: String,
    },
    /// The object is not valid: see [`kiln_program::validate()`].
    #[error("malformed program: {0}")]
    Malformed(&'static str),
    /// A mark that is not true of the program.
    #[error("malformed program: {0}")]
    Operation(#[from] Refused),
    /// More code than 32-bit displacements reach comfortably.
    #[error("the program is too large: {bytes} bytes of code, at most {limit}")]
    Limit {
        /// Bytes.
        bytes: usize,
        /// At most.
        limit: usize,
    },
}
