// A task that was looked up is not compared with null.
#include "tools.h"
extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;
SEC("tp_btf/task_newtask") int BPF_PROG(f, struct task_struct *task, u64 flags)
{
	struct task_struct *t = bpf_task_from_pid(1);
	int pid = t->pid;
	bpf_task_release(t);
	return 0 & pid;
}
