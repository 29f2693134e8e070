#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

struct elem {
	__u64 expires;
	struct bpf_timer t;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct elem);
	__uint(max_entries, 64);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct elem);
	__uint(max_entries, 1);
} gc SEC(".maps");

SEC("tc")
int start_gc(struct __sk_buff *skb)
{
	__u32 key = 0;
	struct elem *e = bpf_map_lookup_elem(&gc, &key);
	struct elem *f = bpf_map_lookup_elem(&flows, &key);

	if (!e || !f)
		return 0;
	bpf_timer_init(&e->t, &gc, 1);
	return 0;
}

char _license[] SEC("license") = "GPL";
