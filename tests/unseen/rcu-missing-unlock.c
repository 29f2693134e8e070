// RCU: unlock missing on a path (syscall).
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

extern void bpf_rcu_read_lock(void) __ksym;
extern void bpf_rcu_read_unlock(void) __ksym;

struct query {
	__u32 want_tgid;
	__u32 parent_tgid;
	__u64 parent_start;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} answers SEC(".maps");

SEC("syscall")
int ask_parent(struct query *q)
{
	struct task_struct *cur = bpf_get_current_task_btf(), *par;
	__u32 key = q->want_tgid;
	__u64 val;

	bpf_rcu_read_lock();
	par = cur->real_parent;
	if (!par)
		goto out;
	if (cur->tgid != key)
		return 1;
	q->parent_tgid = par->tgid;
	q->parent_start = par->start_time;
out:
	bpf_rcu_read_unlock();
	val = q->parent_start;
	bpf_map_update_elem(&answers, &key, &val, BPF_ANY);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
