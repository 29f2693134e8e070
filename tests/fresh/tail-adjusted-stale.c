// The tail of the packet is moved, and the old end is compared afterwards.
// line: return *first == 1 ? XDP_TX : XDP_PASS;
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int trim(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *data_end = (void *)(long)ctx->data_end;
	__u8 *first = data;

	if (bpf_xdp_adjust_tail(ctx, -4))
		return XDP_DROP;
	if (data + 1 > data_end)
		return XDP_DROP;
	return *first == 1 ? XDP_TX : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
