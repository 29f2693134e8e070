//! Tracing: reading kernel and user memory, stacks, perf events, signals, sequence files.

use super::row::*;

/// The rows, in the order of their numbers.
pub(super) const HELPERS: &[Helper] = &[
    helper(4, "probe_read", 4, 1)
        .replaced_by("bpf_probe_read_kernel or bpf_probe_read_user")
        .args(&[WRITE_UNINIT, SIZE_OR_ZERO, Anything])
        .gpl_only()
        .effect(WritesArguments)
        .follows(Follows::Numbers)
        .fills(Fills::Always)
        .allowed(TRACERS),
    helper(6, "trace_printk", 4, 1)
        .args(&[READ, SIZE])
        .gpl_only()
        .capability(PerfMon)
        .effect(ChangesOutside)
        .follows(Follows::Numbers)
        .reads_all_arguments()
        .allowed(ALL),
    helper(22, "perf_event_read", 4, 3)
        .args(&[ConstMapPtr, Anything])
        .gpl_only()
        .capability(PerfMon)
        .effect(ChangesAllButStack)
        .allowed(ALL),
    helper(25, "perf_event_output", 4, 4)
        .args(&[Context, ConstMapPtr, Anything, READ, SIZE_OR_ZERO])
        .gpl_only()
        .effect(ChangesOutside)
        .allowed(any_of(&[
            TRACERS,
            LWT,
            TC,
            SOCKET_FILTER,
            XDP,
            CGROUP_SKB,
            CGROUP_SOCK,
            SOCK_OPS,
            SK_SKB,
            CGROUP_DEVICE,
            SK_MSG,
            CGROUP_SOCK_ADDR,
            CGROUP_SYSCTL,
            CGROUP_SOCKOPT,
            SK_LOOKUP,
        ])),
    helper(27, "get_stackid", 4, 6)
        .args(&[Context, ConstMapPtr, Anything])
        .gpl_only()
        .variants(&[variant(PERF_EVENT, Prototype::new(&[Context, ConstMapPtr, Anything], ReturnKind::Integer))])
        .effect(ChangesAllButStack)
        .needs_frame()
        .allowed(TRACERS),
    helper(36, "probe_write_user", 4, 8)
        .when_ignored("the memory may be unchanged")
        .args(&[Anything, READ, SIZE])
        .gpl_only()
        .effect(ChangesAllButStack)
        .reaches_out()
        .allowed(TRACERS),
    helper(45, "probe_read_str", 4, 11)
        .replaced_by("bpf_probe_read_kernel_str or bpf_probe_read_user_str")
        .args(&[WRITE_UNINIT, SIZE_OR_ZERO, Anything])
        .gpl_only()
        .effect(WritesArguments)
        .follows(Follows::Numbers)
        .returns_size()
        .allowed(TRACERS),
    helper(55, "perf_event_read_value", 4, 15)
        .when_ignored("the counter reads as zero")
        .args(&[ConstMapPtr, Anything, WRITE_UNINIT, SIZE])
        .gpl_only()
        .capability(PerfMon)
        .effect(WritesArguments)
        .fills(Fills::Always)
        .allowed(ALL),
    helper(56, "perf_prog_read_value", 4, 15)
        .args(&[Context, WRITE_UNINIT, SIZE])
        .gpl_only()
        .effect(WritesArguments)
        .fills(Fills::Always)
        .allowed(PERF_EVENT),
    helper(58, "override_return", 4, 16)
        .args(&[Context, Anything])
        .gpl_only()
        .effect(ChangesAllButStack)
        .allowed(KPROBE),
    helper(67, "get_stack", 4, 18)
        .args(&[Context, WRITE_UNINIT, SIZE_OR_ZERO, Anything])
        .gpl_only()
        .effect(WritesArguments)
        .needs_frame()
        .returns_size()
        .allowed(TRACERS),
    helper(109, "send_signal", 5, 3)
        .args(&[Anything])
        .capability(PerfMon)
        .effect(ChangesAllButStack)
        .reaches_out()
        .allowed(ALL),
    helper(111, "skb_output", 5, 5)
        .args(&[btf("sk_buff"), ConstMapPtr, Anything, READ, SIZE_OR_ZERO])
        .gpl_only()
        .effect(ChangesAllButStack)
        .allowed(BTF_TRACERS),
    helper(112, "probe_read_user", 5, 5)
        .args(&[WRITE_UNINIT, SIZE_OR_ZERO, Anything])
        .gpl_only()
        .capability(PerfMon)
        .effect(WritesArguments)
        .fills(Fills::Always)
        .allowed(ALL),
    helper(113, "probe_read_kernel", 5, 5)
        .args(&[WRITE_UNINIT, SIZE_OR_ZERO, Anything])
        .gpl_only()
        .capability(PerfMon)
        .effect(WritesArguments)
        .follows(Follows::Numbers)
        .fills(Fills::Always)
        .allowed(ALL),
    helper(114, "probe_read_user_str", 5, 5)
        .args(&[WRITE_UNINIT, SIZE_OR_ZERO, Anything])
        .gpl_only()
        .capability(PerfMon)
        .effect(WritesArguments)
        .returns_size()
        .allowed(ALL),
    helper(115, "probe_read_kernel_str", 5, 5)
        .args(&[WRITE_UNINIT, SIZE_OR_ZERO, Anything])
        .gpl_only()
        .capability(PerfMon)
        .effect(WritesArguments)
        .follows(Follows::Numbers)
        .returns_size()
        .allowed(ALL),
    helper(117, "send_signal_thread", 5, 6)
        .args(&[Anything])
        .capability(PerfMon)
        .effect(ChangesAllButStack)
        .reaches_out()
        .allowed(ALL),
    helper(119, "read_branch_records", 5, 7)
        .args(&[Context, READ_WRITE_OR_NULL, SIZE_OR_ZERO, Anything])
        .gpl_only()
        .effect(WritesArguments)
        .allowed(PERF_EVENT),
    helper(121, "xdp_output", 5, 7)
        .args(&[btf("xdp_buff"), ConstMapPtr, Anything, READ, SIZE_OR_ZERO])
        .gpl_only()
        .effect(ChangesAllButStack)
        .allowed(BTF_TRACERS),
    helper(126, "seq_printf", 5, 8)
        .args(&[btf("seq_file"), READ, SIZE, READ_OR_NULL, SIZE_OR_ZERO])
        .gpl_only()
        .follows(Follows::Memory)
        .allowed(TRACING)
        .attach_rules(&[(ProgramType::Tracing, ITERATOR)]),
    helper(127, "seq_write", 5, 8)
        .args(&[btf("seq_file"), READ, SIZE_OR_ZERO])
        .gpl_only()
        .effect(ChangesAllButStack)
        .allowed(TRACING)
        .attach_rules(&[(ProgramType::Tracing, ITERATOR)]),
    helper(141, "get_task_stack", 5, 9)
        .args(&[btf("task_struct"), WRITE_UNINIT, SIZE_OR_ZERO, Anything])
        .capability(PerfMon)
        .effect(WritesArguments)
        .returns_size()
        .allowed(ALL),
    helper(147, "d_path", 5, 10)
        .args(&[btf("path"), READ_WRITE, SIZE_OR_ZERO])
        .effect(WritesArguments)
        .allowed(BTF_TRACERS),
    helper(148, "copy_from_user", 5, 10)
        .when_ignored("the buffer holds zeros if the page cannot be read")
        .args(&[WRITE_UNINIT, SIZE_OR_ZERO, Anything])
        .might_sleep()
        .capability(PerfMon)
        .effect(WritesArguments)
        .allowed(ALL),
    helper(150, "seq_printf_btf", 5, 10)
        .args(&[btf("seq_file"), READ, SIZE_OR_ZERO, Anything])
        .gpl_only()
        .follows(Follows::Memory)
        .allowed(TRACING)
        .attach_rules(&[(ProgramType::Tracing, ITERATOR)]),
    helper(159, "bprm_opts_set", 5, 11).args(&[btf("linux_binprm"), Anything]).effect(ChangesAllButStack).allowed(LSM),
    helper(161, "ima_inode_hash", 5, 11)
        .args(&[btf("inode"), WRITE_UNINIT, SIZE])
        .might_sleep()
        .effect(ChangesAllButStack)
        .allowed(LSM),
    helper(162, "sock_from_file", 5, 11)
        .args(&[btf("file")])
        .returns(btf_result_or_null("socket"))
        .effect(ReadsMemory)
        .allowed(BTF_TRACERS),
    helper(166, "sys_bpf", 5, 14).args(&[Anything, READ, SIZE]).might_sleep().follows(Follows::Memory).allowed(SYSCALL),
    helper(167, "btf_find_by_name_kind", 5, 14)
        .args(&[READ, SIZE, Anything, Anything])
        .might_sleep()
        .effect(ChangesAllButStack)
        .allowed(SYSCALL),
    helper(168, "sys_close", 5, 14).args(&[Anything]).might_sleep().effect(ChangesAllButStack).allowed(SYSCALL),
    helper(173, "get_func_ip", 5, 15)
        .cost(Cost::Constant)
        .args(&[Context])
        .gpl_only() // Not asked of kprobe.multi and uprobe.multi programs.
        .effect(ResultOnly)
        .allowed(any_of(&[KPROBE, TRACING]))
        .attach_rules(&[(ProgramType::Tracing, TRAMPOLINE)]),
    helper(174, "get_attach_cookie", 5, 15)
        .cost(Cost::Constant)
        .args(&[Context])
        .effect(ResultOnly)
        .allowed(any_of(&[RAW_TRACEPOINTS, KPROBE, TRACEPOINT, PERF_EVENT, TRACING, LSM]))
        .attach_rules(&[(ProgramType::Tracing, TRACING_WITH_COOKIE)]),
    helper(175, "task_pt_regs", 5, 15)
        .cost(Cost::Constant)
        .args(&[btf("task_struct")])
        .returns(btf_result("pt_regs"))
        .gpl_only()
        .capability(PerfMon)
        .effect(ResultOnly)
        .allowed(ALL),
    helper(176, "get_branch_snapshot", 5, 16)
        .args(&[WRITE_UNINIT, SIZE_OR_ZERO])
        .gpl_only()
        .capability(PerfMon)
        .effect(WritesArguments)
        .allowed(ALL),
    helper(177, "trace_vprintk", 5, 16)
        .args(&[READ, SIZE, READ_OR_NULL, SIZE_OR_ZERO])
        .gpl_only()
        .capability(PerfMon)
        .follows(Follows::Memory)
        .allowed(ALL),
    helper(179, "kallsyms_lookup_name", 5, 16)
        .args(&[READ, SIZE_OR_ZERO, Anything, aligned(8, Memory::WRITE_UNINIT)])
        .effect(ChangesAllButStack)
        .allowed(SYSCALL),
    helper(180, "find_vma", 5, 17)
        .args(&[btf("task_struct"), Anything, Callback, StackOrNull, Anything])
        .capability(PerfMon)
        .allowed(ALL),
    helper(183, "get_func_arg", 5, 17)
        .cost(Cost::Constant)
        .args(&[Context, Anything, aligned(8, Memory::WRITE_UNINIT)])
        .effect(WritesArguments)
        .allowed(any_of(&[TRACING, LSM]))
        .attach_rules(&[(ProgramType::Tracing, TRAMPOLINE)]),
    helper(184, "get_func_ret", 5, 17)
        .cost(Cost::Constant)
        .args(&[Context, aligned(8, Memory::WRITE_UNINIT)])
        .effect(WritesArguments)
        .allowed(any_of(&[TRACING, LSM]))
        .attach_rules(&[(ProgramType::Tracing, TRAMPOLINE)]),
    helper(185, "get_func_arg_cnt", 5, 17)
        .cost(Cost::Constant)
        .args(&[Context])
        .effect(ResultOnly)
        .allowed(any_of(&[TRACING, LSM]))
        .attach_rules(&[(ProgramType::Tracing, TRAMPOLINE)]),
    helper(191, "copy_from_user_task", 5, 18)
        .when_ignored("the buffer holds zeros if the page cannot be read")
        .args(&[WRITE_UNINIT, SIZE_OR_ZERO, Anything, btf("task_struct"), Anything])
        .gpl_only()
        .might_sleep()
        .capability(PerfMon)
        .effect(WritesArguments)
        .allowed(ALL),
    helper(193, "ima_file_hash", 5, 18)
        .args(&[btf("file"), WRITE_UNINIT, SIZE])
        .might_sleep()
        .effect(ChangesAllButStack)
        .allowed(LSM),
];
