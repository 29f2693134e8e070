// Of two lookups both must fail before the program gives up.
// line: if (!from && !to)
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

SEC("xdp")
int move(struct xdp_md *ctx)
{
	__u32 first = ctx->rx_queue_index, second = ctx->ingress_ifindex;
	__u64 *from = bpf_map_lookup_elem(&counts, &first);
	__u64 *to = bpf_map_lookup_elem(&counts, &second);

	if (!from && !to)
		return XDP_PASS;
	*to += *from;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
