// A lookup gives a pointer to a value.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u32 key = ctx->rx_queue_index & 63;
	__u64 *slot = bpf_map_lookup_elem(&counters, &key);

	if (slot)
		*slot = 1;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
