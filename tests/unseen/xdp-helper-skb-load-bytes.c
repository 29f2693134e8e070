// Helper not allowed for the type.
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int first_bytes(struct xdp_md *ctx)
{
	__u8 buf[8] = {};

	if (bpf_skb_load_bytes(ctx, 0, buf, sizeof(buf)) < 0)
		return XDP_PASS;
	return buf[0] == 0xff ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
