// With the knob set, a path is taken that reads the packet unchecked.
// line: return *(__u8 *)data;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

const volatile _Bool strict = 1;

SEC("xdp")
int strictly(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;

	if (strict)
		return *(__u8 *)data;
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
