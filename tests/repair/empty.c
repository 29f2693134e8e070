// Really unsafe: a size of 0.
// repair: v2 really-unsafe
#include "value.h"

SEC("xdp")
int empty(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 key = 0, size;
	struct value *value = bpf_map_lookup_elem(&values, &key);

	if (!value || data + 4 > end)
		return XDP_DROP;
	size = *(__u32 *)data;
	if (size <= 64)
		return bpf_xdp_load_bytes(ctx, 0, value->bytes, size) ? XDP_ABORTED : XDP_PASS;
	return XDP_DROP;
}

char _license[] SEC("license") = "GPL";
