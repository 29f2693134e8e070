//! Limits of the kernel's verifier and runtime (Linux 6.18), and those that older releases have lower ([`Limits`]).

use crate::KernelVersion;

/// Limits that older releases have lower.
#[derive(Debug, PartialEq, Eq)]
pub struct Limits {
    /// The first release that has them.
    since: KernelVersion,
    /// [`MAX_SLOTS`].
    pub slots: usize,
    /// [`MAX_PROCESSED_INSTRUCTIONS`].
    pub processed: u64,
    /// [`MAX_PENDING_BRANCHES`].
    pub pending: usize,
}

impl Limits {
    /// By release, the newest first.
    const ALL: [Limits; 3] = [
        Limits {
            since: KernelVersion::new(5, 3),
            slots: MAX_SLOTS,
            processed: MAX_PROCESSED_INSTRUCTIONS,
            pending: MAX_PENDING_BRANCHES,
        },
        Limits {
            since: KernelVersion::new(5, 2),
            slots: MAX_SLOTS,
            processed: MAX_PROCESSED_INSTRUCTIONS,
            pending: 1024,
        },
        Limits {
            since: KernelVersion::new(4, 18),
            slots: MAX_SLOTS_UNPRIVILEGED,
            processed: 128 * 1024,
            pending: 1024,
        },
    ];

    /// Those of a release.
    pub(crate) fn of(release: KernelVersion) -> &'static Limits {
        let [.., oldest] = &Self::ALL;
        Self::ALL.iter().find(|row| row.since <= release).unwrap_or(oldest)
    }
}

/// Bytes of stack one frame may use: `r10 - 512` is the lowest address.
pub const MAX_STACK_BYTES: u32 = 512;
/// Bytes of stack a chain of calls may use in sum when the program has no private stack.
pub const MAX_CALL_CHAIN_STACK_BYTES: u32 = 512;
/// Bytes of stack that the frames before a function with a tail call may use in sum (exclusive).
pub const MAX_STACK_BEFORE_TAIL_CALL_BYTES: u32 = 256;
/// Frames on the call stack: the main program and seven nested calls.
pub const MAX_CALL_FRAMES: usize = 8;
/// Functions in one program, the main one included.
pub const MAX_FUNCTIONS: usize = 256;
/// Tail calls in one run; the next one falls through to the instruction after the call.
pub const MAX_TAIL_CALLS: u32 = 33;
/// Instructions that the kernel's verifier processes before it reports "too large".
pub const MAX_PROCESSED_INSTRUCTIONS: u64 = 1_000_000;
/// Instruction slots of a program loaded with `CAP_BPF`.
pub const MAX_SLOTS: usize = 1_000_000;
/// Instruction slots of a program loaded without it.
pub const MAX_SLOTS_UNPRIVILEGED: usize = 4096;
/// Depth of the verifier's stack of branches still to explore.
pub const MAX_PENDING_BRANCHES: usize = 8192;
/// Maximum bytes of packet that bounds checks can prove accessible.
pub const MAX_PACKET_OFFSET: u32 = 0xffff;
/// Bounds of the constant offset a pointer may carry, and of the variable part (exclusive, both signs).
pub const MAX_POINTER_OFFSET: i64 = 1 << 29;
/// Bytes of variable size that a memory argument of a helper may have (exclusive).
pub const MAX_VARIABLE_SIZE: u64 = 1 << 29;
/// Levels of maps that a map of maps may hold: its inner map holds none (kernel `bpf_map_meta_alloc`, and libbpf).
pub const MAX_INNER_MAPS: usize = 1;
/// Maps one program may refer to.
pub const MAX_MAPS: usize = 64;
/// Kernel functions one program may call.
pub const MAX_KFUNCS: usize = 256;
/// Iterations `bpf_loop` and `may_goto` allow.
pub const MAX_LOOP_ITERATIONS: u32 = 8 * 1024 * 1024;
/// Arguments of a helper or a BPF function: `r1` to `r5`.
pub const MAX_ARGUMENTS: usize = 5;
/// Arguments a traced kernel function or raw tracepoint may have (the context is an array of that many `u64`).
pub const MAX_TRACED_ARGUMENTS: u32 = 12;
/// Bytes of a tracepoint record, and so of a tracepoint program's context.
pub const MAX_TRACEPOINT_BYTES: u32 = 8192;
/// Bytes of context a syscall program may declare.
pub const MAX_SYSCALL_CONTEXT_BYTES: u32 = 0xffff;
/// Bytes of packet headroom an XDP frame has at most before its first byte.
pub const XDP_PACKET_HEADROOM: u32 = 256;
/// Bytes of a `bpf_dynptr` on the stack.
pub const DYNPTR_BYTES: u32 = 16;
/// Bytes of stack a map key may take.
pub const MAX_KEY_BYTES: u32 = MAX_STACK_BYTES;
