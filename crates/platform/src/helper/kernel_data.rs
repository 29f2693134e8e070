//! Time, identity and text: kernel data that is not in the context.

use super::row::*;

/// The rows, in the order of their numbers.
pub(super) const HELPERS: &[Helper] = &[
    helper(5, "ktime_get_ns", 4, 1).cost(Cost::Constant).effect(ResultOnly).allowed(ALL),
    helper(7, "get_prandom_u32", 4, 1).cost(Cost::Constant).effect(ResultOnly).moves_on().allowed(ALL),
    helper(8, "get_smp_processor_id", 4, 1)
        .cost(Cost::Constant)
        .effect(ResultOnly)
        .fastcall()
        .stable(Stable::Always)
        .answers(0x7fff_ffff)
        .allowed(ALL),
    helper(14, "get_current_pid_tgid", 4, 2)
        .cost(Cost::Constant)
        .effect(ResultOnly)
        .stable(Stable::Always)
        .answers(0x7fff_ffff_7fff_ffff)
        .allowed(ALL),
    helper(15, "get_current_uid_gid", 4, 2)
        .cost(Cost::Constant)
        .capability(Bpf)
        .effect(ResultOnly)
        .stable(Stable::Always)
        .allowed(ALL),
    helper(16, "get_current_comm", 4, 2)
        .args(&[WRITE_UNINIT, SIZE])
        .capability(PerfMon)
        .effect(WritesArguments)
        .fills(Fills::Always)
        .allowed(ALL),
    helper(35, "get_current_task", 4, 8)
        .cost(Cost::Constant)
        .gpl_only()
        .capability(PerfMon)
        .effect(ResultOnly)
        .stable(Stable::Always)
        .allowed(ALL),
    helper(37, "current_task_under_cgroup", 4, 9)
        .args(&[ConstMapPtr, Anything])
        .capability(Bpf)
        .effect(ReadsMemory)
        .allowed(ALL),
    helper(42, "get_numa_node_id", 4, 10).cost(Cost::Constant).effect(ResultOnly).stable(Stable::Always).allowed(ALL),
    helper(80, "get_current_cgroup_id", 4, 18).cost(Cost::Constant).capability(Bpf).effect(ResultOnly).allowed(ALL),
    helper(105, "strtol", 5, 2)
        .when_ignored("the number is not set if the text is none")
        .args(&[READ, SIZE, Anything, aligned(8, Memory::WRITE_UNINIT)])
        .effect(WritesArguments)
        .allowed(ALL),
    helper(106, "strtoul", 5, 2)
        .when_ignored("the number is not set if the text is none")
        .args(&[READ, SIZE, Anything, aligned(8, Memory::WRITE_UNINIT)])
        .effect(WritesArguments)
        .allowed(ALL),
    helper(118, "jiffies64", 5, 6).cost(Cost::Constant).capability(Bpf).effect(ResultOnly).allowed(ALL),
    helper(120, "get_ns_current_pid_tgid", 5, 7)
        .args(&[Anything, Anything, WRITE_UNINIT, SIZE])
        .effect(WritesArguments)
        .allowed(ALL),
    helper(123, "get_current_ancestor_cgroup_id", 5, 7)
        .cost(Cost::Constant)
        .args(&[Anything])
        .capability(Bpf)
        .effect(ResultOnly)
        .allowed(ALL),
    helper(125, "ktime_get_boot_ns", 5, 8).cost(Cost::Constant).effect(ResultOnly).allowed(ALL),
    helper(149, "snprintf_btf", 5, 10)
        .args(&[READ_WRITE, SIZE, READ, SIZE, Anything])
        .capability(PerfMon)
        .effect(WritesArguments)
        .follows(Follows::Memory)
        .allowed(ALL),
    helper(153, "per_cpu_ptr", 5, 10)
        .cost(Cost::Constant)
        .args(&[PercpuBtfId, Anything])
        .returns(ReturnKind::PercpuVariable { nullable: true })
        .capability(Bpf)
        .effect(ResultOnly)
        .stable(Stable::Always)
        .allowed(ALL),
    helper(154, "this_cpu_ptr", 5, 10)
        .cost(Cost::Constant)
        .args(&[PercpuBtfId])
        .returns(ReturnKind::PercpuVariable { nullable: false })
        .capability(Bpf)
        .effect(ResultOnly)
        .stable(Stable::Always)
        .allowed(ALL),
    helper(158, "get_current_task_btf", 5, 11)
        .cost(Cost::Constant)
        .returns(btf_result_trusted("task_struct"))
        .gpl_only()
        .capability(PerfMon)
        .effect(ResultOnly)
        .stable(Stable::Always)
        .allowed(ALL),
    helper(160, "ktime_get_coarse_ns", 5, 11).cost(Cost::Constant).effect(ResultOnly).allowed(any_of(&[
        LWT,
        TC,
        SOCKET_FILTER,
        XDP,
        CGROUP_SKB,
        CGROUP_SOCK,
        SOCK_OPS,
        SK_SKB,
        SK_MSG,
        CGROUP_SOCK_ADDR,
        SK_REUSEPORT,
        FLOW_DISSECTOR,
        CGROUP_SYSCTL,
        STRUCT_OPS,
        SK_LOOKUP,
    ])),
    helper(165, "snprintf", 5, 13)
        .args(&[READ_WRITE_OR_NULL, SIZE_OR_ZERO, ConstString, READ_OR_NULL, SIZE_OR_ZERO])
        .gpl_only()
        .capability(PerfMon)
        .effect(WritesArguments)
        .follows(Follows::Memory)
        .allowed(ALL),
    helper(181, "loop", 5, 17)
        .when_ignored("too many turns mean that none was made")
        .args(&[Anything, Callback, StackOrNull, Anything])
        .capability(Bpf)
        .allowed(ALL),
    helper(182, "strncmp", 5, 17).args(&[READ, SIZE, ConstString]).effect(ReadsMemory).allowed(ALL),
    helper(208, "ktime_get_tai_ns", 6, 1).cost(Cost::Constant).effect(ResultOnly).allowed(ALL),
];
