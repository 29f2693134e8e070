// The mask is that of the array.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int histogram(struct xdp_md *ctx)
{
	volatile char buckets[16] = {};

	buckets[ctx->rx_queue_index & 15] = 1;
	return buckets[0] ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
