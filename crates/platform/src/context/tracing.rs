//! Contexts of tracing programs: registers, records and argument arrays.

use super::field::{ANY_WIDTH, DOUBLE_WORD, Field, FieldValue, field, pointer};

const fn register(name: &'static str, offset: u32) -> Field {
    field(name, offset, 8, ANY_WIDTH).since(4, 1)
}

/// `struct pt_regs` of x86-64.
pub(super) const REGISTERS: &[Field] = &[
    register("r15", 0),
    register("r14", 8),
    register("r13", 16),
    register("r12", 24),
    register("bp", 32),
    register("bx", 40),
    register("r11", 48),
    register("r10", 56),
    register("r9", 64),
    register("r8", 72),
    register("ax", 80),
    register("cx", 88),
    register("dx", 96),
    register("si", 104),
    register("di", 112),
    register("orig_ax", 120),
    register("ip", 128),
    register("cs", 136),
    register("flags", 144),
    register("sp", 152),
    register("ss", 160),
];

/// `struct bpf_perf_event_data` of x86-64: the registers, then two numbers.
pub(super) const PERF_EVENT: &[Field] = &[
    field("regs", 0, 168, DOUBLE_WORD).since(4, 9),
    field("sample_period", 168, 8, ANY_WIDTH).since(4, 9),
    field("addr", 176, 8, ANY_WIDTH).since(4, 17),
];

/// A tracepoint's record: eight bytes of the kernel's, then the event's own format.
pub(super) const TRACEPOINT: &[Field] =
    &[field("record", 8, crate::limits::MAX_TRACEPOINT_BYTES - 8, ANY_WIDTH).since(4, 7)];

/// The arguments of a raw tracepoint, as numbers.
pub(super) const RAW_TRACEPOINT: &[Field] = &[field("args", 0, 96, ANY_WIDTH).since(4, 17)];

/// The arguments of a writable raw tracepoint; the first is a buffer to write to. Bytes 1 to 7 of that pointer are numbers.
pub(super) const RAW_TRACEPOINT_WRITABLE: &[Field] =
    &[pointer("args[0]", 0, 8, FieldValue::TracepointBuffer).since(5, 2), field("args", 8, 88, ANY_WIDTH).since(5, 2)];

const fn argument(name: &'static str, offset: u32) -> Field {
    Field { value: FieldValue::TracedArgument, ..field(name, offset, 8, ANY_WIDTH) }.only_from_start().since(5, 5)
}

/// The arguments of a function or hook known by BTF; it may have fewer.
pub(super) const TRACED_ARGUMENTS: &[Field] = &[
    argument("args[0]", 0),
    argument("args[1]", 8),
    argument("args[2]", 16),
    argument("args[3]", 24),
    argument("args[4]", 32),
    argument("args[5]", 40),
    argument("args[6]", 48),
    argument("args[7]", 56),
    argument("args[8]", 64),
    argument("args[9]", 72),
    argument("args[10]", 80),
    argument("args[11]", 88),
];

/// The context that the caller of `BPF_PROG_TEST_RUN` gives a syscall program: plain memory.
pub(super) const SYSCALL: &[Field] =
    &[field("context", 0, crate::limits::MAX_SYSCALL_CONTEXT_BYTES, ANY_WIDTH).writable(ANY_WIDTH).since(5, 14)];
