// Write to a kernel object.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

__u32 last_prio;

SEC("tp_btf/sched_switch")
int BPF_PROG(renice, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (next->pid == 1)
		next->prio = 100;
	return 0;
}

char _license[] SEC("license") = "GPL";
