// The packet is written first, and checked after.
// line: eth->h_source[0] = 2;
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int mask(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;

	eth->h_source[0] = 2;
	if ((void *)(eth + 1) > data_end)
		return XDP_DROP;
	return XDP_TX;
}

char _license[] SEC("license") = "GPL";
