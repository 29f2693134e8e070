#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#ifndef __kptr
#define __kptr __attribute__((btf_type_tag("kptr")))
#endif

extern struct task_struct *bpf_task_acquire(struct task_struct *p) __ksym;
extern void bpf_task_release(struct task_struct *p) __ksym;

struct slot {
	struct task_struct __attribute__((btf_type_tag("kptr"))) *task;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct slot);
	__uint(max_entries, 1);
} stash SEC(".maps");

SEC("tp_btf/task_newtask")
int BPF_PROG(keep, struct task_struct *task, u64 clone_flags)
{
	struct task_struct *p, *old;
	struct slot *s;
	__u32 zero = 0;

	s = bpf_map_lookup_elem(&stash, &zero);
	if (!s)
		return 0;
	p = bpf_task_acquire(task);
	if (!p)
		return 0;
	old = bpf_kptr_xchg(&s->task, p);
	if (old)
		bpf_task_release(old);
	return 0;
}

char _license[] SEC("license") = "GPL";
