// RCU pointer used after the unlock (syscall).
// Tells the parent's pid and the age of a task.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

struct args {
	__s32 pid;
	__s32 parent;
	__u64 start;
	__u64 parent_start;
};

SEC("syscall")
int parent_of(struct args *a)
{
	struct task_struct *t, *p;

	t = bpf_task_from_pid(a->pid);
	if (!t)
		return 1;
	a->start = t->start_time;
	bpf_rcu_read_lock();
	p = t->real_parent;
	if (!p) {
		bpf_rcu_read_unlock();
		bpf_task_release(t);
		return 2;
	}
	a->parent = p->tgid;
	bpf_rcu_read_unlock();
	p = bpf_task_acquire(p);
	if (p) {
		a->parent_start = p->start_time;
		bpf_task_release(p);
	}
	bpf_task_release(t);
	return 0;
}

char _license[] SEC("license") = "GPL";
