// Loop (tp_btf/sched_process_exec).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#define MAX_UP 12

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} shells SEC(".maps");

__u64 from_shell, other;

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p, pid_t old_pid,
	     struct linux_binprm *bprm)
{
	struct task_struct *t = p;
	__u32 pid, *label = NULL;

	if (p->tgid == 1)
		return 0;

	while (t->tgid > 1) {
		pid = t->tgid;
		label = bpf_map_lookup_elem(&shells, &pid);
		if (label)
			break;
		t = t->real_parent;
	}

	if (!label) {
		__sync_fetch_and_add(&other, 1);
		return 0;
	}
	__sync_fetch_and_add(&from_shell, 1);
	pid = p->tgid;
	bpf_map_update_elem(&shells, &pid, label, BPF_ANY);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
