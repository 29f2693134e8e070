// Two pieces appended to a buffer: the second one's place is bounded by what is left.
// repair: v3 repaired-proved
#include "value.h"

SEC("xdp")
int append(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 key = 0, first, second;
	struct value *value = bpf_map_lookup_elem(&values, &key);

	if (!value || data + 8 > end)
		return XDP_DROP;
	first = *(__u32 *)data;
	second = *(__u32 *)(data + 4);
	if (first > 255 || second > 255 || first + second > 256 || !first || !second)
		return XDP_DROP;
	if (bpf_xdp_load_bytes(ctx, 0, value->bytes, first))
		return XDP_ABORTED;
	return bpf_xdp_load_bytes(ctx, first, value->bytes + first, second) ? XDP_ABORTED : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
