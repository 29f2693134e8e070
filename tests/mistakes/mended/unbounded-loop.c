// The loop counts, and ends at a constant.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int wait_for(struct xdp_md *ctx)
{
	volatile __u32 turns = 0;

	for (int i = 0; i < 64 && ctx->rx_queue_index != 7; i++)
		turns = 1;
	return turns ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
