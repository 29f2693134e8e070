// Sixteen turns are few enough.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int mix(struct xdp_md *ctx)
{
	volatile __u32 sum = ctx->rx_queue_index;
	__u32 turn;

	for (turn = 0; turn < 16; turn++)
		sum = sum * 3 + turn;
	return sum == 42 ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
