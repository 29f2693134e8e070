//! Dynptrs: memory whose size is known only at run time, behind a handle the verifier tracks.

use super::row::*;

/// The rows, in the order of their numbers.
pub(super) const HELPERS: &[Helper] = &[
    helper(197, "dynptr_from_mem", 5, 19)
        .cost(Cost::Constant)
        .args(&[WRITE_UNINIT, SIZE_OR_ZERO, Anything, Dynptr(DynptrUse::MakesLocal)])
        .capability(Bpf)
        .allowed(ALL),
    helper(198, "ringbuf_reserve_dynptr", 5, 19)
        .cost(Cost::Constant)
        .args(&[ConstMapPtr, Anything, Anything, Dynptr(DynptrUse::MakesRingBuffer)])
        .capability(Bpf)
        .allowed(ALL),
    helper(199, "ringbuf_submit_dynptr", 5, 19)
        .cost(Cost::Constant)
        .args(&[Dynptr(DynptrUse::ReleasesRingBuffer), Anything])
        .returns(ReturnKind::Void)
        .capability(Bpf)
        .allowed(ALL),
    helper(200, "ringbuf_discard_dynptr", 5, 19)
        .cost(Cost::Constant)
        .args(&[Dynptr(DynptrUse::ReleasesRingBuffer), Anything])
        .returns(ReturnKind::Void)
        .capability(Bpf)
        .allowed(ALL),
    helper(201, "dynptr_read", 5, 19)
        .args(&[WRITE_UNINIT, SIZE_OR_ZERO, Dynptr(DynptrUse::Any), Anything, Anything])
        .capability(Bpf)
        .effect(WritesArguments)
        .allowed(ALL),
    helper(202, "dynptr_write", 5, 19)
        .args(&[Dynptr(DynptrUse::Any), Anything, READ, SIZE_OR_ZERO, Anything])
        .capability(Bpf)
        .allowed(ALL),
    helper(203, "dynptr_data", 5, 19)
        .cost(Cost::Constant)
        .args(&[Dynptr(DynptrUse::Any), Anything, ConstAllocSize])
        .returns(ReturnKind::DynptrMemoryOrNull)
        .capability(Bpf)
        .effect(ReadsMemory)
        .allowed(ALL),
];
