// The inner map may be missing, and is looked up in at once.
// line: slot = bpf_map_lookup_elem(inner, &key);
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct inner {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} first SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 2);
	__type(key, __u32);
	__array(values, struct inner);
} outer SEC(".maps") = { .values = { &first } };

SEC("xdp")
int nested(struct xdp_md *ctx)
{
	__u32 key = 0;
	void *inner = bpf_map_lookup_elem(&outer, &key);
	__u64 *slot;

	slot = bpf_map_lookup_elem(inner, &key);
	if (slot)
		*slot += 1;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
