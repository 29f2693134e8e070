// Rcu (syscall).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
extern struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

struct args {
	__u32 depth;
	__u32 pid;
	__u32 ppid;
	__u32 flags;
};

SEC("syscall")
int whoami(struct args *ctx)
{
	struct task_struct *me = bpf_get_current_task_btf(), *parent;

	ctx->pid = me->tgid;
	ctx->flags = me->flags;
	if (ctx->pid == 1)
		return 0;

	parent = bpf_task_acquire(me->real_parent);
	if (!parent)
		return 1;

	ctx->ppid = parent->tgid;
	ctx->depth = parent->tgid > 1 ? 2 : 1;
	bpf_task_release(parent);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
