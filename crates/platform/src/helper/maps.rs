//! Maps: look up, update, lock, time; rings, queues and local storage; tail calls.

use super::row::*;

/// The rows, in the order of their numbers.
pub(super) const HELPERS: &[Helper] = &[
    helper(1, "map_lookup_elem", 3, 19)
        .cost(Cost::Key)
        .args(&[ConstMapPtr, MapKey])
        .returns(ReturnKind::MapValueOrNull)
        .packet_memory()
        .effect(ReadsMemory)
        .stable(Stable::InLastingElements)
        .allowed(ALL),
    helper(2, "map_update_elem", 3, 19)
        .cost(Cost::Value)
        .when_ignored("a map that is full takes no new entry")
        .args(&[ConstMapPtr, MapKey, MapValue, Anything])
        .packet_memory()
        .effect(ChangesItsMap)
        .allowed(ALL),
    helper(3, "map_delete_elem", 3, 19)
        .cost(Cost::Value)
        .args(&[ConstMapPtr, MapKey])
        .packet_memory()
        .effect(ChangesItsMap)
        .allowed(ALL),
    helper(12, "tail_call", 4, 2)
        .cost(Cost::Constant)
        .args(&[Context, ConstMapPtr, Anything])
        .returns(ReturnKind::Void)
        .effect(ChangesAllButStack)
        .needs_frame()
        .allowed(ALL),
    helper(87, "map_push_elem", 4, 20)
        .cost(Cost::Value)
        .when_ignored("a queue or stack that is full takes no element")
        .args(&[ConstMapPtr, MapValue, Anything])
        .packet_memory()
        .effect(ChangesItsMap)
        .allowed(ALL),
    helper(88, "map_pop_elem", 4, 20)
        .cost(Cost::Value)
        .args(&[ConstMapPtr, UninitMapValue])
        .effect(ChangesItsMap)
        .allowed(ALL),
    helper(89, "map_peek_elem", 4, 20)
        .cost(Cost::Value)
        .args(&[ConstMapPtr, UninitMapValue])
        .effect(WritesArguments)
        .allowed(ALL),
    helper(93, "spin_lock", 5, 1)
        .cost(Cost::Constant)
        .args(&[SpinLock])
        .returns(ReturnKind::Void)
        .capability(Bpf)
        .effect(ChangesAllButStack)
        .allowed(ALL),
    helper(94, "spin_unlock", 5, 1)
        .cost(Cost::Constant)
        .args(&[SpinLock])
        .returns(ReturnKind::Void)
        .capability(Bpf)
        .effect(ChangesAllButStack)
        .allowed(ALL),
    helper(130, "ringbuf_output", 5, 8)
        .when_ignored("a record that does not fit is lost, and nothing counts it")
        .args(&[ConstMapPtr, READ, SIZE_OR_ZERO, Anything])
        .effect(ChangesOutside)
        .allowed(ALL),
    helper(131, "ringbuf_reserve", 5, 8)
        .cost(Cost::Constant)
        .args(&[ConstMapPtr, ConstAllocSize, Anything])
        .returns(ReturnKind::RingBufferMemoryOrNull)
        .acquires()
        .effect(ChangesOutside)
        .allowed(ALL),
    helper(132, "ringbuf_submit", 5, 8)
        .cost(Cost::Constant)
        .args(&[ReleasedRingBufferMemory, Anything])
        .returns(ReturnKind::Void)
        .effect(ChangesAllButStack)
        .allowed(ALL),
    helper(133, "ringbuf_discard", 5, 8)
        .cost(Cost::Constant)
        .args(&[ReleasedRingBufferMemory, Anything])
        .returns(ReturnKind::Void)
        .effect(ChangesAllButStack)
        .allowed(ALL),
    helper(134, "ringbuf_query", 5, 8)
        .cost(Cost::Constant)
        .args(&[ConstMapPtr, Anything])
        .effect(ReadsMemory)
        .allowed(ALL),
    helper(145, "inode_storage_get", 5, 10)
        .args(&[ConstMapPtr, btf_or_null("inode"), MapValueOrNull, Anything])
        .returns(ReturnKind::MapValueOrNull)
        .effect(ChangesAllButStack)
        .allowed(LSM),
    helper(146, "inode_storage_delete", 5, 10)
        .args(&[ConstMapPtr, btf_or_null("inode")])
        .effect(ChangesAllButStack)
        .allowed(LSM),
    helper(156, "task_storage_get", 5, 11)
        .args(&[ConstMapPtr, btf_or_null("task_struct"), MapValueOrNull, Anything])
        .returns(ReturnKind::MapValueOrNull)
        .capability(Bpf)
        .effect(ChangesAllButStack)
        .allowed(ALL),
    helper(157, "task_storage_delete", 5, 11)
        .args(&[ConstMapPtr, btf_or_null("task_struct")])
        .capability(Bpf)
        .effect(ChangesAllButStack)
        .allowed(ALL),
    helper(164, "for_each_map_elem", 5, 13)
        .args(&[ConstMapPtr, Callback, StackOrNull, Anything])
        .capability(Bpf)
        .allowed(ALL),
    helper(169, "timer_init", 5, 15)
        .when_ignored("the timer may not be there to start")
        .args(&[Timer, ConstMapPtr, Anything])
        .gpl_only()
        .capability(Bpf)
        .effect(ChangesAllButStack)
        .allowed(ALL),
    helper(170, "timer_set_callback", 5, 15)
        .args(&[Timer, Callback])
        .gpl_only()
        .capability(Bpf)
        .calls_later()
        .allowed(ALL),
    helper(171, "timer_start", 5, 15)
        .when_ignored("the timer may not run")
        .args(&[Timer, Anything, Anything])
        .gpl_only()
        .capability(Bpf)
        .effect(ChangesAllButStack)
        .allowed(ALL),
    helper(172, "timer_cancel", 5, 15)
        .args(&[Timer])
        .gpl_only()
        .capability(Bpf)
        .effect(ChangesAllButStack)
        .allowed(ALL),
    helper(194, "kptr_xchg", 5, 19)
        .cost(Cost::Constant)
        .args(&[KptrDest, ReleasedBtfIdOrNull])
        .returns(ReturnKind::KptrOrNull)
        .capability(Bpf)
        .acquires()
        .effect(ChangesAllButStack)
        .allowed(ALL),
    helper(195, "map_lookup_percpu_elem", 5, 19)
        .cost(Cost::Key)
        .args(&[ConstMapPtr, MapKey, Anything])
        .returns(ReturnKind::MapValueOrNull)
        .packet_memory()
        .effect(ReadsMemory)
        .allowed(ALL),
    helper(209, "user_ringbuf_drain", 6, 1)
        .args(&[ConstMapPtr, Callback, StackOrNull, Anything])
        .capability(Bpf)
        .allowed(ALL),
    helper(210, "cgrp_storage_get", 6, 2)
        .args(&[ConstMapPtr, btf_or_null("cgroup"), MapValueOrNull, Anything])
        .returns(ReturnKind::MapValueOrNull)
        .capability(Bpf)
        .effect(ChangesAllButStack)
        .allowed(ALL),
    helper(211, "cgrp_storage_delete", 6, 2)
        .args(&[ConstMapPtr, btf_or_null("cgroup")])
        .capability(Bpf)
        .effect(ChangesAllButStack)
        .allowed(ALL),
];
