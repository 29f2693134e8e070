// Packets of other queues get an action that nothing chose.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int choose(struct xdp_md *ctx)
{
	volatile __u32 action;

	if (ctx->rx_queue_index == 0)
		action = XDP_PASS;
	return action & 3;
}

char _license[] SEC("license") = "GPL";
