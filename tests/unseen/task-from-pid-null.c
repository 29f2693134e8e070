// Kfunc's result not checked (syscall).
// Finds the oldest ancestor of a task inside the same namespace.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;

struct args {
	__s32 pid;
	__s32 root;
	__u64 depth;
};

SEC("syscall")
int ancestor(struct args *a)
{
	struct task_struct *t;
	__s32 pid = a->pid;
	__u64 depth = 0;

	for (int i = 0; i < 8; i++) {
		t = bpf_task_from_pid(pid);
		if (!t) {
			a->root = pid;
			a->depth = depth;
			return 0;
		}
		pid = t->real_parent->tgid;
		bpf_task_release(t);
		depth++;
		if (pid <= 1)
			break;
	}
	t = bpf_task_from_pid(pid);
	a->root = pid;
	a->depth = depth;
	bpf_task_release(t);
	return 0;
}

char _license[] SEC("license") = "GPL";
