// What is left of a buffer: `left = 256 - used` is a bound in another register.
// repair: v3 repaired-proved
#include "value.h"

SEC("xdp")
int rest(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 key = 0, used, size;
	struct value *value = bpf_map_lookup_elem(&values, &key);

	if (!value || data + 8 > end)
		return XDP_DROP;
	used = *(__u32 *)data & 127;
	size = *(__u32 *)(data + 4);
	if (!size || size > 256 - used)
		return XDP_DROP;
	return bpf_xdp_load_bytes(ctx, 0, value->bytes + used, size) ? XDP_ABORTED : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
