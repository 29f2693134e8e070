// The header behind options of variable length is read, and only the first one is checked.
#include "tools.h"
SEC("xdp") int f(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct iphdr *ip = data + 14;
	if ((void *)(ip + 1) > end) return XDP_PASS;
	struct tcphdr *t = (void *)ip + ip->ihl * 4;
	if (t->dest == 80) return XDP_DROP;
	return XDP_PASS;
}
