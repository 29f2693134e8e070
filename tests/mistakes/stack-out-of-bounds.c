// The index into the local array is not checked.
// check: reject stack-out-of-bounds
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int histogram(struct xdp_md *ctx)
{
	volatile char buckets[16] = {};

	buckets[ctx->rx_queue_index & 31] = 1;
	return buckets[0] ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
