// The pointer is used, and tested after.
// line: *seen = 1;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

SEC("xdp")
int first(struct xdp_md *ctx)
{
	__u32 key = 3;
	__u64 *seen = bpf_map_lookup_elem(&counters, &key);

	*seen = 1;
	if (!seen)
		return XDP_ABORTED;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
