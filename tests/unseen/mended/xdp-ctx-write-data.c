#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int strip_eth(struct xdp_md *ctx)
{
	if (ctx->data + sizeof(struct ethhdr) > ctx->data_end)
		return XDP_PASS;
	bpf_xdp_adjust_head(ctx, sizeof(struct ethhdr));
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
