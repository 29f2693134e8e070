#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

__u32 ppid;

SEC("tp_btf/sched_process_exec")
int BPF_PROG(who, struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm)
{
	struct task_struct *parent;

	bpf_rcu_read_lock();
	parent = p->real_parent;
	if (parent)
		ppid = parent->pid;
	bpf_rcu_read_unlock();
	return 0;
}

char _license[] SEC("license") = "GPL";
