//! The messages with which the kernel's verifier rejects programs, and the reason that each gives.
//!
//! ```text
//!   R2 offset is outside of the packet                  R* offset is outside of the packet      packet-out-of-bounds
//!   R0 invalid mem access 'map_value_or_null'           R* invalid mem access '*_or_null'       possibly-null
//! ```
//!
//! Patterns are of Linux 4.18 to 7.3; `*` stands for any text. The first row that fits counts, so special rows come
//! before general ones. `crates/test/tests/kernel_words.rs` compares the reasons with the verifier's own, for every
//! program of the corpora that this machine's kernel rejects.

use kiln_verifier::Reason::{self, *};

/// A pattern, and the reason of what fits it.
pub(super) struct Row(&'static str, pub(super) Reason);

impl Row {
    pub(super) fn fits(&self, message: &str) -> bool {
        let Row(pattern, _) = self;
        let mut parts = pattern.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = message.strip_prefix(first) else { return false };
        let mut open = false;
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
            open = part.is_empty();
        }
        // A pattern that does not end in `*` describes the whole message, but for what later kernels add in brackets.
        open || rest.is_empty() || rest.starts_with([' ', '(', '.', '\'', ',', '!'])
    }
}

/// What says of which memory the next message speaks.
pub(super) const BEFORE: &[Row] = &[
    Row("invalid access to map value*", MapValueBounds),
    Row("invalid access to map key*", MemoryBounds),
    Row("invalid access to packet*", PacketBounds),
    Row("invalid access to memory*", MemoryBounds),
];

