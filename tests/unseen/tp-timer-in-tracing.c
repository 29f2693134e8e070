// Map with a lock in a tracing program.
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct val {
	struct bpf_spin_lock lock;
	int count;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct val);
	__uint(max_entries, 1);
} counts SEC(".maps");

SEC("tp/sched/sched_switch")
int on_switch(void *ctx)
{
	__u32 zero = 0;
	struct val *v = bpf_map_lookup_elem(&counts, &zero);

	if (!v)
		return 0;
	bpf_spin_lock(&v->lock);
	v->count++;
	bpf_spin_unlock(&v->lock);
	return 0;
}

char _license[] SEC("license") = "GPL";
