// The variable has a value where it is declared.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int choose(struct xdp_md *ctx)
{
	volatile __u32 action = XDP_DROP;

	if (ctx->rx_queue_index == 0)
		action = XDP_PASS;
	return action & 3;
}

char _license[] SEC("license") = "GPL";
