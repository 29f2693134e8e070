// A walk to the end of the packet.
#include "tools.h"
SEC("xdp") int f(struct xdp_md *ctx)
{
	__u8 *p = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	int n = 0;
	while (p < end) { if (*p == 0xff) n++; p++; }
	return n > 4 ? XDP_DROP : XDP_PASS;
}
