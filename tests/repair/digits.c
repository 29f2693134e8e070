// A character that is tested as `c - '0' < 10` and used as an index itself.
// repair: v2 repaired-proved
#include "value.h"

SEC("xdp")
int digits(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 key = 0, c;
	struct value *value = bpf_map_lookup_elem(&values, &key);

	if (!value || data + 4 > end)
		return XDP_DROP;
	c = *(__u32 *)data;
	if (c >= '0' && c <= '9') {
		value->bytes[c]++;
		return XDP_PASS;
	}
	return XDP_DROP;
}

char _license[] SEC("license") = "GPL";
