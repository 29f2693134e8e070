#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct val {
	int lock;
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
	__sync_fetch_and_add(&v->count, 1);
	return 0;
}

char _license[] SEC("license") = "GPL";
