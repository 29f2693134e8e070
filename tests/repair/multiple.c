// A bound on a multiple of the index.
// repair: v3 repaired-proved
#include "value.h"

SEC("xdp")
int multiple(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 key = 0, count;
	struct value *value = bpf_map_lookup_elem(&values, &key);

	if (!value || data + 4 > end)
		return XDP_DROP;
	count = *(__u16 *)data;
	if (count * 4 > 256 || !count)
		return XDP_DROP;
	value->bytes[count]++;
	return bpf_xdp_load_bytes(ctx, 0, value->bytes, count) ? XDP_ABORTED : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
