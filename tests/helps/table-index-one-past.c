// The index may be the number of entries.
// line: hits[queue]++;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u32 hits[10];

SEC("xdp")
int per_queue(struct xdp_md *ctx)
{
	__u32 queue = ctx->rx_queue_index;

	if (queue > 10)
		return XDP_PASS;
	hits[queue]++;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
