// Kptr (tp_btf/sched_process_fork).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
struct watch {
	struct task_struct __kptr *task;
	__u64 since;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, struct watch);
} watched SEC(".maps");

extern struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;

const volatile __u32 cgroup_level = 0;

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 slot = child->pid & 15;
	struct task_struct *t;
	struct watch *w;

	if (child->pid != child->tgid)
		return 0;
	w = bpf_map_lookup_elem(&watched, &slot);
	if (!w)
		return 0;

	t = bpf_task_acquire(child);
	if (!t)
		return 0;
	w->since = bpf_ktime_get_ns();
	w->task = t;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
