// The second header is read behind a check of the first.
#include "tools.h"
SEC("xdp") int f(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	if ((void *)(eth + 1) > end) return XDP_PASS;
	if (eth->h_proto != bpf_htons(0x800)) return XDP_PASS;
	if (ip->protocol == 6) return XDP_DROP;
	return XDP_PASS;
}
