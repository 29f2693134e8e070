// Sleeping helper inside an RCU section (syscall).
// Copies a request from user memory and answers with the parent's name.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

extern struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

struct ask {
	__s32 pid;
	__u32 flags;
};

struct args {
	__u64 user;
	__s32 pid;
	__s32 tgid;
	__u64 flags;
};

SEC("syscall")
int lookup(struct args *a)
{
	struct ask r = {};
	struct task_struct *t, *p;
	void *user = (void *)(long)a->user;

	t = bpf_task_from_pid(a->pid);
	if (!t)
		return 1;
	bpf_rcu_read_lock();
	if (bpf_copy_from_user(&r, sizeof(r), user))
		goto out;
	p = t->real_parent;
	if (!p)
		goto out;
	a->tgid = p->tgid;
	a->flags = r.flags;
out:
	bpf_rcu_read_unlock();
	bpf_task_release(t);
	return 0;
}

char _license[] SEC("license") = "GPL";
