// The number is bounded first.
// check: accept
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("xdp")
int byte_at(struct xdp_md *ctx)
{
	unsigned char *data = (void *)(long)ctx->data;
	unsigned char *data_end = (void *)(long)ctx->data_end;
	__u32 offset = ctx->rx_queue_index;

	if (offset > 1500)
		return XDP_DROP;
	unsigned char *byte = data + offset;

	if (byte + 1 > data_end)
		return XDP_DROP;
	return *byte ? XDP_PASS : XDP_DROP;
}

char _license[] SEC("license") = "GPL";
