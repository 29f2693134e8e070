#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;

__u64 init_start;

SEC("tp_btf/sched_process_fork")
int BPF_PROG(watch, struct task_struct *parent, struct task_struct *child)
{
	struct task_struct *init = bpf_task_from_pid(1);

	if (!init)
		return 0;
	init_start = init->start_time;
	bpf_task_release(init);
	return 0;
}

char _license[] SEC("license") = "GPL";
