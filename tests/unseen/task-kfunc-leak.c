// References: kfunc-acquired task (tp_btf).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} forks_of SEC(".maps");

const volatile int supervisor_pid = 1;

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p, pid_t old_pid)
{
	struct task_struct *sup;
	__u32 key = p->tgid;
	__u64 one = 1, *n;

	sup = bpf_task_from_pid(supervisor_pid);
	if (!sup)
		return 0;
	if (sup->nsproxy != p->nsproxy)
		return 0;

	n = bpf_map_lookup_elem(&forks_of, &key);
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		bpf_map_update_elem(&forks_of, &key, &one, BPF_ANY);
	bpf_task_release(sup);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
