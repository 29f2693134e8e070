// A global function bounds the index. Of a global function's result the verifier knows nothing.
// repair: v2 repaired-proved
#include "value.h"

__attribute__((noinline)) __u32 bounded(__u32 number)
{
	return number < 200 ? number : 199;
}

SEC("xdp")
int called(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 key = 0;
	struct value *value = bpf_map_lookup_elem(&values, &key);

	if (!value || data + 8 > end)
		return XDP_PASS;
	value->bytes[bounded(*(__u32 *)data)]++;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
