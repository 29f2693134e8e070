// Two values are looked up, and the first is tested twice.
// line: *first += *second;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

SEC("xdp")
int sum(struct xdp_md *ctx)
{
	__u32 one = ctx->rx_queue_index, two = ctx->ingress_ifindex;
	__u64 *first = bpf_map_lookup_elem(&counters, &one);
	__u64 *second = bpf_map_lookup_elem(&counters, &two);

	if (!first || !first)
		return XDP_PASS;
	*first += *second;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
