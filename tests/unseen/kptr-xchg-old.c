// Reference that bpf_kptr_xchg gives back leaked (tp_btf).
// Remembers the last task that forked.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define __kptr_ref __attribute__((btf_type_tag("kptr")))

extern struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;

struct slot {
	__u64 when;
	struct task_struct __kptr_ref *task;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, struct slot);
} slots SEC(".maps");

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct task_struct *ref, *old;
	__u32 which = child->pid & 3;
	struct slot *s;

	if (child->flags & 0x00200000)
		return 0;
	s = bpf_map_lookup_elem(&slots, &which);
	if (!s)
		return 0;
	ref = bpf_task_acquire(child);
	if (!ref)
		return 0;
	s->when = bpf_ktime_get_ns();
	old = bpf_kptr_xchg(&s->task, ref);
	if (old && old->pid == 1)
		return 0;
	if (old)
		bpf_task_release(old);
	return 0;
}

char _license[] SEC("license") = "GPL";
