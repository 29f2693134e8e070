// A table of constants is written through a cast.
// line: *(volatile __u32 *)&limits[queue] = 0;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

const volatile __u32 limits[4] = { 1, 2, 3, 4 };

SEC("xdp")
int reset(struct xdp_md *ctx)
{
	__u32 queue = ctx->rx_queue_index & 3;

	*(volatile __u32 *)&limits[queue] = 0;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
