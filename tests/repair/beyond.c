// Really unsafe: index 256 is one too many.
// repair: v3 really-unsafe
#include "value.h"

SEC("xdp")
int beyond(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 key = 0;
	struct value *value = bpf_map_lookup_elem(&values, &key);
	__u64 index, limit;

	if (!value || data + 16 > end)
		return XDP_DROP;
	index = *(__u64 *)data;
	limit = *(__u64 *)(data + 8);
	if (index >= limit || limit > 257)
		return XDP_DROP;
	value->bytes[index]++;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
