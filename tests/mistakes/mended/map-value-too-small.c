// The pointer has the type of the values.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} counters SEC(".maps");

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u32 key = 0;
	__u32 *value = bpf_map_lookup_elem(&counters, &key);

	if (value)
		*value = 1;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
