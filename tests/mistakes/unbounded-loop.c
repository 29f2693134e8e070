// The loop ends when a byte of the packet says so, which no one can promise.
// check: reject infinite-loop
// prevail: 4.7
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int wait_for(struct xdp_md *ctx)
{
	volatile __u32 turns = 0;

	while (ctx->rx_queue_index != 7)
		turns = 1;
	return turns ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
