// A global function is verified alone, for a pointer that may be null. Every call passes one to the stack.
// repair: v3 repaired-proved
#include "value.h"

__attribute__((noinline)) int odd(struct xdp_md *ctx, __u32 *to)
{
	if (bpf_xdp_load_bytes(ctx, 0, to, sizeof(*to)))
		return -1;
	return *to & 1;
}

SEC("xdp")
int global(struct xdp_md *ctx)
{
	__u32 word = 0;
	int is_odd = odd(ctx, &word);

	if (is_odd < 0)
		return XDP_ABORTED;
	return is_odd ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
