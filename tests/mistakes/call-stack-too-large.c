// Each function stays below 512 bytes of stack, the chain of calls does not.
// check: reject call-depth
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

static __attribute__((noinline)) int inner(struct xdp_md *ctx, int seed)
{
	volatile char buffer[300];

	buffer[seed & 255] = ctx->rx_queue_index;
	return buffer[0];
}

SEC("xdp")
int outer(struct xdp_md *ctx)
{
	volatile char buffer[300];

	buffer[ctx->rx_queue_index & 255] = 1;
	return inner(ctx, buffer[1]) ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
