// Kptr: previous value not released (tp_btf).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#undef __kptr
#define __kptr __attribute__((btf_type_tag("kptr")))

extern struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;

struct last_exec {
	struct task_struct __kptr *task;
	__u64 ts;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, struct last_exec);
} last SEC(".maps");

SEC("tp_btf/sched_process_exec")
int BPF_PROG(remember, struct task_struct *p, pid_t old_pid)
{
	__u32 cpu = bpf_get_smp_processor_id() & 63;
	struct task_struct *ref, *old;
	struct last_exec *l;

	l = bpf_map_lookup_elem(&last, &cpu);
	if (!l)
		return 0;
	ref = bpf_task_acquire(p);
	if (!ref)
		return 0;
	l->ts = bpf_ktime_get_ns();
	old = bpf_kptr_xchg(&l->task, ref);
	if (old)
		bpf_printk("replaced %d", old->pid);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
