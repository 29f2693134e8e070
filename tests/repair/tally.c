// Counts three kinds of bytes and uses the counts as indexes: a state for each set of counts is more than a million.
// repair: v3 repaired-proved
#include "value.h"

SEC("xdp")
int tally(struct xdp_md *ctx)
{
	__u8 *at = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	__u32 key = 0, low = 0, high = 0, other = 0;
	struct value *value = bpf_map_lookup_elem(&values, &key);

	if (!value || (void *)(at + 96) > end)
		return XDP_PASS;
#pragma clang loop unroll(disable)
	for (int i = 0; i < 96; i++) {
		if (at[i] < 32)
			low++;
		else if (at[i] > 126)
			high += 2;
		else
			other += 3;
	}
	value->bytes[low & 255]++;
	value->bytes[high & 255]++;
	value->bytes[other & 255]++;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