/// All messages.
pub(super) const ROWS: &[Row] = &[
    Row("R* invalid mem access '*_or_null_*'", PossiblyNull),
    Row("R* invalid mem access '*_or_null'", PossiblyNull),
    Row("R* pointer arithmetic on *_or_null prohibited*", PossiblyNull),
    Row("R* type=*_or_null expected=*", PossiblyNull),
    Row("Possibly NULL pointer passed to *", PossiblyNull),
    Row("R* offset is outside of the packet", PacketBounds),
    Row("invalid access to packet*", PacketBounds),
    Row("invalid access to map value*", MapValueBounds),
    Row("R* max value is outside of the allowed memory range", MemoryBounds),
    Row("R* max value is outside of the array range", MapValueBounds),
    Row("R* min value is outside of the allowed memory range", MemoryBounds),
    Row("R* min value is outside of the array range", MapValueBounds),
    Row("R* min value is negative, either use unsigned index or do a if (index >=0) check.", MemoryBounds),
    Row("R* unbounded memory access, make sure to bounds check any*", MemoryBounds),
    Row("invalid access to*", MemoryBounds),
    Row("R* invalid variable buffer offset*", MemoryBounds),
    Row("R* unbounded memory access, use 'var &= const'*", ArgumentSize),
    Row("R* min value is negative, either use unsigned or 'var &= const'", ArgumentSize),
    Row("R* invalid zero-sized read*", ArgumentSize),
    Row("R* is not a known constant'", ArgumentSize),
    Row("R* must be a known constant", ArgumentSize),
    Row("invalid unbounded variable-offset* stack R*", StackBounds),
    Row("invalid variable-offset* stack R*", StackBounds),
    Row("invalid* stack R* off=*", StackBounds),
    Row("invalid stack off=*", StackBounds),
    Row("invalid read from stack*", UninitializedStack),
    Row("invalid indirect read from stack*", UninitializedStack),
    Row("R* !read_ok", UninitializedRegister),
    Row("invalid bpf_context access*", ContextAccess),
    Row("dereference of modified ctx ptr*", ContextAccess),
    Row("negative offset ctx ptr*", ContextAccess),
    Row("variable ctx access*", ContextAccess),
    Row("R* invalid *sock* access off=*", ContextAccess),
    Row("R* cannot write into *sock*", ContextAccess),
    Row("only read from bpf_array is supported", NotAPointer),
    Row("R* invalid mem access '*", NotAPointer),
    Row("same insn cannot be used with different pointers", NotAPointer),
    Row("invalid size of register *", NotAPointer),
    Row("cannot spill pointers to stack into stack frame of the caller", NotAPointer),
    Row("corrupted spill memory", NotAPointer),
    Row("attempt to corrupt spilled pointer on stack", PointerLeak),
    Row("R* leaks addr*", PointerLeak),
    Row("R* pointer comparison prohibited", PointerLeak),
    Row("R* pointer * pointer prohibited", PointerArithmetic),
    Row("R* pointer arithmetic *", PointerArithmetic),
    Row("R* bitwise operator * on pointer prohibited", PointerArithmetic),
    Row("R* tried to subtract pointer from scalar", PointerArithmetic),
    Row("R* subtraction from stack pointer prohibited", PointerArithmetic),
    Row("R* partial copy of pointer", PointerArithmetic),
    Row("R* sign-extension part of pointer", PointerArithmetic),
    Row("math between * pointer and *", UnboundedOffset),
    Row("value * makes * pointer be out of bounds", UnboundedOffset),
    Row("* pointer offset * is not allowed", UnboundedOffset),
    Row("Expected an initialized dynptr as *", DynptrMisuse),
    Row("Dynptr has to be an uninitialized dynptr", DynptrMisuse),
    Row("cannot overwrite referenced dynptr", DynptrMisuse),
    Row("potential write to dynptr*", DynptrMisuse),
    Row("* dynptr_ptr ptr R* disallowed", DynptrMisuse),
    Row("cannot pass in dynptr at an offset*", DynptrMisuse),
    Row("cannot pass *dynptr*", DynptrMisuse),
    Row("*expected an initialized iter_*", IteratorMisuse),
    Row("*expected an uninitialized iter_*", IteratorMisuse),
    Row("*expected uninitialized iter_*", IteratorMisuse),
    Row("R* must have zero offset when passed to release*", NotHeld),
    Row("R* must be referenced when passed to release*", NotHeld),
    Row("arg * is an unacquired reference", NotHeld),
    Row("release kernel function * expects refcounted PTR_TO_BTF_ID", NotHeld),
    Row("R* must be referenced or trusted", NotTrusted),
    Row("R* must be a rcu pointer", NotTrusted),
    Row("R* is *untrusted*", NotTrusted),
    Row("cannot access ptr member * with *", StructureAccess),
    Row("R* is bpf_array invalid negative access*", StructureAccess),
    Row("access beyond struct *", StructureAccess),
    Row("access beyond the end of member *", StructureAccess),
    Row("only read is supported", StructureAccess),
    Row("R* is ptr_* invalid *", StructureAccess),
    Row("Type '*' is not a struct", StructureAccess),
    Row("R* type=* expected=*", ArgumentType),
    Row("get_local_storage() doesn't support non-zero flags", ArgumentType),
    Row("helper access to the packet is not allowed", ArgumentType),
    Row("R* is of type *", ArgumentType),
    Row("arg#* expected *", ArgumentType),
    Row("arg#* pointer *", ArgumentType),
    Row("Caller passes invalid args into func#*", ArgumentType),
    Row("kernel function * args#* expected *", ArgumentType),
    Row("invalid func unknown#195896080", KernelLacks),
    Row("<invalid CO-RE relocation>", KernelLacks),
    Row("invalid map_type *", KernelLacks),
    Row("program of this type cannot use helper *", HelperNotAllowed),
    Row("unknown func *", HelperNotAllowed),
    Row("invalid func *", HelperNotAllowed),
    Row("helper call might sleep in a non-sleepable prog", HelperNotAllowed),
    Row("helper call is not allowed in probe", HelperNotAllowed),
    Row("cannot call GPL-restricted function from non-GPL compatible program", GplOnly),
    Row("cannot call GPL only function from proprietary program", GplOnly),
    Row("cannot pass map_type * into func *", MapHelperMismatch),
    Row("write into map forbidden*", ReadOnlyMemory),
    Row("read from map forbidden*", ReadOnlyMemory),
    Row("cannot write into packet", ReadOnlyMemory),
    Row("R* cannot write into *", ReadOnlyMemory),
    Row("misaligned *access off*", Misaligned),
    Row("* would lead to reference leak", UnreleasedReference),
    Row("Unreleased reference *", UnreleasedReference),
    Row("* cannot be used inside bpf_spin_lock-ed region", LockDiscipline),
    Row("bpf_spin_unlock *", LockDiscipline),
    Row("Locking two bpf_spin_locks are not allowed", LockDiscipline),
    Row("function calls are not allowed while holding a lock", LockDiscipline),
    Row("use static function instead", LockDiscipline),
    Row("* cannot be used inside *-ed region", CriticalSection),
    Row("*rcu_read_unlock* is missing", CriticalSection),
    Row("* inside rcu_read_lock region", CriticalSection),
    Row("infinite loop detected at insn *", InfiniteLoop),
    Row("back-edge from insn * to *", InfiniteLoop),
    Row("BPF program is too large. Processed * insn", TooComplex),
    Row("The sequence of * jumps is too complex*", TooComplex),
    Row("too many subprograms", TooLarge),
    Row("The total number of maps per program has reached the limit of *", TooLarge),
    Row("the call stack of * frames is too deep*", CallDepth),
    Row("combined stack size of * calls is *", CallDepth),
    Row("tail_calls are not allowed when call stack of previous frames is *", CallDepth),
    Row("At program exit the register R0 *", ReturnValue),
    Row("At callback return the register R0 *", ReturnValue),
    Row("At async callback return the register R0 *", ReturnValue),
    Row("At subprogram exit the register R0 *", ReturnValue),
    Row("fd * is not pointing to valid bpf_map", BadInstruction),
    Row("frame pointer is read only", BadInstruction),
    Row("div by zero", BadInstruction),
    Row("invalid shift *", BadInstruction),
    Row("unknown opcode *", BadInstruction),
    Row("BPF_* uses reserved fields", BadInstruction),
    Row("BPF_* uses invalid *", BadInstruction),
    Row("BPF_ATOMIC stores into *", BadInstruction),
    Row("BPF_LD_[ABS|IND] instructions not allowed for this program type", BadInstruction),
    Row("* only allowed in functions that return 'int'.", BadInstruction),
    Row("jump out of range from insn *", BadInstruction),
    Row("last insn is not an exit or jmp", BadInstruction),
    Row("unreachable insn *", Unreachable),
    Row("calling kernel function * is not allowed", KfuncNotAllowed),
    Row("program must be sleepable to call sleepable kfunc *", KfuncNotAllowed),
    Row("kernel function *sleepable*", KfuncNotAllowed),
    Row("map '*' has no valid bpf_*", SpecialField),
    Row("* progs cannot use bpf_* yet", SpecialField),
    Row("* cannot be accessed directly by load/store*", SpecialField),
    Row("verifier bug: static subprog*", LostPrecision),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_describe_whole_messages() {
        let row = Row("R* type=* expected=*", ArgumentType);
        assert!(row.fits("R2 type=scalar expected=fp, pkt"));
        assert!(!row.fits("R2 type=scalar"));
        let row = Row("R* !read_ok", UninitializedRegister);
        assert!(row.fits("R3 !read_ok"));
        assert!(!row.fits("R3 !read_okay"));
        assert!(!row.fits("the R3 !read_ok"));
    }

    #[test]
    fn no_row_hides_a_later_one() {
        // A pattern is a message, too, where its stars stand for text.
        for (at, row) in ROWS.iter().enumerate() {
            let message = row.0.replace('*', "x");
            let first = ROWS.iter().position(|row| row.fits(&message));
            assert_eq!(first, Some(at), "{message} is of an earlier row");
        }
    }
}
