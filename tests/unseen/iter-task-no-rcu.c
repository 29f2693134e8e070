// Kfunc outside of an RCU section (syscall).
// Counts the threads of a user.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

extern int bpf_iter_task_new(struct bpf_iter_task *it, struct task_struct *t, unsigned int flags) __ksym;
extern struct task_struct *bpf_iter_task_next(struct bpf_iter_task *it) __ksym;
extern void bpf_iter_task_destroy(struct bpf_iter_task *it) __ksym;
extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

struct args {
	__u32 uid;
	__u32 threads;
	__u64 runtime;
	__u32 kthreads;
};

SEC("syscall")
int census(struct args *a)
{
	struct bpf_iter_task it;
	struct task_struct *t;
	__u32 threads = 0, kthreads = 0;
	__u64 run = 0;

	bpf_iter_task_new(&it, 0, 1);
	bpf_rcu_read_lock();
	while ((t = bpf_iter_task_next(&it))) {
		if (t->flags & 0x00200000) {
			kthreads++;
			continue;
		}
		threads++;
		run += t->se.sum_exec_runtime;
	}
	bpf_iter_task_destroy(&it);
	bpf_rcu_read_unlock();
	a->threads = threads;
	a->kthreads = kthreads;
	a->runtime = run;
	return 0;
}

char _license[] SEC("license") = "GPL";
