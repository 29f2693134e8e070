// The limit is checked with > where it must be >=.
// line: ports[slot]++;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u64 ports[128];

SEC("xdp")
int count(struct xdp_md *ctx)
{
	__u32 slot = ctx->rx_queue_index;

	if (slot > 128)
		return XDP_PASS;
	ports[slot]++;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
