#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

__u64 last_pid;

SEC("raw_tp/sched_process_exit")
int exits(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx->args[0];

	last_pid = BPF_CORE_READ(p, pid);
	return 0;
}

char _license[] SEC("license") = "GPL";
